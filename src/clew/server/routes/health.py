"""Whether the server lives, whether it can serve, what answers, and its numbers."""

import asyncio

from litestar import Response, get
from litestar.datastructures import State

from clew.api.operators import AgentView, Health
from clew.core.errors import StoreUnavailable
from clew.server.http.callers import NEEDS, OPEN, Calling, Serving
from clew.server.identity.entries import OPERATOR
from clew.server.tenants.agent import is_pinned

READY_SECONDS = 2.0
STATUSES = ("waiting", "running", "dead")
MOST = 1_000
"""Jobs of one status and tenant are counted up to here."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@get("/health", operation_id="health", opt={OPEN: True})
async def health() -> Health:
    """Whether the process answers."""
    return Health(ok=True)


@get("/ready", operation_id="ready", opt={OPEN: True})
async def ready(state: State) -> Health:
    """Whether the store answers too, and soon, so that requests may be sent here."""
    serving: Serving = state.serving
    try:
        async with asyncio.timeout(READY_SECONDS):
            report = await serving.db.report()
    except TimeoutError as error:  # a pool waits for much longer than whoever asks this
        raise StoreUnavailable(problem=f"it has not answered within {READY_SECONDS} s") from error
    if not report.healthy:
        raise StoreUnavailable(problem="its format is not the one that this server needs")
    return Health(ok=True, store=report.store)


@get("/agent", operation_id="get_agent")
async def get_agent(caller: Calling) -> AgentView:
    """What answers here, and what people must know of it before they begin."""
    agent = caller.serving.agent
    return AgentView(
        kind=agent.kind,
        model=agent.model,
        notices=list(agent.notices),
        incognito=is_pinned(caller.serving.settings),
        voice=caller.serving.realtime is not None,
    )


@get("/metrics", operation_id="metrics", media_type=TEXT, opt={NEEDS: OPERATOR})
async def metrics(caller: Calling) -> Response[bytes]:
    """The numbers of this process, of all its tenants together, as Prometheus reads them. Scope operator."""
    serving = caller.serving
    serving.metrics.streams.set(serving.streams.inside)
    serving.metrics.tenants.set(len(serving.runtimes.tenants))
    counts = dict.fromkeys(STATUSES, 0)
    for tenant in serving.runtimes.tenants:
        jobs = serving.db.scope(tenant=tenant).jobs
        for status in STATUSES:
            counts[status] += len(await jobs.list(status=status, limit=MOST))
    for status, count in counts.items():
        serving.metrics.jobs.labels(status).set(count)
    return Response(serving.metrics.text(), media_type=TEXT)


HEALTH = [health, ready, get_agent, metrics]
