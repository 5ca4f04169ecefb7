"""The model loop: ask, store the answer, run its tools, store their results, and ask again.

The loop reads its progress from the history, so a run that was interrupted or suspended goes on from there:
an answer that was stored is not asked for again, and a tool that was answered is not called again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from clew.core.arguments import Count, check_arguments
from clew.core.errors import InvalidArgument
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, ToolCall
from clew.runtime.records.events import ASSISTANT, TOOL_RESULTS
from clew.runtime.respond import guardrails
from clew.runtime.respond.compaction import Compaction, TokenGauge, compact_in_turn, is_outgrown
from clew.runtime.respond.guardrails import Guardrail
from clew.runtime.respond.view import (
    WINDOW,
    HistoryTail,
    Prepare,
    messages_for_model,
    messages_of_reply,
    open_calls,
    read_history_tail,
)
from clew.runtime.state.run_state import handled_count_op
from clew.runtime.tools.tool import Tool, ToolFunction
from clew.runtime.tools.toolbox import Toolbox
from clew.runtime.turn.draft import Delta

Stage: TypeAlias = Callable[[Any, Context], Awaitable[Delta | None]]
Recall: TypeAlias = Callable[[Context, str, int], Awaitable[str]]
"""Gives what is recalled for the words of the user, beside a window of so many messages, as instructions."""

MOST_STEPS = 32
ENDS_TURN = "ends_with_its_answer"
"""The mark of a stage that does nothing more once its last answer is made: if no other stage follows, the
answer and the end of the run go to disk together."""


@check_arguments
def respond(
    *,
    instructions: str | Callable[[Any], str] = "",
    tools: Sequence[Tool | ToolFunction] = (),
    window: Count = WINDOW,
    shows: Callable[[Message], bool] | None = None,
    prepare: Prepare | None = None,
    input_guardrails: Sequence[Guardrail] = (),
    output_guardrails: Sequence[Guardrail] = (),
    compaction: Compaction | None = None,
    recall: Recall | None = None,
    live: bool = True,
    field: str = "reply",
    name: str = "respond",
) -> Stage:
    """Return a stage that lets the model answer, with tools, and puts the final text into a field.

    The model sees the newest ``window`` messages, and all of this turn, of them those that ``shows`` lets
    through, in the shape that ``prepare`` gives them; the history is not touched by any of it. Guardrails
    look at the words of the user before anything of an answer is stored, and at each text of an answer before
    it is stored. A function among the ``tools`` becomes one, as by ``@tool``. ``recall`` gives what is added
    to the instructions for the words of the user, beside a window of so many messages. ``live`` says whether
    listeners get text before it is stored. A second such stage needs another ``name``.
    """
    responder = _Responder(
        toolbox=Toolbox(tools),
        window=window,
        shows=shows,
        prepare=prepare,
        inputs=tuple(input_guardrails),
        outputs=tuple(output_guardrails),
        compaction=compaction,
        recall=recall,
        live=live,
    )

    async def respond(state: Any, context: Context) -> Delta:
        text = instructions(state) if callable(instructions) else instructions
        return {field: await responder.answer(context, text)}

    respond.__name__ = name
    setattr(respond, ENDS_TURN, True)
    return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class _Responder:
    toolbox: Toolbox
    window: int
    shows: Callable[[Message], bool] | None
    prepare: Prepare | None
    inputs: Sequence[Guardrail]
    outputs: Sequence[Guardrail]
    compaction: Compaction | None
    recall: Recall | None
    live: bool

    async def answer(self, context: Context, instructions: str) -> str:
        """Run the loop, and return the text of the last answer."""
        gauge = TokenGauge()
        recollection: str | None = None
        for _ in range(MOST_STEPS):
            tail = await read_history_tail(context, self.window)
            calls = open_calls(tail.own)
            if not calls:
                if tail.own and tail.own[-1].role == "assistant":
                    return _mark_handled(context, tail, tail.own[-1].text)
                if recollection is None:
                    recollection = await self._recollection(context, tail)
                text = "\n\n".join(filter(None, (instructions, recollection)))
                reply, calls = await self._ask_once(context, tail, text, gauge)
                if not calls:
                    return _mark_handled(context, tail, reply.text, extra=1)
            await self.toolbox.answer_calls(context.turn, calls)
            await context.turn.checkpoint(TOOL_RESULTS)
            self.toolbox.check_approvals(context.turn)
        raise InvalidArgument(problem=f"The model called tools {MOST_STEPS} times without an answer.")

    async def _recollection(self, context: Context, tail: HistoryTail) -> str:
        """Return what is recalled for the words of the user."""
        if self.recall is None or not tail.user_texts:
            return ""
        return await self.recall(context, "\n".join(tail.user_texts), self.window)

    async def _ask_once(
        self, context: Context, tail: HistoryTail, instructions: str, gauge: TokenGauge
    ) -> tuple[Reply, list[ToolCall]]:
        """Ask the model once and make its reply durable; return the reply and its open calls."""
        model_messages = await self._model_messages(context, tail, instructions, gauge)
        request = ModelRequest(messages=model_messages, instructions=instructions, tools=self.toolbox.specs())
        reply = await self._ask_with_guardrails(context, tail, request)
        if self.compaction is not None:
            gauge.calibrate(request, reply)
        messages, calls = messages_of_reply(reply, tail.own)
        context.turn.add(messages)
        self.toolbox.record_intents(context.turn, calls)
        await context.turn.checkpoint(ASSISTANT, last=not calls)
        return reply, calls

    async def _model_messages(
        self, context: Context, tail: HistoryTail, instructions: str, gauge: TokenGauge
    ) -> list[Message]:
        """Return the messages for the model, after a compaction if it is time for one."""
        compaction, window = self.compaction, self.window
        messages = await messages_for_model(context, tail, self.shows, self.prepare)
        if compaction is None or not is_outgrown(
            tail, messages, instructions, window=window, compaction=compaction, gauge=gauge
        ):
            return messages
        if not await compact_in_turn(context, tail, compaction, gauge):
            return messages
        new_tail = await read_history_tail(context, window)
        return await messages_for_model(context, new_tail, self.shows, self.prepare)

    async def _ask_with_guardrails(self, context: Context, tail: HistoryTail, request: ModelRequest) -> Reply:
        """Ask for a reply, and return it if every guardrail lets it pass.

        Those on the input have passed if an answer of this run is stored.
        """
        is_first = not any(message.role == "assistant" for message in tail.own)
        inputs = self.inputs if is_first else ()
        user_text = "\n".join(tail.user_texts)
        await guardrails.check_sequentially(inputs, user_text, context)
        unchecked = bool(self.outputs) or any(each.parallel for each in inputs)
        model_call = context.turn.ask(context.response_llm, request, quiet=not self.live, unchecked=unchecked)
        reply = await guardrails.run_with_guardrails(model_call, inputs, user_text, context)
        if reply.text or not reply.calls:
            await guardrails.check_answer(self.outputs, reply.text, context)
        return reply


def _mark_handled(context: Context, tail: HistoryTail, text: str, *, extra: int = 0) -> str:
    """Count the messages as answered, so that a stage after this one asks for an answer of its own."""
    context.turn.draft.patch(handled_count_op(tail.handled_count + len(tail.own) + extra))
    return text
