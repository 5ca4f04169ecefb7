"""Results of experiments: what came out for each example, summed up, and two of them side by side. Pure."""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, plain
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.values import Record
from clew.workbench.experiments.examples import Example, Source, record_id

RESULT: Final = "experiment result"
SHOWN = 500


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came out for one example: an output and its score, or an error.

    ``ms`` is how long the answer took; ``cost`` is in millionths of a dollar, None if no price is known.
    """

    example: str
    question: str = ""
    expected: JSON = None
    output: JSON = None
    score: float | None = None
    detail: JSON = None
    error: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    started: int = 0
    ms: float = 0.0
    source: Source | None = None
    owner: str | None = None
    number: int = 0
    revision: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Results summed up. ``mean`` is over those that have a score; ``cost`` is None unless all have one."""

    count: int = 0
    failed: int = 0
    mean: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One example in two experiments. ``difference`` is how much better the second is."""

    example: str
    question: str
    expected: JSON
    first: Result | None
    second: Result | None
    difference: float | None


def summed(results: Iterable[Result]) -> Summary:
    """Results as numbers."""
    found = list(results)
    scores = [result.score for result in found if result.score is not None]
    costs = [result.cost for result in found if result.cost is not None]
    times = sorted(result.ms for result in found if result.error is None)
    return Summary(
        count=len(found),
        failed=sum(result.error is not None for result in found),
        mean=round(math.fsum(scores) / len(scores), 6) if scores else None,
        input_tokens=sum(result.input_tokens for result in found),
        output_tokens=sum(result.output_tokens for result in found),
        cost=sum(costs) if found and len(costs) == len(found) else None,
        p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95),
    )


def _quantile(times: Sequence[float], part: float) -> float | None:
    """The time that such a part of all did not exceed."""
    return times[max(math.ceil(part * len(times)) - 1, 0)] if times else None


def side_by_side(first: Iterable[Result], second: Iterable[Result]) -> list[Compared]:
    """Two experiments on one data set, example by example, in its order."""
    left, right = _by_example(first), _by_example(second)
    names = {**left, **right}
    order = sorted(names, key=lambda name: (names[name].number, name))
    return [_compared(name, left.get(name), right.get(name)) for name in order]


def _by_example(results: Iterable[Result]) -> Mapping[str, Result]:
    return {result.example: result for result in results}


def _compared(example: str, first: Result | None, second: Result | None) -> Compared:
    told = first or second
    assert told is not None
    scores = [None if result is None else result.score for result in (first, second)]
    before, after = scores
    return Compared(
        example=example,
        question=told.question,
        expected=told.expected,
        first=first,
        second=second,
        difference=None if before is None or after is None else round(after - before, 6),
    )


# Records.


def record_of(experiment: str, result: Result) -> Record:
    """The record that a result is kept as. It belongs to whom its example belongs to."""
    about = () if result.source is None else (f"thread:{result.source.thread}",)
    return Record(
        kind=RESULT,
        id=record_id(experiment, result.example),
        owner=result.owner,
        tags=(f"experiment:{experiment}", *about),
        sort=result.number,
        body=plain(msgspec.structs.replace(result, owner=None, number=0, revision=0)),
    )


def result_of(record: Record) -> Result:
    """The result behind a record."""
    try:
        told = msgspec.convert(record.body, Result)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"experiment result {record.id!r}", problem=str(error)) from error
    return msgspec.structs.replace(told, owner=record.owner, number=record.sort, revision=record.revision)


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
