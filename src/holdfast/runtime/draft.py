"""The state of a run while it works: what is committed, what changed since, and how a delta is folded in."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.core import making, ops
from holdfast.core.encoding import JSON, same
from holdfast.core.errors import StateInvalid
from holdfast.core.ops import Document, Op
from holdfast.core.values import HISTORY, Item
from holdfast.runtime.logs import Log
from holdfast.runtime.messages import Message, item_of, message_of
from holdfast.runtime.schema import Field, Fold, Lifecycle, Lifetime, Schema, State

Delta: TypeAlias = Mapping[str, Any]
"""What a stage wants changed: a value for each field it names."""

ReadLog: TypeAlias = Callable[[str, int | None], Awaitable[Sequence[Item]]]

RUN = "$run"
"""The key of the state under which the current run keeps what goes with it."""
CALLS = "$calls"
"""The key of the state under which unresolved tool calls keep what goes with them."""
FIELDS = "fields"


class RunDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the last commit."""

    items: tuple[Item, ...] = ()
    patches: tuple[Op, ...] = ()
    actions: tuple[JSON, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items or self.patches or self.actions)


class Draft:
    """A schema's state in the middle of a turn."""

    def __init__(
        self,
        schema: Schema,
        state: Document,
        lengths: Mapping[str, int],
        inputs: Mapping[str, JSON],
        read_log: ReadLog,
    ) -> None:
        self.schema = schema
        self.state = state
        self._lengths = dict(lengths)
        self._inputs = dict(inputs)
        self._read_log = read_log
        self._fresh: Document = _resumed(schema, state)
        self._unsaved: set[str] = set()
        self._items: list[Item] = []
        self._patches: list[Op] = []
        self._actions: list[JSON] = []

    # What a stage reads.

    def view(self) -> State:
        """The state as the schema declares it, in a copy of its own."""
        values: dict[str, Any] = {}
        for name, field in self.schema.fields.items():
            if field.fold is Fold.APPEND:
                values[name] = self._log(field)
            elif name in self._inputs:
                values[name] = self._inputs[name]
            else:
                self._collect(values, field)
        return self.schema.made(values)

    def values(self) -> dict[str, Any]:
        """The plain values of every field but the logs."""
        values: dict[str, Any] = dict(self._inputs)
        for field in self.schema.fields.values():
            if field.fold is not Fold.APPEND:
                self._collect(values, field)
        return values

    def _collect(self, values: dict[str, Any], field: Field) -> None:
        stored = _at(self.state, _path(field))
        fresh = self._fresh.get(field.name)
        if field.fold is Fold.MERGE and isinstance(stored, dict) and isinstance(fresh, dict):
            values[field.name] = {**stored, **fresh}
        elif fresh is not None or field.name in self._fresh:
            values[field.name] = fresh
        elif stored is not None:
            values[field.name] = stored

    def log(self, name: str) -> Log[Any]:
        """A log of the schema, with what was added to it."""
        return self._log(self.schema.field(name, "the runtime"))

    def apart(self) -> "Draft":
        """Another draft on the same state, to see what a delta would change."""
        return Draft(self.schema, self.state, self._lengths, self._inputs, self._read_log)

    def _log(self, field: Field) -> Log[Any]:
        added = [item for item in self._items if item.log == field.name]
        typed = field.entry

        async def read(count: int | None) -> Sequence[Any]:
            wanted = None if count is None else max(count - len(added), 0)
            before = [] if wanted == 0 else await self._read_log(field.name, wanted)
            items = [*before, *added]
            shown = items if count is None else items[max(len(items) - count, 0) :]
            return [message_of(item) if typed is Message else _entry(item, typed) for item in shown]

        return Log(self._lengths.get(field.name, 0) + len(added), read)

    # What a stage writes.

    def write(self, by: str, delta: Delta | None, *, run: str | None, call: str | None = None) -> None:
        """Fold a delta in.

        Raises:
            StateInvalid: It names a field that is not there or may not be written, or a value does not fit.
        """
        if delta is None:
            return
        if not isinstance(delta, Mapping):
            raise StateInvalid(stage=by, field="", problem=f"it returned {type(delta).__name__}, not a dict")
        for name, value in delta.items():
            field = self.schema.field(name, by)
            if field.lifecycle is Lifecycle.INPUT:
                raise StateInvalid(stage=by, field=name, problem="it is an input, which only the caller sets")
            if field.lifetime is Lifetime.CALL and call is None:
                raise StateInvalid(stage=by, field=name, problem="it belongs to a tool call")
            if field.fold is Fold.APPEND:
                self._append(field, value, by, run)
            else:
                self._change(field, value, by, call)

    def add(self, items: Sequence[Item]) -> None:
        """Add items to their logs."""
        self._items += items

    def patch(self, *patches: Op, action: JSON = None) -> None:
        """Change the stored state by ops."""
        self.state = ops.apply(self.state, patches)
        self._patches += patches
        if action is not None:
            self._actions.append(action)

    def _append(self, field: Field, value: Any, by: str, run: str | None) -> None:
        if not isinstance(value, list | tuple):
            raise StateInvalid(stage=by, field=field.name, problem="a log takes a list of entries to add")
        self.add([_as_item(entry, field, by, run) for entry in value])

    def _change(self, field: Field, value: Any, by: str, call: str | None) -> None:
        if field.nested is not None and field.fold is Fold.MERGE:
            return self._change_nested(field, field.nested, value, by)
        plain = field.partial(value, by)
        path = _path(field, call)
        if field.lifecycle in (Lifecycle.TURN, Lifecycle.LOADED):
            self._fresh[field.name] = _folded(field, self._fresh.get(field.name), plain)
            self._unsaved.add(field.name)
            return None
        old = _at(self.state, path)
        if field.fold is Fold.MERGE:
            changed = {k: v for k, v in plain.items() if not _holds(old, k, v)}
            if changed:
                self.patch(making.merge(path, changed), action=_action(by, field, plain=None))
            return None
        new = field.checked(_folded(field, old, plain), by)
        if old is not None and same(old, new):
            return None
        changes = _smallest(path, old, new) if field.fold is Fold.CUSTOM else [making.set(path, new)]
        self.patch(*changes, action=_action(by, field, plain if field.fold is Fold.CUSTOM else None))
        return None

    def _change_nested(self, field: Field, nested: Schema, value: Any, by: str) -> None:
        """Each part of a nested state goes where its own lifecycle says."""
        if isinstance(value, State):
            value = {name: getattr(value, name) for name in nested.fields}
        if not isinstance(value, Mapping):
            raise StateInvalid(stage=by, field=field.name, problem="it takes a dict of the parts that change")
        parts = {name: nested.field(name, by).checked(part, by) for name, part in value.items()}
        fresh = {n: p for n, p in parts.items() if _is_fresh(field, nested.fields[n])}
        stored = {n: p for n, p in parts.items() if n not in fresh}
        if fresh:
            self._fresh[field.name] = {**self._fresh.get(field.name, {}), **fresh}
            self._unsaved.add(field.name)
        old = _at(self.state, _path(field))
        changed = {n: p for n, p in stored.items() if not _holds(old, n, p)}
        if changed:
            self.patch(making.merge(_path(field), changed), action=_action(by, field, None))

    # What goes to the store.

    def take_delta(self, *, final: bool = False) -> RunDelta:
        """What changed since the last commit. It stays here until ``committed`` says that it was kept.

        What is fresh each turn goes along while the run goes on, so that it can be resumed.
        """
        saved = [] if final else [name for name in sorted(self._unsaved) if self._saves(name)]
        fresh = tuple(making.set([RUN, FIELDS, name], self._fresh[name]) for name in saved)
        return RunDelta(
            items=tuple(self._items), patches=(*self._patches, *fresh), actions=tuple(self._actions)
        )

    def committed(self, delta: RunDelta) -> None:
        """Forget a delta that the store has."""
        for item in delta.items:
            self._lengths[item.log] = self._lengths.get(item.log, 0) + 1
        del self._items[: len(delta.items)]
        kept = len(self._patches)
        for patch in delta.patches[kept:]:
            self.state = ops.apply(self.state, [patch])
            self._unsaved.discard(str(patch.path[-1]))
        del self._patches[: len(delta.patches)]
        del self._actions[: len(delta.actions)]

    def drop_delta(self) -> None:
        """Give up what was not committed; the stored state is not looked at again."""
        self._items.clear()
        self._patches.clear()
        self._actions.clear()
        self._unsaved.clear()

    def rebased(self, state: Document, lengths: Mapping[str, int]) -> None:
        """Stand on another state, with the same changes on top."""
        self.state = ops.apply(state, self._patches)
        self._lengths = dict(lengths)

    def _saves(self, name: str) -> bool:
        return self.schema.fields[name].lifecycle is not Lifecycle.LOADED


def _resumed(schema: Schema, state: Document) -> Document:
    """The fresh values that an interrupted run had already."""
    saved = _at(state, (RUN, FIELDS))
    fresh = saved if isinstance(saved, dict) else {}
    return {
        name: value
        for name, value in fresh.items()
        if name in schema.fields and schema.fields[name].lifetime is not Lifetime.RUN
    }


def _path(field: Field, call: str | None = None) -> tuple[str, ...]:
    if field.lifetime is Lifetime.RUN:
        return (RUN, FIELDS, field.name)
    if field.lifetime is Lifetime.CALL:
        return (CALLS, call or "", FIELDS, field.name)
    return (field.name,)


def _at(node: Any, path: Sequence[str]) -> Any:
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _holds(old: Any, key: str, value: JSON) -> bool:
    return isinstance(old, dict) and key in old and same(old[key], value)


def _is_fresh(outer: Field, inner: Field) -> bool:
    return outer.lifecycle is not Lifecycle.REDUCER or inner.lifecycle is not Lifecycle.REDUCER


def _folded(field: Field, old: Any, new: Any) -> Any:
    if field.fold is Fold.MERGE:
        return {**(old or {}), **new}
    if field.fold is Fold.CUSTOM and field.reducer is not None:
        return msgspec.to_builtins(field.reducer(field.default() if old is None else field.read(old), new))
    return new


def _smallest(path: tuple[str, ...], old: Any, new: Any) -> list[Op]:
    """The least ops from one value to another, both objects; else the new one as a whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [msgspec.structs.replace(op, path=(*path, *op.path)) for op in ops.diff(old, new)]
    return [making.set(path, new)]


def _action(by: str, field: Field, plain: JSON) -> JSON:
    action = {"by": by, "field": field.name, "action": field.fold.value}
    return action if plain is None else {**action, "with": plain}


def _as_item(entry: Any, field: Field, by: str, run: str | None) -> Item:
    if isinstance(entry, Item):
        return msgspec.structs.replace(entry, log=field.name, run=entry.run or run)
    if field.entry is Message:
        if isinstance(entry, Mapping):
            entry = msgspec.convert(field.checked([dict(entry)], by)[0], Message)
        if not isinstance(entry, Message):
            raise StateInvalid(stage=by, field=field.name, problem="its entries are messages")
        return item_of(msgspec.structs.replace(entry, run=entry.run or run), field.name)
    body = field.checked([entry], by)[0]
    return Item(log=field.name, kind="entry", body={"value": body}, run=run)


def _entry(item: Item, kind: Any) -> Any:
    body = item.body.get("value") if isinstance(item.body, dict) else item.body
    return msgspec.convert(body, kind)


__all__ = ["CALLS", "FIELDS", "HISTORY", "RUN", "Delta", "Draft", "ReadLog", "RunDelta"]
