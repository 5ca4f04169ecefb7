"""Data sets and experiments."""

from types import NoneType
from typing import Annotated

import msgspec

from clew.api.route import Route
from clew.core.encoding import JSON

MOST_ROWS = 1000
"""Examples or results that one request may bring."""


class DatasetView(msgspec.Struct, frozen=True, kw_only=True):
    """A data set. ``added`` counts what was ever put into it; some of that may be erased since."""

    name: str
    created: int
    added: int = 0


class ExampleMessageView(msgspec.Struct, frozen=True, kw_only=True):
    """One message of an example."""

    role: str
    content: str


class NewExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation and the answer that is expected; ``input`` is short for one message of a user."""

    messages: list[ExampleMessageView] = []
    input: str | None = None
    expected: JSON = None
    id: str | None = None


class NewExamples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New content of a data set: examples as they are, and the answered turns of threads.

    Threads are chosen by id, by label, or by words in them.
    """

    examples: Annotated[list[NewExample], msgspec.Meta(max_length=MOST_ROWS)] = []
    threads: list[str] = []
    label: str | None = None
    search: str | None = None
    from_version: int = 0
    window: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None


class AdditionView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of adding examples to a data set; those that it had already are ``known``."""

    dataset: DatasetView
    added: int
    known: int = 0


class DatasetPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some data sets, newest first."""

    datasets: list[DatasetView]
    next: str | None = None


class ExampleSourceView(msgspec.Struct, frozen=True, kw_only=True):
    """The source of an example: a thread, and the version and place of the answer in it."""

    thread: str
    version: int = 0
    item: int = 0


class ExampleView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that ends with a question, and the answer that is expected."""

    id: str
    messages: list[ExampleMessageView]
    expected: JSON = None
    source: ExampleSourceView | None = None
    owner: str | None = None


class ExamplePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some examples of a data set, in order."""

    dataset: str
    examples: list[ExampleView]
    next: str | None = None


class ExperimentPlanView(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an experiment: its data set, its subject and its scorer."""

    dataset: str
    subject: str
    scorer: str
    settings: dict[str, JSON] = {}


class NewExperimentResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new result for one example: an output and its score from 0 to 1, or an error."""

    example: str
    output: JSON = None
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    detail: JSON = None
    error: str | None = None
    input_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    output_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    cost: Annotated[int, msgspec.Meta(ge=0)] | None = None
    started: Annotated[int, msgspec.Meta(ge=0)] = 0
    ms: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class NewExperimentResults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results of an experiment, and its plan, which stays the same under one name."""

    plan: ExperimentPlanView
    results: Annotated[list[NewExperimentResult], msgspec.Meta(max_length=MOST_ROWS)] = []


class ExperimentSummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """Results summed up. ``mean`` is over those that have a score; ``cost`` is null unless all have one."""

    count: int = 0
    failed: int = 0
    mean: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None


class ExperimentView(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment, ``unfinished`` or ``done``."""

    name: str
    plan: ExperimentPlanView
    created: int
    status: str
    ended: int | None = None
    summary: ExperimentSummaryView = ExperimentSummaryView()


class ExperimentPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some experiments, newest first."""

    experiments: list[ExperimentView]
    next: str | None = None


class ExperimentResultView(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one example: an output and its score, or an error."""

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
    source: ExampleSourceView | None = None


class ExperimentResultPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some results of an experiment, in the order of the data set."""

    experiment: str
    results: list[ExperimentResultView]
    next: str | None = None


class ExampleComparisonView(msgspec.Struct, frozen=True, kw_only=True):
    """One example in two experiments. ``difference`` is how much better the second is."""

    example: str
    question: str
    expected: JSON = None
    first: ExperimentResultView | None = None
    second: ExperimentResultView | None = None
    difference: float | None = None


class ComparisonView(msgspec.Struct, frozen=True, kw_only=True):
    """Two experiments on one data set, side by side."""

    first: ExperimentView
    second: ExperimentView
    better: int
    worse: int
    same: int
    examples: list[ExampleComparisonView]
    next: str | None = None


ADD_EXAMPLES = Route(
    "add_examples", "POST", "/datasets/{name}/examples", AdditionView, body=NewExamples, takes_files=True
)
DELETE_DATASET = Route("delete_dataset", "DELETE", "/datasets/{name}", NoneType, status=204)
SAVE_RESULTS = Route(
    "save_results",
    "POST",
    "/experiments/{name}/results",
    ExperimentView,
    body=NewExperimentResults,
    takes_files=True,
)
DELETE_EXPERIMENT = Route("delete_experiment", "DELETE", "/experiments/{name}", NoneType, status=204)
LIST_DATASETS = Route("list_datasets", "GET", "/datasets", DatasetPage)
LIST_EXAMPLES = Route("list_examples", "GET", "/datasets/{name}/examples", ExamplePage, audit="read data set")
LIST_EXPERIMENTS = Route("list_experiments", "GET", "/experiments", ExperimentPage)
GET_EXPERIMENT = Route("get_experiment", "GET", "/experiments/{name}", ExperimentView)
LIST_RESULTS = Route(
    "list_results", "GET", "/experiments/{name}/results", ExperimentResultPage, audit="read experiment"
)
COMPARE_EXPERIMENTS = Route(
    "compare_experiments", "GET", "/comparisons", ComparisonView, audit="read experiment"
)
