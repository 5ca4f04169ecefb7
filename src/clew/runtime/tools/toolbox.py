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
from clew.core.errors import DeadlineExceeded, SchemaInvalid
from clew.runtime.model.messages import RESULT, Message
from clew.runtime.model.protocol import ToolCall, ToolSpec
from clew.runtime.model.redaction import error_name
from clew.runtime.state.call_state import (
    APPROVAL,
    IN_DOUBT,
    INPUT,
    SUSPENDED,
    CallState,
    PassOn,
    UseResult,
)
from clew.runtime.state.run_state import intent_op, question_op
from clew.runtime.tools.parallel import fold_changes
from clew.runtime.tools.tool import Effect, NotHappened, Suspend, Tool, ToolContext, ToolFunction, tool_of
from clew.runtime.turn.approvals import Suspension
from clew.runtime.turn.draft import Delta
from clew.runtime.turn.turn import Turn


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was run as far as it may be: its output, or its state while it waits for a person.

    ``error`` is what the call failed with, which the output says too, and ``error_type`` the code of that
    or the name of its type. ``delta`` is what it changes of the state.
    """

    call: ToolCall
    output: JSON = None
    waiting: CallState | None = None
    error: str | None = None
    error_type: str | None = None
    delta: Delta = {}


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
        fold_changes(turn.draft, turn.id, [(result.call, result.delta) for result in results if result.delta])
        for result in results:
            if result.waiting is not None:
                turn.draft.patch(question_op(result.call.id, result.waiting))
            else:
                _resolve_call(turn, result)

    def check_approvals(self, turn: Turn) -> None:
        """Stop the run here if calls wait for a person.

        Raises:
            Suspension: They do.
        """
        if approvals := turn.run_state.approvals:
            raise Suspension(", ".join(approval.call for approval in approvals))

    async def _run_call(self, turn: Turn, call: ToolCall, call_state: CallState) -> CallResult | None:
        """Run a call as far as it may be run; None if it still waits for a person."""
        if call_state.status == SUSPENDED:
            return None
        if isinstance(call_state.decision, UseResult):
            return CallResult(call=call, output=call_state.decision.output)
        # Its intent was recorded by another process, which may have called the tool before it ended.
        is_doubtful = call_state.key is not None and call.id not in turn.own_calls
        checked_call = check_call(self._tools, call)
        if isinstance(checked_call, str):
            return _ask_in_doubt(call, call_state) if is_doubtful else _failed_call(call, checked_call)
        tool, arguments = checked_call
        seconds = turn.deadlines.tool_seconds
        if is_doubtful:
            context = _tool_context(turn, call, call_state)
            result = await check_earlier_call(tool, call, call_state, context, seconds)
            if result is not None:
                return result
        elif _needs_person(tool, arguments, call_state):
            return _ask_for_approval(turn, tool, call, call_state)
        with turn.step(tool.kind, tool.name, call=call.id) as step:
            context = _tool_context(turn, call, call_state)
            result = await make_call(tool, call, arguments, call_state, context, seconds)
            step.error, step.error_type = result.error, result.error_type
            step.is_waiting = result.waiting is not None
            step.watch.add_call(call.arguments, result.output)
        return result


def _result_or_raise(call: ToolCall, result: CallResult | BaseException) -> CallResult:
    """Return a result, or raise its error: all calls have ended, so none goes on after the run has failed."""
    if isinstance(result, asyncio.CancelledError):  # the tool's own: if the run were cancelled, so were we
        return _failed_call(call, "The tool cancelled itself.")
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


def _needs_person(tool: Tool, arguments: Mapping[str, Any], call_state: CallState) -> bool:
    """Return whether a call must be agreed to, or has no intent on record, and nothing was decided yet."""
    has_intent = tool.effect is Effect.NONE or call_state.key is not None
    return call_state.decision is None and (not has_intent or tool.needs_approval(arguments))


def _ask_for_approval(turn: Turn, tool: Tool, call: ToolCall, call_state: CallState) -> CallResult:
    key = None if tool.effect is Effect.NONE else call_state.key or new_idempotency_key(turn, call)
    state_with_key = msgspec.structs.replace(call_state, key=key)
    return _ask_person(call, state_with_key, APPROVAL, {"approve": call.name})


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


def _resolve_call(turn: Turn, result: CallResult) -> None:
    """Add the result; what the state has of the call goes in the same commit."""
    turn.add([Message(role="tool", kind=RESULT, call=result.call.id, content=result.output)])
    turn.draft.patch(*turn.run_state.result_ops(result.call.id))


# One call, in a turn or in a voice call.


def check_call(tools: Mapping[str, Tool], call: ToolCall) -> tuple[Tool, dict[str, Any]] | str:
    """Return the tool of a call and the arguments for it, or a text that says why it cannot be made."""
    tool = tools.get(call.name)
    if tool is None:
        return f"There is no tool {call.name!r}. Known: {', '.join(sorted(tools)) or 'none'}."
    try:
        return tool, tool.check_arguments(call.arguments)
    except msgspec.ValidationError as error:
        return f"The arguments do not fit: {error}"


async def check_earlier_call(
    tool: Tool, call: ToolCall, call_state: CallState, context: ToolContext, seconds: float
) -> CallResult | None:
    """Look into a call that may have had its effect before it was interrupted; None if it is to be made."""
    if tool.effect is Effect.UNKNOWN:
        return _ask_in_doubt(call, call_state)
    if tool.effect is not Effect.CHECKABLE:
        return None
    try:
        async with asyncio.timeout(seconds):
            output = await tool.run_check(context)
    except Exception as error:  # noqa: BLE001  # a check is not ours; a person is told what it said
        return _ask_in_doubt(call, call_state, check=f"{type(error).__name__}: {error}")
    return None if isinstance(output, NotHappened) else CallResult(call=call, output=output)


async def make_call(
    tool: Tool,
    call: ToolCall,
    arguments: Mapping[str, Any],
    call_state: CallState,
    context: ToolContext,
    seconds: float,
) -> CallResult:
    """Call a tool; an error that it raises is its answer to the model."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            outcome = await tool.call(arguments, context)
    except Suspend as suspension:
        return _ask_person(call, call_state, INPUT, suspension.question, suspension.delta)
    except Exception as error:  # noqa: BLE001  # a tool is not ours; the model is told, and nothing is hidden
        if not deadline.expired():
            return _failed_call(call, f"{type(error).__name__}: {error}", error_name(error))
        unknown = "" if tool.effect is Effect.NONE else " Whether it had its effect is not known."
        return _failed_call(call, f"It took longer than {seconds} s.{unknown}", DeadlineExceeded.code)
    return CallResult(call=call, output=outcome.output, delta=outcome.delta)


def _failed_call(call: ToolCall, problem: str, error_type: str | None = None) -> CallResult:
    return CallResult(call=call, output={"error": problem}, error=problem, error_type=error_type)


def _ask_in_doubt(call: ToolCall, call_state: CallState, check: str | None = None) -> CallResult:
    """Ask a person about a call that may have had its effect; ``check`` is the error of its check, if any."""
    question = {"in_doubt": call.name} if check is None else {"in_doubt": call.name, "check": check}
    return _ask_person(call, call_state, IN_DOUBT, question)


def _ask_person(
    call: ToolCall, call_state: CallState, why: str, question: JSON, delta: Delta | None = None
) -> CallResult:
    """Let a call wait for a person; the state counts the questions about it."""
    waiting = msgspec.structs.replace(
        call_state,
        tool=call.name,
        arguments=call.arguments,
        status=SUSPENDED,
        question=question,
        why=why,
        asked=call_state.asked + 1,
    )
    return CallResult(call=call, waiting=waiting, delta=delta or {})
