"""How a message scores: by the weights, and by the network as well where they are not sure.

The network reads English, and only where NumPy is installed. Without it the weights decide alone, and miss
more.
"""

import functools
import logging
import secrets
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar

from clew.companion.crisis.reading import Reading
from clew.companion.crisis.scoring import LEVELS, Weights, features, scores, weights

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
