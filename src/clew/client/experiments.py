"""Calls of data sets and experiments."""

from clew.api.experiments import (
    COMPARE_EXPERIMENTS,
    GET_EXPERIMENT,
    LIST_DATASETS,
    LIST_EXAMPLES,
    LIST_EXPERIMENTS,
    LIST_RESULTS,
    ComparisonView,
    DatasetPage,
    ExamplePage,
    ExperimentPage,
    ExperimentResultPage,
    ExperimentView,
)
from clew.client.call import ApiCall, CallMethod, api_call


class ExperimentMethods:
    """Calls of data sets and experiments."""

    @CallMethod
    def datasets(self, *, limit: int = 50, cursor: str | None = None) -> ApiCall[DatasetPage]:
        """Return data sets, the newest first."""
        return api_call(LIST_DATASETS, limit=limit, cursor=cursor)

    @CallMethod
    def examples(self, dataset: str, *, limit: int = 50, cursor: str | None = None) -> ApiCall[ExamplePage]:
        """Return the examples of a data set."""
        return api_call(LIST_EXAMPLES, dataset, limit=limit, cursor=cursor)

    @CallMethod
    def experiments(self, *, limit: int = 50, cursor: str | None = None) -> ApiCall[ExperimentPage]:
        """Return experiments, the newest first."""
        return api_call(LIST_EXPERIMENTS, limit=limit, cursor=cursor)

    @CallMethod
    def experiment(self, name: str) -> ApiCall[ExperimentView]:
        """Return an experiment, summed up from the results that are there now."""
        return api_call(GET_EXPERIMENT, name)

    @CallMethod
    def results(
        self, experiment: str, *, limit: int = 50, cursor: str | None = None
    ) -> ApiCall[ExperimentResultPage]:
        """Return the results of an experiment."""
        return api_call(LIST_RESULTS, experiment, limit=limit, cursor=cursor)

    @CallMethod
    def compare(
        self, first: str, second: str, *, everything: bool = False, limit: int = 50, cursor: str | None = None
    ) -> ApiCall[ComparisonView]:
        """Return two experiments side by side: the examples whose scores differ, or all of them."""
        return api_call(
            COMPARE_EXPERIMENTS, first=first, second=second, everything=everything, limit=limit, cursor=cursor
        )
