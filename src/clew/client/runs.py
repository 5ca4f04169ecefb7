"""Calls of runs."""

from clew.api.runs import (
    CANCEL_RUN,
    DECIDE,
    GET_RUN,
    LIST_RUNS,
    LIST_STEPS,
    CancellationView,
    NewDecision,
    NewDecisions,
    RunPage,
    RunView,
    StepList,
)
from clew.api.turns import TurnView
from clew.client.call import ApiCall, CallMethod, api_call


class RunMethods:
    """Calls of runs."""

    @CallMethod
    def runs(
        self,
        *,
        thread: str | None = None,
        status: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApiCall[RunPage]:
        """Return runs, the newest first."""
        return api_call(LIST_RUNS, thread=thread, status=status, limit=limit, cursor=cursor)

    @CallMethod
    def run(self, id: str) -> ApiCall[RunView]:
        """Return a run."""
        return api_call(GET_RUN, id)

    @CallMethod
    def cancel(self, run: str, *, key: str | None = None) -> ApiCall[CancellationView]:
        """End a run that is at work or waits."""
        return api_call(CANCEL_RUN, run, key=key)

    @CallMethod
    def decide(
        self,
        run: str,
        decisions: dict[str, NewDecision] | None = None,
        *,
        user: str | None = None,
        key: str | None = None,
    ) -> ApiCall[TurnView]:
        """Decide about the calls that a run waits for, and go on with it."""
        body = NewDecisions(decisions=decisions or {}, user=user)
        return api_call(DECIDE, run, body=body, key=key)

    @CallMethod
    def steps(self, run: str) -> ApiCall[StepList]:
        """Return the steps of a run, with their times and costs."""
        return api_call(LIST_STEPS, run)
