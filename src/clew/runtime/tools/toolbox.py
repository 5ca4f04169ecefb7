"""Running a model's tool calls side by side, on one frozen state, with their effects accounted for.

No intent, no effect: a tool that touches the world is called only after a changeset says so, either with the
answer that asked for it or with a person's decision. A call whose intent is older than this process may have
had its effect; what happens then is the tool's to say.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.core import patch
from clew.core.encoding import JSON
from clew.core.errors import SchemaInvalid
from clew.runtime.model.messages import RESULT, Message
from clew.runtime.model.protocol import ToolCall, ToolSpec
from clew.runtime.tools.parallel import Change, take_in
from clew.runtime.tools.tool import Effect, Function, Suspend, Tool, ToolContext, Unfinished, tool_of
from clew.runtime.turn.approvals import (
    APPROVAL,
    IN_DOUBT,
    INPUT,
    INTENDED,
    SUSPENDED,
    Entry,
    PassOn,
    Suspended,
    UseResult,
    entries,
    suspended_calls,
)
from clew.runtime.turn.draft import CALLS, Delta
from clew.runtime.turn.turn import Turn


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A call's output, and what it changes."""

    call: ToolCall
    output: JSON = None
    change: Change | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked about a call, which waits."""

    call: ToolCall
    why: str
    question: JSON
    kept: Entry
    key: str | None = None
    change: Change | None = None


class Toolbox:
    """The tools of a loop."""

    def __init__(self, tools: Sequence[Tool | Function]) -> None:
        made = [tool_of(each) for each in tools]
        self._tools = {tool.name: tool for tool in made}
        for tool in made:
            if self._tools[tool.name] is not tool:
                raise SchemaInvalid(schema="tools", field=tool.name, problem="two tools have this name")

    def specs(self) -> list[ToolSpec]:
        """What a model is told of them."""
        return [tool.spec() for tool in self._tools.values()]

    def intend(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Note, with the answer that asks for them, every call that will touch the world."""
        for call in calls:
            turn.begun.add(call.id)
            tool = self._tools.get(call.name)
            if tool is not None and tool.effect is not Effect.NONE and _runs_at_once(tool, call):
                noted: dict[str, JSON] = {"tool": call.name, "status": INTENDED, "key": new_key(turn, call)}
                turn.draft.patch(patch.set([CALLS, call.id], noted))

    async def answer(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side and take their outputs and changes in, in the order of the calls.

        Raises:
            ToolConflict: Two of them changed the same place, and the order matters.
            StateInvalid: One changed what it may not.
        """
        known = entries(turn.draft.state)
        found = await asyncio.gather(
            *(self._one(turn, call, known.get(call.id, Entry())) for call in calls), return_exceptions=True
        )
        results = [
            _settled(call, result) for call, result in zip(calls, found, strict=True) if result is not None
        ]
        take_in(turn.draft, [result.change for result in results if result.change is not None])
        for result in results:
            if isinstance(result, Question):
                _suspend(turn, result)
            else:
                _resolve(turn, result)

    def check_suspended(self, turn: Turn) -> None:
        """Stop the run here if calls wait for a person.

        Raises:
            Suspended: They do.
        """
        waiting = suspended_calls(turn.draft.state)
        if waiting:
            raise Suspended(waiting)

    async def _one(self, turn: Turn, call: ToolCall, kept: Entry) -> Answer | Question | None:
        """What becomes of a call; None if it still waits."""
        if kept.status == SUSPENDED:
            return None
        if isinstance(kept.decision, UseResult):
            return Answer(call=call, output=kept.decision.output)
        doubted = kept.key is not None and call.id not in turn.begun
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return _wrong(call, f"There is no tool {call.name!r}. Known: {known}.", kept, doubted=doubted)
        try:
            given = tool.checked(call.arguments)
        except msgspec.ValidationError as error:
            return _wrong(call, f"The arguments do not fit: {error}", kept, doubted=doubted)
        if doubted:
            return await _taken_up(turn, tool, call, given, kept)
        noted = tool.effect is Effect.NONE or kept.key is not None
        if kept.decision is None and (not noted or tool.needs_approval(given)):
            return _approval(turn, tool, call, kept)
        return await _called(turn, tool, call, given, kept)


def _settled(call: ToolCall, result: Answer | Question | BaseException) -> Answer | Question:
    """A result; all have ended, so that nothing goes on behind the back of a run that fails here."""
    if isinstance(result, asyncio.CancelledError):  # the tool's own: if the run were cancelled, so were we
        return Answer(call=call, output={"error": "The tool cancelled itself."})
    if isinstance(result, BaseException):
        raise result
    return result


def new_key(turn: Turn, call: ToolCall) -> str:
    """A name for one call and all its attempts. Models use call ids again, so the position is part of it."""
    return f"{turn.id}:{turn.position}:{call.id}"


def _runs_at_once(tool: Tool, call: ToolCall) -> bool:
    try:
        return not tool.needs_approval(tool.checked(call.arguments))
    except msgspec.ValidationError:
        return False


def _wrong(call: ToolCall, problem: str, kept: Entry, *, doubted: bool) -> Answer | Question:
    """A call that cannot be made: the model is told, unless it may have been made before."""
    return _in_doubt(call, kept) if doubted else Answer(call=call, output={"error": problem})


def _approval(turn: Turn, tool: Tool, call: ToolCall, kept: Entry) -> Question:
    key = None if tool.effect is Effect.NONE else kept.key or new_key(turn, call)
    return Question(call=call, why=APPROVAL, question={"approve": call.name}, kept=kept, key=key)


def _in_doubt(call: ToolCall, kept: Entry) -> Question:
    return Question(call=call, why=IN_DOUBT, question={"in_doubt": call.name}, kept=kept, key=kept.key)


async def _taken_up(
    turn: Turn, tool: Tool, call: ToolCall, given: Mapping[str, Any], kept: Entry
) -> Answer | Question:
    """Go on with a call that may have had its effect before its run was interrupted."""
    if tool.effect is Effect.UNKNOWN:
        return _in_doubt(call, kept)
    if tool.effect is Effect.CHECKABLE:
        try:
            async with asyncio.timeout(turn.patience.tool):
                found = await tool.find(_context(turn, call, kept))
        except Exception as error:  # noqa: BLE001  # a check is not ours; a person is told what it said
            asked = {"in_doubt": call.name, "check": f"{type(error).__name__}: {error}"}
            return Question(call=call, why=IN_DOUBT, question=asked, kept=kept, key=kept.key)
        if not isinstance(found, Unfinished):
            return Answer(call=call, output=found)
    return await _called(turn, tool, call, given, kept)


async def _called(
    turn: Turn, tool: Tool, call: ToolCall, given: Mapping[str, Any], kept: Entry
) -> Answer | Question:
    """Call a tool; whatever it raises is its answer to the model."""
    deadline = asyncio.timeout(turn.patience.tool)
    with turn.step(tool.kind, tool.name) as step:
        try:
            async with deadline:
                outcome = await tool.call(given, _context(turn, call, kept))
        except Suspend as asked:
            change = _change(turn, call, asked.delta)
            question = asked.question
            return Question(call=call, why=INPUT, question=question, kept=kept, key=kept.key, change=change)
        except Exception as error:  # noqa: BLE001  # a tool is not ours; the model is told, and nothing is hidden
            step.error = _problem(error, turn, tool, late=deadline.expired())
            return Answer(call=call, output={"error": step.error})
    return Answer(call=call, output=outcome.output, change=_change(turn, call, outcome.delta))


def _problem(error: Exception, turn: Turn, tool: Tool, *, late: bool) -> str:
    """What a model is told of a tool that failed."""
    if not late:
        return f"{type(error).__name__}: {error}"
    unknown = "" if tool.effect is Effect.NONE else " Whether it had its effect is not known."
    return f"It took longer than {turn.patience.tool} s.{unknown}"


def _change(turn: Turn, call: ToolCall, delta: Delta) -> Change | None:
    return Change(tool=call.name, call=call.id, run=turn.id, delta=delta) if delta else None


def _context(turn: Turn, call: ToolCall, kept: Entry) -> ToolContext:
    return ToolContext(
        thread=turn.thread,
        run=turn.id,
        call=call.id,
        key=kept.key or f"{turn.id}:{call.id}",
        user=turn.user,
        state=turn.draft.view(call.id),
        decision=kept.decision.value if isinstance(kept.decision, PassOn) else None,
    )


def _resolve(turn: Turn, answer: Answer) -> None:
    """Add the result; what the state kept for the call goes with it."""
    turn.add([Message(role="tool", kind=RESULT, call=answer.call.id, content=answer.output)])
    if answer.call.id in turn.draft.state.get(CALLS, {}):
        turn.draft.patch(patch.delete([CALLS, answer.call.id]))


def _suspend(turn: Turn, question: Question) -> None:
    waiting: dict[str, JSON] = {
        "tool": question.call.name,
        "arguments": question.call.arguments,
        "status": SUSPENDED,
        "question": question.question,
        "why": question.why,
        "asked": question.kept.asked + 1,
    }
    if question.key is not None:
        waiting["key"] = question.key
    if question.kept.decision is not None:
        waiting["decision"] = None
    turn.draft.patch(patch.merge([CALLS, question.call.id], waiting))
