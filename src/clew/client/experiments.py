"""Calls of data sets and experiments."""

from collections.abc import Sequence

from clew.api.experiments import (
    ADD_EXAMPLES,
    COMPARE_EXPERIMENTS,
    DELETE_DATASET,
    DELETE_EXPERIMENT,
    GET_EXPERIMENT,
    LIST_DATASETS,
    LIST_EXAMPLES,
    LIST_EXPERIMENTS,
    LIST_RESULTS,
    SAVE_RESULTS,
    AdditionView,
    ComparisonView,
    DatasetPage,
    ExamplePage,
    ExperimentPage,
    ExperimentPlanView,
    ExperimentResultPage,
    ExperimentView,
    NewExamples,
    NewExperimentResult,
    NewExperimentResults,
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
    def add_examples(
        self, dataset: str, new: NewExamples, *, key: str | None = None
    ) -> ApiCall[AdditionView]:
        """Put examples into a data set, which is made if it is not there."""
        return api_call(ADD_EXAMPLES, dataset, body=new, key=key)

    @CallMethod
    def delete_dataset(self, name: str) -> ApiCall[None]:
        """Delete a data set with its examples; results of experiments on it stay."""
        return api_call(DELETE_DATASET, name)

    @CallMethod
    def experiments(self, *, limit: int = 50, cursor: str | None = None) -> ApiCall[ExperimentPage]:
        """Return experiments, the newest first."""
        return api_call(LIST_EXPERIMENTS, limit=limit, cursor=cursor)

    @CallMethod
    def experiment(self, name: str) -> ApiCall[ExperimentView]:
        """Return an experiment, summed up from the results that are there now."""
        return api_call(GET_EXPERIMENT, name)

    @CallMethod
    def save_results(
        self,
        experiment: str,
        plan: ExperimentPlanView,
        results: Sequence[NewExperimentResult],
        *,
        key: str | None = None,
    ) -> ApiCall[ExperimentView]:
        """Store results of an experiment that runs here, in place of earlier ones of the same examples."""
        body = NewExperimentResults(plan=plan, results=list(results))
        return api_call(SAVE_RESULTS, experiment, body=body, key=key)

    @CallMethod
    def delete_experiment(self, name: str) -> ApiCall[None]:
        """Delete an experiment with its results."""
        return api_call(DELETE_EXPERIMENT, name)

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
