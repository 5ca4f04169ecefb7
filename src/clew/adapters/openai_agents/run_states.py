"""Runs that wait for an approval: their state, stored so that another process can go on with them."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from agents import Agent, RunContextWrapper, RunState

from clew.core.arguments import check_methods
from clew.core.errors import RecordNotFound
from clew.core.values import Record
from clew.database.database import Database

KIND: Final = "openai.run_state"

AnyState: TypeAlias = RunState[Any, Agent[Any]]
"""The state of a run, whatever its context and agent."""


@check_methods
class PausedRun:
    """The interrupted run of one session, if there is one."""

    def __init__(
        self, open_database: Callable[[], Awaitable[Database]], session_id: str, owner: str | None
    ) -> None:
        self._open_database = open_database
        self._session_id = session_id
        self._owner = owner

    async def save(self, state: AnyState) -> None:
        """Keep the state of an interrupted run, in place of what was kept before."""
        body = json.loads(state.to_string())
        record = Record(kind=KIND, id=self._session_id, body=body, owner=self._owner)
        await (await self._open_database()).records.put(record)

    async def load(
        self, agent: Agent[Any], *, context: RunContextWrapper[Any] | None = None
    ) -> AnyState | None:
        """The state that was kept, ready to be approved and run; None if there is none."""
        try:
            record = await (await self._open_database()).records.get(KIND, self._session_id)
        except RecordNotFound:
            return None
        return await RunState.from_json(agent, record.body, context_override=context)

    async def drop(self) -> None:
        """Forget the run: it was resumed, or is no longer wanted."""
        await (await self._open_database()).records.drop(KIND, self._session_id)
