"""The parts of a server that all requests of a process share."""

import asyncio

import msgspec

from clew.database.database import Database
from clew.server.http.client_address import Networks
from clew.server.http.cursors import Cursors
from clew.server.http.limits import ConcurrencyLimit, FailureLimit, RateLimit
from clew.server.metrics import Metrics
from clew.server.settings import ServerSettings
from clew.server.tenants.agent import ServedAgent
from clew.server.tenants.agents import ServedAgents
from clew.server.tenants.realtime import RealtimeProvider
from clew.server.tenants.runtimes import TenantRuntimes
from clew.server.tenants.thread_feed import ThreadFeeds


class ServerResources(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that all requests of a process share. ``closing`` is set when the process is to stop."""

    settings: ServerSettings
    db: Database
    agents: ServedAgents
    realtime: RealtimeProvider | None
    thread_feeds: ThreadFeeds
    cursors: Cursors
    metrics: Metrics
    streams: ConcurrencyLimit
    user_streams: ConcurrencyLimit
    user_turns: ConcurrencyLimit
    user_requests: RateLimit
    failures: FailureLimit
    trusted_proxies: Networks
    local_only: bool
    closing: asyncio.Event

    @property
    def agent(self) -> ServedAgent:
        """The agent that answers where none is named."""
        return self.agents.default.served

    @property
    def runtimes(self) -> TenantRuntimes:
        """The runtimes of that agent."""
        return self.agents.default.runtimes
