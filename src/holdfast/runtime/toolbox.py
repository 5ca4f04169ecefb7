"""Running a model's tool calls side by side, on one frozen state, with their effects accounted for."""

import asyncio
from collections.abc import Sequence
from itertools import combinations

import msgspec

from holdfast.core import making
from holdfast.core.encoding import JSON
from holdfast.core.errors import ToolConflict
from holdfast.runtime.draft import CALLS, Draft, RunDelta
from holdfast.runtime.messages import RESULT, Message
from holdfast.runtime.models import ToolCall, ToolSpec
from holdfast.runtime.rebasing import first_clash
from holdfast.runtime.suspension import (
    INTENDED,
    SUSPENDED,
    Entry,
    PassOn,
    Suspended,
    UseResult,
    entry_of,
    suspended_calls,
)
from holdfast.runtime.tools import Effect, Outcome, Suspend, Tool, ToolContext, Unfinished
from holdfast.runtime.turn import Turn


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call: an output and changes, or a question that waits."""

    call: ToolCall
    output: JSON = None
    delta: RunDelta = RunDelta()
    question: JSON = None
    waits: bool = False


class Toolbox:
    """The tools of a loop."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def specs(self) -> list[ToolSpec]:
        """What a model is told of them."""
        return [tool.spec() for tool in self._tools.values()]

    def intend(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Note, with the answer that asks for them, every call that will touch the world."""
        for call in calls:
            tool = self._tools.get(call.name)
            turn.begun.add(call.id)
            if tool is not None and tool.effect is not Effect.NONE:
                turn.draft.patch(making.set([CALLS, call.id], {"tool": call.name, "status": INTENDED}))

    async def answer(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side and take their outputs and changes in, in the order of the calls.

        Raises:
            ToolConflict: Two of them changed the same place, and the order matters.
        """
        answers = await asyncio.gather(*(self._one(turn, call) for call in calls))
        check_apart(answers)
        for answer in answers:
            if answer.waits:
                self._suspend(turn, answer)
            else:
                self._take_in(turn, answer)

    def check_suspended(self, turn: Turn) -> None:
        """Stop the run here if calls wait for a person.

        Raises:
            Suspended: They do.
        """
        waiting = suspended_calls(turn.draft.state)
        if waiting:
            raise Suspended(waiting)

    async def _one(self, turn: Turn, call: ToolCall) -> Answer:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return Answer(call=call, output={"error": f"There is no tool {call.name!r}. Known: {known}."})
        kept = entry_of(turn.draft.state, call.id)
        if kept.status == SUSPENDED:
            return Answer(call=call, waits=True, question=kept.question)
        if isinstance(kept.decision, UseResult):
            return Answer(call=call, output=kept.decision.output)
        if call.id not in turn.begun and kept.status is not None:
            return await self._in_doubt(turn, tool, call, kept)
        if kept.decision is None and tool.needs_approval(call.arguments):
            question = {"approve": call.name, "arguments": call.arguments}
            return Answer(call=call, waits=True, question=question)
        return await _called(turn, tool, call, kept)

    async def _in_doubt(self, turn: Turn, tool: Tool, call: ToolCall, kept: Entry) -> Answer:
        """A call that may have had its effect before its run was interrupted."""
        if tool.effect is Effect.CHECKABLE and tool.check is not None:
            found = await tool.check(_context(turn, call, kept))
            if not isinstance(found, Unfinished):
                return Answer(call=call, output=found)
        elif tool.effect is Effect.UNKNOWN:
            question = {"in_doubt": call.name, "arguments": call.arguments}
            return Answer(call=call, waits=True, question=question)
        return await _called(turn, tool, call, kept)

    def _take_in(self, turn: Turn, answer: Answer) -> None:
        turn.draft.patch(*answer.delta.patches)
        for action in answer.delta.actions:
            turn.draft.patch(action=action)
        turn.draft.add(answer.delta.items)
        turn.add([Message(role="tool", kind=RESULT, call=answer.call.id, content=answer.output)])
        if answer.call.id in turn.draft.state.get(CALLS, {}):
            turn.draft.patch(making.delete([CALLS, answer.call.id]))

    def _suspend(self, turn: Turn, answer: Answer) -> None:
        waiting = {
            "tool": answer.call.name,
            "arguments": answer.call.arguments,
            "status": SUSPENDED,
            "question": answer.question,
        }
        turn.draft.patch(making.merge([CALLS, answer.call.id], waiting))


async def _called(turn: Turn, tool: Tool, call: ToolCall, kept: Entry) -> Answer:
    """Call a tool; whatever it raises is its answer to the model."""
    try:
        async with asyncio.timeout(turn.patience.tool):
            outcome = await tool.call(call.arguments, _context(turn, call, kept))
    except Suspend as asked:
        return Answer(call=call, waits=True, question=asked.question)
    except msgspec.ValidationError as error:
        return Answer(call=call, output={"error": f"The arguments do not fit: {error}"})
    except TimeoutError:
        return Answer(call=call, output={"error": f"It took longer than {turn.patience.tool} s."})
    except Exception as error:  # noqa: BLE001  # a tool is not ours; the model is told, and nothing is hidden
        return Answer(call=call, output={"error": f"{type(error).__name__}: {error}"})
    return Answer(call=call, output=outcome.output, delta=_changes(turn, call, outcome))


def _context(turn: Turn, call: ToolCall, kept: Entry) -> ToolContext:
    return ToolContext(
        thread=turn.thread,
        run=turn.id,
        call=call.id,
        key=f"{turn.id}:{call.id}",
        user=turn.user,
        state=turn.draft.view(),
        decision=kept.decision.value if isinstance(kept.decision, PassOn) else None,
    )


def _changes(turn: Turn, call: ToolCall, outcome: Outcome) -> RunDelta:
    """What a tool's delta changes, folded on the state that all of them saw."""
    if not outcome.delta:
        return RunDelta()
    apart: Draft = turn.draft.apart()
    apart.write(call.name, outcome.delta, run=turn.id, call=call.id)
    return apart.take_delta()


def check_apart(answers: Sequence[Answer]) -> None:
    """Refuse changes whose order matters: nobody said which tool comes first.

    Raises:
        ToolConflict: It names both tools and the place.
    """
    for left, right in combinations(answers, 2):
        logs = {item.log for item in left.delta.items} & {item.log for item in right.delta.items}
        clash = first_clash(left.delta.patches, right.delta.patches)
        if logs or clash:
            path: list[str | int] = list(clash[0].path) if clash else [min(logs)]
            raise ToolConflict(first=left.call.name, second=right.call.name, path=path)
