"""Tools that a realtime model calls during a call: each runs once, with its intent on record first.

A call has a row of its own, under its id. It says that the call is about to be made, and then what it gave.
So a client may ask again after anything: what was answered is answered alike, and a call that may have had
its effect is made again only where its tool allows it.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import NotFound, RecordNotFound, RevisionConflict, StoreDamaged
from clew.core.values import AppendTo, Changeset, Put, Record, Write
from clew.database.database import Database
from clew.runtime.execution.start import log_reader
from clew.runtime.records.events import TOOL_RESULTS
from clew.runtime.state.schema import Schema
from clew.runtime.tools.parallel import ToolChange, fold_changes
from clew.runtime.tools.tool import Effect, NotHappened, Suspend, Tool, ToolContext, ToolOutcome
from clew.runtime.turn.draft import Draft

VOICE_CALL = "voice call"
SECONDS = 30.0
NEEDS_A_PERSON = "A person has to agree to this first, in writing. It was not done."
IN_DOUBT = "It may have been done already, and nobody knows. It was not done again."
AT_WORK = "It is being done."


class VoiceToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a realtime model asks for."""

    thread: str
    id: str
    name: str
    arguments: JSON = None
    user: str | None = None


class VoiceCallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a call."""

    tool: str
    status: Literal["intended", "done"]
    output: JSON = None


async def call_tool(db: Database, tools: Sequence[Tool], schema: Schema, request: VoiceToolRequest) -> JSON:
    """Run a call and return its output; a repeated call has the same output. An error is returned as one."""
    tool = next((each for each in tools if each.name == request.name), None)
    if tool is None:
        names = ", ".join(sorted(each.name for each in tools)) or "none"
        return {"error": f"There is no tool {request.name!r}. Known: {names}."}
    try:
        arguments = tool.check_arguments({} if request.arguments is None else request.arguments)
    except msgspec.ValidationError as error:
        return {"error": f"The arguments do not fit: {error}"}
    if tool.needs_approval(arguments):
        return {"error": NEEDS_A_PERSON}
    record = await _earlier_record(db, request)
    if record is not None and record.status == "done":
        return record.output
    call = _VoiceToolCall(db, tool, arguments, request, await _draft(db, schema, request))
    return await (call.call_first() if record is None else call.call_again())


class _VoiceToolCall:
    """One call, on the state of the thread as it is now."""

    def __init__(
        self, db: Database, tool: Tool, arguments: Mapping[str, Any], request: VoiceToolRequest, draft: Draft
    ) -> None:
        self._db = db
        self._tool = tool
        self._arguments = arguments
        self._request = request
        self._draft = draft
        id = _record_id(request)
        self._context = ToolContext(
            thread=request.thread,
            run=id,
            call=request.id,
            key=id,
            user=request.user,
            state=draft.view(request.id),
        )

    async def call_first(self) -> JSON:
        """Make it for the first time, once its intent is on record."""
        try:
            await self._db.records.put(self._record("intended"), expect=0)
        except RevisionConflict:
            return {"error": AT_WORK}
        return await self._call_tool()

    async def call_again(self) -> JSON:
        """Go on with a call that may have had its effect: as its tool allows."""
        if self._tool.effect is Effect.UNKNOWN:
            return {"error": IN_DOUBT}
        if self._tool.effect is Effect.CHECKABLE:
            output = await self._tool.run_check(self._context)
            if not isinstance(output, NotHappened):
                return await self._store_outcome(ToolOutcome(output=output))
        return await self._call_tool()

    async def _call_tool(self) -> JSON:
        try:
            async with asyncio.timeout(SECONDS):
                outcome = await self._tool.call(self._arguments, self._context)
        except Suspend as suspension:
            return {"error": f"A person has to answer first: {suspension.question}"}
        except TimeoutError:
            return {"error": f"It took longer than {SECONDS:.0f} s."}
        except Exception as error:  # noqa: BLE001  # a tool is not ours; the model gets the error, and nothing is hidden
            return {"error": f"{type(error).__name__}: {error}"}
        return await self._store_outcome(outcome)

    async def _store_outcome(self, outcome: ToolOutcome) -> JSON:
        """Keep what the call gave, and what it changes of the state, in one commit: neither comes twice."""
        request = self._request
        writes: list[Write] = [Put(record=self._record("done", outcome.output))]
        if outcome.delta:
            change = ToolChange(
                tool=request.name, call=request.id, run=self._context.run, delta=outcome.delta
            )
            fold_changes(self._draft, [change])
            patches = self._draft.take_delta(final=True).patches
            changeset = Changeset(patches=patches, reason=TOOL_RESULTS)
            writes.append(AppendTo(thread=request.thread, change=changeset))
        await self._db.commit(writes)
        return outcome.output

    def _record(self, status: Literal["intended", "done"], output: JSON = None) -> Record:
        request = self._request
        return Record(
            kind=VOICE_CALL,
            id=self._context.key,
            owner=request.user,
            tags=(f"thread:{request.thread}",),
            sort=self._db.store.now(),
            body=as_json(VoiceCallRecord(tool=request.name, status=status, output=output)),
        )


async def _earlier_record(db: Database, request: VoiceToolRequest) -> VoiceCallRecord | None:
    try:
        record = await db.records.get(VOICE_CALL, _record_id(request))
    except RecordNotFound:
        return None
    try:
        return msgspec.convert(record.body, VoiceCallRecord)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"voice call {record.id!r}", problem=str(error)) from error


async def _draft(db: Database, schema: Schema, request: VoiceToolRequest) -> Draft:
    """The state of the thread as it is now; an empty one if the thread has not begun."""
    thread = db.thread(request.thread)
    try:
        head = await thread.head()
    except NotFound:
        return Draft(schema, {}, {}, {}, log_reader(thread))
    return Draft(schema, dict(head.state), head.counters.logs, {}, log_reader(thread))


def _record_id(request: VoiceToolRequest) -> str:
    """The id of a call's row, which is its key too: the same whenever it is asked for again."""
    return f"voice-{hashlib.sha256(encode([request.thread, request.id])).hexdigest()[:24]}"
