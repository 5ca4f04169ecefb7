"""Threads that bear words, page by page, and what was said last in one."""

import msgspec

from clew.core.projection import plain_messages
from clew.core.values import Page, Summary
from clew.threads.database import Database

LOOKED_AT_ONCE, LOOKED_THROUGH = 100, 1_000
"""How many threads a search reads at a time, and for one page."""
LOOKED_BACK = 8
"""How many of the newest items may say something."""
LONGEST = 200


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Threads of one page, and where the next begins."""

    threads: list[Summary]
    next: str | None = None
    broken: dict[str, str] = {}


async def threads(db: Database, after: str | None, limit: int, search: str | None) -> Found:
    """As many threads as are wanted of those that bear the words; fewer if too many had to be looked at."""
    kept: list[Summary] = []
    broken: dict[str, str] = {}
    looked = 0
    while len(kept) < limit and looked < LOOKED_THROUGH:
        page, some = await _searched(db, after, limit - len(kept), search)
        kept += some
        broken.update(page.broken)
        looked, after = looked + max(len(page.threads), 1), page.next
        if after is None:
            break
    return Found(threads=kept, next=after, broken=broken)


async def _searched(
    db: Database, after: str | None, wanted: int, search: str | None
) -> tuple[Page, list[Summary]]:
    """A page of threads up to as many as are wanted of those that bear the words, and these."""
    size = wanted if search is None else max(wanted, LOOKED_AT_ONCE)
    page = await db.threads(limit=size, after=after)
    kept = [each for each in page.threads if search is None or _bears(each, search)]
    if len(kept) <= wanted:
        return page, kept
    end = page.threads.index(kept[wanted - 1]) + 1
    return await db.threads(limit=end, after=after), kept[:wanted]


def _bears(summary: Summary, search: str) -> bool:
    words = (summary.id, summary.title or "", *summary.labels)
    return any(search.casefold() in word.casefold() for word in words)


async def last_said(db: Database, thread: str) -> str | None:
    """The beginning of what was said last in a thread, whatever framework wrote it."""
    window = await db.thread(thread).items(last=LOOKED_BACK)
    told = [message.text for message in plain_messages(window) if message.text]
    return " ".join(told[-1].split())[:LONGEST] if told else None
