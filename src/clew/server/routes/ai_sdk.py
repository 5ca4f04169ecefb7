"""The AI SDK's chat over HTTP: a message answered as a UI message stream, taken up again, and read back."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from litestar import Request, Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from clew.api.ai_sdk import (
    LIST_CHAT_MESSAGES,
    POST_CHAT,
    RESUME_CHAT,
    ChatMessages,
    NewChatRequest,
    UiMessage,
)
from clew.api.events import END_EVENT, PROBLEM_EVENT, StreamEvent
from clew.api.route import IDEMPOTENCY_KEY
from clew.api.turns import NewTurn
from clew.core.encoding import check_id, encode
from clew.core.errors import InvalidArgument, KeyReused, ThreadNotFound
from clew.core.values import Item
from clew.database.thread import Thread, changesets_after
from clew.runtime.execution.start import turn_request
from clew.runtime.records.events import Event, Mark, RunFinished, events_of
from clew.runtime.records.runs import SUSPENDED, Run, run_id_for_key
from clew.runtime.runtime import AFTER_LAST_EVENT
from clew.runtime.state.call_state import Approval
from clew.runtime.state.run_state import RunState
from clew.server.http.callers import Caller, CurrentCaller, ThreadAccess, ThreadId
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Limit, memory_mode
from clew.server.http.paths import check_reachable
from clew.server.http.sse import stream_response
from clew.server.protocols.ai_sdk.chunks import RunChunks
from clew.server.protocols.ai_sdk.facts import facts_of_events
from clew.server.protocols.ai_sdk.messages import read_messages
from clew.server.protocols.ai_sdk.requests import (
    ChatAnswer,
    approval_answers,
    is_edit,
    new_message,
    new_turn,
    turn_key,
)
from clew.server.protocols.run_events import (
    event_of,
    has_stopped,
    is_last,
    mark_before,
    read_run,
    run_events,
)
from clew.server.routes.turns import turn_events
from clew.server.tenants.turn_events import resumable_turn_events

AI_SDK = "ai-sdk"
"""The origin of turns that a chat of the AI SDK asks for."""
UI_STREAM_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
NO_STREAM = ResponseSpec(None, description="Nothing is being answered.")
REPLAY_MS = 60_000
"""How long ago a run may have ended that is replayed all the same.

A page reads the messages and then asks for the stream. The answer of a run that ends in between would stay
half on the page.
"""


@endpoint(POST_CHAT)
async def post_chat(
    data: JSONBody[NewChatRequest], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> Any:
    """Answer the last message of a chat, or go on with what it decides about a call.

    The thread has the history: of the messages only the last one is read. Sent again, it runs once.
    """
    check_reachable(data.id)
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is not None:
        check_id(key, "idempotency key")
    answers = approval_answers(data)
    chunks = _decision_chunks(caller, data, answers) if answers else _turn_chunks(caller, data, key)
    return await stream_response(caller, chunks, peek=True, encode=encode_chunk, headers=UI_STREAM_HEADERS)


@endpoint(RESUME_CHAT, responses={204: NO_STREAM})
async def resume_chat(thread_id: ThreadId, caller: CurrentCaller) -> Any:
    """Send the answer that is being made from its beginning, and go on with it; 204 if there is none.

    A run whose process died is taken up.
    """
    async with caller.thread_access(thread_id) as access:
        run = await _run_to_replay(access, thread_id)
    if run is None:
        return Response(None, status_code=204)
    return await stream_response(
        caller,
        _replay_chunks(caller, thread_id, run),
        peek=False,
        closing=caller.resources.closing,
        encode=encode_chunk,
        headers=UI_STREAM_HEADERS,
    )


@endpoint(LIST_CHAT_MESSAGES)
async def list_chat_messages(thread_id: ThreadId, caller: CurrentCaller, limit: Limit = 50) -> ChatMessages:
    """List the messages of the newest turns; none of a chat that has not begun."""
    messages: list[UiMessage] = []
    with suppress(ThreadNotFound):
        messages = await read_messages(await caller.readable_thread(thread_id), turns=limit)
    return ChatMessages(thread=thread_id, messages=messages)


def encode_chunk(event: StreamEvent) -> bytes:
    """Return a chunk in the format of the UI message stream; a problem is its error, and the last."""
    if event.type == END_EVENT:
        return b"data: [DONE]\n\n"
    if event.type == PROBLEM_EVENT:
        error = {"type": "error", "errorText": event.data.get("detail")}
        return b"data: " + encode(error) + b"\n\ndata: [DONE]\n\n"
    return b"data: " + encode(event.data) + b"\n\n"


async def _chunk_events(
    run: str, events: AsyncIterator[Event], thread: Thread, *, waiting_run: str | None = None
) -> AsyncIterator[StreamEvent]:
    """Iterate over the chunks of a run, as the events of a stream."""
    chunks = RunChunks(run)
    async for fact in facts_of_events(events, thread, waiting_run=waiting_run):
        for chunk in chunks.after(fact):
            yield StreamEvent(type=str(chunk["type"]), data=chunk)


async def _version(access: ThreadAccess, thread: str) -> int:
    try:
        return (await access.db.thread(thread).head()).version
    except ThreadNotFound:
        return 0


# A turn.


async def _turn_chunks(
    caller: Caller, request: NewChatRequest, given_key: str | None
) -> AsyncIterator[StreamEvent]:
    message = new_message(request)
    turn = new_turn(request, message)
    thread, mode = request.id, memory_mode(request.mode)
    async with caller.thread_access(thread, mode=mode, user=request.user, agent=request.agent) as access:
        key = await _prepare_turn(access, request, message, given_key)
        run, version = run_id_for_key(thread, key), await _version(access, thread)
        await _check_key(access, thread, turn, key)

        async def events() -> AsyncIterator[Event]:
            mark: Mark = (version, AFTER_LAST_EVENT)
            async for each in turn_events(caller, thread, turn, key=key, origin=AI_SDK, last_event=None):
                event = event_of(each)
                mark = event.mark or mark
                yield event
                if event.run == run and is_last(event, version):
                    return
            # It waits in a queue, or another process that was sent the same works on it.
            async for event in run_events(caller, access, thread, run, mark, version):
                yield event

        async for chunk in _chunk_events(run, events(), access.db.thread(thread)):
            yield chunk


async def _prepare_turn(
    access: ThreadAccess, request: NewChatRequest, message: UiMessage, given_key: str | None
) -> str:
    """Take back an earlier answer that the new one replaces, and return the key of the turn."""
    if request.trigger == "submit-message" and not is_edit(request):
        return given_key or turn_key(request, message, None)
    item = await _visible_item(access.db.thread(request.id), message.id)
    key = given_key or turn_key(request, message, item.run if item is not None else None)
    if item is not None and await read_run(access.db, run_id_for_key(request.id, key)) is None:
        await _rewind_before(access, request.id, item)
    return key


async def _check_key(access: ThreadAccess, thread: str, turn: NewTurn, key: str) -> None:
    """Refuse a message whose id was used for another, before the answer to that one is sent.

    Raises:
        KeyReused: It was.
    """
    record = await read_run(access.db, run_id_for_key(thread, key))
    if record is None:
        return
    turn_input = access.agent.turn_input(turn, thread, access.user)
    request = turn_request(access.runtime.schema, thread, turn_input, user=access.user)
    if record.key != request.fingerprint():
        raise KeyReused(thread=thread, key=key)


async def _visible_item(thread: Thread, id: str) -> Item | None:
    """Return the item of an id that is in the history now."""
    with suppress(ThreadNotFound):
        for item in reversed(await thread.items_by_id([id])):
            if await thread.items(after=item.place - 1, before=item.place + 1):
                return item
    return None


async def _rewind_before(access: ThreadAccess, thread: str, item: Item) -> None:
    """Take back an item and all that came after it."""
    run = RunState.of(await access.db.thread(thread).state()).id
    if item.run == run:
        await access.runtime.rewind(thread, run, user=access.user)
    else:
        await access.runtime.rewind(thread, to=item.version - 1, user=access.user)


# Decisions.


async def _decision_chunks(
    caller: Caller, request: NewChatRequest, answers: dict[str, ChatAnswer]
) -> AsyncIterator[StreamEvent]:
    thread = request.id
    async with caller.thread_access(thread, user=request.user) as access:
        record = await read_run(access.db, request.messages[-1].id)
        if record is None or record.thread != thread:
            raise InvalidArgument(problem=f"No run of thread {thread!r} made the message that decides.")
        run, version = record.id, await _version(access, thread)
        mark, approvals = await _last_question(access.db.thread(thread), record, answers)
        decisions = {call: answer.decision(approvals.get(call)) for call, answer in answers.items()}
        resumed = access.runtime.stream_resume(thread, decisions, user=access.user)

        async def events() -> AsyncIterator[Event]:
            last_mark = mark
            with caller.resources.user_turns.enter(caller.name):
                async for each in resumable_turn_events(
                    resumed, access.runtime, access.db.thread(thread), access.user, mark
                ):
                    event = event_of(each)
                    last_mark = event.mark or last_mark
                    yield event
                    if event.run == run and is_last(event, version + 1):
                        return
            async for event in run_events(caller, access, thread, run, last_mark, version):
                yield event

        async for chunk in _chunk_events(run, events(), access.db.thread(thread), waiting_run=run):
            yield chunk


async def _last_question(
    thread: Thread, run: Run, answers: dict[str, ChatAnswer]
) -> tuple[Mark, dict[str, Approval]]:
    """Return the mark at which the calls were last waiting, and their questions.

    What comes behind it is what the page has not got yet, also if the same was decided before.
    """
    mark, questions = mark_before(run), dict[str, Approval]()
    async for change in changesets_after(thread, mark[0]):
        for event in events_of(change):
            if event.run != run.id or event.mark is None:
                continue
            if isinstance(event, RunFinished) and event.termination == SUSPENDED:
                approvals = RunState.of(await thread.state(at=event.mark[0])).approvals
                asked = {each.call: each for each in approvals if each.call in answers}
                if asked:
                    mark, questions = event.mark, asked
    return mark, questions


# A stream that is taken up again.


async def _run_to_replay(access: ThreadAccess, thread: str) -> Run | None:
    """Return the run whose answer is being made, or has ended just now."""
    try:
        head = await access.db.thread(thread).head()
    except ThreadNotFound:
        return None
    run = await read_run(access.db, RunState.of(head.state).id)
    if run is None or run.thread != thread:
        return None
    now = access.db.store.now()
    is_open = run.status == "running" or has_stopped(run, now)
    return run if is_open or head.updated > now - REPLAY_MS else None


async def _replay_chunks(caller: Caller, thread: str, run: Run) -> AsyncIterator[StreamEvent]:
    async with caller.thread_access(thread) as access:
        version = await _version(access, thread)
        events = run_events(caller, access, thread, run.id, mark_before(run), version)
        async for chunk in _chunk_events(run.id, events, access.db.thread(thread)):
            yield chunk


AI_SDK_ROUTES = [post_chat, resume_chat, list_chat_messages]
