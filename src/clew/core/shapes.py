"""The values that an annotation allows, as far as that can be checked at run time, and errors that say so.

An annotation can say more than a type: ``Annotated[str, check_id]`` leaves a value to a function that raises
an error of its own.
"""

import enum
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from clew.core.errors import InvalidArgument

ValueCheck: TypeAlias = Callable[[object, str], object]
"""A function of a value and of the name of what it was given for; it raises if the value cannot be used."""

_LISTS: Final = (Sequence, Collection, Iterable, Set, list, tuple, set, frozenset)
_MAPPINGS: Final = (Mapping, dict)
_WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "True or False",
    bytes: "bytes",
    type(None): "None",
}


class ValueShape:
    """The values that an annotation allows: any, unless a subclass says otherwise.

    A value of exactly one of the types ``certain`` is allowed, which spares most calls the slower ``fits``.
    """

    text = "anything"
    certain: frozenset[type] = frozenset()

    def allows(self, value: object) -> bool:
        """Return whether a value is certainly allowed, the quick way first."""
        return type(value) in self.certain or self.fits(value)

    def fits(self, value: object) -> bool:
        """Return whether a value is certainly allowed."""
        return True

    def admit(self, name: str, value: object) -> None:
        """Refuse a value, unless it is allowed.

        Raises:
            InvalidArgument: The value is not allowed.
        """
        if not self.fits(value):
            self.refuse(name, value)

    def refuse(self, name: str, value: object) -> None:
        """Refuse a value that did not fit; a shape with a check of its own may still allow it here.

        Raises:
            InvalidArgument: The value is not allowed.
        """
        raise InvalidArgument(problem=f"{name} must be {self.text}, not {describe_value(value)}.")


class _OfClass(ValueShape):
    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.certain = frozenset({int, float} if kind is float else {kind})
        self.text = _WORDS.get(kind) or _with_article(kind.__name__)
        if issubclass(kind, enum.Enum):
            self.text = " or ".join(map(str, kind))

    def fits(self, value: object) -> bool:
        return isinstance(value, self._kind)


class _Number(_OfClass):
    """A number; True and False are none, although Python counts them among the integers."""

    def fits(self, value: object) -> bool:
        kinds = (int, float) if self._kind is float else int
        return isinstance(value, kinds) and not isinstance(value, bool)


class _WithMembers(ValueShape):
    """An object that has what a protocol asks for."""

    def __init__(self, protocol: type) -> None:
        self._members = sorted(
            {name for base in protocol.__mro__ if _is_protocol(base) for name in _members_of(base)}
        )
        self.text = f"{_with_article(protocol.__name__)}, with {', '.join(self._members)}"

    def fits(self, value: object) -> bool:
        if isinstance(value, type) or not all(hasattr(value, name) for name in self._members):
            return False
        self.certain |= {type(value)}  # what one has, the others of its class have too
        return True


class _Callable(ValueShape):
    text = "a function"
    certain = frozenset({types.FunctionType, types.MethodType})

    def fits(self, value: object) -> bool:
        return callable(value)


class _Class(ValueShape):
    def __init__(self, bound: object) -> None:
        self._bound: type = object
        if isinstance(bound, type) and bound is not Any and not _is_protocol(bound):
            self._bound = bound
        self.text = "a class" if self._bound is object else f"a class derived from {self._bound.__name__}"

    def fits(self, value: object) -> bool:
        # A generic alias such as list[int] describes a type as well, though it is no class.
        return (isinstance(value, type) and issubclass(value, self._bound)) or (
            self._bound is object and get_origin(value) is not None
        )


class _Choice(ValueShape):
    def __init__(self, choices: Sequence[object]) -> None:
        self._choices = [(type(choice), choice) for choice in choices]
        self.text = " or ".join(repr(choice) for choice in choices)

    def fits(self, value: object) -> bool:
        return (type(value), value) in self._choices


class _ListOf(ValueShape):
    """Some of a kind, in any collection but text or a mapping. An iterator is not read before its time."""

    def __init__(self, part: ValueShape, *, ordered: bool) -> None:
        self._part = None if type(part) is ValueShape else part
        self._ordered = ordered
        self.certain = frozenset({list, tuple} if self._part is None else ())
        self.text = "a list" if self._part is None else f"a list, each part {part.text}"

    def fits(self, value: object) -> bool:
        if isinstance(value, list | tuple):
            return self._part is None or all(map(self._part.allows, value))
        return _is_list(value) and not (self._ordered and isinstance(value, Set))

    def refuse(self, name: str, value: object) -> None:
        if self._part is None or not isinstance(value, list | tuple):
            return super().refuse(name, value)
        for index, entry in enumerate(value):
            if not self._part.allows(entry):
                self._part.refuse(f"{name}[{index}]", entry)
        return None


class _MappingOf(ValueShape):
    def __init__(self, key: ValueShape, part: ValueShape) -> None:
        # The keys of a JSON object are checked with what it holds, when it is encoded.
        self._parts = None if type(part) is ValueShape else (key, part)
        self.certain = frozenset({dict} if self._parts is None else ())
        self.text = "a dict"

    def fits(self, value: object) -> bool:
        if not isinstance(value, Mapping):
            return False
        if self._parts is None:
            return True
        key, part = self._parts
        return all(map(key.allows, value)) and all(map(part.allows, value.values()))

    def refuse(self, name: str, value: object) -> None:
        if self._parts is None or not isinstance(value, Mapping):
            return super().refuse(name, value)
        key, part = self._parts
        for each, entry in value.items():
            if not key.allows(each):
                key.refuse(f"a key of {name}", each)
            if not part.allows(entry):
                part.refuse(f"{name}[{each!r}]", entry)
        return None


class _TupleOf(ValueShape):
    def __init__(self, parts: Sequence[ValueShape]) -> None:
        self._parts = parts
        self.text = f"a tuple of {', '.join(part.text for part in parts)}"

    def fits(self, value: object) -> bool:
        if not isinstance(value, list | tuple) or len(value) != len(self._parts):
            return False
        return all(part.allows(entry) for part, entry in zip(self._parts, value, strict=True))


class WithDefault(ValueShape):
    """A shape, or else a default that its annotation does not allow, such as a mark for "not given"."""

    def __init__(self, shape: ValueShape, default: object) -> None:
        self._shape = shape
        self._default = default
        self.text = shape.text
        self.certain = shape.certain

    def fits(self, value: object) -> bool:
        """Return whether a value is the default, or certainly allowed by the shape."""
        return value is self._default or self._shape.fits(value)

    def refuse(self, name: str, value: object) -> None:
        """Refuse a value as the shape does: the default is nothing that a caller would write."""
        self._shape.refuse(name, value)


class AnyOf(ValueShape):
    """Values that one of several shapes allows."""

    def __init__(self, choices: Sequence[ValueShape]) -> None:
        self._choices = choices
        self.certain = frozenset().union(*(choice.certain for choice in choices))
        # None is known by its type, and a value that a function checks never fits before: neither is tried.
        self._fits = [
            choice.fits
            for choice in choices
            if not isinstance(choice, _CheckedValue) and choice.certain != {type(None)}
        ]
        self.text = " or ".join(dict.fromkeys(choice.text for choice in choices))

    def fits(self, value: object) -> bool:
        """Return whether one of them certainly allows a value."""
        return type(value) in self.certain or any(fits(value) for fits in self._fits)

    def refuse(self, name: str, value: object) -> None:
        """Refuse a value that none of them allows."""
        # The choice that comes nearest says more than all of them: which part of a list is wrong, and why.
        for choice in self._choices:
            if isinstance(choice, _CheckedValue) or (isinstance(choice, _ListOf) and _is_list(value)):
                return choice.refuse(name, value)
        return super().refuse(name, value)


class _CheckedValue(ValueShape):
    """Values that a function checks: none fits before it was called, which ``refuse`` does."""

    def __init__(self, check: ValueCheck, plain: ValueShape) -> None:
        self._check = check
        self.text = plain.text

    def admit(self, name: str, value: object) -> None:
        self._check(value, name)

    def fits(self, value: object) -> bool:
        return False

    def refuse(self, name: str, value: object) -> None:
        self._check(value, name)


ANYTHING: Final = ValueShape()


def shape_of(hint: Any) -> ValueShape:
    """The values that an annotation allows; what it does not say is allowed."""
    if isinstance(hint, TypeVar) and hint.__bound__ is not None:
        hint = hint.__bound__
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        check = next((mark for mark in args[1:] if callable(mark)), None)
        plain = shape_of(args[0])
        return plain if check is None else _CheckedValue(check, plain)
    if origin in (Union, types.UnionType):
        choices = [shape_of(choice) for choice in args]
        return ANYTHING if ANYTHING in choices else AnyOf(choices)
    if origin is Literal:
        return _Choice(args)
    return _shape_of_class(hint if origin is None else origin, args)


def _shape_of_class(kind: Any, args: Sequence[Any]) -> ValueShape:
    if kind is None:
        kind = type(None)
    if kind is Callable or kind is types.FunctionType:
        return _Callable()
    if not isinstance(kind, type) or kind in (object, Any):  # since 3.11, Any is a class
        return ANYTHING
    if kind is type:
        return _Class(args[0] if args else object)
    if kind in (int, float):
        return _Number(kind)
    if kind is tuple and args and args[-1] is not Ellipsis:
        return _TupleOf([shape_of(part) for part in args])
    if kind in _LISTS:
        ordered = kind in (Sequence, list, tuple)
        return _ListOf(shape_of(args[0]) if args else ANYTHING, ordered=ordered)
    if kind in _MAPPINGS or hasattr(kind, "__total__"):  # a TypedDict is a dict at run time
        key, part = args if len(args) == 2 else (Any, Any)
        return _MappingOf(shape_of(key), shape_of(part))
    if _is_protocol(kind):
        return _WithMembers(kind)
    return _OfClass(kind)


def _is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _members_of(protocol: type) -> Iterable[str]:
    """The members that one protocol itself asks for; what typing puts into it has names of its own kind."""
    members = [name for name in vars(protocol) if name == "__call__" or not name.startswith("_")]
    return [*members, *getattr(protocol, "__annotations__", ())]


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping)


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def describe_value(value: object) -> str:
    """A value as an error may show it: numbers in full, of all else the type, since it may be private."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
