"""The lease of a thread: which run may write it, until when, and which run is next.

The lease is a record of its own, and its revision is the fence: what a run writes is committed only while the
record is at the revision that the run knows. A run that was stopped for too long finds it moved.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from clew.adapters.langgraph.layout import digest
from clew.core.clock import now_ms
from clew.core.errors import LeaseLost, RecordNotFound, RevisionConflict, TurnBusy
from clew.core.values import Drop, Record, Require
from clew.database.database import Database

LEASE_KIND: Final = "langgraph.lease"
FIRST_POLL_SECONDS: Final = 0.01
LAST_POLL_SECONDS: Final = 0.04
PATIENCE_MS: Final = 100
"""After how long a run that waits asks to be the next. Those that take turns quickly need not ask."""
PLACE_MS: Final = 1000
"""For how long the run that waits first keeps its place without saying so again."""


class LeaseState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread's lease as it was last read: its run until a time, and the run that waits first."""

    revision: int = 0
    run: str = ""
    until: int = 0
    next: str = ""
    next_until: int = 0

    def is_held(self, now: int) -> bool:
        """Return whether a run has the thread now."""
        return bool(self.run) and self.until > now

    def is_promised(self, run: str, now: int) -> bool:
        """Return whether another run than this one waits first."""
        return self.next not in ("", run) and self.next_until > now


class LeaseName(msgspec.Struct, frozen=True):
    """The thread of a lease, and the thread's owner: people never meet in one another's leases."""

    thread: str
    owner: str | None

    @property
    def id(self) -> str:
        """The id of the lease's record."""
        return digest(self.thread) if self.owner is None else digest(self.thread, self.owner)

    def drop(self) -> Drop:
        """The write that removes the lease of a thread that is deleted."""
        return Drop(kind=LEASE_KIND, id=self.id)

    def requirement(self, revision: int) -> Require:
        """The write that lets a commit through only if the lease has not moved."""
        return Require(kind=LEASE_KIND, id=self.id, expect=revision)


class ThreadLeases:
    """The leases of threads, taken and given back. What is known of them may be out of date."""

    def __init__(self, seconds: float, clock: Callable[[], int] = now_ms) -> None:
        self.seconds = seconds
        self._lease_ms = int(seconds * 1000)
        self._clock = clock
        self._states: dict[LeaseName, LeaseState] = {}
        self._releases: dict[LeaseName, asyncio.Event] = {}

    async def try_take(self, db: Database, name: LeaseName, run: str) -> LeaseState | None:
        """The lease, if no other run has it."""
        state = self._states.get(name)
        if state is None or state.is_held(self._clock()):
            state = await self.read(db, name)
        while not state.is_held(self._clock()):
            if taken := await self._write(db, name, self._held_by(run, state)):
                return taken
            state = await self.read(db, name)
        return None

    async def take(self, db: Database, name: LeaseName, run: str, seconds: float) -> LeaseState:
        """The lease, after those that had it or waited for it before.

        Raises:
            TurnBusy: Another run has it still after so many seconds.
        """
        began, pause = self._clock(), FIRST_POLL_SECONDS
        state = self._states.get(name) or await self.read(db, name)
        while True:
            now = self._clock()
            if not state.is_held(now) and not state.is_promised(run, now):
                if taken := await self._write(db, name, self._held_by(run, state)):
                    return taken
            elif now - began >= seconds * 1000:
                raise self.busy(name)
            else:
                if now - began >= PATIENCE_MS:
                    await self._keep_place(db, name, state, run)
                await self._wait_for_release(name, pause)
                pause = min(pause * 1.5, LAST_POLL_SECONDS)
            state = await self.read(db, name)

    def busy(self, name: LeaseName) -> TurnBusy:
        """The error that names the run which has the thread."""
        state = self._states.get(name, LeaseState())
        return TurnBusy(thread=name.thread, run=state.run, retry_after_ms=max(state.until - self._clock(), 0))

    async def renew(self, db: Database, name: LeaseName, run: str) -> LeaseState:
        """The lease, for as long again.

        Raises:
            LeaseLost: Another run has taken it since.
        """
        state = self._states.get(name) or await self.read(db, name)
        while state.run == run:
            until = self._clock() + self._lease_ms
            if renewed := await self._write(db, name, msgspec.structs.replace(state, until=until)):
                return renewed
            state = await self.read(db, name)
        raise LeaseLost(thread=name.thread, run=run)

    async def release(self, db: Database, name: LeaseName, run: str) -> None:
        """Give the lease back, unless another run has taken it."""
        state = self._states.get(name) or await self.read(db, name)
        while state.run == run and not await self._write(
            db, name, msgspec.structs.replace(state, run="", until=0)
        ):
            state = await self.read(db, name)
        if (released := self._releases.pop(name, None)) is not None:
            released.set()

    async def read(self, db: Database, name: LeaseName) -> LeaseState:
        """The lease as it is now."""
        try:
            record = await db.records.get(LEASE_KIND, name.id)
        except RecordNotFound:
            self._states.pop(name, None)
            return LeaseState()
        state = self._states[name] = _state_of(record)
        return state

    def is_busy(self, state: LeaseState) -> bool:
        """Return whether a run has the thread now."""
        return state.is_held(self._clock())

    def forget(self, name: LeaseName) -> None:
        """Look again next time."""
        self._states.pop(name, None)

    def _held_by(self, run: str, state: LeaseState) -> LeaseState:
        """The lease with a new run; whoever else waits says so again."""
        return LeaseState(revision=state.revision, run=run, until=self._clock() + self._lease_ms)

    async def _keep_place(self, db: Database, name: LeaseName, state: LeaseState, run: str) -> None:
        """Be the run that waits first, if none is; without it a busy process would never let go."""
        now = self._clock()
        is_kept = state.next == run and state.next_until > now + PLACE_MS // 2
        if not is_kept and not state.is_promised(run, now):
            await self._write(db, name, msgspec.structs.replace(state, next=run, next_until=now + PLACE_MS))

    async def _write(self, db: Database, name: LeaseName, state: LeaseState) -> LeaseState | None:
        """The lease after a write, or None if it was no longer at its revision."""
        body = msgspec.to_builtins(msgspec.structs.replace(state, revision=0))
        record = Record(kind=LEASE_KIND, id=name.id, body={"thread": name.thread, **body}, owner=name.owner)
        try:
            new_state = self._states[name] = _state_of(await db.records.put(record, expect=state.revision))
        except RevisionConflict:
            self._states.pop(name, None)
            return None
        return new_state

    async def _wait_for_release(self, name: LeaseName, seconds: float) -> None:
        """Wait a moment, or until a run of this process gives the lease back."""
        released = self._releases.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(released.wait(), seconds)


def _state_of(record: Record) -> LeaseState:
    state = msgspec.convert(record.body, LeaseState)
    return msgspec.structs.replace(state, revision=record.revision)
