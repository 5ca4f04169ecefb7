"""A model for when there is none: it says so, and repeats what it heard. It needs no key and no network."""

from collections.abc import AsyncIterator
from typing import TypeVar

from holdfast.core.errors import ModelFailed
from holdfast.runtime.models import Part, Reply, Request, Text, Usage

T = TypeVar("T")
LONGEST = 400


class OfflineModel:
    """Answers every message with what it can honestly say: that it is no language model."""

    name = "offline"

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """One short answer, word by word."""
        said = [message.text for message in request.messages if message.role == "user" and message.text]
        text = answer_to(said[-1] if said else "", len(said))
        words = text.split(" ")
        for index, word in enumerate(words):
            yield Text(word if index == len(words) - 1 else f"{word} ")
        heard = sum(len(message.text.split()) for message in request.messages)
        yield Reply(text=text, usage=Usage(calls=1, input_tokens=heard, output_tokens=len(words)))

    async def fill(self, request: Request, kind: type[T]) -> tuple[T, Usage]:
        """Nothing: it can fill no form."""
        raise ModelFailed(model=self.name, problem="it is offline and gives no typed answers")


def answer_to(message: str, number: int) -> str:
    """What it says to a message, the so-manieth of a conversation."""
    heard = " ".join(message.split())
    if len(heard) > LONGEST:
        heard = f"{heard[: LONGEST - 1]}…"
    kept = "It is kept in this thread" if heard else "Nothing was said"
    return (
        f"You said: “{heard}”. {kept}, message {number} that I can see. "
        "I am the offline model: I repeat, I do not think. "
        "Start the server with --model to talk to one that does."
    )
