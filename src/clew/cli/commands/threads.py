"""Commands about threads: threads, threads adopt, show, log, diff."""

from typing import Annotated

import typer
from rich.text import Text

from clew.api.threads import ADOPT_THREAD
from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.core.encoding import encode
from clew.core.messages.projection import plain_messages
from clew.core.ops import diff as ops_between
from clew.core.values import HISTORY, Head, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.maintenance.adoption import adopt_thread

ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]
At = Annotated[int | None, typer.Option("--at", metavar="V", help="At this version instead of the newest.")]
Last = Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many of the newest.")]
All = Annotated[bool, typer.Option("--all", help="Everything, from the beginning.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")]


async def threads(
    call: CommandCall,
    owner: Annotated[str | None, typer.Option("--owner", help="Only threads of this owner.")] = None,
    limit: Limit = 50,
    after: Annotated[str | None, typer.Option("--after", help="Go on where a page ended.")] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also the threads that hold what is remembered.")
    ] = False,
) -> CommandResult:
    """List threads, the newest first.

    Example: clew threads --owner alice --limit 5
    """
    async with call.database() as db:
        page = await db.threads(owner=owner, limit=limit, after=after, system=everything)
    return CommandResult(value=page, display=values.thread_table(page))


async def adopt(
    call: CommandCall,
    thread: ThreadId,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent that writes it from now on.")
    ],
) -> CommandResult:
    """Hand a thread over to another agent.

    Only the agent that ran the first turn on a thread writes it. What waits there goes to the new one.

    Example: clew threads adopt alice-s1 --agent travel
    """
    async with call.database() as db:
        head = await db.thread(thread).head()
        facts = {"agent": agent, "before": head.agent}
        await audit_action(db, ADOPT_THREAD.audit, thread=thread, **facts)
        adoption = await adopt_thread(db, thread, agent, now=db.store.now())
    words = f"{values.clean(thread)} belongs to {values.clean(agent)} now."
    return CommandResult(value=adoption, display=Text(words))


async def show(
    call: CommandCall,
    thread: ThreadId,
    *,
    at: At = None,
    last: Last = 20,
    everything: All = False,
    log: Annotated[str, typer.Option("--log", metavar="NAME", help="Which of its logs.")] = HISTORY,
    messages: Annotated[
        bool, typer.Option("--messages", help="Only what was said and done, whatever wrote it.")
    ] = False,
) -> CommandResult:
    """Show a thread: its state and its newest items.

    Example: clew show alice-s1 --at 12 --last 5
    """
    async with call.database() as db:
        head = await db.thread(thread).head(at=at)
        window = await db.thread(thread).items(at=head.version, last=None if everything else last, log=log)
    if messages:
        listing = plain_messages(window)
        value = {"thread": head.id, "version": head.version, "messages": listing}
        return CommandResult(value=value, display=values.message_grid(listing))
    value = {"thread": head, "items": window.items, "broken": window.broken}
    return CommandResult(value=value, display=values.thread_detail(head, window, log))


async def log(
    call: CommandCall, thread: ThreadId, *, at: At = None, last: Last = 20, everything: All = False
) -> CommandResult:
    """Show the changesets of a thread, one line each.

    Example: clew log alice-s1 --last 50
    """
    async with call.database() as db:
        head = await db.thread(thread).head(at=at)
        count = head.version if everything else min(last, head.version)
        after = head.version - count
        changes = await db.thread(thread).changesets(after=after, upto=head.version, limit=count)
    return CommandResult(
        value={"thread": thread, "changesets": changes}, display=values.changeset_table(changes)
    )


async def diff(
    call: CommandCall,
    thread: ThreadId,
    first: Annotated[str, typer.Argument(metavar="V|OTHER", help="A version, or another thread's id.")],
    second: Annotated[
        int | None, typer.Argument(metavar="W", help="A later version; the newest if absent.")
    ] = None,
) -> CommandResult:
    """Compare two versions of a thread, or two threads.

    Digits are a version: V and W, or V and the newest. Anything else is another thread.

    Example: clew diff alice-s1 3 7
    """
    async with call.database() as db:
        one = db.thread(thread)
        by_version = first.isdecimal()
        before = await one.head(at=int(first) if by_version else None)
        other = one if by_version else db.thread(first)
        result = await read_difference(one, before, other, await other.head(at=second))
    return CommandResult(value=result, display=values.difference_detail(result))


async def read_difference(one: Thread, before: Head, other: Thread, after: Head) -> values.Difference:
    """The difference between a version of one thread and a version of another or of the same."""
    logs = sorted(before.counters.logs.keys() | after.counters.logs.keys())
    old_items = [item for log in logs for item in await one.items(at=before.version, log=log)]
    new_items = [item for log in logs for item in await other.items(at=after.version, log=log)]
    old_ids, new_ids = {_identity(item) for item in old_items}, {_identity(item) for item in new_items}
    return values.Difference(
        before=f"{before.id} version {before.version}",
        after=f"{after.id} version {after.version}",
        ops=ops_between(before.state, after.state),
        old=before.state,
        added=[item for item in new_items if _identity(item) not in old_ids],
        removed=[item for item in old_items if _identity(item) not in new_ids],
    )


def _identity(item: Item) -> tuple[str, int, int, bytes]:
    """The identity of an item across versions and branches."""
    body = item.body if isinstance(item.body, bytes) else encode(item.body)
    return item.log, item.place, item.version, body


async def all_thread_ids(db: Database) -> list[str]:
    """The ids of all threads, memories too, the newest first; on each page the unreadable come last."""
    page = await db.threads(limit=1000, system=True)
    ids = [*(thread.id for thread in page.threads), *page.broken]
    while page.next is not None:
        page = await db.threads(limit=1000, after=page.next, system=True)
        ids += [*(thread.id for thread in page.threads), *page.broken]
    return ids
