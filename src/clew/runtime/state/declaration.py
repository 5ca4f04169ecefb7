"""Reading a state class: what is beside each type, what that means, and what makes no sense."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from clew.core import patch
from clew.core.errors import SchemaInvalid
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import (
    Field,
    Fold,
    Lifecycle,
    Lifetime,
    MakeOp,
    Reducer,
    Schema,
    State,
    WholeOf,
    leaves_of,
)

_EMPTY: dict[Any, Callable[[], Any]] = {
    list: list,
    dict: dict,
    str: str,
    set: set,
    tuple: tuple,
    StateLog: StateLog.empty,
}
_OPS: tuple[MakeOp, ...] = (patch.increment, patch.max, patch.min, patch.union)
_NO_REDUCERS = (patch.set, patch.delete, patch.insert, patch.remove)


class OuterField(msgspec.Struct, frozen=True, kw_only=True):
    """The field that a nested state is the type of, and what its parts take over from it."""

    path: tuple[str, ...] = ()
    lifecycle: Lifecycle = Lifecycle.TURN
    lifetime: Lifetime = Lifetime.THREAD
    is_merged: bool = True
    within: tuple[type, ...] = ()


class FieldMarks(msgspec.Struct, frozen=True, kw_only=True):
    """The marks beside a type."""

    lifecycle: Lifecycle | None = None
    lifetime: Lifetime | None = None
    fold: Fold = Fold.REPLACE
    op: MakeOp | None = None
    reducer: Reducer | None = None
    whole_of: str | None = None


class FieldDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a state class."""

    state: type[State]
    info: Any
    kind: Any
    marks: FieldMarks
    outer: OuterField

    @property
    def nested_state(self) -> type[State] | None:
        """The state class that it is of, if it is."""
        return self.kind if isinstance(self.kind, type) and issubclass(self.kind, State) else None

    @property
    def plain_type(self) -> Any:
        """Its type without its parameters."""
        return get_origin(self.kind) or self.kind

    @property
    def lifecycle(self) -> Lifecycle:
        """The time that it lives: as it says, as long as what it is part of, or as its reducer implies."""
        if self.marks.lifecycle is not None:
            return self.marks.lifecycle
        if self.outer.path:
            return self.outer.lifecycle
        folds = self.marks.fold is not Fold.REPLACE or self.marks.lifetime is not None
        return Lifecycle.REDUCER if folds else Lifecycle.TURN

    @property
    def lifetime(self) -> Lifetime:
        """The part of the state that it belongs to."""
        return self.marks.lifetime or self.outer.lifetime

    def error(self, problem: str) -> SchemaInvalid:
        """The error that names it."""
        return SchemaInvalid(schema=self.state.__name__, field=self.info.name, problem=problem)


def schema_of(state: type[State], version: int = 1) -> Schema:
    """The schema of a state class.

    Raises:
        SchemaInvalid: A declaration makes no sense; the error names class and field.
    """
    return _schema(state, OuterField(), version)


def _schema(state: type[State], outer: OuterField, version: int = 1) -> Schema:
    fields = _fields(state, outer)
    leaves = tuple(leaves_of(fields))
    return Schema(cls=state, fields=fields, leaves=leaves, path=outer.path, version=version)


def _fields(state: type[State], outer: OuterField) -> dict[str, Field]:
    try:
        hints = get_type_hints(state, include_extras=True)
    except NameError as error:
        problem = f"its annotations cannot be read: {error}"
        raise SchemaInvalid(schema=state.__name__, field=str(error.name), problem=problem) from error
    infos = dataclasses.fields(state)  # type: ignore[arg-type]  # every State is one
    fields = {info.name: _field(_declaration(state, info, hints[info.name], outer)) for info in infos}
    for name, field in fields.items():
        if field.whole_of is not None and not _is_log_of(field.entry, fields.get(field.whole_of)):
            problem = f"{field.whole_of!r} is no log of the same entries"
            raise SchemaInvalid(schema=state.__name__, field=name, problem=problem)
    return fields


def _is_log_of(entry: Any, field: Field | None) -> bool:
    """Return whether a field is a log of such entries, and not itself another name of a log."""
    if field is None or field.fold is not Fold.APPEND:
        return False
    return field.whole_of is None and field.entry == entry


def _declaration(state: type[State], info: Any, hint: Any, outer: OuterField) -> FieldDeclaration:
    kind, marks = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    lifecycles = [mark for mark in marks if isinstance(mark, Lifecycle)]
    lifetimes = [mark for mark in marks if isinstance(mark, Lifetime)]
    wholes = [mark.log for mark in marks if isinstance(mark, WholeOf)]
    folds = [fold for mark in marks if (fold := _fold_marks(mark)) is not None]
    if len(lifecycles) > 1 or len(lifetimes) > 1 or len(folds) > 1:
        problem = "it has two lifecycles, two scopes or two reducers"
        raise SchemaInvalid(schema=state.__name__, field=info.name, problem=problem)
    if any(mark in _NO_REDUCERS for mark in marks if callable(mark)):
        problem = "this op is no reducer; mark it persistent, or give a function of (old, new)"
        raise SchemaInvalid(schema=state.__name__, field=info.name, problem=problem)
    field_marks = msgspec.structs.replace(
        folds[0] if folds else FieldMarks(),
        lifecycle=lifecycles[0] if lifecycles else None,
        lifetime=lifetimes[0] if lifetimes else None,
        whole_of=wholes[0] if wholes else None,
    )
    return FieldDeclaration(state=state, info=info, kind=kind, marks=field_marks, outer=outer)


def _fold_marks(mark: Any) -> FieldMarks | None:
    """Return the way in which a mark has changes folded; None if the mark is about something else."""
    if mark is patch.append or isinstance(mark, WholeOf):
        return FieldMarks(fold=Fold.APPEND)
    if mark is patch.merge:
        return FieldMarks(fold=Fold.MERGE)
    if mark in _OPS:
        return FieldMarks(fold=Fold.OP, op=mark)
    if callable(mark) and not isinstance(mark, enum.Enum | type):
        return FieldMarks(fold=Fold.CUSTOM, reducer=mark)
    return None


def _field(declaration: FieldDeclaration) -> Field:
    _check_marks(declaration)
    _check_nested(declaration)
    nested_schema = _nested_schema(declaration)
    info = declaration.info
    has_default = info.default is not dataclasses.MISSING or info.default_factory is not dataclasses.MISSING
    return Field(
        path=(*declaration.outer.path, info.name),
        type=declaration.kind,
        lifecycle=declaration.lifecycle,
        lifetime=declaration.lifetime,
        fold=declaration.marks.fold,
        op=declaration.marks.op,
        reducer=declaration.marks.reducer,
        nested_schema=nested_schema,
        whole_of=declaration.marks.whole_of,
        default=_default(declaration, nested_schema),
        required=declaration.lifecycle is Lifecycle.INPUT and not has_default,
    )


def _check_marks(declaration: FieldDeclaration) -> None:
    marks, lifecycle = declaration.marks, declaration.lifecycle
    if lifecycle is Lifecycle.INPUT and (marks.fold is not Fold.REPLACE or marks.lifetime):
        raise declaration.error("an input is given by the caller, so it has neither reducer nor scope")
    if marks.lifetime and lifecycle is not Lifecycle.REDUCER:
        raise declaration.error("what is fresh in each turn has no scope")
    if marks.fold is Fold.APPEND and declaration.plain_type is not StateLog:
        raise declaration.error("append needs a StateLog, whose entries are read when they are asked for")
    if marks.fold is Fold.APPEND and (lifecycle is not Lifecycle.REDUCER or marks.lifetime):
        raise declaration.error("a log belongs to the thread")
    if declaration.plain_type is StateLog and marks.fold is not Fold.APPEND:
        raise declaration.error("a StateLog needs append")
    if marks.fold is Fold.MERGE and declaration.nested_state is None and declaration.plain_type is not dict:
        raise declaration.error("merge needs a dict or a nested State")


def _check_nested(declaration: FieldDeclaration) -> None:
    """Refuse a part of a state with marks that only a field at the top may have."""
    marks, outer = declaration.marks, declaration.outer
    if not outer.path:
        return
    if marks.fold is Fold.APPEND or marks.lifecycle is Lifecycle.INPUT:
        raise declaration.error("logs and inputs belong at the top of a state, not within a field")
    if not outer.is_merged and (marks.lifecycle or marks.lifetime or marks.fold is not Fold.REPLACE):
        raise declaration.error(f"{'.'.join(outer.path)!r} is written as a whole, so its parts say nothing")
    if outer.lifecycle is not Lifecycle.REDUCER and marks.lifecycle not in (None, outer.lifecycle):
        raise declaration.error(f"it cannot outlive {'.'.join(outer.path)!r}, which it is part of")
    if outer.lifetime is not Lifetime.THREAD and marks.lifetime not in (None, outer.lifetime):
        raise declaration.error(f"{'.'.join(outer.path)!r}, which it is part of, has another scope")


def _nested_schema(declaration: FieldDeclaration) -> Schema | None:
    if declaration.nested_state is None:
        return None
    if declaration.nested_state in declaration.outer.within:
        raise declaration.error("a state cannot be part of itself")
    outer = OuterField(
        path=(*declaration.outer.path, declaration.info.name),
        lifecycle=declaration.lifecycle,
        lifetime=declaration.lifetime,
        is_merged=declaration.marks.fold is Fold.MERGE,
        within=(*declaration.outer.within, declaration.state, declaration.nested_state),
    )
    return _schema(declaration.nested_state, outer)


def _default(declaration: FieldDeclaration, nested_schema: Schema | None) -> Callable[[], Any]:
    """Return the first value of a field: its default, or the empty value of its type."""
    info = declaration.info
    if info.default is not dataclasses.MISSING:
        return lambda: info.default
    if info.default_factory is not dataclasses.MISSING:
        factory: Callable[[], Any] = info.default_factory
        return factory
    if nested_schema is not None:
        return lambda: nested_schema.build_state({})
    if (empty := _EMPTY.get(declaration.plain_type)) is not None:
        return empty
    if declaration.lifecycle is Lifecycle.INPUT or type(None) in get_args(declaration.kind):
        return lambda: None
    raise declaration.error("it needs a default")
