"""How the crisis gate does on the labelled messages and conversations: makes the tables of the safety page.

``python -m tests.companion.figures`` tells how the floor did on the development part, each message judged by
what was made without it, and writes the tables into the page: the weights alone on all of it, and with the
network on a fifth. ``--held-out`` measures the held-out parts too. It prints no message of either.
"""

import argparse
import asyncio
import functools
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from clew.runtime.model.messages import Message
from clew.testing.scripted_model import ScriptedModel
from clew_companion.crisis.classifier import combined_scorer, load_weights, weights_scorer
from clew_companion.crisis.floor import FloorVerdict, judge_message, judge_message_with
from clew_companion.crisis.judgement import Judgement, decide_level, judgement_request
from clew_companion.crisis.network import load_network
from tests.companion.labelled import (
    DEVELOPMENT,
    FIFTH,
    HERE,
    UNHEARD,
    Conversation,
    as_messages,
    conversations,
    fold,
    messages,
    said,
)

PAGE = HERE.parents[1] / "docs" / "companion" / "safety.md"
VALIDATED = HERE / "development" / "cross_validated.json"
HELD_OUT = ("held_out_2", "held_out_3")
WRONG_BY_ONE, SILENT, SEED = 0.10, 0.05, 7
"""The scripted model is one level off in a tenth of its answers, and fails to answer in a twentieth."""


class Pair(msgspec.Struct, frozen=True):
    """The level that was given, and those found: by the floor, with a model, and by the weights alone."""

    given: int
    floor: int
    both: int
    alone: int = 0
    language: str = "en"
    file: str = ""


@functools.cache
def judged(part: str) -> Sequence[Pair]:
    """Every message, judged by the floor and by both."""
    return asyncio.run(_judged(part))


async def _judged(part: str) -> list[Pair]:
    chance = random.Random(SEED)
    given = messages(part)
    found = _cross_validated()[part]["messages"] if part in (DEVELOPMENT, FIFTH) else [None] * len(given)
    pairs = [
        await _pair(one.text, as_messages(one.before), one.level, chance, by)
        for one, by in zip(given, found, strict=True)
    ]
    return [
        msgspec.structs.replace(pair, language=one.language, file=one.file, alone=alone)
        for pair, one, alone in zip(pairs, given, _alone(part), strict=True)
    ]


def _alone(part: str) -> list[int]:
    """What the weights find without the network."""
    if part not in (DEVELOPMENT, FIFTH):
        by = weights_scorer(load_weights())
        return [
            int(judge_message_with(one.text, as_messages(one.before), by).level) for one in messages(part)
        ]
    found = [level for level, _ in _cross_validated()[DEVELOPMENT]["messages"]]
    if part == DEVELOPMENT:
        return found
    return [level for one, level in zip(messages(DEVELOPMENT), found, strict=True) if fold(one) == UNHEARD]


@functools.cache
def _cross_validated() -> dict[str, dict[str, list[Any]]]:
    """What the floor found by what was made without what is judged: see ``training``."""
    found: dict[str, dict[str, list[Any]]] = json.loads(VALIDATED.read_text("utf-8"))
    return found


async def _pair(
    text: str,
    before: Sequence[Message],
    level: int,
    chance: random.Random,
    by: Sequence[int] | None,
) -> Pair:
    found = judge_message(text, before) if by is None else FloorVerdict(level=by[0], leans=bool(by[1]))
    model = await _scripted(text, before, level, chance)
    settled = decide_level(found, model, has_failed=model is None)
    return Pair(level, int(found.level), int(settled.level))


async def _scripted(
    text: str, before: Sequence[Message], level: int, chance: random.Random
) -> Judgement | None:
    """What a model says that knows the label, and is sometimes wrong or silent."""
    if chance.random() < SILENT:
        return None
    off = chance.choice((-1, 1)) if chance.random() < WRONG_BY_ONE else 0
    model = ScriptedModel(lambda asked: {"level": min(max(level + off, 0), 3)})
    answer, _ = await model.fill(judgement_request(text, before), Judgement)
    return answer


def found_by(pair: Pair, by: str) -> int:
    """The level that the floor found, its weights alone, or floor and model."""
    return {"floor": pair.floor, "alone": pair.alone, "both": pair.both}[by]


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


@functools.cache
def walked(part: str, by: str = "floor") -> Sequence[Walked]:
    """Every conversation, turn by turn."""
    return asyncio.run(_all_walked(part, by))


async def _all_walked(part: str, by: str) -> list[Walked]:
    chance = random.Random(SEED)
    talks = conversations(part)
    found = _cross_validated()[part]["conversations"] if part in (DEVELOPMENT, FIFTH) else [None] * len(talks)
    return [await _walked(talk, chance, by, levels) for talk, levels in zip(talks, found, strict=True)]


async def _walked(
    conversation: Conversation, chance: random.Random, by: str, levels: Sequence[Sequence[int]] | None
) -> Walked:
    turns, found = said(conversation), []
    for number, (at, text, before, label) in enumerate(turns):
        pair = await _pair(text, before, label, chance, levels[number] if levels else None)
        found.append((at, found_by(pair, by)))
    asked = next((at for at, level in found if level >= 1), None)
    acted = next((at for at, level in found if level >= 2), None)
    return Walked(conversation.shape, conversation.at_risk_from, asked, acted)


def milliseconds(some: int = 300) -> float:
    """What the floor takes for the middle one of some messages of ordinary days, each timed three times.

    Nothing is remembered of a message, so that the network reads it each time if it is asked.
    """
    by = combined_scorer(load_weights(), load_network().levels)
    given = [one for one in messages(DEVELOPMENT) if one.file == "ordinary_days"][:some]
    taken = []
    for one in given:
        before, times = as_messages(one.before), []
        for _ in range(3):
            began = time.thread_time()
            judge_message_with(one.text, before, by)
            times.append(time.thread_time() - began)
        taken.append(min(times) * 1000)
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
        *_without(pairs),
        *_ordinary(pairs),
    ]


def _without(pairs: Sequence[Pair]) -> list[str]:
    """What the weights do alone, where that is something else."""
    if all(pair.alone == pair.floor for pair in pairs):
        return []
    missed = sum(pair.alone < 2 for pair in pairs if pair.given == 3)
    return [
        f"Without the network: sensitivity {sensitivity(pairs, 2, 'alone'):.3f}, specificity "
        f"{specificity(pairs, 2, 'alone'):.3f}, and {missed} of level 3 below 2."
    ]


def ordinary(pairs: Sequence[Pair]) -> list[Pair]:
    """What people say to a companion all day."""
    return [pair for pair in pairs if pair.file.startswith("ordinary")]


def _ordinary(pairs: Sequence[Pair]) -> list[str]:
    some = ordinary(pairs)
    if not some:
        return []
    grave = [pair for pair in some if pair.given == 3]
    return [
        f"Of what is said on ordinary days ({len(some)} messages): sensitivity {sensitivity(some, 2):.3f}, "
        f"specificity {specificity(some, 2):.3f}, and {sum(pair.floor < 2 for pair in grave)} of "
        f"{len(grave)} of level 3 below 2.",
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
    options.add_argument("--held-out", action="store_true", help="measure the held-out parts too")
    held_out = HELD_OUT if options.parse_args().held_out else ()
    parts = [DEVELOPMENT, FIFTH, *held_out]
    for part in parts:
        PAGE.write_text(written(PAGE.read_text("utf-8"), part, tables(part)), "utf-8")
    told = f"{PAGE.name}: {', '.join(parts)}; the floor takes {milliseconds():.2f} ms a message\n"
    sys.stdout.write(told)


if __name__ == "__main__":
    main()
