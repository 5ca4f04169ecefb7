"""Lists of threads: those that match some words, and the last text of each."""

import msgspec

from clew.core.messages.projection import plain_messages
from clew.core.values import SummaryPage, ThreadSummary
from clew.database.database import Database

BATCH_SIZE, MOST_THREADS = 100, 1_000
"""How many threads a search reads at a time, and at most for one page."""
RECENT_ITEMS = 8
"""How many of the newest items are searched for a text."""
LONGEST_TEXT = 200


class ThreadListing(msgspec.Struct, frozen=True, kw_only=True):
    """Threads of one page, and the position of the next; ``problems`` are of threads that cannot be read."""

    threads: list[ThreadSummary]
    next: str | None = None
    problems: dict[str, str] = {}


async def find_threads(db: Database, after: str | None, limit: int, search: str | None) -> ThreadListing:
    """Return up to so many threads that match a search; fewer if too many had to be read for them."""
    matches: list[ThreadSummary] = []
    problems: dict[str, str] = {}
    thread_count = 0
    while len(matches) < limit and thread_count < MOST_THREADS:
        page, page_matches = await _page_and_matches(db, after, limit - len(matches), search)
        matches += page_matches
        problems.update(page.broken)
        thread_count, after = thread_count + max(len(page.threads), 1), page.next
        if after is None:
            break
    return ThreadListing(threads=matches, next=after, problems=problems)


async def _page_and_matches(
    db: Database, after: str | None, count: int, search: str | None
) -> tuple[SummaryPage, list[ThreadSummary]]:
    """Return a page of threads that ends with the last match that is wanted, and its matches."""
    size = count if search is None else max(count, BATCH_SIZE)
    page = await db.threads(limit=size, after=after)
    matches = [each for each in page.threads if search is None or _is_match(each, search)]
    if len(matches) <= count:
        return page, matches
    end = page.threads.index(matches[count - 1]) + 1
    return await db.threads(limit=end, after=after), matches[:count]


def _is_match(summary: ThreadSummary, search: str) -> bool:
    words = (summary.id, summary.title or "", *summary.labels)
    return any(search.casefold() in word.casefold() for word in words)


async def last_text(db: Database, thread: str) -> str | None:
    """Return the beginning of the last text in a thread, whatever framework wrote it."""
    window = await db.thread(thread).items(last=RECENT_ITEMS)
    texts = [message.text for message in plain_messages(window) if message.text]
    return " ".join(texts[-1].split())[:LONGEST_TEXT] if texts else None
