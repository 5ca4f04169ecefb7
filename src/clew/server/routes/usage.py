"""Usage over HTTP: runs, tokens and costs of the caller by day and agent."""

from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from clew.api.usage import GET_USAGE, DayUsageView, UsageReport
from clew.core.clock import now_ms
from clew.core.encoding import as_json
from clew.runtime.records.usage import read_usage
from clew.server.http.callers import CurrentCaller
from clew.server.http.endpoint import endpoint

MOST_DAYS = 366


@endpoint(GET_USAGE)
async def get_usage(
    caller: CurrentCaller,
    days: Annotated[
        int, QueryParameter(description="How many days, today included.", ge=1, le=MOST_DAYS)
    ] = 30,
    agent: Annotated[str | None, QueryParameter(description="Only runs of this agent.")] = None,
) -> UsageReport:
    """Return how many runs there were on each of the last days, with their tokens and costs."""
    usage = await read_usage(caller.db, now=now_ms(), days=days, agent=agent)
    views = [msgspec.convert(as_json(each), DayUsageView) for each in usage.days]
    return UsageReport(since=usage.since, until=usage.until, days=views, complete=usage.is_complete)


USAGE_ROUTES = [get_usage]
