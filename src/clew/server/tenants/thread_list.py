"""Lists of threads: those that match some words, and the first and last text of each."""

import re

import msgspec

from clew.core.messages.projection import plain_messages
from clew.core.values import SummaryPage, ThreadSummary
from clew.database.database import Database

BATCH_SIZE, MOST_THREADS = 100, 1_000
"""How many threads a search reads at a time, and at most for one page."""
RECENT_ITEMS = 8
"""How many of the newest items are searched for a text."""
LONGEST_TEXT = 200
FIRST_ITEMS = 8
"""How many of the oldest items are searched for the first message."""
LONGEST_TITLE = 60
MARKS = re.compile(
    r"```.*?(?:```|\Z)|^\s*(?:#{1,6}|>|[-*+]|\d{1,3}[.)])\s+|</?[a-zA-Z][^<>]*>|[*`]+|(?<!\w)_+|_+(?!\w)",
    re.DOTALL | re.MULTILINE,
)
"""Marks of Markdown and HTML: code between fences, what opens a line, tags, and what is around words."""
LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")


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


class ThreadTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of a thread, if it has no title, and its last text."""

    first: str | None = None
    last: str | None = None


async def thread_texts(db: Database, summary: ThreadSummary) -> ThreadTexts:
    """Return the first and the last text of a thread."""
    first = await first_text(db, summary.id) if summary.title is None else None
    return ThreadTexts(first=first, last=await last_text(db, summary.id))


async def first_text(db: Database, thread: str) -> str | None:
    """Return the first message of a user in a thread as a title; None if there is none."""
    window = await db.thread(thread).items(first=FIRST_ITEMS)
    texts = [message.text for message in plain_messages(window) if message.role == "user"]
    return next((title for text in texts if (title := title_of_text(text))), None)


def title_of_text(text: str) -> str:
    """Return a text as a title: one line without marks, cut between two words if it is long."""
    line = " ".join(MARKS.sub(" ", LINK.sub(r"\1", text[: LONGEST_TITLE * 20])).split())
    if len(line) <= LONGEST_TITLE:
        return line
    start, space, _ = line[:LONGEST_TITLE].rpartition(" ")
    return f"{(start if space else line[:LONGEST_TITLE]).rstrip(' ,;:.–-')}…"


async def last_text(db: Database, thread: str) -> str | None:
    """Return the beginning of the last text in a thread, whatever framework wrote it."""
    window = await db.thread(thread).items(last=RECENT_ITEMS)
    texts = [message.text for message in plain_messages(window) if message.text]
    return " ".join(texts[-1].split())[:LONGEST_TEXT] if texts else None
