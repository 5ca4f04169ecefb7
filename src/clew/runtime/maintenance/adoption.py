"""Adoption: an operator hands a thread over to another agent, with all that waits on it."""

from collections.abc import AsyncIterator

import msgspec

from clew.core import patch
from clew.core.encoding import check_id
from clew.core.values import (
    ABOUT_KEY,
    AGENT_KEY,
    AppendTo,
    Changeset,
    Committed,
    Exact,
    Put,
    RecordQuery,
    Write,
)
from clew.database.database import Database
from clew.database.records import record_pages
from clew.runtime.execution import queue
from clew.runtime.maintenance.idle import IdleThread, read_idle_thread
from clew.runtime.records.episodes import active_episode, episode_write
from clew.runtime.records.runs import record_of
from clew.runtime.state.inputs import check_thread_id
from clew.runtime.state.thread_agent import check_no_guest

ADOPT = "Adopt"
"""The reason of the changeset that hands a thread over."""
TURNS_PER_PAGE = 100


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that was handed over: its agent now, the one before, and its version."""

    thread: str
    agent: str
    before: str | None
    version: int


async def adopt_thread(db: Database, id: str, agent: str, *, now: int) -> Adoption:
    """Make an agent the only one that writes a thread.

    Its active episode, its queued turns and a run that stopped there go with it, in the same commit. Ends of
    earlier episodes are left to the agent that had them. If the thread is the agent's, nothing is changed.

    Raises:
        InvalidId: No conversation can have this id, or no agent this name.
        ThreadNotFound: There is no such thread.
        GuestThread: A guest framework keeps it.
        TurnBusy: A run is at work there.
        VersionConflict: The thread was written meanwhile; nothing was changed.
        RevisionConflict: What waits on it changed meanwhile; nothing was changed.
    """
    check_id(agent, "name of the agent")
    idle_thread = await read_idle_thread(db, check_thread_id(id), now)
    head = idle_thread.head
    if head.agent is None:
        await check_no_guest(db.thread(id), head, agent)
    if head.agent == agent:
        return Adoption(thread=id, agent=agent, before=agent, version=head.version)
    change = Changeset(patches=(patch.set([ABOUT_KEY, AGENT_KEY], agent),), reason=ADOPT)
    append = AppendTo(thread=id, change=change, expect=Exact(head.version, head.hash))
    commit, *_ = await db.commit([append, *await _record_writes(db, idle_thread, agent)])
    assert isinstance(commit, Committed)
    return Adoption(thread=id, agent=agent, before=head.agent, version=commit.version)


async def _record_writes(db: Database, idle_thread: IdleThread, agent: str) -> list[Write]:
    """Return the writes by which sweepers find under the new name what waits on a thread."""
    head, run = idle_thread.head, idle_thread.run
    writes: list[Write] = []
    if run is not None:
        new_run = msgspec.structs.replace(run, agent=agent)
        writes.append(Put(record=record_of(new_run, head.owner), expect=run.revision))
    episode = await active_episode(db, head.id)
    if episode is not None:
        writes.append(episode_write(msgspec.structs.replace(episode, agent=agent), episode.user))
    return [*writes, *[write async for write in _queue_writes(db, head.id, agent)]]


async def _queue_writes(db: Database, id: str, agent: str) -> AsyncIterator[Write]:
    query = RecordQuery(kind=queue.KIND, tags=(f"thread:{id}",), limit=TURNS_PER_PAGE)
    async for records in record_pages(db.records, query):
        for record in records:
            entry = msgspec.structs.replace(record, tags=queue.queue_tags(id, agent), revision=0)
            yield Put(record=entry, expect=record.revision)
