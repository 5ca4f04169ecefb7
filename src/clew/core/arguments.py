"""Arguments of public calls, checked against the annotations that declare them.

Python checks neither the type of an argument nor anything that a function takes as ``**options``. What is
decorated here refuses both where the call is made, in words, before anything is done.
"""

import difflib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, ParamSpec, TypeAlias, TypeVar, get_type_hints

from clew.core.errors import InvalidArgument
from clew.core.shapes import ANYTHING, ValueShape, WithDefault, describe_value, shape_of

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

LARGEST: Final = (1 << 63) - 1
"""The largest integer that every store can keep."""


class _Parameters:
    """The parameters of a function, read from its signature when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
        self._function = function.__qualname__
        self._open = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self._shapes: dict[str, ValueShape] = {
            each.name: _shape_of_parameter(each, hints)
            for each in parameters
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        }
        self._rest = next(
            (
                (each.name, shape_of(hints.get(each.name, Any)))
                for each in parameters
                if each.kind is each.VAR_POSITIONAL
            ),
            None,
        )
        positional = [
            each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        self._places = len(positional)
        self._positional = [
            (index, each.name, shape)
            for index, each in enumerate(positional)
            if (shape := self._shapes[each.name]) is not ANYTHING
        ]
        self._by_name = [
            each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        ]

    @property
    def checks_places(self) -> bool:
        """True if an argument that is given by its place is checked at all."""
        return bool(self._positional) or self._rest is not None

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        # Every public call comes through here, so the quick part of ``allows`` is written out.
        count = len(args)
        for index, name, shape in self._positional:
            if index >= count:
                break
            value = args[index]
            if type(value) not in shape.certain:
                shape.admit(name, value)
        if self._rest is not None:
            self._check_rest(args[self._places :], *self._rest)
        for name, value in kwargs.items():
            shape_by_name = self._shapes.get(name)
            if shape_by_name is None:
                if not self._open:
                    raise TypeError(self._unknown(name))
            elif type(value) not in shape_by_name.certain:
                shape_by_name.admit(name, value)

    def _check_rest(self, values: Sequence[object], name: str, shape: ValueShape) -> None:
        for value in values:
            if not shape.allows(value):
                shape.refuse(name, value)

    def _unknown(self, name: str) -> str:
        options = [option for option in self._by_name if option not in ("self", "cls")]
        nearest = difflib.get_close_matches(name, options, n=1) or [
            option for option in options if option in name.split("_")
        ]
        problem = f"{self._function}() got an unexpected keyword argument {name!r}."
        if nearest:
            return f"{problem} Did you mean {nearest[0]!r}?"
        return f"{problem} It takes {', '.join(options) or 'none'}."


def _shape_of_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> ValueShape:
    shape = shape_of(hints.get(parameter.name, Any))
    if shape is ANYTHING or parameter.default is parameter.empty or shape.allows(parameter.default):
        return shape
    # A default may be a value that the annotation does not allow, such as a mark for an absent argument.
    return WithDefault(shape, parameter.default)


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Check every argument of a function when it is called, before anything of it runs.

    The wrapper raises ``TypeError`` for an option that does not exist, naming the nearest, and
    ``InvalidArgument`` for a value of another type. A coroutine function refuses when it is called, too.
    """
    check: Callable[[Sequence[object], Mapping[str, object]], None] | None = None
    checks_places = True

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal check, checks_places
        if check is None:
            parameters = _Parameters(function)
            check, checks_places = parameters.check, parameters.checks_places
        if kwargs or checks_places:
            check(args, kwargs)
        return function(*args, **kwargs)

    if sys.version_info >= (3, 12) and inspect.iscoroutinefunction(function):
        return inspect.markcoroutinefunction(call)
    return call


def check_methods(kind: C) -> C:
    """Check the arguments of a class's public methods and of its constructor: see ``check_arguments``."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, types.FunctionType):
            setattr(kind, name, check_arguments(member))
        elif isinstance(member, classmethod | staticmethod):
            setattr(kind, name, type(member)(check_arguments(member.__func__)))
    return kind


def check_count(value: object, what: str) -> int:
    """Return a number that counts versions, places or entries.

    Raises:
        InvalidArgument: It is no integer (True and False are none), negative, or beyond 64 bits.
    """
    if type(value) is int and 0 <= value <= LARGEST:
        return value
    problem = f"{what} must be an integer from 0 on, not {describe_value(value)}."
    raise InvalidArgument(problem=problem)


def check_seconds(value: object, what: str) -> float:
    """Return a length of time in seconds.

    Raises:
        InvalidArgument: It is no number, not a number at all (NaN), or negative.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return value
    problem = f"{what} must be a number of seconds from 0 on, not {describe_value(value)}."
    raise InvalidArgument(problem=problem)


def check_async(function: Callable[..., Any], what: str) -> None:
    """Refuse a function that is plainly not async, where its result is awaited.

    A plain function that returns an awaitable is allowed if it says so: by ``functools.wraps``, or by its
    annotation.

    Raises:
        InvalidArgument: It is written with ``def``.
    """
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain) or inspect.iscoroutinefunction(plain) or plain.__name__ == "<lambda>":
        return
    annotation = plain.__annotations__.get("return", "")
    if not any(word in str(annotation) for word in ("Awaitable", "Coroutine", "Future", "Task")):
        problem = f"{what} must be async. Write it as: async def {plain.__name__}(…)."
        raise InvalidArgument(problem=problem)


Seconds: TypeAlias = Annotated[float, check_seconds]
"""A length of time."""
Count: TypeAlias = Annotated[int, check_count]
"""A number from 0 on, such as a version."""


def check_fields(value: object) -> None:
    """Check every field of a struct or dataclass against its annotation.

    Raises:
        InvalidArgument: One is of another type.
    """
    kind: Any = type(value)
    for name, shape in _field_shapes(kind):
        field = getattr(value, name)
        if not shape.allows(field):
            shape.refuse(f"{kind.__name__}.{name}", field)


@functools.cache
def _field_shapes(kind: Any) -> list[tuple[str, ValueShape]]:
    hints = get_type_hints(kind, include_extras=True)
    names: Sequence[str] = getattr(kind, "__struct_fields__", ()) or tuple(
        getattr(kind, "__dataclass_fields__", ())
    )
    return [(name, shape_of(hints[name])) for name in names]
