"""Learning the floor's weights: logistic regression by coordinate descent, in plain Python."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from clew_companion.crisis.classifier import DAMPING, FEATURE_GROUPS, SCORE_NAMES, Features, Weights

EPOCHS, STRENGTH, SEED = 7, 0.5, 1
GRAVE = 1.5
"""How much more a message of level 3 counts than another."""
RARE = 3
"""A feature that fewer examples have teaches nothing that carries over."""
SMALL = 0.001
"""A step, as a share of the largest, that is not worth taking."""
LEAST = 55
"""A weight for a level, in hundredths, below which a feature is left out."""


@dataclass(frozen=True, slots=True)
class Example:
    """Something labelled, as features. ``share`` is how much it counts."""

    found: Features
    level: int
    kind: str = ""
    share: float = 1.0

    def side(self, head: str) -> bool | None:
        """Which side of a score it is on, or None if it says nothing about it."""
        if head.startswith("level"):
            return self.level >= int(head[-1])
        if self.level < 2:
            return None
        return self.kind == {"another": "worry for another", "harm": "harm to others"}[head]


@dataclass(frozen=True, slots=True)
class _Row:
    places: list[int]
    values: list[float]
    square: float


def learn(examples: Sequence[Example], begins: Sequence[float], source: str = "") -> Weights:
    """Weights for every score."""
    names, rarity = _names(examples)
    rows = [_row(one, names, rarity) for one in examples]
    learnt = [_separate(rows, examples, head, len(rarity) + 1) for head in SCORE_NAMES]
    tables = {}
    for group, table in zip(FEATURE_GROUPS, names, strict=True):
        frequent = {
            name: tuple(round(100 * one[at] * rarity[at]) for one in learnt) for name, at in table.items()
        }
        tables[group] = {name: row for name, row in frequent.items() if max(map(abs, row[:3])) >= LEAST}
    bias = tuple(one[-1] for one in learnt)
    return Weights(source=source, bias=bias, begins=tuple(begins), tables=tables)


def _names(examples: Sequence[Example]) -> tuple[list[dict[str, int]], list[float]]:
    """The features worth learning, each with its place, and how rare each is."""
    counts = [
        Counter(name for one in examples for name in one.found[group]) for group in range(len(FEATURE_GROUPS))
    ]
    tables: list[dict[str, int]] = []
    rarity: list[float] = []
    for count in counts:
        frequent = sorted(name for name, times in count.items() if times >= RARE)
        tables.append({name: len(rarity) + at for at, name in enumerate(frequent)})
        rarity += [math.log((1 + len(examples)) / (1 + count[name])) + 1 for name in frequent]
    return tables, rarity


def _row(example: Example, names: Sequence[dict[str, int]], rarity: Sequence[float]) -> _Row:
    places, values = [len(rarity)], [1.0]
    for features, table, damping in zip(example.found, names, DAMPING, strict=True):
        share = (len(features) + damping) ** -0.5
        known_places = sorted(table[name] for name in features if name in table)
        places += known_places
        values += [rarity[place] * share for place in known_places]
    return _Row(places, values, sum(map(mul, values, values)))


def _separate(rows: Sequence[_Row], examples: Sequence[Example], head: str, width: int) -> list[float]:
    """The weights that tell one side from the other: dual coordinate descent, one step a row."""
    sides = [one.side(head) for one in examples]
    count = len(sides) - sides.count(None)
    even = {side: count / (2 * max(sides.count(side), 1)) for side in (False, True)}
    weight = [0.0] * width
    duals = [0.0] * len(rows)
    order = [at for at, side in enumerate(sides) if side is not None]
    chance = random.Random(SEED)
    for _ in range(EPOCHS):
        chance.shuffle(order)
        for at in order:
            side = bool(sides[at])
            limit = STRENGTH * even[side] * examples[at].share * (GRAVE if examples[at].level == 3 else 1.0)
            sign, row = 1.0 if side else -1.0, rows[at]
            margin = sign * sum(map(mul, row.values, map(weight.__getitem__, row.places)))
            better = _dual(margin, duals[at], limit, row.square)
            step = sign * (better - duals[at])
            if abs(step) < SMALL * limit:
                continue
            duals[at] = better
            for place, value in zip(row.places, row.values, strict=True):
                weight[place] += step * value
    return weight


def _dual(margin: float, dual: float, limit: float, square: float) -> float:
    """The best value of one dual variable, the others held: Newton's method within bounds."""
    low, high, at = -16.0, 16.0, 0.0
    for _ in range(12):
        share = 1 / (1 + math.exp(-at))
        slope = at + square * (limit * share - dual) + margin
        low, high = (at, high) if slope < 0 else (low, at)
        following = at - slope / (1 + square * limit * share * (1 - share))
        following = following if low < following < high else (low + high) / 2
        if abs(following - at) < 1e-4:
            break
        at = following
    return limit / (1 + math.exp(-at))
