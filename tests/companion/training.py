"""Make the floor's weights from the development part, and measure them on what they were not made from.

``python -m tests.companion.training`` writes ``weights.json`` into the package and ``cross_validated.json``
beside the messages. It takes some minutes, needs nothing but Python, and always writes the same.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from holdfast.companion.crisis import floor as crisis
from holdfast.companion.crisis.floor import judge
from holdfast.companion.crisis.lexicon import lexicon
from holdfast.companion.crisis.reading import read
from holdfast.companion.crisis.scoring import HEADS, Weights, features, scores, written_weights
from tests.companion.labelled import HERE, Conversation, Labelled, as_messages, conversations, messages, said
from tests.companion.learning import Example, learn

PART = "development"
FOLDS = 5
LEFT_ALONE = (0.89, 0.92, 0.967, 0.97, 0.97)
"""The share of the rest that each score should leave alone: it decides where the score begins to count."""
PACKAGE = Path(crisis.__file__).parent
VALIDATED = HERE / PART / "cross_validated.json"
NOTHING = [0.0] * len(HEADS)


def fingerprint() -> str:
    """What the weights are made from: the labelled words and the lexicon."""
    files = [*(HERE / PART).glob("*.jsonl"), *(PACKAGE / "lexicon").glob("*.toml")]
    files += [*(HERE / "plain").glob("*.txt")]
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def examples(given: Iterable[Labelled], talks: Iterable[Conversation]) -> list[Example]:
    """What is learnt from: messages, and turns of conversations whose level is known."""
    found = [Example(features(read(one.text, lexicon())), one.level, one.kind) for one in given]
    for talk in talks:
        last = (
            len(talk.turns)
            if talk.shape == "never"
            else talk.at_risk_from
            if talk.shape == "one turn"
            else -1
        )
        for at, text, _, level in said(talk):
            if last is not None and at <= last:
                found.append(Example(features(read(text, lexicon())), level))
    return found


def plain() -> list[Example]:
    """What is said in the plainest words, in every language: it is learnt from and never measured on."""
    found = []
    for file in sorted((HERE / "plain").glob("*.txt")):
        for line in file.read_text("utf-8").splitlines():
            label, _, text = line.partition(" | ")
            found.append(Example(features(read(text, lexicon())), int(label[0]), label[2:]))
    return found


def fold(one: Labelled | Conversation) -> int:
    """The fold that something is in. What begins with the same words is in the same one."""
    turns = one.turns if isinstance(one, Conversation) else one.before
    first = turns[0].text if turns else one.text if isinstance(one, Labelled) else ""
    return hashlib.sha256(first.encode()).digest()[0] % FOLDS


def validated() -> tuple[list[Weights], list[float]]:
    """Weights of each fold, made without it, and where the scores begin to count."""
    with ProcessPoolExecutor() as several:
        made = list(several.map(_without, range(FOLDS)))
    scored = [pair for _, pairs in made for pair in pairs]
    return [found for found, _ in made], [_begin(scored, head) for head in range(len(HEADS))]


def _without(number: int) -> tuple[Weights, list[tuple[Example, list[float]]]]:
    """Weights that were made without a fold, and how they score what is in it."""
    given, talks = messages(PART), conversations(PART)
    rest = examples(
        [one for one in given if fold(one) != number], [one for one in talks if fold(one) != number]
    )
    found = learn([*rest, *plain()], NOTHING)
    left_out = examples([one for one in given if fold(one) == number], ())
    return found, [(one, scores(one.found, found)) for one in left_out]


def _begin(scored: Sequence[tuple[Example, list[float]]], head: int) -> float:
    lesser = sorted(margins[head] for one, margins in scored if one.side(HEADS[head]) is False)
    return round(lesser[int(LEFT_ALONE[head] * len(lesser))], 3)


def judged(
    found: Sequence[Weights], begins: Sequence[float]
) -> dict[str, list[list[list[int]]] | list[list[int]]]:
    """Level and leaning of every message and every turn, by weights that were made without it."""
    by = [msgspec.structs.replace(one, begins=tuple(begins)) for one in found]
    alone = []
    for one in messages(PART):
        answer = judge(one.text, as_messages(one.before), by[fold(one)])
        alone.append([int(answer.level), int(answer.leans)])
    turns = []
    for talk in conversations(PART):
        answers = [judge(text, before, by[fold(talk)]) for _, text, before, _ in said(talk)]
        turns.append([[int(answer.level), int(answer.leans)] for answer in answers])
    return {"messages": alone, "conversations": turns}


def main() -> None:
    """Train, measure, and write both files."""
    found, begins = validated()
    VALIDATED.write_text(json.dumps(judged(found, begins)) + "\n", "utf-8")
    all_of_it = [*examples(messages(PART), conversations(PART)), *plain()]
    source = f"{len(all_of_it)} messages, {fingerprint()}"
    (PACKAGE / "weights.json").write_text(written_weights(learn(all_of_it, begins, source)), "utf-8")
    sys.stdout.write(f"weights.json: {source}\n")


if __name__ == "__main__":
    main()
