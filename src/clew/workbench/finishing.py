"""Ending a turn with an answer that stands in the interpreter, without asking the model once more."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from clew.runtime.messages import CALL, RESULT, Message
from clew.runtime.model_boundary import ModelWrapper, stream_parts
from clew.runtime.models import Part, Reply, Request, Text, Usage

FINISH = "finish"
ANSWER = "answer"


class Finishing(ModelWrapper):
    """A model whose turn is over once it has called ``finish``: what it finished with is its last word.

    It is read from the messages, so it is the same after a crash.
    """

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The model's reply, or the answer that it has finished with."""
        answer = finished(request.messages)
        if answer is not None:
            yield Text(answer)
            yield Reply(text=answer, usage=Usage())
            return
        async with aclosing(stream_parts(self._model, request)) as parts:
            async for part in parts:
                yield part


def finished(messages: Sequence[Message]) -> str | None:
    """The answer that the newest calls have finished with, if one of them has."""
    results: list[Message] = []
    for message in reversed(messages):
        if message.kind == RESULT:
            results.append(message)
        elif message.kind == CALL:
            found = next((each for each in results if each.call == message.call), None)
            if message.name == FINISH and found is not None and isinstance(found.content, dict):
                answer = found.content.get(ANSWER)
                return answer if isinstance(answer, str) else None
        elif message.role != "system":  # what it was told of its interpreter since does not undo it
            return None
    return None
