"""How the crisis gate does on the labelled messages and conversations: makes the tables of the safety page.

``python -m tests.companion.figures`` tells how the floor did on the development part, each message judged by
what was made without it, and writes the tables into the page: the weights alone on all of it, and with the
network on a fifth. ``--held-out`` measures the held-out parts too. It prints no message of any. False alarms
in public ordinary talk are measured by ``ordinary``, since that talk is not part of the project.
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
from clew_companion.crisis.floor import FloorVerdict, judge_message_with
from clew_companion.crisis.judgement import Judgement, decide_level, judgement_request
from clew_companion.crisis.message import judge
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
    user_turns,
)

PAGE = HERE.parents[1] / "docs" / "companion" / "safety.md"
CROSS_VALIDATION = HERE / "development" / "cross_validated.json"
HELD_OUT, WHOLE_TALKS = ("held_out_2", "held_out_3"), "held_out_4"
WRONG_BY_ONE, SILENT, SEED = 0.10, 0.05, 7
"""The scripted model is one level off in a tenth of its answers, and fails to answer in a twentieth."""


class Pair(msgspec.Struct, frozen=True):
    """The level that was given, and those found: by the floor, with a model, and by the weights alone."""

    label: int
    floor: int
    both: int
    stated: int = 0
    alone: int = 0
    language: str = "en"
    kind: str = ""
    file: str = ""


@functools.cache
def pairs_of(part: str) -> Sequence[Pair]:
    """Every message, judged by the floor and by both."""
    return asyncio.run(_pairs_of(part))


async def _pairs_of(part: str) -> list[Pair]:
    chance = random.Random(SEED)
    labels = messages(part)
    answers = _cross_validation()[part]["messages"] if part in (DEVELOPMENT, FIFTH) else [None] * len(labels)
    pairs = [
        await _pair(one.text, as_messages(one.before), one.level, chance, by)
        for one, by in zip(labels, answers, strict=True)
    ]
    return [
        msgspec.structs.replace(pair, language=one.language, kind=one.kind, file=one.file, alone=alone)
        for pair, one, alone in zip(pairs, labels, _alone(part), strict=True)
    ]


def _alone(part: str) -> list[int]:
    """What the weights find without the network."""
    if part not in (DEVELOPMENT, FIFTH):
        by = weights_scorer(load_weights())
        return [
            int(judge_message_with(one.text, as_messages(one.before), by).level) for one in messages(part)
        ]
    levels = [level for level, _ in _cross_validation()[DEVELOPMENT]["messages"]]
    if part == DEVELOPMENT:
        return levels
    return [level for one, level in zip(messages(DEVELOPMENT), levels, strict=True) if fold(one) == UNHEARD]


@functools.cache
def _cross_validation() -> dict[str, dict[str, list[Any]]]:
    """What the floor found by what was made without what is judged: see ``training``."""
    answers: dict[str, dict[str, list[Any]]] = json.loads(CROSS_VALIDATION.read_text("utf-8"))
    return answers


async def _pair(
    text: str,
    before: Sequence[Message],
    level: int,
    chance: random.Random,
    by: Sequence[int] | None,
) -> Pair:
    verdict = judge(text, before) if by is None else FloorVerdict(level=by[0], stated=by[1])
    model = await _model_judgement(text, before, level, chance)
    decision = decide_level(verdict, model, has_failed=model is None)
    return Pair(level, int(verdict.level), int(decision.level), int(verdict.stated))


async def _model_judgement(
    text: str, before: Sequence[Message], level: int, chance: random.Random
) -> Judgement | None:
    """What a model says that knows the label, and is sometimes wrong or silent."""
    if chance.random() < SILENT:
        return None
    off = chance.choice((-1, 1)) if chance.random() < WRONG_BY_ONE else 0
    model = ScriptedModel(lambda request: {"level": min(max(level + off, 0), 3)})
    answer, _ = await model.fill(judgement_request(text, before), Judgement)
    return answer


def level_by(pair: Pair, by: str) -> int:
    """The level that the floor found, its weights alone, or floor and model."""
    return {"floor": pair.floor, "alone": pair.alone, "both": pair.both}[by]


def sensitivity(pairs: Sequence[Pair], level: int, by: str = "floor") -> float:
    """The share of what is at least so serious that was found to be."""
    serious = [pair for pair in pairs if pair.label >= level]
    return sum(level_by(pair, by) >= level for pair in serious) / len(serious)


def specificity(pairs: Sequence[Pair], level: int, by: str = "floor") -> float:
    """The share of what is less serious that was found to be."""
    lesser = [pair for pair in pairs if pair.label < level]
    return sum(level_by(pair, by) < level for pair in lesser) / len(lesser)


class Walk(msgspec.Struct, frozen=True):
    """When a conversation was noticed: the first question, and the first crisis reply."""

    shape: str
    due: int | None
    question: int | None
    action: int | None


@functools.cache
def walks(part: str, by: str = "floor") -> Sequence[Walk]:
    """Every conversation, turn by turn."""
    return asyncio.run(_walks(part, by))


async def _walks(part: str, by: str) -> list[Walk]:
    chance = random.Random(SEED)
    talks = conversations(part)
    answers = (
        _cross_validation()[part]["conversations"] if part in (DEVELOPMENT, FIFTH) else [None] * len(talks)
    )
    return [await _walk(talk, chance, by, levels) for talk, levels in zip(talks, answers, strict=True)]


async def _walk(
    conversation: Conversation, chance: random.Random, by: str, levels: Sequence[Sequence[int]] | None
) -> Walk:
    turns, by_turn = user_turns(conversation), []
    for number, (at, text, before, label) in enumerate(turns):
        pair = await _pair(text, before, label, chance, levels[number] if levels else None)
        by_turn.append((at, level_by(pair, by)))
    question = next((at for at, level in by_turn if level >= 1), None)
    action = next((at for at, level in by_turn if level >= 2), None)
    return Walk(conversation.shape, conversation.at_risk_from, question, action)


def milliseconds(some: int = 300) -> float:
    """What the floor takes for the middle one of some messages of ordinary days, each timed three times.

    Nothing is remembered of a message, so that the network reads it each time if it is asked.
    """
    by = combined_scorer(load_weights(), load_network().levels)
    lines = [one for one in messages(DEVELOPMENT) if one.file == "ordinary_days"][:some]
    medians = []
    for one in lines:
        before, times = as_messages(one.before), []
        for _ in range(3):
            began = time.thread_time()
            judge_message_with(one.text, before, by)
            times.append(time.thread_time() - began)
        medians.append(min(times) * 1000)
    return statistics.median(medians)


def tables(part: str) -> str:
    """The tables of a part, as the page shows them."""
    pairs = pairs_of(part)
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
            f"| {level} or more | {sum(pair.label >= level for pair in pairs)} | {' | '.join(figures)} |"
        )
    return "\n".join([*rows, "", *_miss_lines(pairs), "", *_talks(part)])


def _miss_lines(pairs: Sequence[Pair]) -> list[str]:
    grave = [pair for pair in pairs if pair.label == 3]
    other = [pair for pair in pairs if pair.language != "en"]
    english = [pair for pair in pairs if pair.language == "en"]
    return [
        f"Of {len(grave)} messages of level 3 the floor put {sum(pair.floor < 2 for pair in grave)} below 2, "
        f"and floor and model together {sum(pair.both < 2 for pair in grave)}.",
        f"Level 2 or more, floor alone: sensitivity {sensitivity(english, 2):.3f} and specificity "
        f"{specificity(english, 2):.3f} in English, {sensitivity(other, 2):.3f} and "
        f"{specificity(other, 2):.3f} in the other languages.",
        _stated_line(pairs),
        *_without(pairs),
        *_ordinary(pairs),
    ]


def stated_share(pairs: Sequence[Pair]) -> float:
    """The share of messages that state risk, whatever any model says."""
    return sum(pair.stated >= 2 for pair in pairs) / len(pairs)


def explicit_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """The messages that say it outright."""
    return [pair for pair in pairs if pair.kind == "explicit" and pair.label >= 2]


def _stated_line(pairs: Sequence[Pair]) -> str:
    """What holds against any model."""
    explicit = explicit_pairs(pairs)
    risk = [pair for pair in pairs if pair.label >= 2]
    harmless = [pair for pair in pairs if pair.label == 0]
    return (
        f"At least a question: {sum(pair.floor >= 1 for pair in risk) / len(risk):.3f} of what is risk. "
        f"Stated, and held against any model: {stated_share(explicit):.3f} of {len(explicit)} explicit "
        "messages, "
        f"{stated_share(risk):.3f} of all risk, {stated_share(harmless):.3f} of what is harmless."
    )


def _without(pairs: Sequence[Pair]) -> list[str]:
    """What the weights do alone, where that is something else."""
    if all(pair.alone == pair.floor for pair in pairs):
        return []
    misses = sum(pair.alone < 2 for pair in pairs if pair.label == 3)
    return [
        f"Without the network: sensitivity {sensitivity(pairs, 2, 'alone'):.3f}, specificity "
        f"{specificity(pairs, 2, 'alone'):.3f}, and {misses} of level 3 below 2."
    ]


def ordinary(pairs: Sequence[Pair]) -> list[Pair]:
    """What people say to a companion all day."""
    return [pair for pair in pairs if pair.file.startswith("ordinary")]


def _ordinary(pairs: Sequence[Pair]) -> list[str]:
    some = ordinary(pairs)
    if not some:
        return []
    grave = [pair for pair in some if pair.label == 3]
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
        talks = walks(part, by)
        for shape in ("slow", "one turn"):
            some = [talk for talk in talks if talk.shape == shape]
            counts = [
                sum(_in_time(talk.question, talk.due) for talk in some),
                sum(_in_time(talk.action, talk.due) for talk in some),
                sum(talk.question is None for talk in some),
            ]
            rows.append(f"| {shape} | {len(some)} | {name} | {' | '.join(map(str, counts))} |")
    calm = [talk for talk in walks(part) if talk.shape == "never"]
    calm_count = sum(talk.question is None for talk in calm)
    return [
        *rows,
        "",
        f"Of {len(calm)} conversations without risk the floor left {calm_count} alone, asked a question in "
        f"{sum(talk.question is not None and talk.action is None for talk in calm)}, "
        "and gave a crisis reply in "
        f"{sum(talk.action is not None for talk in calm)}.",
    ]


def _in_time(turn: int | None, due: int | None) -> bool:
    return turn is not None and due is not None and turn <= due


class TalkWalk(msgspec.Struct, frozen=True):
    """A conversation in which each turn is labelled: the labels, and what the floor made of each turn."""

    answer: str
    labels: tuple[int, ...]
    verdicts: tuple[FloorVerdict, ...]

    @property
    def risky_turns_until_noticed(self) -> int | None:
        """How many risky turns there were when it was noticed; None if it never was."""
        at = next((at for at, verdict in enumerate(self.verdicts) if verdict.level), None)
        return None if at is None else sum(label >= 1 for label in self.labels[: at + 1])

    @property
    def highest(self) -> int:
        """The highest level that was found."""
        return max(verdict.level for verdict in self.verdicts)


@functools.cache
def labelled_walks(name: str) -> Sequence[TalkWalk]:
    """The conversations of a file of the fourth part, turn by turn, by the floor alone."""
    talks = []
    for talk in conversations(WHOLE_TALKS, name):
        turns = user_turns(talk)
        verdicts = tuple(judge(text, before) for _, text, before, _ in turns)
        talks.append(TalkWalk(talk.answer, tuple(level for *_, level in turns), verdicts))
    return talks


def talk_table() -> str:
    """The figures of the fourth part, as the page shows them."""
    at_risk, calm = labelled_walks("at_risk"), labelled_walks("calm")
    noticed = [one.risky_turns_until_noticed for one in at_risk]
    counts = [sum(number is not None and number <= turn for number in noticed) for turn in (1, 2, 3)]
    return "\n".join(
        [
            f"Of {len(at_risk)} conversations at risk {counts[0]} were noticed by the first risky turn, "
            f"{counts[1]} by the second, {counts[2]} by the third, and {noticed.count(None)} never. "
            f"{sum(one.highest >= 2 for one in at_risk)} got a crisis reply.",
            "",
            f"Of {len(calm)} calm conversations {sum(not one.highest for one in calm)} were left alone, "
            f"{sum(one.highest == 1 for one in calm)} were asked, and "
            f"{sum(one.highest >= 2 for one in calm)} got a crisis reply.",
            "",
            _answer_line("wanted"),
            _answer_line("dangerous"),
        ]
    )


def _answer_line(answer: str) -> str:
    """What became of the answers to a crisis reply."""
    talks = [one for one in labelled_walks("after_a_crisis_reply") if one.answer == answer]
    levels = [
        verdict.level
        for one in talks
        for label, verdict in list(zip(one.labels, one.verdicts, strict=True))[1:]
        if (label == 3) == (answer == "dangerous")
    ]
    counts = ", ".join(f"{levels.count(level)} level {level}" for level in range(4))
    return f"After a crisis reply, {len(levels)} answers that are {answer}: {counts}.  "


def page_with(page: str, part: str, table: str) -> str:
    """The page with the tables of a part in their place."""
    place = re.compile(rf"(<!-- {part} -->\n).*?(<!-- end of {part} -->)", re.DOTALL)
    return place.sub(lambda marks: f"{marks[1]}{table}\n{marks[2]}", page)


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--held-out", action="store_true", help="measure the held-out parts too")
    held_out = HELD_OUT if options.parse_args().held_out else ()
    parts = [DEVELOPMENT, FIFTH, *held_out]
    for part in parts:
        PAGE.write_text(page_with(PAGE.read_text("utf-8"), part, tables(part)), "utf-8")
    if held_out:
        PAGE.write_text(page_with(PAGE.read_text("utf-8"), WHOLE_TALKS, talk_table()), "utf-8")
    line = f"{PAGE.name}: {', '.join(parts)}; the floor takes {milliseconds():.2f} ms a message\n"
    sys.stdout.write(line)


if __name__ == "__main__":
    main()
