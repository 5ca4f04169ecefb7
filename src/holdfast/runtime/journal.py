"""Where a turn's checkpoints go: to a thread, guarded by its version, or nowhere."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.core.encoding import JSON, plain
from holdfast.core.errors import InvalidArgument, LeaseLost, OutcomeUnknown, RevisionConflict, VersionConflict
from holdfast.core.making import set as put
from holdfast.core.ops import Op
from holdfast.core.values import AppendTo, Changeset, Committed, Exact, Item, Put, Record, Write
from holdfast.runtime import rebasing
from holdfast.runtime.draft import RUN, Draft, RunDelta
from holdfast.runtime.episodes import Episode, rehomed, saved
from holdfast.runtime.events import RUN_FINISHED
from holdfast.runtime.runs import KIND, RUNNING, Ending, Run, meta_of, record_of, run_of, status_after
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread


class Journal(Protocol):
    """Makes a turn's changes durable."""

    run: Run
    thread: Thread | None
    episode: Episode | None

    def notice(self, *, candidates: Sequence[JSON] = (), crisis: int = 0) -> None:
        """Keep with the episode what a turn noticed, when the turn ends."""
        ...

    async def commit(self, draft: Draft, reason: str, ending: Ending | None = None) -> Changeset | None:
        """Commit what changed since the last time; None if that is nothing and the run goes on."""
        ...

    async def append(self, change: Changeset) -> Changeset:
        """Commit a changeset that has nothing of the draft."""
        ...


class Nowhere:
    """The journal of a turn that keeps nothing beyond its end."""

    def __init__(self, run: Run, logs: dict[str, list[Item]]) -> None:
        self.run = run
        self.thread: Thread | None = None
        self.episode: Episode | None = None
        self._logs = logs
        self._version = 0

    def notice(self, *, candidates: Sequence[JSON] = (), crisis: int = 0) -> None:
        """Nothing is kept."""

    async def commit(self, draft: Draft, reason: str, ending: Ending | None = None) -> Changeset | None:
        """Take what changed as kept."""
        delta = draft.take_delta(final=ending is not None)
        if not delta and ending is None:
            return None
        draft.committed(delta)
        for item in delta.items:
            self._logs.setdefault(item.log, []).append(item)
        self._version += 1
        change = _changeset(self.run, delta, reason, ending, ())
        return msgspec.structs.replace(change, version=self._version)

    async def append(self, change: Changeset) -> Changeset:
        """Nothing is kept, so there is nothing to change."""
        raise InvalidArgument(problem="This turn keeps nothing; there is no thread to change.")

    async def read(self, log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        """The newest items of a log; nothing of it is ever hidden."""
        items = self._logs.get(log, [])
        return items if count is None else items[max(len(items) - count, 0) :]


class ThreadJournal:
    """The journal of a run on a thread. A commit stands at the version it expects, or not at all."""

    def __init__(
        self, db: Database, run: Run, *, version: int, owner: str | None, clock: Callable[[], int]
    ) -> None:
        self.run = run
        self.version = version
        self.output: dict[str, JSON] | None = None
        self.episode: Episode | None = None
        self._noticed: Write | None = None
        self._told = run.usage
        self._clock = clock
        self._db = db
        self._thread = db.thread(run.thread)
        self.thread: Thread | None = self._thread
        self._owner = owner

    async def commit(self, draft: Draft, reason: str, ending: Ending | None = None) -> Changeset | None:
        """Commit what changed since the last time; what fails stays in the draft.

        Raises:
            LeaseLost: Another run has taken the thread over.
            StateConflict: Somebody changed what this run changes, and the order matters.
        """
        while True:
            delta = draft.take_delta(final=ending is not None)
            if not delta and ending is None:
                return None
            change = _changeset(self.run, delta, reason, ending, self._marks(ending))
            try:
                done = await self._committed(change, ending)
            except VersionConflict:
                self.version = await rebasing.rebase(self._thread, self.run, draft, delta, self.version)
                continue
            except RevisionConflict as conflict:
                if conflict.kind == KIND:
                    await self._check_held()
                else:
                    self._noticed = await rehomed(self._db, self.episode) if self.episode else None
                continue
            draft.committed(delta)
            self._told = self.run.usage
            return done

    def _marks(self, ending: Ending | None) -> tuple[Op, ...]:
        """What the state says of the run: how it ended, or what it has cost so far."""
        if ending is not None:
            return _closing(ending)
        return () if self.run.usage == self._told else (put([RUN, "usage"], plain(self.run.usage)),)

    async def append(self, change: Changeset) -> Changeset:
        """Commit a changeset of this run that has nothing of the draft, such as a compaction.

        Raises:
            VersionConflict: Somebody wrote meanwhile; nothing was changed.
        """
        own = msgspec.structs.replace(change, run_id=self.run.id, parent_run_id=self.run.parent)
        return await self._committed(own, None)

    async def _committed(self, change: Changeset, ending: Ending | None) -> Changeset:
        writes: list[Write] = [
            AppendTo(thread=self.run.thread, change=change, expect=Exact(self.version)),
            *self._ended(ending),
        ]
        try:
            results = await self._db.commit(writes)
        except OutcomeUnknown:
            landed = await self._thread.changesets(after=self.version, limit=1)
            if not landed or landed[0].run_id != self.run.id:
                raise
            self.version = landed[0].version
            return landed[0]
        done = results[0]
        assert isinstance(done, Committed)
        self.version = done.version
        return msgspec.structs.replace(change, version=done.version, time=done.time, hash=done.hash)

    def notice(self, *, candidates: Sequence[JSON] = (), crisis: int = 0) -> None:
        """Keep with the episode what a turn noticed, when the turn ends."""
        if self.episode is None:
            return
        self.episode = msgspec.structs.replace(
            self.episode,
            candidates=(*self.episode.candidates, *candidates),
            crisis=max(self.episode.crisis, crisis),
        )
        self._noticed = saved(self.episode, self._owner)

    async def _check_held(self) -> None:
        """Take in what was written on the run's record, if it is still ours.

        Raises:
            LeaseLost: Somebody else has closed the run or gone on with it.
        """
        epoch = self.run.epoch
        run = await self.reread()
        if run.status != RUNNING or run.epoch != epoch:
            raise LeaseLost(thread=run.thread, run=run.id)

    def _ended(self, ending: Ending | None) -> Sequence[Write]:
        if ending is None:
            return ()
        output = None if self.output is None else {**self.output, "version": self.version + 1}
        run = msgspec.structs.replace(ended(self.run, ending, self._clock()), output=output)
        own = Put(record=record_of(run, self._owner), expect=self.run.revision)
        return [own] if self._noticed is None else [own, self._noticed]

    async def renew(self, until: int) -> Run:
        """Hold the thread for longer.

        Raises:
            RevisionConflict: Somebody else has ended this run.
        """
        longer = msgspec.structs.replace(self.run, until=until)
        saved: Record = await self._db.records.put(record_of(longer, self._owner), expect=self.run.revision)
        self.run = msgspec.structs.replace(longer, revision=saved.revision)
        return self.run

    async def reread(self) -> Run:
        """The run as it is recorded now; what it has cost so far is only known here."""
        found = run_of(await self._db.records.get(KIND, self.run.id))
        self.run = msgspec.structs.replace(found, usage=self.run.usage)
        return self.run


def ended(run: Run, ending: Ending, now: int) -> Run:
    """A run with its end."""
    return msgspec.structs.replace(
        run,
        status=status_after(ending),
        termination=ending.termination,
        problem=ending.problem,
        ended=now,
        until=0,
    )


def _closing(ending: Ending) -> tuple[Op, ...]:
    """What the state says of a run that ends."""
    return (put([RUN, "status"], status_after(ending)),)


def _changeset(
    run: Run, delta: RunDelta, reason: str, ending: Ending | None, more: Sequence[Op]
) -> Changeset:
    return Changeset(
        items=delta.items,
        patches=(*delta.patches, *more),
        state_actions=delta.actions,
        reason=reason,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_of(run, ending) if reason == RUN_FINISHED else None,
    )
