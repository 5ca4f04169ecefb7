"""Health and readiness over HTTP, the agent, and the metrics."""

import asyncio

from litestar import Response
from litestar.datastructures import State

from clew.api.health import (
    GET_AGENT,
    HEALTH,
    LIST_AGENTS,
    METRICS,
    READY,
    AgentList,
    AgentListEntry,
    AgentView,
    Health,
    StudioExtension,
)
from clew.core.errors import StoreUnavailable
from clew.core.values import DEFAULT_TENANT
from clew.server.http.callers import CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.resources import ServerResources
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant
from clew.server.tenants.agent import is_pinned

READY_SECONDS = 2.0
STATUSES = ("waiting", "running", "dead")
MOST_JOBS = 1_000
"""Jobs of one status and tenant are counted up to here."""


@endpoint(HEALTH)
async def health() -> Health:
    """Report that the process answers."""
    return Health(ok=True)


@endpoint(READY)
async def ready(state: State) -> Health:
    """Report that the store answers too, and soon, so that requests may be sent here."""
    resources: ServerResources = state.resources
    try:
        async with asyncio.timeout(READY_SECONDS):
            report = await resources.db.report()
    except TimeoutError as error:  # a pool waits for much longer than whoever asks this
        raise StoreUnavailable(problem=f"it has not answered within {READY_SECONDS} s") from error
    if not report.healthy:
        raise StoreUnavailable(problem="its format is not the one that this server needs")
    return Health(ok=True, store=report.store)


@endpoint(GET_AGENT)
async def get_agent(caller: CurrentCaller, state: State) -> AgentView:
    """Return the agent of this server, and what people must know of it before they begin."""
    agent = caller.resources.agent
    async with caller.resources.runtimes.runtime_for(caller.identity.tenant) as runtime:
        name, mode = runtime.agent, runtime.memory_mode
    return AgentView(
        name=name,
        model=agent.model,
        notices=list(agent.notices),
        skills=agent.skills,
        mode=mode.value,
        incognito=is_pinned(caller.resources.settings),
        voice=caller.resources.realtime is not None,
        studio=[
            StudioExtension(
                agent=each.name, script=each.studio.script, navigation=dict(each.studio.navigation)
            )
            for each in state.agents
            if each.studio is not None
        ],
    )


@endpoint(LIST_AGENTS)
async def list_agents(caller: CurrentCaller, state: State) -> AgentList:
    """Return the agents of this server, and those that are installed beside them."""
    agents = caller.resources.agents
    served = [
        AgentListEntry(
            name=entry.name,
            served=True,
            default=entry is agents.default,
            description=entry.served.agent.description,
            model=entry.served.model,
        )
        for entry in agents
    ]
    names = {entry.name for entry in served} | {entry.served.agent.name for entry in agents}
    others = [
        AgentListEntry(name=each.name, served=False, description=each.description)
        for each in state.agents
        if each.name not in names
    ]
    return AgentList(agents=[*served, *others])


@endpoint(METRICS)
async def metrics(caller: CurrentCaller) -> Response[bytes]:
    """Return the metrics of all workers and tenants together, for Prometheus. Scope operator."""
    resources = caller.resources
    counts = dict.fromkeys(STATUSES, 0)
    known = [tenant.id async for tenant in Directory(resources.db).entries(Tenant) if tenant.enabled]
    # Also those that are in no directory, and have a runtime in the process that is asked.
    for tenant in dict.fromkeys([DEFAULT_TENANT, *known, *resources.runtimes.tenants]):
        jobs = resources.db.scope(tenant=tenant).jobs
        for status in STATUSES:
            counts[status] += len(await jobs.list(status=status, limit=MOST_JOBS))
    return Response(resources.metrics.text(counts), media_type=METRICS.media_type)


HEALTH_ROUTES = [health, ready, get_agent, list_agents, metrics]
