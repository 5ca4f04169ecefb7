"""The plan of an AG-UI run: the thread as its input finds it, and the work that the input asks for."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from clew.api.ag_ui import OPTIONS, AgUiInput, AgUiMessage, AgUiOptions
from clew.core.errors import DecisionRefused, InvalidArgument, ThreadNotFound
from clew.core.ops import Document
from clew.core.values import Head
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.records.events import HistoryRewritten, Mark, MessageAdded, StateChanged, events_of
from clew.runtime.records.runs import RUNNING, Run, is_orphaned, run_id_for_key
from clew.runtime.runtime import AFTER_LAST_EVENT
from clew.runtime.state.call_state import Decision
from clew.runtime.state.run_state import RunState
from clew.server.protocols.ag_ui.interrupts import InterruptId, decisions_of
from clew.server.protocols.ag_ui.state import public_state, state_after
from clew.server.protocols.ag_ui.transcript import Transcript
from clew.server.protocols.run_events import read_run

KEY_PREFIX = "ag-ui:"
"""Comes before the id of a message in the idempotency key of its turn."""


class ThreadPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The messages and the public state of a thread behind an event; ``mark`` is that of the event.

    A client that named the event ``has_seen`` all of it; what another one has is compared with it.
    """

    mark: Mark
    transcript: Transcript
    state: Document
    has_seen: bool = False


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work that an input asks for: a turn, to go on with a run that stopped, or only to follow.

    ``run`` is the id of the run at the runtime, if there is or will be one. ``messages`` are the new ones,
    and ``key`` is the idempotency key of their turn. ``version`` is that of the thread when this was planned.
    """

    kind: Literal["turn", "resume", "follow"]
    run: str | None = None
    key: str | None = None
    messages: Sequence[AgUiMessage] = ()
    decisions: Mapping[str, Decision] = {}
    version: int = 0


def options_of(data: AgUiInput) -> AgUiOptions:
    """Return the options in the input of a run.

    Raises:
        InvalidArgument: They are not valid.
    """
    props = data.forwarded_props
    options = props.get(OPTIONS) if isinstance(props, dict) else None
    try:
        return msgspec.convert(options or {}, AgUiOptions)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"forwardedProps.{OPTIONS} is not valid: {error}.") from error


def text_of_message(message: AgUiMessage) -> str:
    """Return the text of a message of a user.

    Raises:
        InvalidArgument: It has parts that are not text.
    """
    if isinstance(message.content, str):
        return message.content
    parts = message.content if isinstance(message.content, list) else [message.content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    if len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise InvalidArgument(problem=f"Message {message.id!r} must be text; other parts are not supported.")
    return "\n".join(str(text) for text in texts)


async def _head_or_none(thread: Thread) -> Head | None:
    try:
        return await thread.head()
    except ThreadNotFound:
        return None


async def _read_point(thread: Thread, head: Head | None, cursor: Mark | None) -> ThreadPoint:
    """Read a thread as it is behind the event at a cursor, or as it is now."""
    if head is None:
        return ThreadPoint(mark=(0, AFTER_LAST_EVENT), transcript=Transcript(), state={})
    if cursor is None or not 0 < cursor[0] <= head.version:
        return await point_at(thread, head.version)
    before = await point_at(thread, cursor[0] - 1)
    changes = await thread.changesets(after=cursor[0] - 1, upto=cursor[0])
    events = [event for change in changes for event in events_of(change) if (event.mark or cursor) <= cursor]
    if any(isinstance(event, HistoryRewritten) for event in events):
        return await point_at(thread, cursor[0])
    state = before.state
    for event in events:
        if isinstance(event, MessageAdded):
            before.transcript.add(event.message)
        elif isinstance(event, StateChanged):
            state = state_after(state, event.patches)
    return msgspec.structs.replace(before, mark=cursor, state=state, has_seen=True)


async def point_at(thread: Thread, version: int) -> ThreadPoint:
    """Read a thread as it was at a version."""
    mark = (version, AFTER_LAST_EVENT)
    if version == 0:
        return ThreadPoint(mark=mark, transcript=Transcript(), state={})
    items, head = await thread.items(at=version), await thread.head(at=version)
    return ThreadPoint(mark=mark, transcript=Transcript(items), state=public_state(head.state))


async def read_plan(
    db: Database, data: AgUiInput, cursor: Mark | None, key: str | None
) -> tuple[RunPlan, ThreadPoint]:
    """Read a thread, and plan the work that an input asks for, with the point that its events begin at.

    A new message is answered once for its id, or for the idempotency key of the request, if it has one.

    Raises:
        DecisionRefused: An answer is to an interrupt that the thread never had.
        InvalidArgument: The input cannot be served.
    """
    thread = db.thread(data.thread_id)
    head = await _head_or_none(thread)
    point = await _read_point(thread, head, cursor)
    newest = point if cursor is None else await _read_point(thread, head, None)
    plan = await _plan_run(db, data, head, newest.transcript, key)
    return msgspec.structs.replace(plan, version=0 if head is None else head.version), point


async def _plan_run(
    db: Database, data: AgUiInput, head: Head | None, transcript: Transcript, key: str | None
) -> RunPlan:
    if data.tools:
        raise InvalidArgument(
            problem="Tools of the client are not supported: the agent has its own. Send no tools."
        )
    thread = db.thread(data.thread_id)
    new_messages = await _new_messages(thread, data.messages, head, transcript)
    run_state = RunState.of(head.state) if head is not None else RunState()
    run = await read_run(db, run_state.id) if run_state.id else None
    if data.resume:
        if new_messages:
            raise InvalidArgument(
                problem="Answer the interrupts first, and send the message with the next run."
            )
        return await _plan_answers(db, data, run_state, run)
    if new_messages:
        key = key or f"{KEY_PREFIX}{new_messages[-1].id}"
        return RunPlan(kind="turn", run=run_id_for_key(thread.id, key), key=key, messages=new_messages)
    is_stopped = run_state.is_open and not run_state.approvals and not is_at_work(run, db)
    if is_stopped and transcript.run_of(_last_user_message(data.messages)) == run_state.id:
        return RunPlan(kind="resume", run=run_state.id)
    return RunPlan(kind="follow", run=run_state.id if run_state.is_open else None)


async def _new_messages(
    thread: Thread, messages: Sequence[AgUiMessage], head: Head | None, transcript: Transcript
) -> list[AgUiMessage]:
    """Return the messages of the user at the end of a client's list that the thread has never had."""
    first = next((at for at in range(len(messages), 0, -1) if messages[at - 1].role != "user"), 0)
    last_ones = messages[first:]
    ids = [message.id for message in last_ones]
    earlier = await thread.items_by_id(ids) if ids and head is not None else []
    known_ids = {item.id for item in earlier} | {message.id for message in transcript.messages}
    return [message for message in last_ones if message.id not in known_ids]


def _last_user_message(messages: Sequence[AgUiMessage]) -> str | None:
    return next((message.id for message in reversed(messages) if message.role == "user"), None)


async def _plan_answers(db: Database, data: AgUiInput, run_state: RunState, run: Run | None) -> RunPlan:
    """Plan to go on with a run whose interrupts are answered; one that goes on already is followed."""
    answers = data.resume or ()
    questions = [InterruptId.parse(answer.interrupt_id) for answer in answers]
    for question in questions:
        asked_run = await read_run(db, question.run)
        if asked_run is None or asked_run.thread != data.thread_id:
            raise DecisionRefused(thread=data.thread_id, call=question.call, problem="no such call waits")
    is_over = any(question.run != run_state.id for question in questions) or run_state.has_ended
    if is_over or is_at_work(run, db):
        return RunPlan(kind="follow", run=run_state.id if run_state.is_open else None)
    return RunPlan(kind="resume", run=run_state.id, decisions=decisions_of(answers, run_state.calls))


def is_at_work(run: Run | None, db: Database) -> bool:
    """Return whether a process works on a run, as far as anybody knows."""
    return run is not None and run.status == RUNNING and not is_orphaned(run, db.store.now())
