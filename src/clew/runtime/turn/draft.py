"""The state of a run while it works: what is committed, and what changed since by the deltas of stages."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core import ops
from clew.core.encoding import JSON, as_json
from clew.core.errors import StateInvalid
from clew.core.ops import MISSING, Document, Op
from clew.core.values import HISTORY, Changeset, Item, LogSize
from clew.runtime.records.steps import Step
from clew.runtime.state.log import StateLog
from clew.runtime.state.log_entries import LogCache, LogTails, ReadLog, as_entries, as_item, entry_key
from clew.runtime.state.reducers import fold_ops, value_at
from clew.runtime.state.run_state import RUN_FIELDS, TURN_FIELDS, RunState, call_fields, stage_op
from clew.runtime.state.schema import Field, Fold, Lifecycle, Lifetime, Schema, State

Delta: TypeAlias = Mapping[str, Any]
"""The change that a stage returns: a value for each field that it names."""
RECENT_ITEMS = 64


class RunDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a run that are not committed yet; what a checkpoint takes of them is one changeset.

    ``resume_patches`` only serve a run that is resumed. ``steps`` are committed with whatever changed; they
    are no change by themselves. ``reason`` is that of the checkpoint.
    """

    items: tuple[Item, ...] = ()
    patches: tuple[Op, ...] = ()
    resume_patches: tuple[Op, ...] = ()
    actions: tuple[JSON, ...] = ()
    steps: tuple[Step, ...] = ()
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.items or self.patches or self.resume_patches or self.actions)

    @property
    def all_patches(self) -> tuple[Op, ...]:
        """The patches, those for a resumed run last."""
        return (*self.patches, *self.resume_patches)

    def after(self, earlier: "RunDelta") -> "RunDelta":
        """Return what this has beyond another, which it begins with."""
        return RunDelta(
            items=self.items[len(earlier.items) :],
            patches=self.patches[len(earlier.patches) :],
            resume_patches=self.resume_patches[len(earlier.resume_patches) :],
            actions=self.actions[len(earlier.actions) :],
            steps=self.steps[len(earlier.steps) :],
            reason=self.reason,
        )


class Draft:
    """The state of a schema in the middle of a turn.

    ``state`` is what the store would hold if everything were committed now.
    """

    def __init__(
        self,
        schema: Schema,
        state: Document,
        sizes: Mapping[str, LogSize],
        inputs: Mapping[str, JSON],
        read_log: ReadLog,
        tails: LogTails | None = None,
    ) -> None:
        self.schema = schema
        self.state = state
        self._run_state: tuple[Document, RunState] | None = None
        self.deferred_checkpoint: RunDelta | None = None
        self._pending = RunDelta()
        self._sizes = dict(sizes)
        self._inputs = dict(inputs)
        self._log_cache = LogCache(read_log, tails)
        self._paths_by_prefix = _paths_by_prefix(schema)
        self.stores_turn_fields = value_at(state, TURN_FIELDS) is not MISSING
        # A run that waits or was interrupted is resumed with the fields of its turn. Once it has ended they
        # are as unset as before a first turn, even where a state of that time still holds them.
        self._hides_turn_fields = self.run_state.has_ended
        self._stored_keys: dict[str, list[bytes]] = {}
        self._written_keys: dict[str, list[bytes]] = {}

    @property
    def run_state(self) -> RunState:
        """The run, with what changed since the last commit."""
        if self._run_state is None or self._run_state[0] is not self.state:
            self._run_state = (self.state, RunState.of(self.state))  # no op changes a state in place
        return self._run_state[1]

    # What a stage reads.

    def view(self, call: str | None = None) -> State:
        """Return a copy of the state as the schema declares it; for a tool call with the fields of that."""
        logs = {
            name: self._log_of(field)
            for name, field in self.schema.fields.items()
            if field.fold is Fold.APPEND
        }
        return self.schema.build_state({**self.values(call), **logs})

    def values(self, call: str | None = None) -> dict[str, Any]:
        """Return the plain values of every field but the logs, as far as they were ever set."""
        values: Document = dict(self._inputs)
        paths_by_prefix = self._paths_by_prefix if call is None else _paths_by_prefix(self.schema, call)
        for prefix, paths in paths_by_prefix.items():
            is_hidden = self._hides_turn_fields and prefix == TURN_FIELDS
            subtree = MISSING if is_hidden else value_at(self.state, prefix)
            for path in paths if subtree is not MISSING else ():
                value = value_at(subtree, path)
                if value is not MISSING:
                    _put(values, path, value)
        result: dict[str, Any] = as_json(values)
        return result

    def log(self, name: str) -> StateLog[Any]:
        """Return a log of the schema, with the items that are not committed yet."""
        return self._log_of(self.schema.field(name, "the runtime"))

    def branch(self) -> "Draft":
        """Return another draft on the same state, to see what a delta would change."""
        return Draft(self.schema, self.state, self._sizes, self._inputs, self._log_cache.read)

    def _log_of(self, field: Field) -> StateLog[Any]:
        pending = self._pending_items(field.log)
        size = self._sizes.get(field.log, LogSize())
        whole = field.whole_of is not None

        async def read(count: int | None) -> Sequence[Any]:
            missing = None if count is None else max(count - len(pending), 0)
            before = [] if missing == 0 else await self._log_cache.newest(field.log, missing, whole=whole)
            items = [*before, *pending]
            newest = items if count is None else items[max(len(items) - count, 0) :]
            return as_entries(newest, field)

        return StateLog((size.end if whole else size.length) + len(pending), read)

    def _pending_items(self, log: str) -> list[Item]:
        return [item for item in self._pending.items if item.log == log]

    # What a stage writes.

    async def load_entry_keys(self, delta: Delta | None, run: str) -> None:
        """Read what this run has stored in a log that a delta writes to by its other name.

        A log may have a second name for all of it, visible or not. One entry may be written by both names,
        by another stage than the first time, or once more by a run that was resumed; it is stored once.
        """
        for name in delta if isinstance(delta, Mapping) else ():
            field = self.schema.fields.get(name)
            if field is not None and field.whole_of is not None and field.log not in self._stored_keys:
                items = await self._log_cache.newest(field.log, RECENT_ITEMS)
                self._stored_keys[field.log] = [entry_key(item) for item in items if item.run == run]

    def write(self, by: str, delta: Delta | None, *, run: str | None, call: str | None = None) -> None:
        """Fold a delta in, all of it or nothing.

        Raises:
            StateInvalid: It names a field that is not there or may not be written, or a value does not fit.
        """
        if delta is None:
            return
        if not isinstance(delta, Mapping):
            raise StateInvalid(stage=by, field="", problem=f"it returned {type(delta).__name__}, not a dict")
        written_keys = {log: list(keys) for log, keys in self._written_keys.items()}
        before = (self.state, self._pending, written_keys)
        try:
            # Entries by the name of the visible log come first: by the other name they are present then.
            changes = sorted(self.schema.changes(delta, by), key=lambda change: bool(change[0].whole_of))
            for field, value in changes:
                self._write_field(field, value, by, run, call)
        except BaseException:
            # A delta that fails in its third field must not leave its first two behind.
            self.state, self._pending, self._written_keys = before
            raise

    def _write_field(self, field: Field, value: Any, by: str, run: str | None, call: str | None) -> None:
        if field.lifecycle is Lifecycle.INPUT:
            raise field.error(by, "it is an input, which only the caller sets")
        if field.fold is Fold.APPEND:
            return self._append(field, value, by, run)
        if field.lifetime is Lifetime.CALL and call is None:
            raise field.error(by, "it belongs to a tool call, so only a tool can write it")
        plain_value = field.validate_change(value, by)
        changes = fold_ops(self.state, state_path(field, call), field, plain_value, by)
        if field.is_fresh or not changes:
            return self.patch(*changes)
        return self.patch(*changes, action=_action(by, field, plain_value))

    def _append(self, field: Field, value: Any, by: str, run: str | None) -> None:
        if not isinstance(value, list | tuple):
            raise field.error(by, "a log takes a list of entries to add")
        for entry in value:
            item = as_item(entry, field, by, run)
            if field.whole_of is None or not self._is_present(item):
                self.add([item])

    def _is_present(self, item: Item) -> bool:
        """Return whether this run has put an entry into the log already, and now writes it by its other name.

        Entries are counted, not only looked up: a run may say the same words twice, and means two entries.
        """
        key, written_keys = entry_key(item), self._written_keys.setdefault(item.log, [])
        count = [*self._stored_keys.get(item.log, ()), *map(entry_key, self._pending_items(item.log))].count(
            key
        )
        written_keys.append(key)
        return count >= written_keys.count(key)

    def add(self, items: Sequence[Item]) -> None:
        """Add items to their logs."""
        self._pending = msgspec.structs.replace(self._pending, items=(*self._pending.items, *items))

    def add_step(self, step: Step) -> None:
        """Add a step that ended; it is committed with the next change."""
        self._pending = msgspec.structs.replace(self._pending, steps=(*self._pending.steps, step))

    def patch(self, *patches: Op, action: JSON = None) -> None:
        """Change the stored state by ops."""
        if not patches and action is None:
            return
        self.state = ops.apply_ops(self.state, patches)
        pending = self._pending
        # The end of a run deletes the fields of its turn, so ops on them are stored only if it is resumed.
        lasting = tuple(op for op in patches if op.path[:2] != TURN_FIELDS)
        passing = tuple(op for op in patches if op.path[:2] == TURN_FIELDS)
        self._pending = msgspec.structs.replace(
            pending,
            patches=(*pending.patches, *lasting),
            resume_patches=(*pending.resume_patches, *passing),
            actions=pending.actions if action is None else (*pending.actions, action),
        )

    def enter_stage(self, stage: str) -> None:
        """Enter a stage, so that after a crash no stage before it folds its delta a second time."""
        entry = stage_op(stage)
        self.state = ops.apply_ops(self.state, [entry])
        # Several stages may end without a checkpoint between them; only the last entry is worth storing.
        others = (op for op in self._pending.resume_patches if op.path != entry.path)
        self._pending = msgspec.structs.replace(self._pending, resume_patches=(*others, entry))

    # What goes to the store.

    def take_delta(self, reason: str = "", *, final: bool = False) -> RunDelta:
        """Return what changed since the last commit. It stays here until ``confirm_delta``.

        The fields of the turn, and the stage that comes next, are part of it while the run goes on, so that
        it can be resumed; the final delta of a run leaves them out.
        """
        resume_patches = () if final else self._pending.resume_patches
        return msgspec.structs.replace(self._pending, resume_patches=resume_patches, reason=reason)

    def defer_checkpoint(self, reason: str) -> None:
        """Make what changed so far a checkpoint of its own, which is committed together with the end."""
        self.deferred_checkpoint = self.take_delta(reason, final=True)

    @property
    def has_new_answer(self) -> bool:
        """True if the history got a message of the assistant that no checkpoint has, deferred or not."""
        deferred = self.deferred_checkpoint
        delta = self._pending if deferred is None else self._pending.after(deferred)
        return any(item.log == HISTORY and item.role == "assistant" for item in delta.items)

    def drop_deferred_checkpoint(self) -> None:
        """Let what was deferred be committed as part of the next checkpoint instead."""
        self.deferred_checkpoint = None

    @property
    def tails(self) -> LogTails:
        """The newest items of the logs that were read, as they are after the last commit."""
        return self._log_cache.tails

    def confirm_delta(self, delta: RunDelta, changes: Sequence[Changeset] = ()) -> None:
        """Forget a delta that the store has. What came in while it was committed stays.

        ``changes`` are the changesets that were made of it; without them the logs are read again.
        """
        self.drop_deferred_checkpoint()
        if changes:
            self._log_cache.follow(changes, self._sizes)
        else:
            self._log_cache.clear()
        self._sizes = sizes_after(self._sizes, Changeset(items=delta.items))
        for item in delta.items:
            if item.log in self._stored_keys:
                self._stored_keys[item.log].append(entry_key(item))
        self.stores_turn_fields |= any(op.path[:2] == TURN_FIELDS for op in delta.resume_patches)
        self._pending = self._pending.after(delta)

    def drop_delta(self) -> None:
        """Give up what was not committed but its steps; the stored state is not looked at again."""
        self.drop_deferred_checkpoint()
        self._pending = RunDelta(steps=self._pending.steps)

    def rebase_onto(self, state: Document, sizes: Mapping[str, LogSize]) -> None:
        """Put the same changes on top of another state."""
        self._log_cache.clear()
        self.state = ops.apply_ops(state, self._pending.all_patches)
        self._sizes = dict(sizes)


def sizes_after(sizes: Mapping[str, LogSize], change: Changeset) -> dict[str, LogSize]:
    """Return how far logs reach, and what is visible of them, after one more changeset."""
    after = dict(sizes)
    for item in change.items:
        size = after.get(item.log, LogSize())
        after[item.log] = LogSize(size.end + (not item.place), size.length + 1, size.cuts)
    for cut in change.cuts:
        size = after.get(cut.log, LogSize())
        after[cut.log] = LogSize(size.end, size.length - cut.count, size.cuts + 1)
    return after


def state_path(field: Field, call: str | None = None) -> tuple[str, ...]:
    """Return the path of a field's value in the stored state."""
    return (*state_prefix(field, call), *field.path)


def state_prefix(field: Field, call: str | None = None) -> tuple[str, ...]:
    """Return the path below which the stored state has the fields with the lifetime of this one."""
    if field.is_fresh:
        return TURN_FIELDS
    if field.lifetime is Lifetime.RUN:
        return RUN_FIELDS
    if field.lifetime is Lifetime.CALL:
        return call_fields(call or "")
    return ()


def _paths_by_prefix(schema: Schema, call: str | None = None) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the paths of all fields but the logs, by the path that they are below."""
    paths: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for leaf in schema.leaves:
        if leaf.fold is not Fold.APPEND:
            paths.setdefault(state_prefix(leaf, call), []).append(leaf.path)
    return paths


def _put(values: Document, path: tuple[str, ...], value: JSON) -> None:
    """Put a value at a path, and create the objects on the way."""
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _action(by: str, field: Field, value: JSON) -> JSON:
    action = {"by": by, "field": field.name, "action": field.fold.value}
    return {**action, "with": value} if field.fold is Fold.CUSTOM else action
