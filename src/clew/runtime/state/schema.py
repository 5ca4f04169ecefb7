"""A state schema: what each field is, how long it lives, and how a change to it is folded.

A schema is a class with annotated fields. The marks beside a type say how the field behaves:

========================================= ================================================================
``Annotated[T, input]``                   given by the caller at the start of a turn; no stage may write it
``Annotated[T, input, check]``            the same; a function that raises ValueError refuses a value
``Annotated[StateLog[T], append]``        a log: entries are added and never rewritten
``Annotated[StateLog[T], whole_of(log)]`` all that was ever added to another log, also what compaction hid
``Annotated[dict, merge]``                kept from turn to turn; a change is merged by key
``Annotated[SomeState, merge]``           the same, and each part may say for itself how long it lives
``Annotated[int, increment]``             kept; a change is added (also ``max``, ``min``, ``union``)
``Annotated[T, persistent]``              kept from turn to turn; the last write wins
``Annotated[T, reducer]``                 kept; any function of (old, new) gives the value after a change
``Annotated[T, loaded]``                  loaded anew in each turn, and gone with it
``T``, ``Annotated[T, per_turn]``         fresh in each turn: the last turn's value never shows
``Annotated[T, …, per_run]``              stored with the run, and deleted before the next one begins
``Annotated[T, …, per_call]``             stored with one tool call, and deleted when it is resolved
========================================= ================================================================
"""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, dataclass_transform, get_args, get_origin

import msgspec

from clew.core.encoding import JSON, as_json, check_finite, encode_checked
from clew.core.errors import InvalidValue, StateInvalid
from clew.core.ops import Op
from clew.core.patch import append
from clew.core.values import HISTORY
from clew.runtime.model.messages import Message
from clew.runtime.state.log import StateLog


class Lifecycle(enum.Enum):
    """The time that a field's value lives."""

    INPUT = "input"
    REDUCER = "reducer"
    LOADED = "loaded"
    TURN = "turn"


class Lifetime(enum.Enum):
    """The part of the state that a stored field belongs to, and is deleted with."""

    THREAD = "thread"
    RUN = "run"
    CALL = "tool call"


class Fold(enum.Enum):
    """The way in which a change to a field becomes ops."""

    REPLACE = "replace"
    APPEND = "append"
    MERGE = "merge"
    OP = "op"
    CUSTOM = "custom"


class WholeOf(msgspec.Struct, frozen=True):
    """Marks a log field as all of another log, visible or not."""

    log: str


input = Lifecycle.INPUT
persistent = Lifecycle.REDUCER
loaded = Lifecycle.LOADED
per_turn = Lifecycle.TURN
per_run = Lifetime.RUN
per_call = Lifetime.CALL
whole_of = WholeOf


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
class State:
    """The state that a turn works on. Subclass it and annotate the fields.

    A stage gets a copy of its own, so changing one changes nothing; it returns what it wants changed.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(kw_only=True, frozen=True)(cls)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One declared field, or one part of a field that is a state of its own."""

    path: tuple[str, ...]
    type: Any
    lifecycle: Lifecycle
    lifetime: Lifetime
    fold: Fold
    default: Callable[[], Any]
    op: Callable[[Sequence[str | int], Any], Op] | None = None
    reducer: Callable[[Any, Any], Any] | None = None
    check: Callable[[Any], object] | None = None
    nested_schema: "Schema | None" = None
    whole_of: str | None = None
    required: bool = False

    @property
    def name(self) -> str:
        """The name in errors: ``memory_control.action``."""
        return ".".join(self.path)

    @property
    def log(self) -> str:
        """The log of its entries."""
        return self.whole_of or self.path[-1]

    @property
    def entry(self) -> Any:
        """The type of a log's entries."""
        return (*get_args(self.type), Any)[0]

    @property
    def is_fresh(self) -> bool:
        """True if it begins anew in each turn."""
        return self.lifecycle in (Lifecycle.TURN, Lifecycle.LOADED)

    @property
    def parts(self) -> "Schema | None":
        """The parts that are changed one by one, if it has such."""
        return self.nested_schema if self.fold is Fold.MERGE else None

    def validate_change(self, value: Any, by: str) -> JSON:
        """A change as JSON: of a merged field the keys that change, of a folded one whatever it takes."""
        if self.fold is Fold.CUSTOM:
            return self._to_plain(value, by)
        if self.fold is Fold.MERGE and not isinstance(value, Mapping):
            raise self.error(by, "it takes a dict of the keys that change")
        return self.validate(value, by)

    def validate(self, value: Any, by: str) -> JSON:
        """A value as JSON, if it fits the field.

        Raises:
            StateInvalid: It does not; the error names who wrote it and the field.
        """
        if self.nested_schema is not None and isinstance(value, State | Mapping):
            return self.nested_schema.validate(value, by)
        plain_value = self._to_plain(value, by)
        try:
            typed_value = msgspec.convert(plain_value, self.type, str_keys=True)
            if self.check is not None:
                self.check(typed_value)
        except msgspec.ValidationError as error:
            choices = ", ".join(str(choice) for choice in choices_of(self.type) if choice != "")
            raise self.error(by, f"{error}. Use one of: {choices}" if choices else str(error)) from error
        except ValueError as error:
            raise self.error(by, str(error)) from error
        return plain_value

    def validate_entry(self, entry: Any, by: str) -> JSON:
        """One entry of a log as JSON, if it fits."""
        plain_value = self._to_plain(entry, by)
        try:
            msgspec.convert(plain_value, self.entry, str_keys=True)
        except msgspec.ValidationError as error:
            raise self.error(by, str(error)) from error
        return plain_value

    def error(self, by: str, problem: str) -> StateInvalid:
        """Return the error of a wrong use of this field."""
        return StateInvalid(stage=by, field=self.name, problem=problem)

    def _to_plain(self, value: Any, by: str) -> JSON:
        """Return a value as JSON that shares nothing with it."""
        if value is None or type(value) is bool or (type(value) is str and value.isascii()):
            return value
        try:
            plain_value = msgspec.to_builtins(value, str_keys=True, enc_hook=_refuse)
            check_finite(plain_value, self.name)
            return encode_checked(as_json(plain_value), self.name)[1]
        except (InvalidValue, TypeError, ValueError, RecursionError) as error:
            raise self.error(by, str(error)) from error

    def read(self, value: Any) -> Any:
        """A stored value as the field declares it. Logs are handed through; they are read when asked."""
        if isinstance(value, StateLog):
            return value
        if self.nested_schema is not None and isinstance(value, dict):
            return self.nested_schema.build_state(value)
        try:
            return msgspec.convert(value, self.type, str_keys=True)
        except msgspec.ValidationError as error:
            raise self.error("the stored state", str(error)) from error


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """All fields of a state class, by name, and the version of their meaning."""

    cls: type[State]
    fields: dict[str, Field]
    leaves: tuple[Field, ...]
    path: tuple[str, ...] = ()
    version: int = 1

    def field(self, name: str, by: str) -> Field:
        """A field that must be there.

        Raises:
            StateInvalid: There is none of that name.
        """
        if name not in self.fields:
            full_name = ".".join((*self.path, str(name)))
            raise StateInvalid(stage=by, field=full_name, problem=f"{self.cls.__name__} has no such field")
        return self.fields[name]

    def names(self, lifecycle: Lifecycle) -> list[str]:
        """The names of the fields with a lifecycle."""
        return [name for name, field in self.fields.items() if field.lifecycle is lifecycle]

    @property
    def has_history(self) -> bool:
        """True if it declares the history, so that messages can be stored."""
        history = self.fields.get(HISTORY)
        return history is not None and history.fold is Fold.APPEND

    def build_state(self, values: Mapping[str, Any]) -> State:
        """Return the state as the class declares it, from plain values; what is missing takes its default."""
        return self.cls(
            **{
                name: field.read(values[name]) if name in values else field.default()
                for name, field in self.fields.items()
            }
        )

    def validate(self, value: State | Mapping[str, Any], by: str) -> dict[str, JSON]:
        """The given fields as JSON, if there are such and each fits."""
        return {name: self.field(name, by).validate(part, by) for name, part in parts_of(value).items()}

    def changes(self, delta: Mapping[str, Any], by: str) -> Iterator[tuple[Field, Any]]:
        """Yield the changes of a delta, down to the parts that are folded one by one.

        Raises:
            StateInvalid: It names a field that is not there.
        """
        for name, value in delta.items():
            field = self.field(name, by)
            if field.parts is None:
                yield field, value
            elif isinstance(value, State | Mapping):
                yield from field.parts.changes(parts_of(value), by)
            else:
                raise field.error(by, "it takes a dict of the parts that change")


def parts_of(value: State | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a state, or of a dict in place of one."""
    return value if isinstance(value, Mapping) else dict(vars(value))


def leaves_of(fields: Mapping[str, Field]) -> Iterator[Field]:
    """The fields that are folded as a whole: of a merged state its parts, else the field itself."""
    for field in fields.values():
        if field.parts is None:
            yield field
        else:
            yield from field.parts.leaves


def choices_of(kind: Any) -> tuple[Any, ...]:
    """The values of a type that has only some: an enumeration or a Literal, or either or nothing."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(member.value for member in kind)
    parts = [part for part in get_args(kind) if part is not type(None)]
    return choices_of(parts[0]) if len(parts) == 1 and type(None) in get_args(kind) else ()


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")


class Conversation(State):
    """The least a chat needs: a message comes in, the history grows, a reply goes out."""

    message: Annotated[str, input]
    history: Annotated[StateLog[Message], append]
    reply: str = ""


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Shape = TypeVar("Shape", bound=State, default=Conversation)
else:
    from typing import TypeVar

    Shape = TypeVar("Shape")
