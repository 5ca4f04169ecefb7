"""The model loop: ask, keep the answer, run its tools, keep their results, and ask again.

Where the loop stands is read from the history, so a run that was interrupted or suspended goes on where it
stopped: an answer that was kept is not asked for again, a tool that was answered is not called again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from clew.core import patch
from clew.core.arguments import Count, check_arguments
from clew.core.errors import InvalidArgument
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Reply, Request, ToolCall
from clew.runtime.records.events import ASSISTANT, TOOL_RESULTS
from clew.runtime.respond import guardrails
from clew.runtime.respond.compaction import Compaction, Gauge, compact_in_turn, outgrown
from clew.runtime.respond.guardrails import Guardrail
from clew.runtime.respond.view import (
    HEARD,
    WINDOW,
    Prepare,
    Seen,
    Shows,
    View,
    kept,
    look,
    prepared,
    unanswered,
)
from clew.runtime.tools.tool import Function, Tool
from clew.runtime.tools.toolbox import Toolbox
from clew.runtime.turn.draft import RUN, TURN, Delta

Stage: TypeAlias = Callable[[Any, Context], Awaitable[Delta | None]]
MOST_STEPS = 32
ENDS = "ends_with_its_answer"
"""The mark of a stage that does nothing more once its last answer is made: if no other stage follows, the
answer and the end of the run go to disk together."""


@check_arguments
def respond(
    *,
    instructions: str | Callable[[Any], str] = "",
    tools: Sequence[Tool | Function] = (),
    window: Count = WINDOW,
    shows: Shows | None = None,
    prepare: Prepare | None = None,
    input_guardrails: Sequence[Guardrail] = (),
    output_guardrails: Sequence[Guardrail] = (),
    compaction: Compaction | None = None,
    live: bool = True,
    field: str = "reply",
    name: str = "respond",
) -> Stage:
    """A stage that lets the model answer, with tools, and puts the final text into a field.

    The model sees the newest ``window`` messages, and all of this turn, of them those that ``shows`` lets
    through, in the shape that ``prepare`` gives them; the history is not touched by any of it. Guardrails
    look at what the user said before anything is kept of an answer, and at each text of an answer before
    it is kept. A function among the ``tools`` becomes one, as by ``@tool``. ``live`` says whether listeners
    hear text before it is kept. A second such stage needs another ``name``.
    """
    responder = _Responder(
        toolbox=Toolbox(tools),
        view=View(window=window, shows=shows, prepare=prepare),
        inputs=tuple(input_guardrails),
        outputs=tuple(output_guardrails),
        compaction=compaction,
        live=live,
    )

    async def respond(state: Any, ctx: Context) -> Delta:
        said = instructions(state) if callable(instructions) else instructions
        return {field: await responder.answer(ctx, said)}

    respond.__name__ = name
    setattr(respond, ENDS, True)
    return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class _Responder:
    toolbox: Toolbox
    view: View
    inputs: Sequence[Guardrail]
    outputs: Sequence[Guardrail]
    compaction: Compaction | None
    live: bool

    async def answer(self, ctx: Context, instructions: str) -> str:
        """The text of the last answer, once everything before it is done."""
        gauge = Gauge()
        for _ in range(MOST_STEPS):
            seen = await look(ctx, self.view.window)
            open = unanswered(seen.own)
            if not open:
                if seen.own and seen.own[-1].role == "assistant":
                    return _answered(ctx, seen, seen.own[-1].text)
                reply, open = await self._step(ctx, seen, instructions, gauge)
                if not open:
                    return _answered(ctx, seen, reply.text, added=1)
            await self.toolbox.answer(ctx.turn, open)
            await ctx.turn.checkpoint(TOOL_RESULTS)
            self.toolbox.check_suspended(ctx.turn)
        raise InvalidArgument(problem=f"The model called tools {MOST_STEPS} times without an answer.")

    async def _step(
        self, ctx: Context, seen: Seen, instructions: str, gauge: Gauge
    ) -> tuple[Reply, list[ToolCall]]:
        """Ask the model once and make its reply durable; the reply, and the calls it leaves open."""
        shown = await self._shown(ctx, seen, instructions, gauge)
        request = Request(messages=shown, instructions=instructions, tools=self.toolbox.specs())
        reply = await self._asked(ctx, seen, request)
        if self.compaction is not None:
            gauge.counted(request, reply)
        messages, calls = kept(reply, seen.own)
        ctx.turn.add(messages)
        self.toolbox.intend(ctx.turn, calls)
        await ctx.turn.checkpoint(ASSISTANT, last=not calls)
        return reply, calls

    async def _shown(self, ctx: Context, seen: Seen, instructions: str, gauge: Gauge) -> list[Message]:
        """What the model is shown, after a compaction if it is time for one."""
        shown, how, window = await prepared(ctx, seen, self.view), self.compaction, self.view.window
        if how is None or not outgrown(seen, shown, instructions, window=window, compaction=how, gauge=gauge):
            return shown
        if not await compact_in_turn(ctx, seen, how, gauge):
            return shown
        return await prepared(ctx, await look(ctx, window), self.view)

    async def _asked(self, ctx: Context, seen: Seen, request: Request) -> Reply:
        """A reply that every guardrail lets pass. Those on the input have passed if an answer was kept."""
        first = not any(message.role == "assistant" for message in seen.own)
        inputs = self.inputs if first else ()
        said = "\n".join(seen.asked)
        await guardrails.in_turn(inputs, said, ctx)
        asking = ctx.turn.ask(ctx.response_llm, request, quiet=not self.live)
        reply = await guardrails.beside(asking, inputs, said, ctx)
        if reply.text or not reply.calls:
            await guardrails.passed(self.outputs, reply.text, ctx)
        return reply


def _answered(ctx: Context, seen: Seen, text: str, *, added: int = 0) -> str:
    """Note how far the run has come, so that a stage after this one asks for an answer of its own."""
    ctx.turn.draft.patch(patch.set([RUN, TURN, HEARD], seen.heard + len(seen.own) + added))
    return text
