"""The calls about steps of runs, data sets and experiments."""

from clew.client import experiments as told
from clew.client.requests import Call, call, named


def steps(run: str) -> Call[told.Steps]:
    """The steps of a run: what took how long, and what it cost."""
    return call("GET", f"/runs/{named(run)}/steps", told.Steps)


def datasets(*, limit: int = 50, cursor: str | None = None) -> Call[told.DatasetPage]:
    """Data sets, the newest first."""
    return call("GET", "/datasets", told.DatasetPage, limit=limit, cursor=cursor)


def examples(dataset: str, *, limit: int = 50, cursor: str | None = None) -> Call[told.ExamplePage]:
    """The examples of a data set."""
    path = f"/datasets/{named(dataset)}/examples"
    return call("GET", path, told.ExamplePage, limit=limit, cursor=cursor)


def experiments(*, limit: int = 50, cursor: str | None = None) -> Call[told.ExperimentPage]:
    """Experiments, the newest first."""
    return call("GET", "/experiments", told.ExperimentPage, limit=limit, cursor=cursor)


def experiment(name: str) -> Call[told.ExperimentView]:
    """An experiment, summed up from the results that are there now."""
    return call("GET", f"/experiments/{named(name)}", told.ExperimentView)


def results(experiment: str, *, limit: int = 50, cursor: str | None = None) -> Call[told.ResultPage]:
    """The results of an experiment."""
    path = f"/experiments/{named(experiment)}/results"
    return call("GET", path, told.ResultPage, limit=limit, cursor=cursor)


def compare(
    first: str, second: str, *, everything: bool = False, limit: int = 50, cursor: str | None = None
) -> Call[told.ComparisonView]:
    """Two experiments side by side: the examples whose scores differ, or all of them."""
    return call(
        "GET",
        "/comparisons",
        told.ComparisonView,
        first=first,
        second=second,
        everything=everything,
        limit=limit,
        cursor=cursor,
    )
