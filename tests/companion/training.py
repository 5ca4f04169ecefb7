"""Make the floor's weights from the development part, and measure them on what they were not made from.

``python -m tests.companion.training`` writes ``weights.json`` into the package and ``cross_validated.json``
beside the messages. It takes some minutes and always writes the same, from the network as ``tuning`` left it.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from clew_companion.crisis import floor as crisis
from clew_companion.crisis.classifier import (
    LEVEL_COUNT,
    SCORE_NAMES,
    MessageScorer,
    Weights,
    combined_scorer,
    encode_weights,
    features,
    score_features,
    weights_scorer,
)
from clew_companion.crisis.concepts import read_message
from clew_companion.crisis.floor import judge_message_with
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.network import load_network
from tests.companion.labelled import (
    DEVELOPMENT,
    FIFTH,
    FOLDS,
    HERE,
    UNHEARD,
    Conversation,
    LabelledMessage,
    as_messages,
    conversations,
    fold,
    messages,
    user_turns,
)
from tests.companion.regression import Example, learn

ALONE, TOGETHER = (1.4, 1.9, 0.4), (0.35, 0.6, -1.0)
"""Where question, risk and danger begin to count, by the weights alone and with the network.

They are placed by what ``python -m tests.companion.ordinary`` says of public ordinary talk.
"""
LEFT_ALONE = 0.97
"""The share of the rest that the two other scores should leave alone where they begin to count."""
PACKAGE = Path(crisis.__file__).parent
CROSS_VALIDATION = HERE / DEVELOPMENT / "cross_validated.json"
NOTHING = [0.0] * len(SCORE_NAMES)


def fingerprint() -> str:
    """What the weights are made from: the labelled words, the lexicon, and the network that is asked too."""
    files = [*(HERE / DEVELOPMENT).glob("*.jsonl"), *(PACKAGE / "lexicon").glob("*.toml")]
    files += [*(HERE / "plain").glob("*.txt"), PACKAGE / "network.npz"]
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def lessons_of(
    texts: Iterable[LabelledMessage], talks: Iterable[Conversation]
) -> Iterator[tuple[str, int, str]]:
    """What is learnt from, with level and kind: messages, and turns of conversations whose level is known."""
    for one in texts:
        yield one.text, one.level, one.kind
    for talk in talks:
        last = {"never": len(talk.turns), "one turn": talk.at_risk_from}.get(talk.shape)
        for at, text, _, level in user_turns(talk):
            if last is not None and at <= last:
                yield text, level, ""


def plain(language: str = "*") -> Iterator[tuple[str, int, str]]:
    """What is said in the plainest words, in every language: it is learnt from and never measured on."""
    for file in sorted((HERE / "plain").glob(f"{language}.txt")):
        for line in file.read_text("utf-8").splitlines():
            label, _, text = line.partition(" | ")
            yield text, int(label[0]), label[2:]


def examples(lessons: Iterable[tuple[str, int, str]]) -> list[Example]:
    """What was said, as features."""
    return [
        Example(features(read_message(text, load_lexicon())), level, kind) for text, level, kind in lessons
    ]


def cross_validation() -> tuple[list[Weights], list[float]]:
    """Weights of each fold, made without it, and where the scores begin to count."""
    with ProcessPoolExecutor() as several:
        folds = list(several.map(_without, range(FOLDS)))
    scores = [pair for _, pairs in folds for pair in pairs]
    others = [_begin(scores, head) for head in range(LEVEL_COUNT, len(SCORE_NAMES))]
    return [weights for weights, _ in folds], [*ALONE, *others]


def _without(number: int) -> tuple[Weights, list[tuple[Example, list[float]]]]:
    """Weights that were made without a fold, and how they score what is in it."""
    lines, talks = messages(DEVELOPMENT), conversations(DEVELOPMENT)
    rest = lessons_of(
        [one for one in lines if fold(one) != number], [one for one in talks if fold(one) != number]
    )
    weights = learn(examples([*rest, *plain()]), NOTHING)
    left_out = examples(lessons_of([one for one in lines if fold(one) == number], ()))
    return weights, [(one, score_features(one.found, weights)) for one in left_out]


def _begin(pairs: Sequence[tuple[Example, list[float]]], head: int) -> float:
    lesser = sorted(scores[head] for one, scores in pairs if one.side(SCORE_NAMES[head]) is False)
    return round(lesser[int(LEFT_ALONE * len(lesser))], 3)


def answers_of(part: str, by: Sequence[MessageScorer]) -> dict[str, list[list[list[int]]] | list[list[int]]]:
    """Level and stated level of every message and every turn, by what was made without it."""
    alone = []
    for one in messages(part):
        answer = judge_message_with(one.text, as_messages(one.before), by[fold(one)])
        alone.append([int(answer.level), int(answer.stated)])
    turns = []
    for talk in conversations(part):
        answers = [
            judge_message_with(text, before, by[fold(talk)]) for _, text, before, _ in user_turns(talk)
        ]
        turns.append([[int(answer.level), int(answer.stated)] for answer in answers])
    return {"messages": alone, "conversations": turns}


def main() -> None:
    """Train, measure, and write both files."""
    weights, begins = cross_validation()
    weights = [msgspec.structs.replace(one, begins=tuple(begins), together=TOGETHER) for one in weights]
    unheard = combined_scorer(weights[UNHEARD], load_network().levels)
    answers = {
        DEVELOPMENT: answers_of(DEVELOPMENT, [weights_scorer(one) for one in weights]),
        FIFTH: answers_of(FIFTH, [unheard]),
    }
    CROSS_VALIDATION.write_text(json.dumps(answers) + "\n", "utf-8")
    all_of_it = examples([*lessons_of(messages(DEVELOPMENT), conversations(DEVELOPMENT)), *plain()])
    source = f"{len(all_of_it)} messages, {fingerprint()}"
    learnt = msgspec.structs.replace(learn(all_of_it, begins, source), together=TOGETHER)
    (PACKAGE / "weights.json").write_text(encode_weights(learnt), "utf-8")
    sys.stdout.write(f"weights.json: {source}\n")


if __name__ == "__main__":
    main()
