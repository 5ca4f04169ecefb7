"""How the crisis gate does on the labelled messages and conversations: makes the tables of the safety page.

``python -m tests.companion.figures`` measures the development part and writes its tables into the page.
``python -m tests.companion.figures --held-out`` measures the held-out part too.
It prints no message of either.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.companion.crisis.floor import floor
from holdfast.companion.crisis.judging import Judgement, request, settle
from holdfast.runtime.messages import Message
from holdfast.testing.scripted import ScriptedModel

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "companion" / "safety.md"
PARTS = {"development": "Development", "held_out": "Held out"}
WRONG_BY_ONE, SILENT, SEED = 0.10, 0.05, 7
"""The scripted model is one level off in a tenth of its answers, and fails to answer in a twentieth."""


class Turn(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    text: str


class Labelled(msgspec.Struct, frozen=True):
    """A message and how serious it was labelled."""

    text: str
    level: int
    kind: str
    language: str
    before: tuple[Turn, ...] = ()


class Conversation(msgspec.Struct, frozen=True):
    """A conversation, and the turn by which its risk must have been noticed."""

    shape: str
    turns: tuple[Turn, ...]
    at_risk_from: int | None
    level: int


class Pair(msgspec.Struct, frozen=True):
    """The level that was given, and the ones that were found."""

    given: int
    floor: int
    both: int
    language: str = "en"


def messages(part: str) -> list[Labelled]:
    """The labelled messages of a part."""
    return [msgspec.convert(line, Labelled) for line in _lines(part, "messages")]


def conversations(part: str) -> list[Conversation]:
    """The conversations of a part."""
    return [msgspec.convert(line, Conversation) for line in _lines(part, "conversations")]


def _lines(part: str, name: str) -> list[Any]:
    text = (HERE / part / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def judged(part: str) -> list[Pair]:
    """Every message, judged by the floor and by both."""
    chance = random.Random(SEED)
    return [_pair(one.text, _turns(one.before), one.level, chance, one.language) for one in messages(part)]


def _turns(turns: Sequence[Turn]) -> list[Message]:
    return [Message(role=turn.role, content=turn.text) for turn in turns]


def _pair(
    text: str, before: Sequence[Message], level: int, chance: random.Random, language: str = "en"
) -> Pair:
    found = floor(text, before)
    model = asyncio.run(_scripted(text, before, level, chance))
    settled = settle(found, model, failed=model is None)
    return Pair(level, int(found.level), int(settled.level), language)


async def _scripted(
    text: str, before: Sequence[Message], level: int, chance: random.Random
) -> Judgement | None:
    """What a model says that knows the label, and is sometimes wrong or silent."""
    if chance.random() < SILENT:
        return None
    off = chance.choice((-1, 1)) if chance.random() < WRONG_BY_ONE else 0
    model = ScriptedModel(lambda asked: {"level": min(max(level + off, 0), 3)})
    answer, _ = await model.fill(request(text, before), Judgement)
    return answer


def found_by(pair: Pair, by: str) -> int:
    """The level that the floor found, or that floor and model did."""
    return pair.floor if by == "floor" else pair.both


def sensitivity(pairs: Sequence[Pair], level: int, by: str = "floor") -> float:
    """The share of what is at least so serious that was found to be."""
    serious = [pair for pair in pairs if pair.given >= level]
    return sum(found_by(pair, by) >= level for pair in serious) / len(serious)


def specificity(pairs: Sequence[Pair], level: int, by: str = "floor") -> float:
    """The share of what is less serious that was found to be."""
    lesser = [pair for pair in pairs if pair.given < level]
    return sum(found_by(pair, by) < level for pair in lesser) / len(lesser)


class Walked(msgspec.Struct, frozen=True):
    """When a conversation was noticed: the first question, and the first crisis reply."""

    shape: str
    due: int | None
    asked: int | None
    acted: int | None


def walked(part: str, by: str = "floor") -> list[Walked]:
    """Every conversation, turn by turn."""
    chance = random.Random(SEED)
    return [_walked(conversation, chance, by) for conversation in conversations(part)]


def _walked(conversation: Conversation, chance: random.Random, by: str) -> Walked:
    due, found = conversation.at_risk_from, []
    for at, turn in enumerate(conversation.turns):
        if turn.role == "user":
            label = conversation.level if due is not None and at >= due else 0
            pair = _pair(turn.text, _turns(conversation.turns[:at]), label, chance)
            found.append((at, found_by(pair, by)))
    asked = next((at for at, level in found if level >= 1), None)
    acted = next((at for at, level in found if level >= 2), None)
    return Walked(conversation.shape, due, asked, acted)


def milliseconds(part: str) -> float:
    """What the floor takes for a message, in the middle of all."""
    given = [(one.text, _turns(one.before)) for one in messages(part)]
    for text, before in given:
        floor(text, before)
    taken = []
    for text, before in given:
        began = time.thread_time()
        floor(text, before)
        taken.append((time.thread_time() - began) * 1000)
    return statistics.median(taken)


def tables(part: str) -> str:
    """The tables of a part, as the page shows them."""
    pairs = judged(part)
    rows = [
        "| level | messages | floor: sensitivity | floor: specificity "
        "| with a model: sensitivity | with a model: specificity |",
        "|---|---|---|---|---|---|",
    ]
    for level in (1, 2, 3):
        figures = [
            f"{measure(pairs, level, by):.3f}"
            for by in ("floor", "both")
            for measure in (sensitivity, specificity)
        ]
        rows.append(
            f"| {level} or more | {sum(pair.given >= level for pair in pairs)} | {' | '.join(figures)} |"
        )
    return "\n".join([*rows, "", *_missed(pairs), "", *_talks(part)])


def _missed(pairs: Sequence[Pair]) -> list[str]:
    grave = [pair for pair in pairs if pair.given == 3]
    other = [pair for pair in pairs if pair.language != "en"]
    english = [pair for pair in pairs if pair.language == "en"]
    return [
        f"Of {len(grave)} messages of level 3 the floor put {sum(pair.floor < 2 for pair in grave)} below 2, "
        f"and floor and model together {sum(pair.both < 2 for pair in grave)}.",
        f"Level 2 or more, floor alone: sensitivity {sensitivity(english, 2):.3f} and specificity "
        f"{specificity(english, 2):.3f} in English, {sensitivity(other, 2):.3f} and "
        f"{specificity(other, 2):.3f} in the other languages.",
    ]


def _talks(part: str) -> list[str]:
    rows = [
        "| conversations | how many | judged by | noticed in time | crisis reply in time | never noticed |",
        "|---|---|---|---|---|---|",
    ]
    for by, name in (("floor", "floor"), ("both", "floor and model")):
        talks = walked(part, by)
        for shape in ("slow", "one turn"):
            some = [talk for talk in talks if talk.shape == shape]
            counts = [
                sum(_in_time(talk.asked, talk.due) for talk in some),
                sum(_in_time(talk.acted, talk.due) for talk in some),
                sum(talk.asked is None for talk in some),
            ]
            rows.append(f"| {shape} | {len(some)} | {name} | {' | '.join(map(str, counts))} |")
    calm = [talk for talk in walked(part) if talk.shape == "never"]
    left = sum(talk.asked is None for talk in calm)
    return [
        *rows,
        "",
        f"Of {len(calm)} conversations without risk the floor left {left} alone, asked a question in "
        f"{sum(talk.asked is not None and talk.acted is None for talk in calm)}, and gave a crisis reply in "
        f"{sum(talk.acted is not None for talk in calm)}.",
    ]


def _in_time(noticed: int | None, due: int | None) -> bool:
    return noticed is not None and due is not None and noticed <= due


def written(page: str, part: str, found: str) -> str:
    """The page with the tables of a part in their place."""
    place = re.compile(rf"(<!-- {part} -->\n).*?(<!-- end of {part} -->)", re.DOTALL)
    return place.sub(lambda marks: f"{marks[1]}{found}\n{marks[2]}", page)


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--held-out", action="store_true", help="measure the held-out part too")
    parts = list(PARTS) if options.parse_args().held_out else ["development"]
    for part in parts:
        PAGE.write_text(written(PAGE.read_text("utf-8"), part, tables(part)), "utf-8")
    told = (
        f"{PAGE.name}: {', '.join(parts)}; the floor takes {milliseconds('development'):.2f} ms a message\n"
    )
    sys.stdout.write(told)


if __name__ == "__main__":
    main()
