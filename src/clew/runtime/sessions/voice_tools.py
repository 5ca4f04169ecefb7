"""Tools that a realtime model calls during a call: each runs once, with its intent on record first.

A call has a row of its own, under its id. It says that the call is about to be made, and then what it gave.
So a client may ask again after anything: what was answered is answered alike, and a call that may have had
its effect is made again only where its tool allows it.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import NotFound, RecordNotFound, RevisionConflict, StoreDamaged
from clew.core.values import AppendTo, Changeset, Put, Record, Write
from clew.database.database import Database
from clew.runtime.execution.start import log_reader
from clew.runtime.model.protocol import ToolCall
from clew.runtime.records.events import TOOL_RESULTS
from clew.runtime.state.call_state import IN_DOUBT as DOUBTFUL
from clew.runtime.state.call_state import CallState
from clew.runtime.state.schema import Schema
from clew.runtime.tools.parallel import fold_changes
from clew.runtime.tools.tool import Tool, ToolContext
from clew.runtime.tools.toolbox import CallResult, check_call, check_earlier_call, make_call
from clew.runtime.turn.draft import Draft

VOICE_CALL = "voice call"
SECONDS = 30
NEEDS_A_PERSON = "A person has to agree to this first, in writing. It was not done."
IN_DOUBT = "It may have been done already, and nobody knows. It was not done again."
AT_WORK = "It is being done."


class VoiceCallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a call."""

    tool: str
    status: Literal["intended", "done"]
    output: JSON = None


async def call_tool(
    db: Database,
    tools: Sequence[Tool],
    schema: Schema,
    thread: str,
    call: ToolCall,
    *,
    user: str | None = None,
) -> JSON:
    """Run a call and return its output; a repeated call has the same output. An error is returned as one."""
    checked_call = check_call({tool.name: tool for tool in reversed(tools)}, call)
    if isinstance(checked_call, str):
        return {"error": checked_call}
    tool, arguments = checked_call
    if tool.needs_approval(arguments):
        return {"error": NEEDS_A_PERSON}
    id = _record_id(thread, call)
    record = await _earlier_record(db, id)
    if record is not None and record.status == "done":
        return record.output
    draft = await _draft(db, schema, thread)
    state = draft.view(call.id)
    context = ToolContext(thread=thread, run=id, call=call.id, key=id, user=user, state=state)
    call_state, result = CallState(key=id), None
    if record is not None:
        result = await check_earlier_call(tool, call, call_state, context, SECONDS)
    elif not await _record_intent(db, context, call):
        return {"error": AT_WORK}
    if result is None:
        result = await make_call(tool, call, arguments, call_state, context, SECONDS)
    if result.waiting is not None:
        return {"error": _refusal(result.waiting)}
    if result.error is None:
        await _store_result(db, context, draft, result)
    return result.output


def _refusal(waiting: CallState) -> str:
    """Return the answer for a call that would wait for a person, whom a voice call cannot ask."""
    return IN_DOUBT if waiting.why == DOUBTFUL else f"A person has to answer first: {waiting.question}"


async def _record_intent(db: Database, context: ToolContext, call: ToolCall) -> bool:
    """Record that a call is about to be made; return False if another request makes it."""
    try:
        await db.records.put(_record(db, context, call, "intended"), expect=0)
    except RevisionConflict:
        return False
    return True


async def _store_result(db: Database, context: ToolContext, draft: Draft, result: CallResult) -> None:
    """Keep what the call gave, and what it changes of the state, in one commit: neither comes twice."""
    writes: list[Write] = [Put(record=_record(db, context, result.call, "done", result.output))]
    if result.delta:
        fold_changes(draft, context.run, [(result.call, result.delta)])
        changeset = Changeset(patches=draft.take_delta(final=True).patches, reason=TOOL_RESULTS)
        writes.append(AppendTo(thread=context.thread, change=changeset))
    await db.commit(writes)


def _record(
    db: Database,
    context: ToolContext,
    call: ToolCall,
    status: Literal["intended", "done"],
    output: JSON = None,
) -> Record:
    return Record(
        kind=VOICE_CALL,
        id=context.key,
        owner=context.user,
        tags=(f"thread:{context.thread}",),
        sort=db.store.now(),
        body=as_json(VoiceCallRecord(tool=call.name, status=status, output=output)),
    )


async def _earlier_record(db: Database, id: str) -> VoiceCallRecord | None:
    try:
        record = await db.records.get(VOICE_CALL, id)
    except RecordNotFound:
        return None
    try:
        return msgspec.convert(record.body, VoiceCallRecord)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"voice call {record.id!r}", problem=str(error)) from error


async def _draft(db: Database, schema: Schema, id: str) -> Draft:
    """The state of the thread as it is now; an empty one if the thread has not begun."""
    thread = db.thread(id)
    try:
        head = await thread.head()
    except NotFound:
        return Draft(schema, {}, {}, {}, log_reader(thread))
    return Draft(schema, dict(head.state), head.counters.logs, {}, log_reader(thread))


def _record_id(thread: str, call: ToolCall) -> str:
    """The id of a call's row, which is its key too: the same whenever it is asked for again."""
    return f"voice-{hashlib.sha256(encode([thread, call.id])).hexdigest()[:24]}"
