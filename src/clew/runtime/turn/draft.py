"""The state of a run while it works: what is committed, what changed since, and how a delta is folded in."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core import ops
from clew.core import patch as core_patch
from clew.core.encoding import JSON, plain
from clew.core.errors import StateInvalid
from clew.core.ops import MISSING, Document, Op
from clew.core.values import HISTORY, Changeset, Item, LogSize
from clew.runtime.records.runs import DONE
from clew.runtime.records.steps import Step
from clew.runtime.state.log import Log
from clew.runtime.state.log_entries import ReadLog, Tails, as_entries, as_item, said
from clew.runtime.state.reducers import folded, found_at
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
RECENT = 64


class RunDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the last commit. The last ``saves`` patches only serve a run that is resumed.

    ``steps`` go along with whatever changed; they are no change by themselves.
    """

    items: tuple[Item, ...] = ()
    patches: tuple[Op, ...] = ()
    actions: tuple[JSON, ...] = ()
    saves: int = 0
    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items or self.patches or self.actions)

    def after(self, held: "RunDelta") -> "RunDelta":
        """What this has beyond another, which it begins with."""
        return RunDelta(
            items=self.items[len(held.items) :],
            patches=self.patches[len(held.patches) :],
            actions=self.actions[len(held.actions) :],
            steps=self.steps[len(held.steps) :],
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
        self.held: tuple[str, RunDelta] | None = None
        self.steps: list[Step] = []
        self._sizes = dict(sizes)
        self._inputs = dict(inputs)
        self._tails = Tails(read_log)
        self._homes = _by_home(schema)
        self.stores_fresh = found_at(state, FRESH) is not MISSING
        self._over = found_at(state, (RUN, "status")) == DONE
        self._items: list[Item] = []
        self._patches: list[Op] = []
        self._saves: list[Op] = []
        self._actions: list[JSON] = []
        self._recalled: dict[str, list[bytes]] = {}
        self._repeated: dict[str, list[bytes]] = {}

    # What a stage reads.

    def view(self, call: str | None = None) -> State:
        """The state as the schema declares it, in a copy; for a tool call with what belongs to it."""
        logs = {n: self._log(f) for n, f in self.schema.fields.items() if f.fold is Fold.APPEND}
        return self.schema.made({**self.values(call), **logs})

    def values(self, call: str | None = None) -> dict[str, Any]:
        """The plain values of every field but the logs, as far as they were ever set."""
        values: Document = dict(self._inputs)
        homes = self._homes if call is None else _by_home(self.schema, call)
        for home, paths in homes.items():
            stored = MISSING if self._over and home == FRESH else found_at(self.state, home)
            for path in paths if stored is not MISSING else ():
                value = found_at(stored, path)
                if value is not MISSING:
                    _put(values, path, value)
        copied: dict[str, Any] = plain(values)
        return copied

    def log(self, name: str) -> Log[Any]:
        """A log of the schema, with what was added to it."""
        return self._log(self.schema.field(name, "the runtime"))

    def apart(self) -> "Draft":
        """Another draft on the same state, to see what a delta would change."""
        return Draft(self.schema, self.state, self._sizes, self._inputs, self._tails.read)

    def _log(self, field: Field) -> Log[Any]:
        added = self._pending(field.log)
        size = self._sizes.get(field.log, LogSize())
        whole = field.whole_of is not None

        async def read(count: int | None) -> Sequence[Any]:
            wanted = None if count is None else max(count - len(added), 0)
            before = [] if wanted == 0 else await self._tails.newest(field.log, wanted, whole=whole)
            items = [*before, *added]
            shown = items if count is None else items[max(len(items) - count, 0) :]
            return as_entries(shown, field)

        return Log((size.end if whole else size.length) + len(added), read)

    def _pending(self, log: str) -> list[Item]:
        return [item for item in self._items if item.log == log]

    # What a stage writes.

    async def recall(self, delta: Delta | None, run: str) -> None:
        """Learn what this run has already stored in a log that a delta writes to by its other name."""
        for name in delta if isinstance(delta, Mapping) else ():
            field = self.schema.fields.get(name)
            if field is not None and field.whole_of is not None and field.log not in self._recalled:
                items = await self._tails.newest(field.log, RECENT)
                self._recalled[field.log] = [said(item) for item in items if item.run == run]

    def write(self, by: str, delta: Delta | None, *, run: str | None, call: str | None = None) -> None:
        """Fold a delta in, all of it or nothing.

        Raises:
            StateInvalid: It names a field that is not there or may not be written, or a value does not fit.
        """
        if delta is None:
            return
        if not isinstance(delta, Mapping):
            raise StateInvalid(stage=by, field="", problem=f"it returned {type(delta).__name__}, not a dict")
        before = (self.state, self._marks(), {log: list(told) for log, told in self._repeated.items()})
        try:
            changes = sorted(self.schema.changes(delta, by), key=lambda change: bool(change[0].whole_of))
            for field, value in changes:
                self._write(field, value, by, run, call)
        except BaseException:
            self.state, marks, self._repeated = before
            for kept, mark in zip(self._lists(), marks, strict=True):
                del kept[mark:]
            raise

    def _lists(self) -> tuple[list[Any], ...]:
        return (self._items, self._patches, self._saves, self._actions)

    def _marks(self) -> list[int]:
        return [len(kept) for kept in self._lists()]

    def _write(self, field: Field, value: Any, by: str, run: str | None, call: str | None) -> None:
        if field.lifecycle is Lifecycle.INPUT:
            raise field.wrong(by, "it is an input, which only the caller sets")
        if field.fold is Fold.APPEND:
            return self._append(field, value, by, run)
        if field.lifetime is Lifetime.CALL and call is None:
            raise field.wrong(by, "it belongs to a tool call, so only a tool can write it")
        given = field.partial(value, by)
        changes = folded(self.state, path_of(field, call), field, given, by)
        if field.is_fresh or not changes:
            return self.patch(*changes)
        return self.patch(*changes, action=_action(by, field, given))

    def _append(self, field: Field, value: Any, by: str, run: str | None) -> None:
        if not isinstance(value, list | tuple):
            raise field.wrong(by, "a log takes a list of entries to add")
        for entry in value:
            item = as_item(entry, field, by, run)
            if field.whole_of is None or not self._is_there(item):
                self.add([item])

    def _is_there(self, item: Item) -> bool:
        """Whether this run has put an entry into the log already, which is now written by its other name."""
        key, repeated = said(item), self._repeated.setdefault(item.log, [])
        there = [*self._recalled.get(item.log, ()), *map(said, self._pending(item.log))].count(key)
        repeated.append(key)
        return there >= repeated.count(key)

    def add(self, items: Sequence[Item]) -> None:
        """Add items to their logs."""
        self._items += items

    def patch(self, *patches: Op, action: JSON = None) -> None:
        """Change the stored state by ops."""
        self.state = ops.apply(self.state, patches)
        for op in patches:
            (self._saves if op.path[:2] == FRESH else self._patches).append(op)
        if action is not None:
            self._actions.append(action)

    def passed(self, following: str) -> None:
        """Note which stage comes next: what those before it changed is not changed again after a crash."""
        mark = core_patch.set([RUN, STAGE], following)
        self.state = ops.apply(self.state, [mark])
        self._saves = [*(op for op in self._saves if op.path != mark.path), mark]

    # What goes to the store.

    def take_delta(self, *, final: bool = False) -> RunDelta:
        """What changed since the last commit. It stays here until ``committed`` says that it was kept.

        What is fresh each turn, and which stage comes next, goes along while the run goes on, so that it
        can be resumed.
        """
        saves = () if final else tuple(self._saves)
        return RunDelta(
            items=tuple(self._items),
            patches=(*self._patches, *saves),
            actions=tuple(self._actions),
            saves=len(saves),
            steps=tuple(self.steps),
        )

    def hold(self, reason: str) -> None:
        """Let what changed so far be a checkpoint of its own, which is committed together with the end."""
        self.held = (reason, self.take_delta(final=True))

    def committed(self, delta: RunDelta) -> None:
        """Forget a delta that the store has."""
        self.held = None
        self._tails.forget()
        self._sizes = sizes_after(self._sizes, Changeset(items=delta.items))
        for item in delta.items:
            if item.log in self._recalled:
                self._recalled[item.log].append(said(item))
        del self._items[: len(delta.items)]
        saves = delta.patches[len(delta.patches) - delta.saves :]
        self.stores_fresh |= any(op.path[:2] == FRESH for op in saves)
        del self._patches[: len(delta.patches) - delta.saves]
        del self._saves[: delta.saves]
        del self._actions[: len(delta.actions)]
        del self.steps[: len(delta.steps)]

    def drop_delta(self) -> None:
        """Give up what was not committed; the stored state is not looked at again."""
        self.held = None
        for kept in self._lists():
            kept.clear()

    def rebased(self, state: Document, sizes: Mapping[str, LogSize]) -> None:
        """Stand on another state, with the same changes on top."""
        self._tails.forget()
        self.state = ops.apply(state, [*self._patches, *self._saves])
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


def path_of(field: Field, call: str | None = None) -> tuple[str, ...]:
    """Where a field's value stands in the stored state."""
    return (*home_of(field, call), *field.path)


def home_of(field: Field, call: str | None = None) -> tuple[str, ...]:
    """Below what a field's value stands in the stored state."""
    if field.is_fresh:
        return FRESH
    if field.lifetime is Lifetime.RUN:
        return (RUN, FIELDS)
    if field.lifetime is Lifetime.CALL:
        return (CALLS, call or "", FIELDS)
    return ()


def _by_home(schema: Schema, call: str | None = None) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """The paths of all fields but the logs, by what they stand below."""
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for leaf in schema.leaves:
        if leaf.fold is not Fold.APPEND:
            found.setdefault(home_of(leaf, call), []).append(leaf.path)
    return found


def _put(values: Document, path: tuple[str, ...], value: JSON) -> None:
    """Put a value at a path; objects on the way are made."""
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _action(by: str, field: Field, given: JSON) -> JSON:
    action = {"by": by, "field": field.name, "action": field.fold.value}
    return {**action, "with": given} if field.fold is Fold.CUSTOM else action


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
    "path_of",
    "sizes_after",
]
