"""A state schema: what each field is, how long it lives, and how a change to it is folded.

A schema is a class with annotated fields. What stands beside a type says how the field behaves:

=============================== =====================================================================
``Annotated[T, input]``         given by the caller at the start of a turn; no stage may write it
``Annotated[Log[T], append]``   a log: entries are added and never rewritten
``Annotated[dict, merge]``      kept from turn to turn; a change is merged by key
``Annotated[T, kept]``          kept from turn to turn; the last write wins
``Annotated[T, reducer]``       kept; any function of (old, new) gives the value after a change
``Annotated[T, loaded]``        loaded anew in each turn, and never stored
``T``                           fresh in each turn: the last turn's value never shows
``Annotated[T, …, per_run]``    stored with the run, and deleted before the next one begins
``Annotated[T, …, per_call]``   stored with one tool call, and deleted when it is resolved
=============================== =====================================================================
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self, TypeAlias, dataclass_transform, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.encoding import JSON, encode_checked
from holdfast.core.errors import SchemaInvalid, StateInvalid
from holdfast.core.making import append, merge
from holdfast.runtime.logs import Log
from holdfast.runtime.messages import Message

Reducer: TypeAlias = Callable[[Any, Any], Any]
_EMPTY: dict[Any, Callable[[], Any]] = {
    list: list,
    dict: dict,
    str: str,
    set: set,
    tuple: tuple,
    Log: Log.empty,
}


class Lifecycle(enum.Enum):
    """How long a field's value lives."""

    INPUT = "input"
    REDUCER = "reducer"
    LOADED = "loaded"
    TURN = "turn"


class Lifetime(enum.Enum):
    """What a stored field belongs to, and goes with."""

    THREAD = "thread"
    RUN = "run"
    CALL = "tool call"


class Fold(enum.Enum):
    """How a change to a field becomes ops."""

    REPLACE = "replace"
    APPEND = "append"
    MERGE = "merge"
    CUSTOM = "custom"


input = Lifecycle.INPUT
kept = Lifecycle.REDUCER
loaded = Lifecycle.LOADED
per_run = Lifetime.RUN
per_call = Lifetime.CALL


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
class State:
    """What a turn works on. Subclass it and annotate the fields.

    A stage gets a copy of its own, so changing one changes nothing; it returns what it wants changed.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(kw_only=True, frozen=True)(cls)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One declared field."""

    name: str
    type: Any
    lifecycle: Lifecycle
    lifetime: Lifetime
    fold: Fold
    reducer: Reducer | None = None
    nested: "Schema | None" = None
    default: Callable[[], Any]
    required: bool = False

    @property
    def stored(self) -> bool:
        """Whether the thread's state holds it after the turn."""
        return self.lifecycle is Lifecycle.REDUCER and self.lifetime is Lifetime.THREAD

    @property
    def entry(self) -> Any:
        """What a log's entries are."""
        return (*get_args(self.type), Any)[0]

    def partial(self, value: Any, by: str) -> JSON:
        """A change as JSON: of a merged field the keys that change, of a folded one whatever it takes."""
        if self.fold is Fold.REPLACE:
            return self.checked(value, by)
        if self.fold is Fold.MERGE and not isinstance(value, Mapping):
            raise StateInvalid(stage=by, field=self.name, problem="it takes a dict of the keys that change")
        return self.checked(value, by, self.type if self.fold is Fold.MERGE else Any)

    def checked(self, value: Any, by: str, kind: Any = None) -> JSON:
        """A value as JSON, if it fits the field.

        Raises:
            StateInvalid: It does not; the error names who wrote it and the field.
        """
        try:
            plain = msgspec.to_builtins(value, enc_hook=_refuse)
            encode_checked(plain, self.name)
            msgspec.convert(plain, self._plain_type if kind is None else kind)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise StateInvalid(stage=by, field=self.name, problem=str(error)) from error
        return plain

    @property
    def _plain_type(self) -> Any:
        return list[self.entry] if self.fold is Fold.APPEND else self.type  # type: ignore[name-defined]  # made

    def read(self, value: Any) -> Any:
        """A stored value as the field declares it. Logs are handed through; they are read when asked."""
        if isinstance(value, Log):
            return value
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            raise StateInvalid(stage="the stored state", field=self.name, problem=str(error)) from error


class Schema(msgspec.Struct, frozen=True):
    """All fields of a state class, by name, and the version of their meaning."""

    cls: type[State]
    fields: dict[str, Field]
    version: int = 1

    def field(self, name: str, by: str) -> Field:
        """A field that must be there.

        Raises:
            StateInvalid: There is none of that name.
        """
        if name not in self.fields:
            raise StateInvalid(stage=by, field=name, problem=f"{self.cls.__name__} has no such field")
        return self.fields[name]

    def names(self, lifecycle: Lifecycle) -> list[str]:
        """The fields that live so long."""
        return [field.name for field in self.fields.values() if field.lifecycle is lifecycle]

    def made(self, values: dict[str, Any]) -> State:
        """The state as the class declares it, from plain values; what is missing takes its default."""
        return self.cls(
            **{
                name: field.read(values[name]) if name in values else field.default()
                for name, field in self.fields.items()
            }
        )

    @classmethod
    def of(cls, state: type[State], version: int = 1) -> Self:
        """The schema of a state class.

        Raises:
            SchemaInvalid: A declaration makes no sense; the error names class and field.
        """
        return cls(state, _fields_of(state), version)


def _fields_of(state: type[State]) -> dict[str, Field]:
    hints = get_type_hints(state, include_extras=True)
    infos = {info.name: info for info in dataclasses.fields(state)}  # type: ignore[arg-type]  # made one
    return {name: _field(state, infos[name], hints[name]) for name in infos}


def _field(state: type[State], info: "dataclasses.Field[Any]", hint: Any) -> Field:
    kind, marks = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    fold, reducer = _fold(marks)
    lifecycles = [mark for mark in marks if isinstance(mark, Lifecycle)]
    lifetimes = [mark for mark in marks if isinstance(mark, Lifetime)]

    def wrong(problem: str) -> SchemaInvalid:
        return SchemaInvalid(schema=state.__name__, field=info.name, problem=problem)

    if len(lifecycles) > 1 or len(lifetimes) > 1:
        raise wrong("it has two lifecycles or two scopes")
    lifecycle = lifecycles[0] if lifecycles else _implied(fold, lifetimes)
    lifetime = lifetimes[0] if lifetimes else Lifetime.THREAD
    if lifecycle is Lifecycle.INPUT and (fold is not Fold.REPLACE or lifetimes):
        raise wrong("an input is given by the caller, so it has neither reducer nor scope")
    if fold is Fold.APPEND and (get_origin(kind) or kind) not in (Log, list):
        raise wrong("append needs a Log or a list")
    if fold is Fold.APPEND and (lifecycle is not Lifecycle.REDUCER or lifetimes):
        raise wrong("a log belongs to the thread")
    nested = kind if isinstance(kind, type) and issubclass(kind, State) else None
    if fold is Fold.MERGE and nested is None and (get_origin(kind) or kind) is not dict:
        raise wrong("merge needs a dict or a nested State")
    return Field(
        name=info.name,
        type=kind,
        lifecycle=lifecycle,
        lifetime=lifetime,
        fold=fold,
        reducer=reducer,
        nested=Schema.of(nested) if nested else None,
        default=_default(state, info, kind, lifecycle),
        required=lifecycle is Lifecycle.INPUT
        and info.default is dataclasses.MISSING
        and info.default_factory is dataclasses.MISSING,
    )


def _fold(marks: tuple[Any, ...]) -> tuple[Fold, Reducer | None]:
    if append in marks:
        return Fold.APPEND, None
    if merge in marks:
        return Fold.MERGE, None
    reducers = [mark for mark in marks if callable(mark) and not isinstance(mark, enum.Enum | type)]
    return (Fold.CUSTOM, reducers[0]) if reducers else (Fold.REPLACE, None)


def _implied(fold: Fold, lifetimes: list[Lifetime]) -> Lifecycle:
    return Lifecycle.TURN if fold is Fold.REPLACE and not lifetimes else Lifecycle.REDUCER


def _default(
    state: type[State], info: "dataclasses.Field[Any]", kind: Any, lifecycle: Lifecycle
) -> Callable[[], Any]:
    """What a field starts as: what is declared, or its type's obvious nothing."""
    if info.default is not dataclasses.MISSING:
        return lambda: info.default
    if info.default_factory is not dataclasses.MISSING:
        return info.default_factory
    plain = get_origin(kind) or kind
    if (empty := _EMPTY.get(plain)) is not None:
        return empty
    if isinstance(plain, type) and issubclass(plain, State):
        return lambda: Schema.of(plain).made({})
    if lifecycle is Lifecycle.INPUT or type(None) in get_args(kind):
        return lambda: None
    raise SchemaInvalid(schema=state.__name__, field=info.name, problem="it needs a default")


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")


class Conversation(State):
    """The least a chat needs: a message comes in, the history grows, a reply goes out."""

    message: Annotated[str, input]
    history: Annotated[Log[Message], append]
    reply: str = ""
