"""The toolbox: runs a model's tool calls side by side, on one frozen state, with their effects accounted for.

No intent, no effect: a tool that touches the world is called only after a changeset says so, either with the
answer that asked for it or with a person's decision. A call whose intent is older than this process may have
had its effect; the tool declares what is done about it then.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.core.encoding import JSON
from clew.core.errors import SchemaInvalid
from clew.runtime.model.messages import RESULT, Message
from clew.runtime.model.protocol import ToolCall, ToolSpec
from clew.runtime.state.call_state import (
    APPROVAL,
    IN_DOUBT,
    INPUT,
    SUSPENDED,
    Approval,
    CallState,
    PassOn,
    UseResult,
)
from clew.runtime.state.run_state import intent_op, question_op
from clew.runtime.tools.parallel import ToolChange, fold_changes
from clew.runtime.tools.tool import Effect, NotHappened, Suspend, Tool, ToolContext, ToolFunction, tool_of
from clew.runtime.turn.approvals import Suspension
from clew.runtime.turn.draft import Delta
from clew.runtime.turn.turn import Turn


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a call, with the change that it makes to the state."""

    call: ToolCall
    output: JSON = None
    change: ToolChange | None = None


class ToolQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question to a person about a call, which waits until it is answered."""

    call: ToolCall
    why: str
    question: JSON
    call_state: CallState
    key: str | None = None
    change: ToolChange | None = None


class Toolbox:
    """The tools of a loop."""

    def __init__(self, tools: Sequence[Tool | ToolFunction]) -> None:
        all_tools = [tool_of(each) for each in tools]
        self._tools = {tool.name: tool for tool in all_tools}
        for tool in all_tools:
            if self._tools[tool.name] is not tool:
                raise SchemaInvalid(schema="tools", field=tool.name, problem="two tools have this name")

    def specs(self) -> list[ToolSpec]:
        """Return the descriptions of the tools for a model."""
        return [tool.spec() for tool in self._tools.values()]

    def record_intents(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Record every call that will touch the world, in the commit of the answer that asks for it."""
        for call in calls:
            turn.own_calls.add(call.id)
            tool = self._tools.get(call.name)
            if tool is not None and tool.effect is not Effect.NONE and _is_immediate(tool, call):
                turn.draft.patch(intent_op(call.id, call.name, new_idempotency_key(turn, call)))

    async def answer_calls(self, turn: Turn, calls: Sequence[ToolCall]) -> None:
        """Run calls side by side and add their outputs and changes to the draft, in the order of the calls.

        Raises:
            ToolConflict: Two of them changed the same place, and the order matters.
            StateInvalid: One changed what it may not.
        """
        call_states = turn.run_state.calls
        outcomes = await asyncio.gather(
            *(self._run_call(turn, call, call_states.get(call.id, CallState())) for call in calls),
            return_exceptions=True,
        )
        results = [
            _result_or_raise(call, result)
            for call, result in zip(calls, outcomes, strict=True)
            if result is not None
        ]
        fold_changes(turn.draft, [result.change for result in results if result.change is not None])
        for result in results:
            if isinstance(result, ToolQuestion):
                _suspend_call(turn, result)
            else:
                _resolve_call(turn, result)

    def check_approvals(self, turn: Turn) -> None:
        """Stop the run here if calls wait for a person.

        Raises:
            Suspension: They do.
        """
        if approvals := turn.run_state.approvals:
            raise Suspension(", ".join(approval.call for approval in approvals))

    async def _run_call(
        self, turn: Turn, call: ToolCall, call_state: CallState
    ) -> ToolAnswer | ToolQuestion | None:
        """Run a call as far as it may be run; None if it still waits for a person."""
        if call_state.status == SUSPENDED:
            return None
        if isinstance(call_state.decision, UseResult):
            return ToolAnswer(call=call, output=call_state.decision.output)
        # Its intent was recorded by another process, which may have called the tool before it ended.
        is_doubtful = call_state.key is not None and call.id not in turn.own_calls
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(self._tools)) or "none"
            return _answer_invalid_call(
                call, f"There is no tool {call.name!r}. Known: {names}.", call_state, is_doubtful=is_doubtful
            )
        try:
            arguments = tool.check_arguments(call.arguments)
        except msgspec.ValidationError as error:
            return _answer_invalid_call(
                call, f"The arguments do not fit: {error}", call_state, is_doubtful=is_doubtful
            )
        if is_doubtful:
            return await _resume_call(turn, tool, call, arguments, call_state)
        has_intent = tool.effect is Effect.NONE or call_state.key is not None
        if call_state.decision is None and (not has_intent or tool.needs_approval(arguments)):
            return _approval_question(turn, tool, call, call_state)
        return await _call_tool(turn, tool, call, arguments, call_state)


def _result_or_raise(
    call: ToolCall, result: ToolAnswer | ToolQuestion | BaseException
) -> ToolAnswer | ToolQuestion:
    """Return a result, or raise its error: all calls have ended, so none goes on after the run has failed."""
    if isinstance(result, asyncio.CancelledError):  # the tool's own: if the run were cancelled, so were we
        return ToolAnswer(call=call, output={"error": "The tool cancelled itself."})
    if isinstance(result, BaseException):
        raise result
    return result


def new_idempotency_key(turn: Turn, call: ToolCall) -> str:
    """Return a name for one call and all its attempts. Models reuse call ids, so it has the step too."""
    return f"{turn.id}:{turn.step_id}:{call.id}"


def _is_immediate(tool: Tool, call: ToolCall) -> bool:
    try:
        return not tool.needs_approval(tool.check_arguments(call.arguments))
    except msgspec.ValidationError:
        return False


def _answer_invalid_call(
    call: ToolCall, problem: str, call_state: CallState, *, is_doubtful: bool
) -> ToolAnswer | ToolQuestion:
    """Answer a call that cannot be made with the problem, unless it may have been made before."""
    return (
        _doubt_question(call, call_state) if is_doubtful else ToolAnswer(call=call, output={"error": problem})
    )


def _approval_question(turn: Turn, tool: Tool, call: ToolCall, call_state: CallState) -> ToolQuestion:
    key = None if tool.effect is Effect.NONE else call_state.key or new_idempotency_key(turn, call)
    return ToolQuestion(
        call=call, why=APPROVAL, question={"approve": call.name}, call_state=call_state, key=key
    )


def _doubt_question(call: ToolCall, call_state: CallState) -> ToolQuestion:
    return ToolQuestion(
        call=call, why=IN_DOUBT, question={"in_doubt": call.name}, call_state=call_state, key=call_state.key
    )


async def _resume_call(
    turn: Turn, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], call_state: CallState
) -> ToolAnswer | ToolQuestion:
    """Resume a call that may have had its effect before its run was interrupted."""
    if tool.effect is Effect.UNKNOWN:
        return _doubt_question(call, call_state)
    if tool.effect is Effect.CHECKABLE:
        try:
            async with asyncio.timeout(turn.deadlines.tool_seconds):
                output = await tool.run_check(_tool_context(turn, call, call_state))
        except Exception as error:  # noqa: BLE001  # a check is not ours; a person is told what it said
            question = {"in_doubt": call.name, "check": f"{type(error).__name__}: {error}"}
            return ToolQuestion(
                call=call, why=IN_DOUBT, question=question, call_state=call_state, key=call_state.key
            )
        if not isinstance(output, NotHappened):
            return ToolAnswer(call=call, output=output)
    return await _call_tool(turn, tool, call, arguments, call_state)


async def _call_tool(
    turn: Turn, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], call_state: CallState
) -> ToolAnswer | ToolQuestion:
    """Call a tool; an error that it raises is its answer to the model."""
    deadline = asyncio.timeout(turn.deadlines.tool_seconds)
    with turn.step(tool.kind, tool.name) as step:
        try:
            async with deadline:
                outcome = await tool.call(arguments, _tool_context(turn, call, call_state))
        except Suspend as suspension:
            change = _tool_change(turn, call, suspension.delta)
            question = suspension.question
            return ToolQuestion(
                call=call,
                why=INPUT,
                question=question,
                call_state=call_state,
                key=call_state.key,
                change=change,
            )
        except Exception as error:  # noqa: BLE001  # a tool is not ours; the model is told, and nothing is hidden
            step.error = _problem(error, turn, tool, late=deadline.expired())
            return ToolAnswer(call=call, output={"error": step.error})
    return ToolAnswer(call=call, output=outcome.output, change=_tool_change(turn, call, outcome.delta))


def _problem(error: Exception, turn: Turn, tool: Tool, *, late: bool) -> str:
    """Return the text for the model about a tool that failed."""
    if not late:
        return f"{type(error).__name__}: {error}"
    unknown = "" if tool.effect is Effect.NONE else " Whether it had its effect is not known."
    return f"It took longer than {turn.deadlines.tool_seconds} s.{unknown}"


def _tool_change(turn: Turn, call: ToolCall, delta: Delta) -> ToolChange | None:
    return ToolChange(tool=call.name, call=call.id, run=turn.id, delta=delta) if delta else None


def _tool_context(turn: Turn, call: ToolCall, call_state: CallState) -> ToolContext:
    return ToolContext(
        thread=turn.thread,
        run=turn.id,
        call=call.id,
        key=call_state.key or f"{turn.id}:{call.id}",
        user=turn.user,
        state=turn.draft.view(call.id),
        decision=call_state.decision.value if isinstance(call_state.decision, PassOn) else None,
    )


def _resolve_call(turn: Turn, answer: ToolAnswer) -> None:
    """Add the result; what the state has of the call goes in the same commit."""
    turn.add([Message(role="tool", kind=RESULT, call=answer.call.id, content=answer.output)])
    turn.draft.patch(*turn.run_state.result_ops(answer.call.id))


def _suspend_call(turn: Turn, question: ToolQuestion) -> None:
    approval = Approval(
        call=question.call.id,
        tool=question.call.name,
        arguments=question.call.arguments,
        question=question.question,
        why=question.why,
        asked=question.call_state.asked + 1,
    )
    turn.draft.patch(question_op(approval, question.call_state, question.key))
