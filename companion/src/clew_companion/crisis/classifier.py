"""The score of a message: a weighted sum of its words, letters and concepts, learnt from labelled ones.

The weights are data (``weights.json``), made by ``python -m tests.companion.training``. Nothing here is
learnt while the companion runs.
"""

import functools
import importlib.resources
import itertools
import logging
import secrets
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

from clew_companion.crisis.concepts import OTHER_PERSONS, Reading
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.words import MARKS

MOST_TOKENS = 400
"""Words that are scored: the beginning and the end of a long message."""
MOST_GAP = 2
"""The most words between two concepts that follow each other."""
SIZE_BOUNDS = (3, 6, 10, 16, 25, 45, 80)
"""Where a message of few words ends and a longer one begins: the same words weigh otherwise in each."""
LARGEST_SIZE = 4
"""From this size on, concepts count alike; the same holds for sentences, one later."""
PAIR_DISTANCE = 7
"""How far apart two words may be that are looked at together."""
Features = tuple[set[str], set[str], set[str], set[str]]
"""The features of a message: concepts, words, letters, and words near each other."""


def features(reading: Reading) -> Features:
    """The features of a reading."""
    tokens = (
        reading.tokens
        if len(reading.tokens) <= MOST_TOKENS
        else [*reading.tokens[: MOST_TOKENS // 2], *reading.tokens[-MOST_TOKENS // 2 :]]
    )
    return (
        _concept_features(reading),
        _phrase_features(tokens),
        _letter_features(tokens),
        _pair_features(tokens),
    )


def _concept_features(reading: Reading) -> set[str]:
    names = set(reading.concepts)
    for sentence in reading.sentences:
        concepts = sorted(sentence)
        for at, one in enumerate(concepts):
            names.update([f"{one}+{other}" for other in concepts[at + 1 :]])
    groups = load_lexicon().groups
    frames = reading.concepts & groups["frames"]
    for one in reading.concepts:
        if one.lstrip("-") in groups["key"]:
            names.update([f"{one}&{frame}" for frame in frames])
    names.update(_person_features(reading, groups["key"]))
    names.update(_sequence_features(reading))
    names.update(_shape_features(reading))
    return names


def _shape_features(reading: Reading) -> Iterable[str]:
    """Features of a message's length, of its concepts at that length, and of its end."""
    size = bisect_left(SIZE_BOUNDS, reading.length)
    yield f"size {size}"
    yield f"sentences {min(len(reading.sentences), LARGEST_SIZE + 1)}"
    yield from [f"{one}#{min(size, LARGEST_SIZE)}" for one in reading.concepts]
    for one in reading.sentences[-1] if reading.sentences else ():
        yield f"{one}$"


def _person_features(reading: Reading, key_concepts: frozenset[str]) -> Iterable[str]:
    """Features of the subject of a key concept: the person, another, both, or nobody named."""
    persons_by_clause = [
        ("i" if "self" in clause else "") + ("o" if not clause.isdisjoint(OTHER_PERSONS) else "")
        for clause in reading.clauses
    ]
    return [
        f"{sign.name}@{persons_by_clause[sign.clause]}"
        for sign in reading.signs
        if sign.name.lstrip("-") in key_concepts
    ]


def _sequence_features(reading: Reading) -> Iterable[str]:
    """Concepts that follow each other in a clause."""
    for at, sign in enumerate(reading.signs):
        for later in reading.signs[at + 1 : at + 6]:
            if 0 <= later.start - sign.end <= MOST_GAP and later.clause == sign.clause:
                yield f"{sign.name}>{later.name}"


def _phrase_features(tokens: Sequence[str]) -> set[str]:
    phrases = set(tokens)
    phrases.update([f"{one} {two}" for one, two in itertools.pairwise(tokens)])
    phrases.update(
        [f"{one} {two} {three}" for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False)]
    )
    return phrases


def _letter_features(tokens: Iterable[str]) -> set[str]:
    pieces: set[str] = set()
    for word in set(tokens):
        word_with_edges = f"_{word}_"
        for size in (3, 4, 5):
            pieces.update([word_with_edges[at : at + size] for at in range(len(word_with_edges) - size + 1)])
    return pieces


def _pair_features(tokens: Iterable[str]) -> set[str]:
    """Words with others between them: what a phrase says, however it is put."""
    plain = [word for word in tokens if word not in MARKS]
    pairs: set[str] = set()
    for at, one in enumerate(plain):
        pairs.update([f"{one}~{other}" for other in plain[at + 2 : at + PAIR_DISTANCE + 1]])
    return pairs


SCORE_NAMES = ("level 1", "level 2", "level 3", "another", "harm")
"""What is scored: the three levels, whether it is about another person, whether another is in danger."""
LEVEL_COUNT = 3
QUESTION_SHARES = (0.3, 0.7)
"""How much the scores of level 1 and of level 2 count for a question: risk counts more."""
FEATURE_GROUPS = ("concepts", "words", "letters", "pairs")
DAMPING = (10, 15, 40, 30)
"""So many features more are thought of in each group: a message of two words proves little."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each feature in each score, in hundredths, and the threshold of each score.

    ``source`` names what they were learnt from. ``begins`` is where question, risk, danger and the two other
    scores begin to count if the weights are alone, ``together`` the first three if the network was asked too.
    ``tables`` are by group.
    """

    source: str
    bias: tuple[float, ...]
    begins: tuple[float, ...]
    together: tuple[float, float, float] = (0.0, 0.0, 0.0)
    tables: dict[str, dict[str, tuple[int, ...]]]


def score_features(features_by_group: Features, weights: Weights) -> list[float]:
    """The scores of a message by the weights."""
    sums = list(weights.bias)
    for names, group, damping in zip(features_by_group, FEATURE_GROUPS, DAMPING, strict=True):
        table = weights.tables[group]
        hits = [table[name] for name in names if name in table]
        if hits:
            share = 0.01 / (len(names) + damping) ** 0.5
            sums = [
                one + share * sum(column) for one, column in zip(sums, zip(*hits, strict=True), strict=True)
            ]
    return sums


def margins_of(scores: Sequence[float], begins: Sequence[float]) -> list[float]:
    """The distances of question, risk, danger and the other scores from where they begin to count."""
    one, two = QUESTION_SHARES
    question = one * scores[0] + two * scores[1]
    return [score - begin for score, begin in zip([question, *scores[1:]], begins, strict=True)]


def decode_weights(text: str | bytes) -> Weights:
    """Weights from their file."""
    return msgspec.json.decode(text, type=Weights)


def encode_weights(weights: Weights) -> str:
    """Weights as their file holds them: a line for each feature."""
    header = {
        "about": "made by python -m tests.companion.training; not edited by hand",
        "columns": SCORE_NAMES,
        "source": weights.source,
        "bias": [round(one, 3) for one in weights.bias],
        "begins": weights.begins,
        "together": weights.together,
    }
    head = "".join(f"{_json_text(name)}: {_json_text(value)},\n" for name, value in header.items())
    tables = [
        f"{_json_text(group)}: {{\n{_table_rows(weights.tables[group])}\n}}" for group in FEATURE_GROUPS
    ]
    return f'{{\n{head}"tables": {{\n' + ",\n".join(tables) + "\n}}\n"


def _table_rows(table: Mapping[str, tuple[int, ...]]) -> str:
    return ",\n".join(f"{_json_text(name)}: {_json_text(numbers)}" for name, numbers in sorted(table.items()))


def _json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


@functools.cache
def load_weights() -> Weights:
    """The weights that come with the companion."""
    file = importlib.resources.files("clew_companion.crisis").joinpath("weights.json")
    return decode_weights(file.read_bytes())


log = logging.getLogger("clew")
T = TypeVar("T")
MessageScorer = Callable[[str, Reading], Sequence[float]]
"""How far a message is above where each score begins to count."""
LevelReader = Callable[[str], Sequence[float] | None]
"""How much a text reads like each level or more; None where there is nothing that reads it."""
NETWORK_LANGUAGE = "en"
"""What the network reads."""
HARMLESS_SCORE = -3.0
"""Below this score of risk the weights are sure: the network would have to be surer than it ever is."""
MOST_NETWORK_WORDS = 60
"""Of a message of more words the network is not asked: it would read only some of it."""
CACHE_SIZE = 4096
"""Of how many messages it is remembered what they were."""


def weights_scorer(weights: Weights) -> MessageScorer:
    """The weights alone."""
    return lambda message, reading: margins_of(score_features(features(reading), weights), weights.begins)


def combined_scorer(weights: Weights, read_levels: LevelReader) -> MessageScorer:
    """The mean of the weights and the network; the weights alone where it is not asked or cannot answer."""

    def score(message: str, reading: Reading) -> Sequence[float]:
        scores = score_features(features(reading), weights)
        if not is_for_network(reading, scores):
            return margins_of(scores, weights.begins)
        try:
            levels = read_levels(message)
        except Exception as error:  # noqa: BLE001  # what it cannot read, the weights decide
            log.warning("The network of the crisis gate failed, and is left out: %s", type(error).__name__)
            levels = None
        if levels is None:
            return margins_of(scores, weights.begins)
        begins = [*weights.together, *weights.begins[LEVEL_COUNT:]]
        return margins_of([*combine_scores(scores, levels), *scores[LEVEL_COUNT:]], begins)

    return score


def is_for_network(reading: Reading, scores: Sequence[float]) -> bool:
    """Return whether the network is asked."""
    return (
        reading.language == NETWORK_LANGUAGE
        and scores[1] > HARMLESS_SCORE
        and reading.length <= MOST_NETWORK_WORDS
    )


def combine_scores(scores: Sequence[float], levels: Sequence[float]) -> list[float]:
    """The mean of both for each level."""
    return [(score + level) / 2 for score, level in zip(scores, levels, strict=False)]


@functools.cache
def default_scorer() -> MessageScorer:
    """The bundled scorer: weights and network. The network is loaded with the first message that needs it."""
    return combined_scorer(load_weights(), cache_by_hash(_bundled_levels))


def _bundled_levels(text: str) -> Sequence[float] | None:
    read_levels = _bundled_reader()
    return read_levels(text) if read_levels else None


@functools.cache
def _bundled_reader() -> LevelReader | None:
    """The bundled network; None where it cannot be loaded, which is said once."""
    try:
        from clew_companion.crisis.network import load_network  # it needs NumPy

        return load_network().levels
    except ImportError:
        log.warning("The crisis gate misses more without NumPy: pip install numpy")
    except Exception as error:  # noqa: BLE001  # a file that is broken or gone must not silence the gate
        log.warning("The network of the crisis gate cannot be read, and is left out: %s", error)
    return None


@functools.cache
def quick_scorer() -> MessageScorer:
    """The weights alone, for what would take the network too long."""
    return weights_scorer(load_weights())


def cache_by_hash(compute: Callable[[str], T]) -> Callable[[str], T]:
    """A cache of readings, keyed by a hash of the message: no word is stored."""
    key = secrets.token_bytes(16)
    results: dict[bytes, T] = {}
    lock = threading.Lock()

    def look_up(message: str) -> T:
        digest = blake2b(message.encode(errors="surrogatepass"), digest_size=16, key=key).digest()
        with lock:
            if digest in results:
                return results[digest]
        result = compute(message)  # outside the lock: another message need not wait for this one
        with lock:
            if len(results) >= CACHE_SIZE:
                results.pop(next(iter(results)))
            results[digest] = result
        return result

    return look_up
