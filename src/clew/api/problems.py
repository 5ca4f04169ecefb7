"""Errors as the wire has them, and the errors that they mean."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from clew.core.encoding import JSON
from clew.core.errors import ClewError, InvalidArgument, NotFound, StoreUnavailable

PROBLEM_MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as ``application/problem+json``: ``code`` never changes, ``facts`` are what it carries."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, JSON] = {}


def error_from_response(status: int, body: bytes) -> ClewError:
    """Return the error that a response means; one that holds no problem of ours is quoted."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = body[:200].decode("utf-8", "replace")
        return StoreUnavailable(problem=f"the server answered {status}: {text}")
    return error_from_problem(problem)


def error_from_problem(problem: Problem) -> ClewError:
    """Return the error that a problem means, with its facts."""
    kind = next((kind for kind in _error_classes(ClewError) if kind.code == problem.code), None)
    if kind is not None:
        try:
            return kind(**problem.facts)
        except TypeError:
            pass  # the facts are not what this release knows
    if problem.status >= 500:
        return StoreUnavailable(problem=f"the server answered {problem.status}: {problem.detail}")
    if problem.status == 404:
        return NotFound()
    return InvalidArgument(problem=problem.detail)


def choices_sentence(body: Any, field: str) -> str:
    """Return the values that a field of a body takes, as a sentence; empty if it takes any."""
    if not isinstance(body, type):
        return ""
    hint = get_type_hints(body).get(field)
    values = [
        value for each in (hint, *get_args(hint)) if get_origin(each) is Literal for value in get_args(each)
    ]
    return f"Use one of: {', '.join(map(str, values))}" if values else ""


def _error_classes(root: type[ClewError]) -> Iterator[type[ClewError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _error_classes(kind)
