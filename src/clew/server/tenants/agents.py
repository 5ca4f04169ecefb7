"""The agents of a server by the names that their threads have; the first answers where none is named."""

from collections.abc import Iterator, Sequence

import msgspec

from clew.core.errors import InvalidArgument
from clew.server.tenants.agent import ServedAgent
from clew.server.tenants.runtimes import TenantRuntimes


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that is served, with its runtimes. ``name`` is what its threads call it."""

    name: str
    served: ServedAgent
    runtimes: TenantRuntimes


def check_distinct(names: Sequence[str]) -> None:
    """Refuse two agents of one name: a thread could not tell which of them is its own.

    Raises:
        InvalidArgument: There are two.
    """
    for name in names:
        if names.count(name) > 1:
            problem = f"Two agents are called {name!r}. Name each in its runtime: Runtime(db, agent=…)."
            raise InvalidArgument(problem=problem)


class ServedAgents:
    """The agents of a server.

    Raises:
        InvalidArgument: Two of them have the same name.
    """

    def __init__(self, entries: Sequence[AgentEntry]) -> None:
        check_distinct([entry.name for entry in entries])
        self._entries = {entry.name: entry for entry in entries}

    def __iter__(self) -> Iterator[AgentEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def default(self) -> AgentEntry:
        """The agent of turns that name none, on threads that have none."""
        return next(iter(self._entries.values()))

    def named(self, name: str) -> AgentEntry:
        """Return the agent of a name.

        Raises:
            InvalidArgument: No agent of that name is served here.
        """
        entry = self._entries.get(name)
        if entry is None:
            names = ", ".join(self._entries)
            raise InvalidArgument(problem=f"No agent {name!r} is served here. Served are: {names}.")
        return entry

    def writer(self, thread_agent: str | None) -> AgentEntry:
        """Return the agent of a thread; the default if that is not served, which is then refused to write."""
        return self.default if thread_agent is None else self._entries.get(thread_agent, self.default)
