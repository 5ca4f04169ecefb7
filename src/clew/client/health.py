"""Calls of the server itself: its health, its agent and its metrics."""

from clew.api.health import GET_AGENT, HEALTH, LIST_AGENTS, METRICS, READY, AgentList, AgentView, Health
from clew.client.call import ApiCall, CallMethod, api_call


class HealthMethods:
    """Calls of the server itself: its health, its agent and its metrics."""

    @CallMethod
    def health(self) -> ApiCall[Health]:
        """Return the health of the process."""
        return api_call(HEALTH)

    @CallMethod
    def ready(self) -> ApiCall[Health]:
        """Return the health of the process and its store."""
        return api_call(READY)

    @CallMethod
    def metrics(self) -> ApiCall[bytes]:
        """Return the metrics of one process, as Prometheus reads them."""
        return api_call(METRICS)

    @CallMethod
    def agent(self) -> ApiCall[AgentView]:
        """Return the agent of the server; of several, the default one."""
        return api_call(GET_AGENT)

    @CallMethod
    def agents(self) -> ApiCall[AgentList]:
        """Return the agents that are served or installed there."""
        return api_call(LIST_AGENTS)
