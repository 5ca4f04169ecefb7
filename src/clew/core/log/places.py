"""Places: the numbers of items in a log, with room between two neighbours for a few more."""

from clew.core.errors import LogFull

SPACING = 1 << 8
MOST_ITEMS = (1 << 24) - 1


def place_of(number: int) -> int:
    """The place of a log's n-th item."""
    return number * SPACING


def end_of(count: int) -> int:
    """The last place of a log to which so many items were appended, with the room behind the last."""
    return place_of(count + 1) - 1


def next_place(place: int) -> int:
    """The place of the item appended after the one at this place."""
    return (place // SPACING + 1) * SPACING


def is_inserted(place: int) -> bool:
    """Return whether an item was put at a place between others, as the summary of a compaction is."""
    return place % SPACING != 0


def last_place(first: int, count: int) -> int:
    """The last place of a run of items: appended ones are apart, inserted ones side by side."""
    return first + (count - 1) * (SPACING if first % SPACING == 0 else 1)


def check_room(number: int, thread: str, log: str) -> None:
    """Refuse an item beyond the last place.

    Raises:
        LogFull: The log holds as many items as it can.
    """
    if number > MOST_ITEMS:
        raise LogFull(thread=thread, log=log)


def places_after(place: int, count: int, thread: str, log: str) -> list[int]:
    """Places for some items right behind a place and before the next appended one.

    Raises:
        LogFull: There is not that much room.
    """
    if place % SPACING + count >= SPACING:
        raise LogFull(thread=thread, log=log)
    return [place + 1 + index for index in range(count)]
