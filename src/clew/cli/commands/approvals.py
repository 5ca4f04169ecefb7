"""Commands about calls that wait for a person: list them, look at one, approve or refuse it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer
from rich.text import Text

from clew.agents.agent import Agent
from clew.agents.discovery import find_agent, usable_agents
from clew.agents.options import AgentOptions, open_settings
from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.agents import AgentOption
from clew.cli.commands.threads import Limit
from clew.cli.render import approvals as render_approvals
from clew.cli.render import values
from clew.core.encoding import encode
from clew.core.errors import DecisionRefused, InvalidArgument, ThreadOfAnotherAgent
from clew.core.values import Scope
from clew.database.database import Database
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.runtime.state.call_state import IN_DOUBT, INPUT, Decision, PassOn, Replay, UseResult
from clew.runtime.turn.inbox import InboxFilter, WaitingCall, find_waiting_calls, waiting_calls_of_run

DECLINED = "A person declined this call."
LOOK_AGAIN_SECONDS = 1.0
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as the list gives it.")]
CallId = Annotated[
    str | None, typer.Argument(metavar="[CALL]", help="The call's id; needed if the run waits for several.")
]
Thread = Annotated[str | None, typer.Option("--thread", metavar="THREAD", help="Only calls on this thread.")]
OfAgent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only calls of this agent.")]
OfTool = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only calls of this tool.")]
WithText = Annotated[
    str | None, typer.Option("--text", metavar="TEXT", help="Only calls with this text in them.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Go on, and tell of each call as it comes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        envvar="CLEW_MODEL",
        metavar="PROVIDER:NAME",
        help="The model that goes on, for an agent that brings none.",
    ),
]
Answer = Annotated[
    str | None, typer.Option("--answer", metavar="TEXT", help="The answer to a tool that asks something.")
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="What the model reads in place of a result.")
]


async def approvals(
    call: CommandCall,
    thread: Thread = None,
    agent: OfAgent = None,
    tool: OfTool = None,
    text: WithText = None,
    limit: Limit = 50,
    *,
    watch: Watch = False,
) -> CommandResult:
    """List the calls that wait for a person, the latest first.

    With --watch it tells of each call as it begins to wait, a line each, until it is stopped.

    Example: clew approvals --tool pay
    """
    selection = InboxFilter(thread=thread, agent=agent, tool=tool, user=call.scope.user, text=text)
    async with call.database() as db:
        if watch:
            await _watch(call, db, selection, limit)
        page = await find_waiting_calls(db, selection, limit=limit)
    return CommandResult(
        value={"approvals": [render_approvals.waiting_call_value(each) for each in page.calls]},
        display=render_approvals.waiting_call_table(page.calls),
    )


async def show(call: CommandCall, run: RunId) -> CommandResult:
    """Show the calls that a run waits for, with their arguments.

    Example: clew approvals show run-1f2e3d4c5b6a79880716
    """
    async with call.database() as db:
        calls = await _waiting_calls(db, run)
    return CommandResult(
        value={"approvals": [render_approvals.waiting_call_value(each) for each in calls]},
        display=render_approvals.waiting_call_details(calls),
    )


async def approve(
    call: CommandCall,
    run: RunId,
    call_id: CallId = None,
    *,
    answer: Answer = None,
    agent: AgentOption = None,
    model: Model = None,
    yes: Yes = False,
) -> CommandResult:
    """Approve a call that waits, and go on with its run here.

    You are asked first; without a terminal nothing is approved unless --yes is there. The agent of the thread
    has to be installed, or be named with --agent; if it is not, that is said before anything is asked.

    Example: clew approvals approve run-1f2e3d4c5b6a79880716 c1
    """
    async with call.database() as db:
        waiting = _one_call(await _waiting_calls(db, run), run, call_id)
    decision = _approval_of(waiting, answer)
    return await _decide(call, waiting, decision, agent=agent, model=model, yes=yes)


async def refuse(
    call: CommandCall,
    run: RunId,
    call_id: CallId = None,
    *,
    reason: Reason = DECLINED,
    agent: AgentOption = None,
    model: Model = None,
    yes: Yes = False,
) -> CommandResult:
    """Refuse a call that waits, and go on with its run here.

    You are asked first. The call is not made; the model reads the reason in place of its result. See
    approve for --agent and --yes.

    Example: clew approvals refuse run-1f2e3d4c5b6a79880716 c1 --reason 'Not before Monday.'
    """
    async with call.database() as db:
        waiting = _one_call(await _waiting_calls(db, run), run, call_id)
    decision = UseResult(reason, waiting.approval.asked)
    return await _decide(call, waiting, decision, agent=agent, model=model, yes=yes)


# Reading.


async def _watch(call: CommandCall, db: Database, selection: InboxFilter, limit: int) -> None:
    """Tell of each call as it begins to wait; never ends by itself."""
    known: set[tuple[str, str, int]] = set()
    while True:
        page = await find_waiting_calls(db, selection, limit=limit)
        for each in reversed(page.calls):
            if (key := (each.run.id, each.approval.call, each.approval.asked)) not in known:
                known.add(key)
                _print_line(call, each)
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def _print_line(call: CommandCall, waiting: WaitingCall) -> None:
    if call.as_json:
        call.out.file.write(encode(render_approvals.waiting_call_value(waiting)).decode() + "\n")
    else:
        call.out.print(render_approvals.waiting_call_line(waiting))
    call.out.file.flush()


async def _waiting_calls(db: Database, run: str) -> list[WaitingCall]:
    """The calls that a run waits for.

    Raises:
        InvalidArgument: It waits for none.
    """
    calls = await waiting_calls_of_run(db, run_of(await db.records.get(KIND, run)))
    if not calls:
        raise InvalidArgument(problem=f"Run {run!r} does not wait for a decision.")
    return calls


def _one_call(calls: Sequence[WaitingCall], run: str, id: str | None) -> WaitingCall:
    """The call of an id, or the only one.

    Raises:
        DecisionRefused: No call of this id waits.
        InvalidArgument: None is named, and there are several.
    """
    if id is None and len(calls) == 1:
        return calls[0]
    names = ", ".join(f"{each.approval.call} ({each.approval.tool})" for each in calls)
    if id is None:
        raise InvalidArgument(problem=f"Run {run!r} waits for several calls. Name one of them: {names}.")
    for waiting in calls:
        if waiting.approval.call == id:
            return waiting
    raise DecisionRefused(
        thread=calls[0].run.thread, call=id, problem=f"no such call waits. These do: {names}"
    )


# Deciding.


def _approval_of(waiting: WaitingCall, answer: str | None) -> Decision:
    """The decision that lets a call go on.

    Raises:
        InvalidArgument: The tool asks something, and there is no answer; or the other way round.
    """
    approval = waiting.approval
    if approval.why == INPUT and answer is None:
        raise InvalidArgument(problem=f"The tool {approval.tool!r} asks something. Answer it with --answer.")
    if approval.why != INPUT and answer is not None:
        raise InvalidArgument(problem=f"The tool {approval.tool!r} asks nothing. Leave out --answer.")
    return Replay(approval.asked) if answer is None else PassOn(answer, approval.asked)


async def _decide(
    call: CommandCall,
    waiting: WaitingCall,
    decision: Decision,
    *,
    agent: str | None,
    model: str | None,
    yes: bool,
) -> CommandResult:
    """Decide about a call with the agent of its thread. That agent is looked for before anything is asked."""
    is_refusal = isinstance(decision, UseResult)
    word = "refused" if is_refusal else "approved"
    async with _open_runtime(call, waiting, agent, model) as (db, runtime):
        if not (yes or _confirm_decision(call, waiting, is_refusal=is_refusal)):
            words = f"Nothing is {word} yet. Say --yes to do it."
            value = render_approvals.decision_value(waiting, word, None)
            return CommandResult(value=value, display=Text(words), ok=False)
        await audit_action(db, "decide call", thread=waiting.run.thread, decision=word)
        decisions = {waiting.approval.call: decision}
        result = await runtime.resume(waiting.run.thread, decisions, user=waiting.owner)
    sentence = f"{waiting.approval.tool} ({waiting.approval.call}) is {word}."
    return CommandResult(
        value=render_approvals.decision_value(waiting, word, result),
        display=render_approvals.decision_text(sentence, result),
    )


@asynccontextmanager
async def _open_runtime(
    call: CommandCall, waiting: WaitingCall, reference: str | None, model: str | None
) -> AsyncIterator[tuple[Database, Runtime[Any, Any]]]:
    """Open a runtime of the agent that writes the thread. Its session is not ended with it.

    Raises:
        InvalidArgument: The agent is not installed, and none is named.
        ThreadOfAnotherAgent: The named agent is another.
    """
    agent = _agent_for(waiting, reference)
    config = RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
    store = await call.open_store()
    try:
        db = Database(store, Scope(tenant=call.scope.tenant))
        options = AgentOptions(model=model)
        async with (
            open_settings(agent, options, os.environ, config=config) as settings,
            agent.open_runtime(db, settings) as runtime,
        ):
            if runtime.agent != waiting.agent:
                thread = waiting.run.thread
                raise ThreadOfAnotherAgent(thread=thread, agent=runtime.agent, other=waiting.agent)
            yield db, runtime
    finally:
        await store.close()


def _agent_for(waiting: WaitingCall, reference: str | None) -> Agent:
    """The agent that is named, or else the installed one of the thread."""
    if reference is not None:
        return find_agent(reference)
    installed = {agent.name: agent for agent in usable_agents()}
    if waiting.agent not in installed:
        raise InvalidArgument(
            problem=f"The agent {waiting.agent!r} of thread {waiting.run.thread!r} is not installed, so "
            "nothing can be decided. Name it with --agent module:attribute, or decide where it is served."
        )
    return installed[waiting.agent]


def _confirm_decision(call: CommandCall, waiting: WaitingCall, *, is_refusal: bool) -> bool:
    """Ask a person at the terminal; return whether they agree. Without a terminal: False."""
    if call.as_json or not (sys.stdin.isatty() and call.err.is_terminal):
        return False
    call.err.print(render_approvals.waiting_call_details([waiting]))
    verb = "Refuse" if is_refusal else "Do it again" if waiting.approval.why == IN_DOUBT else "Approve"
    return typer.confirm(f"{verb}: {values.clean(waiting.approval.tool)}?", err=True)
