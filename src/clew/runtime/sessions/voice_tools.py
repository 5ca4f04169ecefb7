"""Tools that a realtime model calls while somebody speaks: each once, with its intent on record first.

A call has a row of its own, under its id. It says that the call is about to be made, and then what it gave.
So a client may ask again after anything: what was answered is answered alike, and a call that may have had
its effect is made again only where its tool allows it.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from clew.core.encoding import JSON, encode, plain
from clew.core.errors import NotThere, RecordNotFound, RevisionConflict, StoreDamaged
from clew.core.values import AppendTo, Changeset, Put, Record, Write
from clew.database.database import Database
from clew.runtime.execution.start import reader
from clew.runtime.records.events import TOOL_RESULTS
from clew.runtime.state.schema import Schema
from clew.runtime.tools.parallel import Change, take_in
from clew.runtime.tools.tool import Effect, Outcome, Suspend, Tool, ToolContext, Unfinished
from clew.runtime.turn.draft import Draft

VOICE_CALL = "voice call"
SECONDS = 30.0
NEEDS_A_PERSON = "A person has to agree to this first, in writing. It was not done."
IN_DOUBT = "It may have been done already, and nobody knows. It was not done again."
AT_WORK = "It is being done."


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a realtime model asks for."""

    thread: str
    id: str
    name: str
    arguments: JSON = None
    user: str | None = None


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is on record of a call."""

    tool: str
    status: Literal["intended", "done"]
    output: JSON = None


async def call_tool(db: Database, tools: Sequence[Tool], schema: Schema, asked: Called) -> JSON:
    """What a call gives; a call that was answered before is answered alike. Whatever goes wrong is told."""
    tool = next((each for each in tools if each.name == asked.name), None)
    if tool is None:
        known = ", ".join(sorted(each.name for each in tools)) or "none"
        return {"error": f"There is no tool {asked.name!r}. Known: {known}."}
    try:
        given = tool.checked({} if asked.arguments is None else asked.arguments)
    except msgspec.ValidationError as error:
        return {"error": f"The arguments do not fit: {error}"}
    if tool.needs_approval(given):
        return {"error": NEEDS_A_PERSON}
    before = await _before(db, asked)
    if before is not None and before.status == "done":
        return before.output
    made = _Call(db, tool, given, asked, await _draft(db, schema, asked))
    return await (made.first() if before is None else made.again())


class _Call:
    """One call, on the state of the thread as it is now."""

    def __init__(
        self, db: Database, tool: Tool, given: Mapping[str, Any], asked: Called, draft: Draft
    ) -> None:
        self._db = db
        self._tool = tool
        self._given = given
        self._asked = asked
        self._draft = draft
        id = _id(asked)
        self._context = ToolContext(
            thread=asked.thread, run=id, call=asked.id, key=id, user=asked.user, state=draft.view(asked.id)
        )

    async def first(self) -> JSON:
        """Make it for the first time, once its intent is on record."""
        try:
            await self._db.records.put(self._row("intended"), expect=0)
        except RevisionConflict:
            return {"error": AT_WORK}
        return await self._made()

    async def again(self) -> JSON:
        """Go on with a call that may have had its effect: as its tool allows."""
        if self._tool.effect is Effect.UNKNOWN:
            return {"error": IN_DOUBT}
        if self._tool.effect is Effect.CHECKABLE:
            found = await self._tool.find(self._context)
            if not isinstance(found, Unfinished):
                return await self._answered(Outcome(output=found))
        return await self._made()

    async def _made(self) -> JSON:
        try:
            async with asyncio.timeout(SECONDS):
                outcome = await self._tool.call(self._given, self._context)
        except Suspend as waits:
            return {"error": f"A person has to answer first: {waits.question}"}
        except TimeoutError:
            return {"error": f"It took longer than {SECONDS:.0f} s."}
        except Exception as error:  # noqa: BLE001  # a tool is not ours; the model is told, and nothing is hidden
            return {"error": f"{type(error).__name__}: {error}"}
        return await self._answered(outcome)

    async def _answered(self, outcome: Outcome) -> JSON:
        """Keep what the call gave, and what it changes of the state, in one commit: neither comes twice."""
        asked = self._asked
        writes: list[Write] = [Put(record=self._row("done", outcome.output))]
        if outcome.delta:
            change = Change(tool=asked.name, call=asked.id, run=self._context.run, delta=outcome.delta)
            take_in(self._draft, [change])
            patches = self._draft.take_delta(final=True).patches
            changed = Changeset(patches=patches, reason=TOOL_RESULTS)
            writes.append(AppendTo(thread=asked.thread, change=changed))
        await self._db.commit(writes)
        return outcome.output

    def _row(self, status: Literal["intended", "done"], output: JSON = None) -> Record:
        asked = self._asked
        return Record(
            kind=VOICE_CALL,
            id=self._context.key,
            owner=asked.user,
            tags=(f"thread:{asked.thread}",),
            sort=self._db.store.now(),
            body=plain(Kept(tool=asked.name, status=status, output=output)),
        )


async def _before(db: Database, asked: Called) -> Kept | None:
    try:
        record = await db.records.get(VOICE_CALL, _id(asked))
    except RecordNotFound:
        return None
    try:
        return msgspec.convert(record.body, Kept)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"voice call {record.id!r}", problem=str(error)) from error


async def _draft(db: Database, schema: Schema, asked: Called) -> Draft:
    """The state of the thread as it is now; an empty one if the thread has not begun."""
    thread = db.thread(asked.thread)
    try:
        head = await thread.head()
    except NotThere:
        return Draft(schema, {}, {}, {}, reader(thread))
    return Draft(schema, dict(head.state), head.counters.logs, {}, reader(thread))


def _id(asked: Called) -> str:
    """The id of a call's row, which is its key too: the same whenever it is asked for again."""
    return f"voice-{hashlib.sha256(encode([asked.thread, asked.id])).hexdigest()[:24]}"
