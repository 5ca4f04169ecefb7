"""A companion with a gate, as the tests of modes, records and calls let it talk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

import clew
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.errors import StoreUnavailable
from clew.core.log.commit import Plan, Planner
from clew.core.ports import Store
from clew.core.values import Record, RecordQuery, Scope
from clew.database.database import Database
from clew.runtime.execution.safe_reply import gate
from clew.runtime.memory.learn.extraction import remember, user_turns
from clew.runtime.memory.memory import memory_of
from clew.runtime.respond.respond import Stage
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.runtime.state.schema import State, input
from clew.testing.faults import FailingStore

SAFE = "You are not alone. Please call your local emergency number now."
WORDS = "Zanzibar lavender 7431"
"""What a person says, and what must not be found anywhere afterwards."""


class Companion(State):
    message: Annotated[str, input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    crisis: int = 0
    response_text: str = ""
    diagnostics: Annotated[dict[str, Any], clew.merge]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What comes out of every turn."""

    response_text: str
    crisis: int
    diagnostics: dict[str, Any]


INCIDENT = "incident"


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate records of a message: a row that is kept until a date."""

    id: str
    keep_until: int
    level: int
    path: str | None = None
    thread: str
    run: str
    episode: str | None = None
    time: int


@gate
async def look_for_danger(state: Companion, ctx: clew.Context) -> clew.Delta:
    """Take the first digit of a message for its level."""
    level = int(state.message[:1]) if state.message[:1].isdigit() else 0
    if level:
        ctx.turn.record(INCIDENT, {"path": "digits"}, level=level, keep_days=90)
    if level > 1:
        ctx.turn.set_safe_reply(SAFE)
    return {"crisis": level}


async def answer(state: Companion, ctx: clew.Context) -> clew.Delta:
    """Say the safe reply, or something kind."""
    text = ctx.turn.safe_reply_text or "I hear you."
    return {"response_text": text, "history": [clew.Message(role="assistant", content=text)]}


async def learn(state: Companion, ctx: clew.Context) -> None:
    """Remember at once what was stated plainly."""
    assert ctx.turn.db is not None
    memory = memory_of(ctx.turn.db, ctx.turn.thread, ctx.turn.user)
    turns = user_turns(await ctx.turn.db.thread(ctx.turn.thread).items(), ctx.turn.thread)
    await remember(memory, turns, run=ctx.turn.id)


def gated_runtime(
    db: Database,
    *stages: Stage,
    clock: Callable[[], int] | None = None,
    pinned: bool = True,
    finalize_active_sessions_on_close: bool = False,
    **options: Any,
) -> Runtime[Companion, Answer]:
    """A runtime that neither sweeps nor ends anything by itself."""
    config = RuntimeConfig(
        sessions=SessionConfig(finalize_active_sessions_on_close=finalize_active_sessions_on_close),
        leases=LeaseConfig(sweep_seconds=3600),
        clock=clock,
        pinned=pinned,
    )
    pipeline = stages or [look_for_danger, answer]
    return Runtime(db, schema=Companion, stages=pipeline, output=Answer, config=config, **options)


async def incident_log(db: Database) -> list[Incident]:
    """The incidents that are on record."""
    records = await records_of(db, RETAINED_KIND)
    return [
        msgspec.convert({**record.body, "id": record.id, "keep_until": record.sort}, Incident)
        for record in records
    ]


async def records_of(db: Database, kind: str) -> Sequence[Record]:
    """The records of a kind."""
    return await db.records.find(RecordQuery(kind=kind))


class Moody(FailingStore):
    """A store that answers, or does not, as it is told."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, fail_at=1 << 60)
        self.is_down = False
        self.changes_left: int | None = None

    async def change(self, scope: Scope, planning: Planner) -> Plan:
        """The plan that was applied, until its changes are used up."""
        if self.changes_left is not None:
            self.is_down = self.changes_left <= 0
            self.changes_left -= 1
        return await super().change(scope, planning)

    async def _call(self, call: Any, kind: str = "other") -> Any:
        if self.is_down:
            raise StoreUnavailable(problem="it is down")
        return await super()._call(call, kind)


def moody(db: Database) -> tuple[Database, Moody]:
    """A database on the same store, which can be taken down."""
    store = Moody(db.store)
    return Database(store).scope(tenant=db.tenant), store


def file_stats(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Every file below a folder: which it is, how large, when it was written, and what is in it."""
    return {
        str(path): (
            path.stat().st_ino,
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
