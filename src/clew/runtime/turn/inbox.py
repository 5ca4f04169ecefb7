"""The inbox: the calls of a whole database that wait for a person, with their runs and threads."""

from collections.abc import AsyncIterator

import msgspec

from clew.core.encoding import encode
from clew.core.errors import ThreadNotFound
from clew.core.values import Record, RecordQuery
from clew.database.database import Database
from clew.database.records import record_pages
from clew.runtime.records.runs import KIND, WAITING, Run, run_of
from clew.runtime.state.call_state import Approval
from clew.runtime.state.run_state import RunState

RUNS_PER_READ, MOST_RUNS = 100, 1_000
"""How many runs a list reads at a time, and at most for one page."""


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person: its run, and the thread that it is on.

    ``agent`` is the one that writes the thread, which alone can go on with the run.
    """

    run: Run
    approval: Approval
    agent: str
    owner: str | None = None
    title: str | None = None

    @property
    def since(self) -> int:
        """The time since when it waits."""
        return self.run.ended if self.run.ended is not None else self.run.started


class InboxFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a list has: of a thread, an agent, a tool, a user, or with a text anywhere in them."""

    thread: str | None = None
    agent: str | None = None
    tool: str | None = None
    user: str | None = None
    text: str | None = None

    def matches(self, waiting: WaitingCall) -> bool:
        """Return whether a call is one of them; the thread is selected by the store."""
        pairs = ((self.agent, waiting.agent), (self.tool, waiting.approval.tool), (self.user, waiting.owner))
        if any(wanted is not None and wanted != value for wanted, value in pairs):
            return False
        return self.text is None or self.text.casefold() in _searchable_text(waiting).casefold()


class InboxPage(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one page, those that began to wait last first, and the position of the next page."""

    calls: list[WaitingCall]
    next: tuple[int, str] | None = None


def _searchable_text(waiting: WaitingCall) -> str:
    approval = waiting.approval
    values = encode([approval.arguments, approval.question]).decode()
    names = (waiting.run.thread, waiting.title, waiting.owner, waiting.agent, approval.tool, waiting.run.id)
    return "\n".join([*(name for name in names if name is not None), values])


async def find_waiting_calls(
    db: Database, selection: InboxFilter, *, limit: int, after: tuple[int, str] | None = None
) -> InboxPage:
    """Return about so many calls that wait; fewer if too many runs had to be read for them.

    The calls of one run are on one page, so that a page may have a few more than its limit.
    """
    calls: list[WaitingCall] = []
    last: Record | None = None
    run_count = 0
    async for record in _waiting_runs(db, selection.thread, after):
        if last is not None and (len(calls) >= limit or run_count >= MOST_RUNS):
            return InboxPage(calls=calls, next=(last.sort, last.id))
        last, run_count = record, run_count + 1
        calls += [each for each in await waiting_calls_of_run(db, run_of(record)) if selection.matches(each)]
    return InboxPage(calls=calls)


async def _waiting_runs(
    db: Database, thread: str | None, after: tuple[int, str] | None
) -> AsyncIterator[Record]:
    """The records of runs that wait, the newest first."""
    tags = (f"status:{WAITING}", *((f"thread:{thread}",) if thread is not None else ()))
    query = RecordQuery(kind=KIND, tags=tags, newest=True, limit=RUNS_PER_READ, after=after)
    async for records in record_pages(db.records, query):
        for record in records:
            yield record


async def waiting_calls_of_run(db: Database, run: Run) -> list[WaitingCall]:
    """Return the calls of a run that wait; none if it does not wait, or its thread has gone on without it."""
    if run.status != WAITING:
        return []
    try:
        head = await db.thread(run.thread).head()
    except ThreadNotFound:
        return []
    run_state = RunState.of(head.state)
    if run_state.id != run.id:
        return []
    agent = head.agent or run.agent
    return [
        WaitingCall(run=run, approval=approval, agent=agent, owner=head.owner, title=head.title)
        for approval in run_state.approvals
    ]
