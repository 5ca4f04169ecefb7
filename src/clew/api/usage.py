"""Usage over time: runs, tokens and costs by day and agent."""

import msgspec

from clew.api.route import Route


class DayUsageView(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one agent that began on one day, in UTC. ``cost`` is in millionths of a dollar."""

    day: str
    agent: str
    runs: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage from a day to another, both included, the newest day first; days without a run are left out.

    ``complete`` is false if there were more runs than are read for one report: the oldest are missing.
    """

    since: str
    until: str
    days: list[DayUsageView]
    complete: bool = True


GET_USAGE = Route("get_usage", "GET", "/usage", UsageReport)
