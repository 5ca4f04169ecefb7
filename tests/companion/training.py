"""Make the floor's weights from the development part, and measure them on what they were not made from.

``python -m tests.companion.training`` writes ``weights.txt`` into the package and ``cross_validated.json``
beside the messages. It takes some minutes, needs nothing but Python, and always writes the same.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from holdfast.companion.crisis import floor as crisis
from holdfast.companion.crisis.floor import judge
from holdfast.companion.crisis.lexicon import lexicon
from holdfast.companion.crisis.reading import read
from holdfast.companion.crisis.scoring import HEADS, Weights, features, scores, written_weights
from tests.companion.labelled import HERE, Conversation, Labelled, as_messages, conversations, messages, said
from tests.companion.learning import Example, learn

PART = "development"
FOLDS = 5
LEFT_ALONE = (0.86, 0.90, 0.965, 0.97, 0.97)
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
    known = lexicon()
    found = [Example(features(read(one.text, known)), one.level, one.kind) for one in given]
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
                found.append(Example(features(read(text, known)), level))
    return found


def plain() -> list[Example]:
    """What is said in the plainest words, in every language: it is learnt from and never measured on."""
    found = []
    for file in sorted((HERE / "plain").glob("*.txt")):
        for line in file.read_text("utf-8").splitlines():
            label, _, text = line.partition(" | ")
            found.append(Example(features(read(text, lexicon())), int(label[0]), label[2:]))
    return found


def fold(some: Sequence[Labelled] | Sequence[Conversation], number: int, *, inside: bool) -> list[int]:
    """The places of what is in a fold, or of what is not."""
    return [at for at in range(len(some)) if (at % FOLDS == number) == inside]


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
        [given[at] for at in fold(given, number, inside=False)],
        [talks[at] for at in fold(talks, number, inside=False)],
    )
    found = learn([*rest, *plain()], NOTHING)
    left_out = examples([given[at] for at in fold(given, number, inside=True)], ())
    return found, [(one, scores(one.found, found)) for one in left_out]


def _begin(scored: Sequence[tuple[Example, list[float]]], head: int) -> float:
    lesser = sorted(margins[head] for one, margins in scored if one.side(HEADS[head]) is False)
    return round(lesser[int(LEFT_ALONE[head] * len(lesser))], 3)


def judged(
    found: Sequence[Weights], begins: Sequence[float]
) -> dict[str, list[list[list[int]]] | list[list[int]]]:
    """Level and leaning of every message and every turn, by weights that were made without it."""
    by = [replace(one, begins=begins) for one in found]
    alone = []
    for at, one in enumerate(messages(PART)):
        answer = judge(one.text, as_messages(one.before), by[at % FOLDS])
        alone.append([int(answer.level), int(answer.leans)])
    turns = []
    for at, talk in enumerate(conversations(PART)):
        answers = [judge(text, before, by[at % FOLDS]) for _, text, before, _ in said(talk)]
        turns.append([[int(answer.level), int(answer.leans)] for answer in answers])
    return {"messages": alone, "conversations": turns}


def main() -> None:
    """Train, measure, and write both files."""
    found, begins = validated()
    VALIDATED.write_text(json.dumps(judged(found, begins)) + "\n", "utf-8")
    all_of_it = [*examples(messages(PART), conversations(PART)), *plain()]
    source = f"{len(all_of_it)} messages, {fingerprint()}"
    (PACKAGE / "weights.txt").write_text(written_weights(learn(all_of_it, begins, source)), "utf-8")
    sys.stdout.write(f"weights.txt: {source}\n")


if __name__ == "__main__":
    main()
