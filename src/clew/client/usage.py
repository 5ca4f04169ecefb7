"""Calls of usage."""

from clew.api.usage import GET_USAGE, UsageReport
from clew.client.call import ApiCall, CallMethod, api_call


class UsageMethods:
    """Calls of usage."""

    @CallMethod
    def usage(self, *, days: int = 30, agent: str | None = None) -> ApiCall[UsageReport]:
        """Return how many runs there were on each of the last days, with their tokens and costs."""
        return api_call(GET_USAGE, days=days, agent=agent)
