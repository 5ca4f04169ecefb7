"""Journals: make the checkpoints of a turn durable on a thread, guarded by its version, or drop them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import msgspec

from clew.core.clock import now_ms
from clew.core.encoding import JSON, as_json
from clew.core.errors import InvalidArgument, LeaseLost, OutcomeUnknown, RevisionConflict, VersionConflict
from clew.core.ops import Op
from clew.core.values import (
    AppendTo,
    Changeset,
    Committed,
    Exact,
    Head,
    Item,
    Put,
    Record,
    Write,
    WriteResult,
)
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.attempts import Attempts
from clew.runtime.records.episodes import Episode, episode_of, episode_write, late_episode_write
from clew.runtime.records.events import RUN_FINISHED
from clew.runtime.records.runs import (
    KIND,
    RUNNING,
    Ending,
    Run,
    meta_of,
    record_of,
    run_of,
    run_with_ending,
)
from clew.runtime.records.steps import meta_with_steps
from clew.runtime.records.turn_records import PendingRecords, TurnRecord, stored_record
from clew.runtime.state.run_state import ending_ops, usage_op
from clew.runtime.telemetry.scope import current_scope
from clew.runtime.turn import rebase
from clew.runtime.turn.draft import Draft, RunDelta


class Journal(ABC):
    """Takes what a turn changes, and makes it durable as far as the turn stores anything."""

    db: Database | None = None
    thread: Thread | None = None

    def __init__(self, run: Run, *, owner: str | None, clock: Callable[[], int]) -> None:
        self.run = run
        self.episode: Episode | None = None
        self._owner = owner
        self._clock = clock
        self._records: list[Record] = []
        self._record_count = 0

    @property
    def owner(self) -> str | None:
        """The owner of what it writes."""
        return self._owner

    @abstractmethod
    def update_episode(self, *, candidates: Sequence[JSON] = (), level: int = 0) -> None:
        """Keep with the episode what a turn noticed, with the next commit."""

    def add_record(self, record: TurnRecord) -> None:
        """Write a record with the next commit, and its level with the episode."""
        episode = self.episode.id if self.episode is not None else None
        self._record_count += 1
        self._records.append(
            stored_record(
                record,
                self.run,
                self._record_count,
                episode=episode,
                owner=self._owner,
                now=self._clock(),
            )
        )
        if record.level:
            self.update_episode(level=record.level)

    def pending_records(self) -> Sequence[Record]:
        """Return the records that no commit has taken yet."""
        return tuple(self._records)

    @abstractmethod
    async def commit(self, draft: Draft, reason: str, ending: Ending | None = None) -> Sequence[Changeset]:
        """Commit what changed since the last time; nothing if that is nothing and the run goes on."""

    @abstractmethod
    async def append(self, change: Changeset) -> Changeset:
        """Commit a changeset that has nothing of the draft."""

    def _changesets(self, draft: Draft, delta: RunDelta, ending: Ending | None) -> list[Changeset]:
        """Return the changeset of a delta, after that of a checkpoint which the draft deferred, if it did.

        They stay two, so that the log and its events are the same as without the deferral.
        """
        deferred = draft.deferred_checkpoint
        if deferred is None:
            return [_changeset(self.run, delta, ending, self._run_patches(ending, draft))]
        return [
            _changeset(self.run, deferred, None, self._run_patches(None, draft)),
            _changeset(self.run, delta.after(deferred), ending, self._run_patches(ending, draft)),
        ]

    def _run_patches(self, ending: Ending | None, draft: Draft) -> tuple[Op, ...]:
        """Return the ops on the state of the run; none where no other process can ever take it over."""
        return ()


class TransientJournal(Journal):
    """The journal of a turn that stores nothing beyond its end; its caller writes the records."""

    def __init__(self, run: Run, logs: dict[str, list[Item]], *, clock: Callable[[], int] = now_ms) -> None:
        super().__init__(run, owner=run.user, clock=clock)
        self._logs = logs
        self._version = 0

    def update_episode(self, *, candidates: Sequence[JSON] = (), level: int = 0) -> None:
        """Do nothing: there is no episode to keep it with."""

    async def commit(self, draft: Draft, reason: str, ending: Ending | None = None) -> Sequence[Changeset]:
        """Treat what changed as committed."""
        delta = draft.take_delta(reason, final=ending is not None)
        if not delta and ending is None:
            return ()
        changes = self._changesets(draft, delta, ending)  # before the deferred checkpoint is forgotten
        draft.confirm_delta(delta)
        for item in delta.items:
            self._logs.setdefault(item.log, []).append(item)
        first, self._version = self._version + 1, self._version + len(changes)
        return [
            msgspec.structs.replace(change, version=version) for version, change in enumerate(changes, first)
        ]

    async def append(self, change: Changeset) -> Changeset:
        """Refuse: without a thread there is nothing to change."""
        raise InvalidArgument(problem="This turn stores nothing, so there is no thread to change.")

    async def read(self, log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        """Return the newest items of a log; nothing of it is ever hidden."""
        items = self._logs.get(log, [])
        return items if count is None else items[max(len(items) - count, 0) :]


class ThreadJournal(Journal):
    """The journal of a run on a thread.

    A commit expects the exact version after the last one. That, and no lock, keeps a run that was overtaken
    from writing: see ``docs/decisions/0009-runs-leases-and-episodes.md``.
    """

    def __init__(
        self,
        db: Database,
        run: Run,
        *,
        version: int,
        owner: str | None,
        clock: Callable[[], int],
    ) -> None:
        super().__init__(run, owner=owner, clock=clock)
        self.db: Database = db
        self.thread: Thread = db.thread(run.thread)
        self.version = version
        self.output: dict[str, JSON] | None = None
        self.head: Head | None = None
        self._episode_write: Write | None = None
        self._stored_usage = run.usage
        self._db, self._thread = db, self.thread

    async def commit(self, draft: Draft, reason: str, ending: Ending | None = None) -> Sequence[Changeset]:
        """Commit what changed since the last time; what fails stays in the draft.

        A checkpoint that the draft deferred comes before this one, in the same transaction.

        Raises:
            LeaseLost: Another run has taken the thread over.
            StateConflict: Another writer changed what this run changes, and the order matters.
            RevisionConflict: Others changed the record of the run or of its episode again and again.
        """
        attempts = Attempts()
        while True:
            delta = draft.take_delta(reason, final=ending is not None)
            if not delta and ending is None:
                return ()
            changes = self._changesets(draft, delta, ending)
            try:
                result = await self._commit_changes(changes, ending, self._episode_write)
            except VersionConflict:
                # Not counted as an attempt: each conflict means that another commit went through. The rebase
                # ends this loop if it was a run that took the thread.
                self.version = await rebase.rebase_draft(self._thread, self.run, draft, delta, self.version)
                continue
            except RevisionConflict as conflict:
                attempts.count(conflict)
                if conflict.kind == KIND:
                    await self._check_lease()  # renewed, marked as awaited or asked to cancel: still ours
                else:
                    # The episode was touched or ended. That must not cost the answer; what the turn noticed
                    # goes to the episode wherever its row is now.
                    self._episode_write = (
                        await late_episode_write(self._db, self.episode) if self.episode else None
                    )
                continue
            # Only now: a delta that was not committed has to be in the next one.
            draft.confirm_delta(delta, result)
            self._stored_usage = self.run.usage
            return result

    def _run_patches(self, ending: Ending | None, draft: Draft) -> tuple[Op, ...]:
        """Return the ops on the state of the run: its ending, or its cost so far.

        The cost goes to the state because the record of the run is written only at its start and its end: a
        process that takes the run over reads here what was paid before.
        """
        if ending is not None:
            return ending_ops(ending, stores_turn_fields=draft.stores_turn_fields)
        return () if self.run.usage == self._stored_usage else (usage_op(self.run.usage),)

    async def append(self, change: Changeset) -> Changeset:
        """Commit a changeset of this run that has nothing of the draft, such as a compaction.

        Raises:
            VersionConflict: Another writer was faster; nothing was changed.
        """
        own = msgspec.structs.replace(change, run_id=self.run.id, parent_run_id=self.run.parent)
        return (await self._commit_changes([own], None, None))[0]

    async def _commit_changes(
        self, changes: Sequence[Changeset], ending: Ending | None, episode_change: Write | None
    ) -> list[Changeset]:
        record_writes = [Put(record=record) for record in self._records]
        writes: list[Write] = [
            AppendTo(thread=self.run.thread, change=change, expect=Exact(version))
            for version, change in enumerate(changes, start=self.version)
        ]
        self.head = None  # until this commit says otherwise: after a failure nothing is known of the thread
        try:
            end_writes = self._end_writes(ending, self.version + len(changes))
            episode_writes = [] if episode_change is None else [episode_change]
            with current_scope().watch_commit(changes[-1].reason, len(changes)):
                result = await self._db.commit_with_heads(
                    [*writes, *end_writes, *record_writes, *episode_writes]
                )
        except OutcomeUnknown:
            # The connection broke after the commit was sent. Nobody else may write at these versions in the
            # name of this run, so if the first changeset is ours, all of the transaction is there.
            own_changes = await self._thread.changesets(after=self.version, limit=len(changes))
            if not own_changes or own_changes[0].run_id != self.run.id:
                raise
            self.version = own_changes[-1].version
            del self._records[: len(record_writes)]
            return own_changes
        if episode_change is not None:
            self._take_episode(result.results[-1])
        self.head = result.heads.get(self.run.thread)
        self.version += len(changes)
        del self._records[: len(record_writes)]
        # The results of the changesets come first, and those of the other writes after them.
        return [_with_version(*pair) for pair in zip(changes, result.results, strict=False)]

    @property
    def has_stored_episode(self) -> bool:
        """True if there is an episode, and no changes of it that no commit has taken yet."""
        return self.episode is not None and self._episode_write is None

    def update_episode(self, *, candidates: Sequence[JSON] = (), level: int = 0) -> None:
        """Keep with the episode what a turn noticed, with the next commit."""
        if self.episode is None:
            return
        self.episode = msgspec.structs.replace(
            self.episode,
            candidates=(*self.episode.candidates, *candidates),
            level=max(self.episode.level, level),
        )
        self._episode_write = episode_write(self.episode, self._owner)

    def _take_episode(self, row: WriteResult) -> None:
        """Go on from the episode as the store has it now."""
        assert isinstance(row, Record)
        self.episode, self._episode_write = episode_of(row), None

    def hand_over_records(self, pending_records: PendingRecords) -> None:
        """Hand over the records that no commit has taken."""
        pending_records.add(self._db, self.pending_records())

    async def _check_lease(self) -> None:
        """Reload the record of the run, if the run is still ours.

        Raises:
            LeaseLost: Another process has closed the run or resumed it.
        """
        epoch = self.run.epoch
        run = await self.reload_run()
        if run.status != RUNNING or run.epoch != epoch:
            raise LeaseLost(thread=run.thread, run=run.id)

    def _end_writes(self, ending: Ending | None, version: int) -> Sequence[Write]:
        if ending is None:
            return ()
        output = None if self.output is None else {**self.output, "version": version}
        run = msgspec.structs.replace(run_with_ending(self.run, ending, self._clock()), output=output)
        return [Put(record=record_of(run, self._owner), expect=self.run.revision)]

    async def renew_lease(self, until: int) -> Run:
        """Hold the thread for longer.

        Raises:
            RevisionConflict: The record was changed by another process, which may have ended the run.
        """
        run_with_lease = msgspec.structs.replace(self.run, until=until)
        record: Record = await self._db.records.put(
            record_of(run_with_lease, self._owner), expect=self.run.revision
        )
        # Not the run that was written: a model call may have added to its cost meanwhile.
        self.run = msgspec.structs.replace(self.run, until=until, revision=record.revision)
        return self.run

    async def reload_run(self) -> Run:
        """Read the record of the run anew; its cost and its calls in doubt are known only here, and stay."""
        run = run_of(await self._db.records.get(KIND, self.run.id))
        self.run = msgspec.structs.replace(run, usage=self.run.usage, in_doubt=self.run.in_doubt)
        return self.run


def _with_version(change: Changeset, commit: WriteResult) -> Changeset:
    assert isinstance(commit, Committed)
    return msgspec.structs.replace(change, version=commit.version, time=commit.time, hash=commit.hash)


def _changeset(run: Run, delta: RunDelta, ending: Ending | None, run_patches: Sequence[Op]) -> Changeset:
    run_meta = meta_of(run, ending) if delta.reason == RUN_FINISHED else None
    return Changeset(
        items=delta.items,
        patches=(*delta.all_patches, *run_patches),
        state_actions=delta.actions,
        reason=delta.reason,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_with_steps(run_meta, delta.steps),
    )


class EpisodeBuffer:
    """The candidates of the episode that a turn belongs to."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def add(self, candidate: JSON) -> None:
        """Keep a candidate for the end of the session."""
        self._journal.update_episode(candidates=[as_json(candidate)])

    def candidates(self) -> Sequence[JSON]:
        """Return the candidates so far."""
        return self._journal.episode.candidates if self._journal.episode is not None else ()
