"""Passages: earlier stretches of a person's threads that bear on a message, with the turns around them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from clew.core.errors import ThreadNotFound
from clew.core.log import places
from clew.core.text.excerpts import excerpt
from clew.core.text.periods import named_period
from clew.core.text.words import speaker_of, stem, text_of, words
from clew.core.values import HISTORY, MEMORY_PREFIX, Item
from clew.database.database import Database
from clew.database.search import Place, RankedPlace, prefer_period
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.recall.render import PassageEntry, PassageTurn
from clew.runtime.settings import MemoryConfig

REACH = 1
"""So many turns before and after the one that was found go with it."""

CANDIDATES_PER_PASSAGE = 4
MOST_COMPARED = 128
"""Of the turns of somebody who has said a lot, so many are compared in a turn: nobody waits for more."""

LEAST_SHARED_WORDS = 2
"""A passage has at least so many of the words of a message; one word alone bears on nothing."""

LETTERS_PER_TOKEN = 4
TURN_LETTERS = 320
"""Of a longer turn, the part with the words is given."""


class CurrentWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the present thread that a model sees anyway: ``length`` of its newest items."""

    thread: str
    length: int


async def recall_passages(
    db: Database, message: str, *, owner: str | None, window: CurrentWindow, config: MemoryConfig
) -> list[PassageEntry]:
    """The passages that bear on a message, the best first, within a budget of tokens.

    They come from the threads of the owner, or from the present one alone if it has none. What the model sees
    anyway is never among them, nor is what was hidden, ended or erased.
    """
    stems = {stem(word) for word in words(message) if word not in FUNCTION_WORDS}
    if len(stems) < LEAST_SHARED_WORDS or not config.passages:
        return []
    start, version = await _window_start(db, window)
    ranking = [
        ranked
        for ranked in await _rank_turns(db, message, owner, window.thread, version)
        if not ranked.place[0].startswith(MEMORY_PREFIX)
        and (ranked.place[0] != window.thread or ranked.place[2] < start)
    ]
    candidates = [ranked.place for ranked in ranking[: config.passages * CANDIDATES_PER_PASSAGE]]
    stretches = {place: _stretch(place, window.thread, start) for place in candidates}
    items = await db.search_index.read(list(dict.fromkeys(p for s in stretches.values() for p in s)))
    return _choose(stretches, items, stems, config)


async def _window_start(db: Database, window: CurrentWindow) -> tuple[int, int]:
    """The place and the version at which the window of the present thread begins.

    All that came after that version is in the window. Both are 0 if nothing is stored yet, and the version
    if all of it is in the window.
    """
    try:
        items = await db.thread(window.thread).items(last=window.length, log=HISTORY)
    except ThreadNotFound:
        return 0, 0
    if not items:
        return 0, 0
    return items[0].place, items[0].version if len(items) == window.length else 0


async def _rank_turns(
    db: Database, message: str, owner: str | None, thread: str, version: int
) -> list[RankedPlace]:
    query = " ".join(word for word in words(message) if word not in FUNCTION_WORDS)
    scope = thread if owner is None else None
    # What the model sees anyway need not be in the index, and bringing it there costs a commit in each turn.
    needed = {thread: version}
    ranking = await db.search_index.rank(
        query, owner=owner, thread=scope, log=HISTORY, needed=needed, most=MOST_COMPARED
    )
    period = named_period(message, db.store.now())
    return ranking if period is None else await prefer_period(db.search_index, ranking, period)


def _stretch(place: Place, current: str, start: int) -> list[Place]:
    """The places of a turn and of those around it, in order, as far as they are before the window."""
    thread, log, middle = place
    numbers = range(-REACH, REACH + 1)
    around = [middle if not step else places.place_of(middle // places.SPACING + step) for step in numbers]
    return [(thread, log, near) for near in around if thread != current or near < start]


def _choose(
    stretches: Mapping[Place, Sequence[Place]],
    items: Mapping[Place, Item],
    stems: set[str],
    config: MemoryConfig,
) -> list[PassageEntry]:
    """The best stretches that share enough words with the message, no turn twice, within the budget."""
    passages: list[PassageEntry] = []
    used: set[Place] = set()
    letters = config.passage_tokens * LETTERS_PER_TOKEN
    for place, stretch in stretches.items():
        turns = [items[near] for near in stretch if near in items and _is_said(items[near])]
        shared = {stem(word) for item in turns for word in words(text_of(item))} & stems
        if place not in items or not used.isdisjoint(stretch) or len(shared) < LEAST_SHARED_WORDS:
            continue
        passage = _passage(place[0], turns, stems)
        length = sum(len(turn.text) for turn in passage.turns)
        if length <= letters and passage.turns:
            passages.append(passage)
            used.update(stretch)
            letters -= length
        if len(passages) == config.passages:
            break
    return passages


def _is_said(item: Item) -> bool:
    """Return whether an item is something that was said to everybody in the conversation."""
    is_open = item.kind == "message" and item.visibility == "all" and item.role != "system"
    return is_open and bool(text_of(item))


def _passage(thread: str, turns: Sequence[Item], stems: set[str]) -> PassageEntry:
    return PassageEntry(
        thread=thread,
        date=datetime.fromtimestamp(turns[0].time / 1000, UTC).date().isoformat() if turns else "",
        turns=tuple(
            PassageTurn(
                speaker=speaker_of(item) or item.role,
                text=excerpt(text_of(item), stems, TURN_LETTERS).text,
                place=item.place,
            )
            for item in turns
        ),
    )
