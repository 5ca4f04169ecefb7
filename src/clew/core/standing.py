"""Where the items of a changeset will stand: at the end of their logs, or at a place that is free."""

from clew.core import chain, places
from clew.core.errors import InvalidArgument, LogFull
from clew.core.rows import AskCuts, Asking, AskItems, ItemRow, ThreadRow, ask
from clew.core.stored import Run
from clew.core.values import Changeset, Item


def stand(row: ThreadRow, change: Changeset) -> Asking[list[int]]:
    """The place of each item of a changeset."""
    ends = {log: size.end for log, size in row.counters.logs.items()}
    found: list[int] = []
    for item in change.items:
        if item.place:
            yield from _check_free(row, item, ends.get(item.log, 0), change, found)
            found.append(item.place)
            continue
        ends[item.log] = ends.get(item.log, 0) + 1
        places.check_end(ends[item.log], row.id, item.log)
        found.append(places.at(ends[item.log]))
    return found


def _check_free(row: ThreadRow, item: Item, end: int, change: Changeset, before: list[int]) -> Asking[None]:
    """Refuse a place that is taken, or that lies in a cut: a reader passes over cuts as a whole."""
    log, place = item.log, item.place
    if not 0 < place < places.at(end + 1) or place % places.ROOM == 0:
        raise InvalidArgument(problem=f"Place {place} of log {log!r} is not between two items of {row.id!r}.")
    for segment in chain.segments_of(row):
        taken = yield from ask(
            AskItems(segment.key, log, place - 1, place + 1, segment.upto, 1, backwards=False)
        )
        cut = yield from ask(AskCuts(segment.key, log, place, place, segment.upto))
        if taken or cut:
            raise LogFull(thread=row.id, log=log)
    twice = any(
        other.log == log and stands == place for other, stands in zip(change.items, before, strict=False)
    )
    if twice or any(cut.log == log and cut.first <= place <= cut.last for cut in change.cuts):
        raise LogFull(thread=row.id, log=log)


def runs_of(items: tuple[ItemRow, ...]) -> tuple[Run, ...]:
    """Items that stand one after another, joined."""
    runs: list[Run] = []
    for item in items:
        last = runs[-1] if runs else None
        if last and last.log == item.log and places.last_of(last.first, last.count + 1) == item.place:
            runs[-1] = Run(last.log, last.first, last.count + 1)
        else:
            runs.append(Run(item.log, item.place, 1))
    return tuple(runs)
