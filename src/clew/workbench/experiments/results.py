"""Results of experiments: what came out for each example, summed up, and two of them side by side. Pure."""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, as_json
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.values import Record
from clew.workbench.experiments.examples import Example, ExampleSource, record_id

RESULT_KIND: Final = "experiment result"
SHOWN_LIMIT = 500


class ExperimentResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one example: an output and its score, or an error.

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
    source: ExampleSource | None = None
    owner: str | None = None
    number: int = 0
    revision: int = 0


class ExperimentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Results summed up. ``mean`` is over those that have a score; ``cost`` is None unless all have one."""

    count: int = 0
    failed: int = 0
    mean: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None


class ExampleComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One example in two experiments. ``difference`` is how much better the second is."""

    example: str
    question: str
    expected: JSON
    first: ExperimentResult | None
    second: ExperimentResult | None
    difference: float | None


def summary_of(results: Iterable[ExperimentResult]) -> ExperimentSummary:
    """Results as numbers."""
    rows = list(results)
    scores = [result.score for result in rows if result.score is not None]
    costs = [result.cost for result in rows if result.cost is not None]
    times = sorted(result.ms for result in rows if result.error is None)
    return ExperimentSummary(
        count=len(rows),
        failed=sum(result.error is not None for result in rows),
        mean=round(math.fsum(scores) / len(scores), 6) if scores else None,
        input_tokens=sum(result.input_tokens for result in rows),
        output_tokens=sum(result.output_tokens for result in rows),
        cost=sum(costs) if rows and len(costs) == len(rows) else None,
        p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95),
    )


def _quantile(times: Sequence[float], part: float) -> float | None:
    """The time that such a part of all did not exceed."""
    return times[max(math.ceil(part * len(times)) - 1, 0)] if times else None


def compare_results(
    first: Iterable[ExperimentResult], second: Iterable[ExperimentResult]
) -> list[ExampleComparison]:
    """Two experiments on one data set, example by example, in its order."""
    left, right = _by_example(first), _by_example(second)
    names = {**left, **right}
    order = sorted(names, key=lambda name: (names[name].number, name))
    return [_comparison(name, left.get(name), right.get(name)) for name in order]


def _by_example(results: Iterable[ExperimentResult]) -> Mapping[str, ExperimentResult]:
    return {result.example: result for result in results}


def _comparison(
    example: str, first: ExperimentResult | None, second: ExperimentResult | None
) -> ExampleComparison:
    either = first or second
    assert either is not None
    scores = [None if result is None else result.score for result in (first, second)]
    before, after = scores
    return ExampleComparison(
        example=example,
        question=either.question,
        expected=either.expected,
        first=first,
        second=second,
        difference=None if before is None or after is None else round(after - before, 6),
    )


# Records.


def result_record(experiment: str, result: ExperimentResult) -> Record:
    """The record that a result is kept as. It belongs to whom its example belongs to."""
    thread_tags = () if result.source is None else (f"thread:{result.source.thread}",)
    return Record(
        kind=RESULT_KIND,
        id=record_id(experiment, result.example),
        owner=result.owner,
        tags=(f"experiment:{experiment}", *thread_tags),
        sort=result.number,
        body=as_json(msgspec.structs.replace(result, owner=None, number=0, revision=0)),
    )


def result_of(record: Record) -> ExperimentResult:
    """The result behind a record."""
    try:
        result = msgspec.convert(record.body, ExperimentResult)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"experiment result {record.id!r}", problem=str(error)) from error
    return msgspec.structs.replace(result, owner=record.owner, number=record.sort, revision=record.revision)


Scorer: TypeAlias = Callable[[Example, Any], Any]
"""What gives a score for an example and an output: a number, a bool, a ``Score``, or an object with a
``score``, whose other fields are kept beside it. It may be async."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A score from 0 to 1, and whatever else there is to say about it."""

    score: float
    detail: JSON = None


def exact(example: Example, output: JSON) -> float:
    """1 if the output is what was expected, but for white space around it."""
    return float(_trim(output) == _trim(example.expected))


@check_arguments
def contains(example: Example, output: JSON) -> float:
    """1 if the output holds the expected text somewhere, in whatever case."""
    return float(_text(example.expected).casefold() in _text(output).casefold())


def json_equal(example: Example, output: JSON) -> float:
    """1 if both are the same JSON, however it is written."""
    value = _parse_json(output)
    return float(value is not _NO_JSON and value == _parse_json(example.expected))


SCORERS: Final[dict[str, Scorer]] = {"exact": exact, "contains": contains, "json": json_equal}
"""The rules that are built in, by name."""


def _trim(value: JSON) -> JSON:
    return value.strip() if isinstance(value, str) else value


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_NO_JSON = object()


def _parse_json(value: JSON) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return _NO_JSON


async def score_of(scorer: Scorer, example: Example, output: JSON) -> Score:
    """The score that a scorer gives.

    Raises:
        InvalidArgument: That is no score.
    """
    value = await call_function(scorer, example, output)
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        return _score_with_detail(value)
    return Score(score=_check_number(value))


def _score_with_detail(fields: dict[str, Any]) -> Score:
    if "score" not in fields:
        raise InvalidArgument(problem="The scorer gave an object without a score.")
    rest = {name: value for name, value in fields.items() if name != "score"}
    if rest.keys() == {"detail"}:
        return Score(score=_check_number(fields["score"]), detail=rest["detail"])
    return Score(score=_check_number(fields["score"]), detail=rest or None)


def _check_number(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise InvalidArgument(problem=f"The scorer gave {value!r}, which is no number from 0 to 1.")
    return float(value)


async def call_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, async or not, and return its result; a blocking one runs in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object whose call is async
    ):
        return await function(*arguments)
    result = await asyncio.to_thread(function, *arguments)
    return await result if inspect.isawaitable(result) else result
