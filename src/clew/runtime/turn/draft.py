"""The state of a run while it works: what is committed, what changed since, and how a delta is folded in."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core import ops
from clew.core import patch as core_patch
from clew.core.encoding import JSON, as_json
from clew.core.errors import StateInvalid
from clew.core.ops import MISSING, Document, Op
from clew.core.values import HISTORY, Changeset, Item, LogSize
from clew.runtime.records.runs import DONE
from clew.runtime.records.steps import Step
from clew.runtime.state.log import StateLog
from clew.runtime.state.log_entries import LogCache, ReadLog, as_entries, as_item, entry_key
from clew.runtime.state.reducers import fold_ops, value_at
from clew.runtime.state.schema import Field, Fold, Lifecycle, Lifetime, Schema, State

Delta: TypeAlias = Mapping[str, Any]
"""What a stage wants changed: a value for each field it names."""

RUN = "$run"
"""The key of the state under which the current run keeps what goes with it."""
CALLS = "$calls"
"""The key of the state under which unresolved tool calls keep what goes with them."""
FIELDS = "fields"
"""Below a run or a call: the fields of the schema that are stored with it."""
TURN = "turn"
"""Below a run: what is fresh in each turn, as far as finished stages have set it."""
FRESH = (RUN, TURN)
"""Below what those stand."""
SAFE = "safe"
"""Below a run: the reply that goes out whatever becomes of it, if a stage has declared one."""
STAGE = "stage"
"""Below a run: the name of the stage that it is at."""
RECENT_ITEMS = 64


class RunDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the last commit.

    The last ``resume_patch_count`` patches only serve a run that is resumed.

    ``steps`` go along with whatever changed; they are no change by themselves.
    """

    items: tuple[Item, ...] = ()
    patches: tuple[Op, ...] = ()
    actions: tuple[JSON, ...] = ()
    resume_patch_count: int = 0
    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items or self.patches or self.actions)

    def after(self, earlier: "RunDelta") -> "RunDelta":
        """What this has beyond another, which it begins with."""
        return RunDelta(
            items=self.items[len(earlier.items) :],
            patches=self.patches[len(earlier.patches) :],
            actions=self.actions[len(earlier.actions) :],
            steps=self.steps[len(earlier.steps) :],
        )


class Draft:
    """A schema's state in the middle of a turn."""

    def __init__(
        self,
        schema: Schema,
        state: Document,
        sizes: Mapping[str, LogSize],
        inputs: Mapping[str, JSON],
        read_log: ReadLog,
    ) -> None:
        self.schema = schema
        self.state = state
        self.deferred_checkpoint: tuple[str, RunDelta] | None = None
        self.steps: list[Step] = []
        self._sizes = dict(sizes)
        self._inputs = dict(inputs)
        self._log_cache = LogCache(read_log)
        self._paths_by_prefix = _paths_by_prefix(schema)
        self.stores_fresh = value_at(state, FRESH) is not MISSING
        self._is_over = value_at(state, (RUN, "status")) == DONE
        self._items: list[Item] = []
        self._patches: list[Op] = []
        self._resume_patches: list[Op] = []
        self._actions: list[JSON] = []
        self._stored_keys: dict[str, list[bytes]] = {}
        self._written_keys: dict[str, list[bytes]] = {}

    # What a stage reads.

    def view(self, call: str | None = None) -> State:
        """The state as the schema declares it, in a copy; for a tool call with what belongs to it."""
        logs = {n: self._log_of(f) for n, f in self.schema.fields.items() if f.fold is Fold.APPEND}
        return self.schema.build_state({**self.values(call), **logs})

    def values(self, call: str | None = None) -> dict[str, Any]:
        """The plain values of every field but the logs, as far as they were ever set."""
        values: Document = dict(self._inputs)
        paths_by_prefix = self._paths_by_prefix if call is None else _paths_by_prefix(self.schema, call)
        for prefix, paths in paths_by_prefix.items():
            subtree = MISSING if self._is_over and prefix == FRESH else value_at(self.state, prefix)
            for path in paths if subtree is not MISSING else ():
                value = value_at(subtree, path)
                if value is not MISSING:
                    _put(values, path, value)
        result: dict[str, Any] = as_json(values)
        return result

    def log(self, name: str) -> StateLog[Any]:
        """A log of the schema, with what was added to it."""
        return self._log_of(self.schema.field(name, "the runtime"))

    def branch(self) -> "Draft":
        """Another draft on the same state, to see what a delta would change."""
        return Draft(self.schema, self.state, self._sizes, self._inputs, self._log_cache.read)

    def _log_of(self, field: Field) -> StateLog[Any]:
        pending = self._pending(field.log)
        size = self._sizes.get(field.log, LogSize())
        whole = field.whole_of is not None

        async def read(count: int | None) -> Sequence[Any]:
            missing = None if count is None else max(count - len(pending), 0)
            before = [] if missing == 0 else await self._log_cache.newest(field.log, missing, whole=whole)
            items = [*before, *pending]
            newest = items if count is None else items[max(len(items) - count, 0) :]
            return as_entries(newest, field)

        return StateLog((size.end if whole else size.length) + len(pending), read)

    def _pending(self, log: str) -> list[Item]:
        return [item for item in self._items if item.log == log]

    # What a stage writes.

    async def load_entry_keys(self, delta: Delta | None, run: str) -> None:
        """Learn what this run has already stored in a log that a delta writes to by its other name."""
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
        before = (self.state, self._lengths(), {log: list(keys) for log, keys in self._written_keys.items()})
        try:
            changes = sorted(self.schema.changes(delta, by), key=lambda change: bool(change[0].whole_of))
            for field, value in changes:
                self._write_field(field, value, by, run, call)
        except BaseException:
            self.state, marks, self._written_keys = before
            for entries, mark in zip(self._pending_lists(), marks, strict=True):
                del entries[mark:]
            raise

    def _pending_lists(self) -> tuple[list[Any], ...]:
        return (self._items, self._patches, self._resume_patches, self._actions)

    def _lengths(self) -> list[int]:
        return [len(entries) for entries in self._pending_lists()]

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
        """Whether this run has put an entry into the log already, which is now written by its other name."""
        key, written_keys = entry_key(item), self._written_keys.setdefault(item.log, [])
        count = [*self._stored_keys.get(item.log, ()), *map(entry_key, self._pending(item.log))].count(key)
        written_keys.append(key)
        return count >= written_keys.count(key)

    def add(self, items: Sequence[Item]) -> None:
        """Add items to their logs."""
        self._items += items

    def patch(self, *patches: Op, action: JSON = None) -> None:
        """Change the stored state by ops."""
        self.state = ops.apply_ops(self.state, patches)
        for op in patches:
            (self._resume_patches if op.path[:2] == FRESH else self._patches).append(op)
        if action is not None:
            self._actions.append(action)

    def enter_stage(self, stage: str) -> None:
        """Note which stage comes next: what those before it changed is not changed again after a crash."""
        mark = core_patch.set([RUN, STAGE], stage)
        self.state = ops.apply_ops(self.state, [mark])
        self._resume_patches = [*(op for op in self._resume_patches if op.path != mark.path), mark]

    # What goes to the store.

    def take_delta(self, *, final: bool = False) -> RunDelta:
        """What changed since the last commit. It stays here until ``confirm_delta`` says that it was kept.

        What is fresh each turn, and which stage comes next, goes along while the run goes on, so that it
        can be resumed.
        """
        resume_patches = () if final else tuple(self._resume_patches)
        return RunDelta(
            items=tuple(self._items),
            patches=(*self._patches, *resume_patches),
            actions=tuple(self._actions),
            resume_patch_count=len(resume_patches),
            steps=tuple(self.steps),
        )

    def defer_checkpoint(self, reason: str) -> None:
        """Let what changed so far be a checkpoint of its own, which is committed together with the end."""
        self.deferred_checkpoint = (reason, self.take_delta(final=True))

    def confirm_delta(self, delta: RunDelta) -> None:
        """Forget a delta that the store has."""
        self.deferred_checkpoint = None
        self._log_cache.clear()
        self._sizes = sizes_after(self._sizes, Changeset(items=delta.items))
        for item in delta.items:
            if item.log in self._stored_keys:
                self._stored_keys[item.log].append(entry_key(item))
        del self._items[: len(delta.items)]
        resume_patches = delta.patches[len(delta.patches) - delta.resume_patch_count :]
        self.stores_fresh |= any(op.path[:2] == FRESH for op in resume_patches)
        del self._patches[: len(delta.patches) - delta.resume_patch_count]
        del self._resume_patches[: delta.resume_patch_count]
        del self._actions[: len(delta.actions)]
        del self.steps[: len(delta.steps)]

    def drop_delta(self) -> None:
        """Give up what was not committed; the stored state is not looked at again."""
        self.deferred_checkpoint = None
        for entries in self._pending_lists():
            entries.clear()

    def rebase_onto(self, state: Document, sizes: Mapping[str, LogSize]) -> None:
        """Stand on another state, with the same changes on top."""
        self._log_cache.clear()
        self.state = ops.apply_ops(state, [*self._patches, *self._resume_patches])
        self._sizes = dict(sizes)


def sizes_after(sizes: Mapping[str, LogSize], change: Changeset) -> dict[str, LogSize]:
    """How far logs reach, and what is visible of them, after one more changeset."""
    after = dict(sizes)
    for item in change.items:
        size = after.get(item.log, LogSize())
        after[item.log] = LogSize(size.end + (not item.place), size.length + 1, size.cuts)
    for cut in change.cuts:
        size = after.get(cut.log, LogSize())
        after[cut.log] = LogSize(size.end, size.length - cut.count, size.cuts + 1)
    return after


def state_path(field: Field, call: str | None = None) -> tuple[str, ...]:
    """Where a field's value stands in the stored state."""
    return (*state_prefix(field, call), *field.path)


def state_prefix(field: Field, call: str | None = None) -> tuple[str, ...]:
    """Below what a field's value stands in the stored state."""
    if field.is_fresh:
        return FRESH
    if field.lifetime is Lifetime.RUN:
        return (RUN, FIELDS)
    if field.lifetime is Lifetime.CALL:
        return (CALLS, call or "", FIELDS)
    return ()


def _paths_by_prefix(schema: Schema, call: str | None = None) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """The paths of all fields but the logs, by what they stand below."""
    paths: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for leaf in schema.leaves:
        if leaf.fold is not Fold.APPEND:
            paths.setdefault(state_prefix(leaf, call), []).append(leaf.path)
    return paths


def _put(values: Document, path: tuple[str, ...], value: JSON) -> None:
    """Put a value at a path; objects on the way are made."""
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _action(by: str, field: Field, value: JSON) -> JSON:
    action = {"by": by, "field": field.name, "action": field.fold.value}
    return {**action, "with": value} if field.fold is Fold.CUSTOM else action


__all__ = [
    "CALLS",
    "FIELDS",
    "HISTORY",
    "RUN",
    "SAFE",
    "STAGE",
    "TURN",
    "Delta",
    "Draft",
    "ReadLog",
    "RunDelta",
    "sizes_after",
    "state_path",
]
