"""The health of a server, and the agent that it serves."""

import msgspec

from clew.api.route import Route
from clew.api.turns import MemoryModeName

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a process and, for readiness, of its store."""

    ok: bool
    store: str | None = None
    problems: list[str] = []


class StudioExtension(msgspec.Struct, frozen=True, kw_only=True):
    """Scripts that an installed agent adds to the Studio, and the titles of the pages that they have."""

    agent: str
    script: str
    navigation: dict[str, str] = {}


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that answers here, its model, and what people must know of it.

    ``mode`` is that of turns that ask for none: ``synced`` on a database that several machines share, else
    ``local``. ``incognito`` says whether a turn may leave no trace here, ``voice`` whether calls can be made.
    ``studio`` has what installed agents add to the Studio. ``skills`` can be installed for a turn.
    """

    name: str
    model: str | None = None
    notices: list[str] = []
    skills: list[str] = []
    mode: MemoryModeName = "local"
    incognito: bool = False
    voice: bool = False
    studio: list[StudioExtension] = []


class AgentListEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that is served here or only installed; the ``default`` one answers where none is named."""

    name: str
    served: bool
    default: bool = False
    description: str = ""
    model: str | None = None


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """The agents of a server, the default one first, those that are served before the others."""

    agents: list[AgentListEntry]


HEALTH = Route("health", "GET", "/health", Health, open_to_all=True)
READY = Route("ready", "GET", "/ready", Health, open_to_all=True)
GET_AGENT = Route("get_agent", "GET", "/agent", AgentView)
LIST_AGENTS = Route("list_agents", "GET", "/agents", AgentList)
METRICS = Route("metrics", "GET", "/metrics", bytes, media_type=METRICS_TYPE, scope="operator")
