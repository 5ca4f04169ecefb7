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
_OPS = (patch.increment, patch.max, patch.min, patch.union)
_NO_REDUCERS = (patch.set, patch.delete, patch.insert, patch.remove)


class FieldDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a state class, with the marks beside its type.

    ``outer`` is the field that a nested state is the type of; its parts take over what it says.
    """

    state: type[State]
    info: Any
    kind: Any
    marks: tuple[Any, ...] = ()
    outer: "FieldDeclaration | None" = None

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the fields that it is within, and its own."""
        return (*(self.outer.path if self.outer is not None else ()), self.info.name)

    @property
    def states(self) -> tuple[type[State], ...]:
        """The state classes that it is within, its own last."""
        return (*(self.outer.states if self.outer is not None else ()), self.state)

    @property
    def nested_state(self) -> type[State] | None:
        """The state class that it is of, if it is."""
        return self.kind if isinstance(self.kind, type) and issubclass(self.kind, State) else None

    @property
    def plain_type(self) -> Any:
        """Its type without its parameters."""
        return get_origin(self.kind) or self.kind

    @property
    def own_lifecycle(self) -> Lifecycle | None:
        """The lifecycle that it is marked with, if it is."""
        return next((mark for mark in self.marks if isinstance(mark, Lifecycle)), None)

    @property
    def own_lifetime(self) -> Lifetime | None:
        """The lifetime that it is marked with, if it is."""
        return next((mark for mark in self.marks if isinstance(mark, Lifetime)), None)

    @property
    def check(self) -> Callable[[Any], object] | None:
        """The function that checks the value of an input; None if there is none."""
        # A reducer makes no sense of what no stage writes, so a function beside an input is its check.
        if self.own_lifecycle is not Lifecycle.INPUT:
            return None
        return next((mark for mark in self.marks if _fold_of(mark) is Fold.CUSTOM), None)

    @property
    def fold_mark(self) -> Any:
        """The mark that says how changes are folded; None if they replace what was there."""
        folds = (mark for mark in self.marks if _fold_of(mark) is not None and mark is not self.check)
        return next(folds, None)

    @property
    def fold(self) -> Fold:
        """The way in which changes are folded."""
        return _fold_of(self.fold_mark) or Fold.REPLACE

    @property
    def lifecycle(self) -> Lifecycle:
        """The time that it lives: as it says, as long as what it is part of, or as its reducer implies."""
        if self.own_lifecycle is not None:
            return self.own_lifecycle
        if self.outer is not None:
            return self.outer.lifecycle
        folds = self.fold is not Fold.REPLACE or self.own_lifetime is not None
        return Lifecycle.REDUCER if folds else Lifecycle.TURN

    @property
    def lifetime(self) -> Lifetime:
        """The part of the state that it belongs to."""
        inherited = self.outer.lifetime if self.outer is not None else Lifetime.THREAD
        return self.own_lifetime or inherited

    def error(self, problem: str) -> SchemaInvalid:
        """The error that names it."""
        return SchemaInvalid(schema=self.state.__name__, field=self.info.name, problem=problem)


def schema_of(state: type[State], version: int = 1) -> Schema:
    """The schema of a state class.

    Raises:
        SchemaInvalid: A declaration makes no sense; the error names class and field.
    """
    return _schema(state, None, version)


def _schema(state: type[State], outer: FieldDeclaration | None, version: int = 1) -> Schema:
    fields = _fields(state, outer)
    path = outer.path if outer is not None else ()
    return Schema(cls=state, fields=fields, leaves=tuple(leaves_of(fields)), path=path, version=version)


def _fields(state: type[State], outer: FieldDeclaration | None) -> dict[str, Field]:
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


def _declaration(
    state: type[State], info: Any, hint: Any, outer: FieldDeclaration | None
) -> FieldDeclaration:
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    declaration = FieldDeclaration(state=state, info=info, kind=kind, marks=tuple(marks), outer=outer)
    lifecycles = [mark for mark in marks if isinstance(mark, Lifecycle)]
    lifetimes = [mark for mark in marks if isinstance(mark, Lifetime)]
    folds = [mark for mark in marks if _fold_of(mark) is not None]
    if len(lifecycles) > 1 or len(lifetimes) > 1 or len(folds) > 1:
        raise declaration.error("it has two lifecycles, two scopes, two reducers or two checks")
    if any(mark in _NO_REDUCERS for mark in marks if callable(mark)):
        raise declaration.error("this op is no reducer; mark it persistent, or give a function of (old, new)")
    return declaration


def _fold_of(mark: Any) -> Fold | None:
    """Return the way in which a mark has changes folded; None if the mark is about something else."""
    if mark is patch.append or isinstance(mark, WholeOf):
        return Fold.APPEND
    if mark is patch.merge:
        return Fold.MERGE
    if mark in _OPS:
        return Fold.OP
    if callable(mark) and not isinstance(mark, enum.Enum | type):
        return Fold.CUSTOM
    return None


def _field(declaration: FieldDeclaration) -> Field:
    _check_marks(declaration)
    _check_nested(declaration)
    nested_schema = _nested_schema(declaration)
    info, fold, mark = declaration.info, declaration.fold, declaration.fold_mark
    has_default = info.default is not dataclasses.MISSING or info.default_factory is not dataclasses.MISSING
    return Field(
        path=declaration.path,
        type=declaration.kind,
        lifecycle=declaration.lifecycle,
        lifetime=declaration.lifetime,
        fold=fold,
        op=mark if fold is Fold.OP else None,
        reducer=mark if fold is Fold.CUSTOM else None,
        check=declaration.check,
        nested_schema=nested_schema,
        whole_of=mark.log if isinstance(mark, WholeOf) else None,
        default=_default(declaration, nested_schema),
        required=declaration.lifecycle is Lifecycle.INPUT and not has_default,
    )


def _check_marks(declaration: FieldDeclaration) -> None:
    fold, lifecycle, own_lifetime = declaration.fold, declaration.lifecycle, declaration.own_lifetime
    if lifecycle is Lifecycle.INPUT and (fold is not Fold.REPLACE or own_lifetime):
        raise declaration.error("an input is given by the caller, so it has neither reducer nor scope")
    if own_lifetime and lifecycle is not Lifecycle.REDUCER:
        raise declaration.error("what is fresh in each turn has no scope")
    if fold is Fold.APPEND and declaration.plain_type is not StateLog:
        raise declaration.error("append needs a StateLog, whose entries are read when they are asked for")
    if fold is Fold.APPEND and (lifecycle is not Lifecycle.REDUCER or own_lifetime):
        raise declaration.error("a log belongs to the thread")
    if declaration.plain_type is StateLog and fold is not Fold.APPEND:
        raise declaration.error("a StateLog needs append")
    if fold is Fold.MERGE and declaration.nested_state is None and declaration.plain_type is not dict:
        raise declaration.error("merge needs a dict or a nested State")


def _check_nested(declaration: FieldDeclaration) -> None:
    """Refuse a part of a state with marks that only a field at the top may have."""
    outer, fold = declaration.outer, declaration.fold
    own_lifecycle, own_lifetime = declaration.own_lifecycle, declaration.own_lifetime
    if outer is None:
        return
    name = ".".join(outer.path)
    if fold is Fold.APPEND or own_lifecycle is Lifecycle.INPUT:
        raise declaration.error("logs and inputs belong at the top of a state, not within a field")
    if outer.fold is not Fold.MERGE and (own_lifecycle or own_lifetime or fold is not Fold.REPLACE):
        raise declaration.error(f"{name!r} is written as a whole, so its parts say nothing")
    if outer.lifecycle is not Lifecycle.REDUCER and own_lifecycle not in (None, outer.lifecycle):
        raise declaration.error(f"it cannot outlive {name!r}, which it is part of")
    if outer.lifetime is not Lifetime.THREAD and own_lifetime not in (None, outer.lifetime):
        raise declaration.error(f"{name!r}, which it is part of, has another scope")


def _nested_schema(declaration: FieldDeclaration) -> Schema | None:
    if declaration.nested_state is None:
        return None
    if declaration.nested_state in declaration.states:
        raise declaration.error("a state cannot be part of itself")
    return _schema(declaration.nested_state, declaration)


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
