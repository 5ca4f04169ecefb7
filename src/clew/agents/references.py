"""References to objects of a program, as options and settings take them: ``module:attribute``."""

import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec

from clew.core.errors import ClewError, InvalidArgument


class ReferenceKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of object that a reference leads to: its name, its option, and how it is recognised.

    ``accepted`` is the sentence that says what may be given.
    """

    noun: str
    option: str
    accepted: str
    matches: Callable[[object], bool]


def load_reference(reference: str, kind: ReferenceKind) -> object:
    """Load the object at ``module:attribute``. The current directory is put on the import path.

    Raises:
        InvalidArgument: The module cannot be imported, or has no such attribute.
    """
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        example = f"travel:{kind.noun.replace(' ', '_')}"
        raise InvalidArgument(
            problem=f"{reference!r} names no {kind.noun}. Write module:attribute, such as {example}."
        )
    module = _import_module(module_name, kind.option)
    try:
        return reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise InvalidArgument(problem=_missing_attribute(module, attribute, kind)) from None


@asynccontextmanager
async def open_reference(reference: str, kind: ReferenceKind) -> AsyncIterator[object]:
    """Open the object at ``module:attribute``: it is given as it is, or made by a function or a class there.

    One that is made here and is an async context manager is entered, and left in the end.

    Raises:
        InvalidArgument: There is no such object, or it is of another kind.
    """
    value = load_reference(reference, kind)
    if isinstance(value, type) or not kind.matches(value):
        result = _call(value, reference, kind)
        if isinstance(result, AbstractAsyncContextManager):
            async with result as opened:
                yield _check_kind(opened, reference, kind)
            return
        value = result
    yield _check_kind(value, reference, kind)


def error_sentence(error: Exception) -> str:
    """Return an error in a sentence, with the line of code that it comes from."""
    if isinstance(error, ClewError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}."


def _import_module(name: str, option: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidArgument(problem=_missing_module(name, error, here, option)) from error
    except Exception as error:  # a script of one's own may raise anything; it is named with its line
        problem = f"The module {name!r} cannot be imported: {error_sentence(error)}"
        raise InvalidArgument(problem=problem) from error


def _missing_module(name: str, error: ModuleNotFoundError, here: str, option: str) -> str:
    if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
        return f"There is no module {name!r}, neither installed nor in {here}. Check {option}."
    return f"The module {name!r} cannot be imported: it needs {error.name!r}, which is not installed."


def _missing_attribute(module: ModuleType, attribute: str, kind: ReferenceKind) -> str:
    names = [name for name, value in vars(module).items() if kind.matches(value)]
    hint = f"It has the {kind.noun} {module.__name__}:{names[0]}." if names else kind.accepted
    return f"The module {module.__name__!r} has no attribute {attribute!r}. {hint}"


def _call(value: object, reference: str, kind: ReferenceKind) -> object:
    """Return what a function or a class without arguments makes."""
    if not callable(value):
        raise InvalidArgument(problem=f"{reference} is of type {type(value).__name__}. {kind.accepted}")
    try:
        return value()
    except Exception as error:  # a script of one's own may raise anything; it is named with its line
        raise InvalidArgument(
            problem=f"{reference} made no {kind.noun}: {error_sentence(error)} {kind.accepted}"
        ) from error


def _check_kind(value: object, reference: str, kind: ReferenceKind) -> object:
    if isinstance(value, type) or not kind.matches(value):
        noun = type(value).__name__
        raise InvalidArgument(problem=f"{reference} made an object of type {noun}. {kind.accepted}")
    return value
