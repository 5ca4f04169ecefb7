"""Taking items away and putting others in their place: one changeset, refused if anybody has written."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from agents.items import TResponseInputItem

from clew.core.errors import VersionConflict
from clew.core.values import Changeset, Cut, Exact, Item, Window
from clew.threads.thread import Thread

PAGE = 256


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the newest items, whether they are all, and how to put others in place of their last ones."""

    items: list[TResponseInputItem]
    complete: bool
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]]


def cuts_of(window: Window) -> tuple[Cut, ...]:
    """The end of every item of a window, but not of those among them that cannot be read.

    A guest's calls are never held open, so none is open afterwards.
    """
    runs: list[list[Item]] = []
    broken = sorted(entry.place for entry in window.broken)
    for item in window:
        last = runs[-1][-1].place if runs else 0
        if runs and not any(last < place < item.place for place in broken):
            runs[-1].append(item)
        else:
            runs.append([item])
    return tuple(Cut(first=run[0].place, last=run[-1].place, count=len(run)) for run in runs)


async def replaced(
    thread: Thread, seen: Window, cuts: Sequence[Cut], added: Sequence[Item], reason: str
) -> bool:
    """Whether the changeset was committed: not if the thread has moved on since it was seen."""
    change = Changeset(cuts=tuple(cuts), items=tuple(added), reason=reason)
    try:
        await thread.append(change, expect=Exact(seen.version))
    except VersionConflict:
        return False
    return True


async def expired(
    thread: Thread, seen: Window, is_expired: Callable[[TResponseInputItem], bool]
) -> tuple[Cut, ...]:
    """The end of the oldest items that are over, up to the first that is not."""
    cuts: list[Cut] = []
    after, before = 0, seen[0].place
    while page := await thread.items(first=PAGE, after=after, before=before, at=seen.version):
        over = _leading(page, is_expired)
        if over:
            cuts += cuts_of(Window(over, page.broken, page.version))
        if len(over) < len(page):
            break
        after = page[-1].place
    return tuple(cuts)


def _leading(page: Window, is_expired: Callable[[TResponseInputItem], bool]) -> list[Item]:
    first = next((index for index, item in enumerate(page) if not is_expired(item.body)), len(page))
    broken = min((entry.place for entry in page.broken), default=None)
    return [item for item in page[:first] if broken is None or item.place < broken]
