"""How often the crisis gate disturbs ordinary talk: ``python -m tests.companion.ordinary FILE``.

The file is not part of the project. It has a JSON object a line with ``conversation`` and ``text``, the turns
of a conversation in order; ``CLEW_ORDINARY_TALK`` may name it instead. The command prints figures and no
message: the share that is left alone, each turn by itself and after those before it, and how much of the
held-out risk is found where the thresholds are moved.
"""

import argparse
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path

import msgspec

from clew.runtime.model.messages import Message
from clew_companion.crisis.classifier import (
    MessageScorer,
    combined_scorer,
    load_weights,
    weights_scorer,
)
from clew_companion.crisis.floor import FloorVerdict, MessageSignals, read_signals
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.message import judge
from clew_companion.crisis.network import load_network
from clew_companion.values import CrisisLevel
from tests.companion.labelled import messages

VARIABLE = "CLEW_ORDINARY_TALK"
HELD_OUT = ("held_out_2", "held_out_3")
FALSE_SHARES = (0.002, 0.005, 0.01, 0.015, 0.03)
"""The shares of ordinary turns that may be disturbed, for which the curve says what is found."""


def ordinary_file(argument: str | None = None) -> Path | None:
    """The file of ordinary talk that was named, if it is there."""
    name = argument or os.environ.get(VARIABLE, "")
    return Path(name) if name and Path(name).is_file() else None


def conversations_in(file: Path) -> list[list[str]]:
    """The turns of each conversation."""
    turns_by_conversation: defaultdict[str, list[str]] = defaultdict(list)
    for line in file.read_text("utf-8").splitlines():
        turn = json.loads(line)
        turns_by_conversation[turn["conversation"]].append(turn["text"])
    return list(turns_by_conversation.values())


def verdicts_alone(talks: Sequence[Sequence[str]]) -> list[FloorVerdict]:
    """The verdict on each turn by itself."""
    return [judge(text, ()) for turns in talks for text in turns]


def verdicts_in_conversation(talks: Sequence[Sequence[str]]) -> list[FloorVerdict]:
    """The verdict on each turn after those before it."""
    return list(itertools.chain.from_iterable(map(_walk, talks)))


def _walk(turns: Sequence[str]) -> Iterator[FloorVerdict]:
    before: list[Message] = []
    for text in turns:
        yield judge(text, before)
        before.append(Message(role="user", content=text))


def share_left_alone(verdicts: Sequence[FloorVerdict], level: int) -> float:
    """The share of turns below a level."""
    return sum(verdict.level < level for verdict in verdicts) / len(verdicts)


Scores = tuple[float, float]
"""The score of a question and that of risk."""


def curve(ordinary: Sequence[Scores], risks: Sequence[Scores], head: int) -> list[tuple[float, float]]:
    """What is found of the risk where so many ordinary turns are disturbed."""
    highest_first = sorted((scores[head] for scores in ordinary), reverse=True)
    thresholds = [(share, highest_first[int(share * len(highest_first))]) for share in FALSE_SHARES]
    return [
        (share, sum(scores[head] > threshold for scores in risks) / len(risks))
        for share, threshold in thresholds
    ]


def scores_of(text: str, scorer: MessageScorer) -> Scores:
    """The scores of a text: as high as can be if it states something by words, and nothing if it is brief."""
    signals: MessageSignals = read_signals(text, load_lexicon(), scorer)
    if any(one.reads is None and one.level >= CrisisLevel.RISK for one in signals.statements):
        return inf, inf
    return (-inf, -inf) if signals.is_brief else (signals.margins[0], signals.margins[1])


def report(file: Path) -> str:
    """The figures, as text."""
    talks = conversations_in(file)
    texts = [text for turns in talks for text in turns]
    lines = [f"{len(texts)} turns in {len(talks)} conversations"]
    sets: list[tuple[str, Callable[[Sequence[Sequence[str]]], list[FloorVerdict]]]] = [
        ("alone", verdicts_alone),
        ("in conversation", verdicts_in_conversation),
    ]
    for name, find_verdicts in sets:
        verdicts = find_verdicts(talks)
        shares = [share_left_alone(verdicts, level) for level in (1, 2)]
        stated = sum(verdict.stated > 0 for verdict in verdicts)
        lines.append(f"{name}: below level 1 {shares[0]:.4f}, below level 2 {shares[1]:.4f}, stated {stated}")
    return "\n".join([*lines, *_curve_lines(texts)])


def _curve_lines(texts: Sequence[str]) -> Iterator[str]:
    """The curves of both readers, every threshold at nought so that only the order counts."""
    level_weights = msgspec.structs.replace(
        load_weights(), begins=(0.0,) * len(load_weights().begins), together=(0.0, 0.0, 0.0)
    )
    scorers = {
        "weights and network": combined_scorer(level_weights, load_network().levels),
        "weights alone": weights_scorer(level_weights),
    }
    risks = [one.text for part in HELD_OUT for one in messages(part) if one.level >= CrisisLevel.RISK]
    for name, scorer in scorers.items():
        ordinary_scores = [scores_of(text, scorer) for text in texts]
        risk_scores = [scores_of(text, scorer) for text in risks]
        for head, what in ((0, "question"), (1, "crisis reply")):
            pairs = [
                f"{share:.1%}: {found:.3f}" for share, found in curve(ordinary_scores, risk_scores, head)
            ]
            yield f"{name}, {what}, found where so many are disturbed: {', '.join(pairs)}"


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", nargs="?", help=f"the file of ordinary talk; else {VARIABLE} names it")
    file = ordinary_file(options.parse_args().file)
    if file is None:
        sys.exit(f"No file of ordinary talk. Name one, or set {VARIABLE}.")
    sys.stdout.write(report(file) + "\n")


if __name__ == "__main__":
    main()
