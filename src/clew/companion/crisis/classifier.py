"""How serious a message reads: a weighted sum of its words, letters and concepts, learnt from labelled ones.

The weights are data (``weights.json``), made by ``python -m tests.companion.training``. Nothing here is
learnt while the companion runs.
"""

import functools
import importlib.resources
import itertools
import logging
import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

from clew.companion.crisis.concepts import OTHERS, Reading
from clew.companion.crisis.lexicon import lexicon
from clew.companion.crisis.words import MARKS

READ = 400
"""Words that are scored: the beginning and the end of a long message."""
NEXT = 2
"""How many words may stand between two concepts that follow each other."""
SIZES = (3, 6, 10, 16, 25, 45, 80)
"""Where a message of few words ends and a longer one begins: the same words weigh otherwise in each."""
SIZED = 4
"""From this size on, concepts count alike; the same holds for sentences, one later."""
APART = 7
"""How far apart two words may be that are looked at together."""
Features = tuple[set[str], set[str], set[str], set[str]]
"""What is said as concepts, as words, as letters, and as words that stand near each other."""


def features(now: Reading) -> Features:
    """What a reading is scored by."""
    said = now.said if len(now.said) <= READ else [*now.said[: READ // 2], *now.said[-READ // 2 :]]
    return _concepts(now), _phrases(said), _letters(said), _pairs(said)


def _concepts(now: Reading) -> set[str]:
    found = set(now.concepts)
    for together in now.sentences:
        ordered = sorted(together)
        for at, one in enumerate(ordered):
            found.update([f"{one}+{other}" for other in ordered[at + 1 :]])
    groups = lexicon().groups
    frames = now.concepts & groups["frames"]
    for one in now.concepts:
        if one.lstrip("-") in groups["key"]:
            found.update([f"{one}&{frame}" for frame in frames])
    found.update(_who(now, groups["key"]))
    found.update(_following(now))
    found.update(_shape(now))
    return found


def _shape(now: Reading) -> Iterable[str]:
    """How long a message is, what is said at that length, and what is said last."""
    size = bisect_left(SIZES, now.length)
    yield f"size {size}"
    yield f"sentences {min(len(now.sentences), SIZED + 1)}"
    yield from [f"{one}#{min(size, SIZED)}" for one in now.concepts]
    for one in now.sentences[-1] if now.sentences else ():
        yield f"{one}$"


def _who(now: Reading, key: frozenset[str]) -> Iterable[str]:
    """Who a key concept is said of: the person, another, both, or nobody that was named."""
    who = [
        ("i" if "self" in clause else "") + ("o" if not clause.isdisjoint(OTHERS) else "")
        for clause in now.clauses
    ]
    return [f"{sign.name}@{who[sign.clause]}" for sign in now.signs if sign.name.lstrip("-") in key]


def _following(now: Reading) -> Iterable[str]:
    """Concepts that follow each other in a clause."""
    for at, sign in enumerate(now.signs):
        for later in now.signs[at + 1 : at + 6]:
            if 0 <= later.start - sign.end <= NEXT and later.clause == sign.clause:
                yield f"{sign.name}>{later.name}"


def _phrases(said: Sequence[str]) -> set[str]:
    found = set(said)
    found.update([f"{one} {two}" for one, two in itertools.pairwise(said)])
    found.update([f"{one} {two} {three}" for one, two, three in zip(said, said[1:], said[2:], strict=False)])
    return found


def _letters(said: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for word in set(said):
        framed = f"_{word}_"
        for size in (3, 4, 5):
            found.update([framed[at : at + size] for at in range(len(framed) - size + 1)])
    return found


def _pairs(said: Iterable[str]) -> set[str]:
    """Words with others between them: what a phrase says, however it is put."""
    plain = [word for word in said if word not in MARKS]
    found: set[str] = set()
    for at, one in enumerate(plain):
        found.update([f"{one}~{other}" for other in plain[at + 2 : at + APART + 1]])
    return found


HEADS = ("level 1", "level 2", "level 3", "another", "harm")
"""What is scored: the three levels, whether it is about another person, whether another is in danger."""
LEVELS = 3
GROUPS = ("concepts", "words", "letters", "pairs")
DAMPED = (10, 15, 40, 30)
"""So many features more are thought of in each group: a message of two words proves little."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What each feature adds to each score, in hundredths, and where each score begins to count.

    ``source`` names what they were learnt from. ``together`` is where the levels begin to count if the
    network was asked too. ``tables`` are by group.
    """

    source: str
    bias: tuple[float, ...]
    begins: tuple[float, ...]
    together: tuple[float, float, float] = (0.0, 0.0, 0.0)
    tables: dict[str, dict[str, tuple[int, ...]]]


def scores(found: Features, weights: Weights) -> list[float]:
    """How far each score is above where it begins to count; below, it is negative."""
    sums = [bias - begin for bias, begin in zip(weights.bias, weights.begins, strict=True)]
    for names, group, damped in zip(found, GROUPS, DAMPED, strict=True):
        table = weights.tables[group]
        hits = [table[name] for name in names if name in table]
        if hits:
            share = 0.01 / (len(names) + damped) ** 0.5
            sums = [
                one + share * sum(column) for one, column in zip(sums, zip(*hits, strict=True), strict=True)
            ]
    return sums


def read_weights(text: str | bytes) -> Weights:
    """Weights from their file."""
    return msgspec.json.decode(text, type=Weights)


def written_weights(weights: Weights) -> str:
    """Weights as their file holds them: a line for each feature."""
    about = {
        "about": "made by python -m tests.companion.training; not edited by hand",
        "columns": HEADS,
        "source": weights.source,
        "bias": [round(one, 3) for one in weights.bias],
        "begins": weights.begins,
        "together": weights.together,
    }
    head = "".join(f"{_json(name)}: {_json(value)},\n" for name, value in about.items())
    tables = [f"{_json(group)}: {{\n{_rows(weights.tables[group])}\n}}" for group in GROUPS]
    return f'{{\n{head}"tables": {{\n' + ",\n".join(tables) + "\n}}\n"


def _rows(table: Mapping[str, tuple[int, ...]]) -> str:
    return ",\n".join(f"{_json(name)}: {_json(numbers)}" for name, numbers in sorted(table.items()))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@functools.cache
def weights() -> Weights:
    """The weights that come with the companion."""
    file = importlib.resources.files("clew.companion.crisis").joinpath("weights.json")
    return read_weights(file.read_bytes())


log = logging.getLogger("clew")
Found = TypeVar("Found")
Score = Callable[[str, Reading], Sequence[float]]
"""How far a message is above where each score begins to count."""
Levels = Callable[[str], Sequence[float]]
"""How much a text reads like each level or more."""
READS = "en"
"""What the network reads."""
UNSURE = 2.5
"""How far from risk, either way, the weights are sure by themselves."""
LONGEST = 60
"""Of a message of more words the network is not asked: it would read only some of it."""
KNOWN = 4096
"""Of how many messages it is remembered what they were."""


def by_weights(weights: Weights) -> Score:
    """The weights alone."""
    return lambda message, reading: scores(features(reading), weights)


def by_both(weights: Weights, levels: Levels) -> Score:
    """The weights; where they are not sure, the mean of them and the network."""

    def score(message: str, reading: Reading) -> Sequence[float]:
        margins = scores(features(reading), weights)
        if not in_doubt(reading, margins):
            return margins
        try:
            heard = levels(message)
        except Exception as error:  # noqa: BLE001  # what it cannot read, the weights decide
            log.warning("The network of the crisis gate failed, and is left out: %s", type(error).__name__)
            return margins
        return [*together(margins, heard, weights), *margins[LEVELS:]]

    return score


def in_doubt(reading: Reading, margins: Sequence[float]) -> bool:
    """Whether the network is asked."""
    return reading.language == READS and abs(margins[1]) < UNSURE and reading.length <= LONGEST


def together(margins: Sequence[float], heard: Sequence[float], weights: Weights) -> list[float]:
    """How far both are above where they begin to count together."""
    return [
        (margin + begin + more) / 2 - both
        for margin, begin, more, both in zip(margins, weights.begins, heard, weights.together, strict=False)
    ]


@functools.cache
def score() -> Score:
    """What comes with the companion: both, or the weights alone where the network cannot be had."""
    try:
        from clew.companion.crisis.network import network  # it needs NumPy

        return by_both(weights(), remembered(network().levels))
    except ImportError:
        log.warning("The crisis gate misses more without NumPy: pip install 'clew[companion]'")
    except Exception as error:  # noqa: BLE001  # a file that is broken or gone must not silence the gate
        log.warning("The network of the crisis gate cannot be read, and is left out: %s", error)
    return quick()


@functools.cache
def quick() -> Score:
    """The weights alone, for what would take the network too long."""
    return by_weights(weights())


def remembered(made: Callable[[str], Found]) -> Callable[[str], Found]:
    """What was made of messages before. They are known by a hash: no word is kept."""
    key = secrets.token_bytes(16)
    found: dict[bytes, Found] = {}

    def look_up(message: str) -> Found:
        name = blake2b(message.encode(errors="surrogatepass"), digest_size=16, key=key).digest()
        if name not in found:
            if len(found) >= KNOWN:
                found.pop(next(iter(found)))
            found[name] = made(message)
        return found[name]

    return look_up
