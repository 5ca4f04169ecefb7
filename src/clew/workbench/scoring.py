"""Scores: how well an output fits what was expected, from 0 to 1, by rules of our own or of yours."""

import asyncio
import inspect
import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.workbench.examples import Example

Scorer: TypeAlias = Callable[[Example, Any], Any]
"""What gives a score for an example and an output: a number, a bool, a ``Score``, or an object with a
``score``, whose other fields are kept beside it. It may be async."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A score from 0 to 1, and whatever else there is to say about it."""

    score: float
    detail: JSON = None


def exact(example: Example, output: JSON) -> float:
    """1 if the output is what was expected, but for white space around it."""
    return float(_trimmed(output) == _trimmed(example.expected))


@check_arguments
def contains(example: Example, output: JSON) -> float:
    """1 if the output holds the expected text somewhere, in whatever case."""
    return float(_text(example.expected).casefold() in _text(output).casefold())


def json_equal(example: Example, output: JSON) -> float:
    """1 if both are the same JSON, however it is written."""
    found = _parsed(output)
    return float(found is not _NO_JSON and found == _parsed(example.expected))


SCORERS: Final[dict[str, Scorer]] = {"exact": exact, "contains": contains, "json": json_equal}
"""The rules that are built in, by name."""


def _trimmed(value: JSON) -> JSON:
    return value.strip() if isinstance(value, str) else value


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_NO_JSON = object()


def _parsed(value: JSON) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return _NO_JSON


async def score_of(scorer: Scorer, example: Example, output: JSON) -> Score:
    """What a scorer says.

    Raises:
        InvalidArgument: That is no score.
    """
    told = await called(scorer, example, output)
    if isinstance(told, msgspec.Struct):
        told = msgspec.to_builtins(told)
    if isinstance(told, dict):
        return _with_detail(told)
    return Score(score=_number(told))


def _with_detail(told: dict[str, Any]) -> Score:
    if "score" not in told:
        raise InvalidArgument(problem="The scorer gave an object without a score.")
    rest = {name: value for name, value in told.items() if name != "score"}
    if rest.keys() == {"detail"}:
        return Score(score=_number(told["score"]), detail=rest["detail"])
    return Score(score=_number(told["score"]), detail=rest or None)


def _number(told: object) -> float:
    if not isinstance(told, int | float) or not math.isfinite(told) or not 0 <= told <= 1:
        raise InvalidArgument(problem=f"The scorer gave {told!r}, which is no number from 0 to 1.")
    return float(told)


async def called(function: Callable[..., Any], *given: Any) -> Any:
    """What a function gives, async or not; one that is not has a thread of its own."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object whose call is async
    ):
        return await function(*given)
    found = await asyncio.to_thread(function, *given)
    return await found if inspect.isawaitable(found) else found
