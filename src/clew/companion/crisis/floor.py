"""How serious a message is, by its words and the turns before it: always an answer, always the same.

The level is the higher of two: what the message reads like, learnt from labelled ones (``scoring``), and what
it states (``statements``). It errs to caution: what a model judges can raise its level and never lower it.
"""

import functools
import importlib.resources
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from clew.companion.crisis.classifier import Score, remembered, score
from clew.companion.crisis.concepts import ASKS, OTHERS, QUOTED, Reading, read
from clew.companion.crisis.lexicon import Lexicon, language_among, lexicon
from clew.companion.crisis.words import words
from clew.companion.values import Level
from clew.runtime.model.messages import Message


@dataclass(frozen=True, slots=True)
class Statement:
    """What must stand in one clause, and must not, for a message to say it."""

    name: str
    kind: str
    level: int
    all: frozenset[str]
    some: Sequence[frozenset[str]]
    never: frozenset[str]

    def is_in(self, clause: frozenset[str]) -> bool:
        """Whether a clause says it."""
        return (
            self.all <= clause
            and self.never.isdisjoint(clause)
            and all(not one.isdisjoint(clause) for one in self.some)
        )


@functools.cache
def statements() -> Sequence[Statement]:
    """The statements that come with the companion."""
    file = importlib.resources.files("clew.companion.crisis").joinpath("statements.toml")
    read = tomllib.loads(file.read_text("utf-8"))
    return tuple(_statement(one, read) for one in read["statement"])


def _statement(one: Mapping[str, Any], read: Mapping[str, Any]) -> Statement:
    without = [
        name for given in one["without"] for name in (read["others"] if given == "others" else [given])
    ]
    return Statement(
        name=one["name"],
        kind=one["kind"],
        level=one["level"],
        all=frozenset(one.get("all", ())),
        some=tuple(frozenset(names) for names in one.get("some", ())),
        never=frozenset([*read["never"], *without]) - frozenset(one.get("despite", ())),
    )


def stated(now: Reading) -> list[Statement]:
    """What a message states, the gravest first. What is quoted, or frightens the person, is no statement."""
    quoted = now.has(QUOTED) and now.has("says", "fiction", "work", "newsy", "past")
    if quoted or now.has("unwanted", "-unwanted"):
        return []
    found = [one for one in statements() if any(one.is_in(clause) for clause in now.clauses)]
    return sorted(found, key=lambda one: -one.level)


DEFAULT = "en"
TURNS = 12
"""How many of the person's earlier messages are read."""
SHORT = 8
"""An answer of so many words is an answer to the question before it, and nothing else."""
LEANS = -1.0
"""How far below the first level a message may score and still be asked about, if no model could be."""
FEW = 3
"""So few words that name no danger are an answer and no more: they are not scored."""
RECENT = 6
"""How many of them can make a question about means grave."""
DARK = 2.0
"""How far below risk a message must score to add nothing to the turns around it."""
ASKS_FROM, ACTS_FROM, FADES = 1.5, 2.0, 0.7
"""What the turns must add up to for a question and for a crisis reply, and how fast earlier ones fade."""
READS = ("", "reads as unclear", "reads as risk", "reads as danger now")
ANSWERED, MEANS_AFTER, ADDS_UP = (
    "answers a direct question",
    "means or a time after dark turns",
    "turns add up",
)
SELF, ANOTHER = "self", "another"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the floor makes of a message. ``signs`` name what was seen and hold no word of the person.

    ``says_safe`` is an answer that they are safe: it is believed only after they were asked. ``leans`` says
    that there are signs, too weak to act on alone.
    """

    level: int = 0
    confidence: float = 1.0
    kind: str = ""
    about: str = SELF
    signs: tuple[str, ...] = ()
    says_safe: bool = False
    leans: bool = False


class Weighed(msgspec.Struct, frozen=True):
    """A message by itself: what was read, how it scores, and what it states."""

    reading: Reading
    margins: Sequence[float]
    states: Sequence[Statement]

    @property
    def scored(self) -> int:
        """The level that the scores give; a denial that nothing speaks against is believed."""
        one, two, three = self.margins[:3]
        if self.brief:
            return Level.NONE
        if two > 0 and not self.denies:
            return Level.IMMINENT if three > 0 else Level.RISK
        return Level.UNCLEAR if max(one, two) > 0 else Level.NONE

    @property
    def brief(self) -> bool:
        """Whether it is an answer of a few words that names no danger."""
        return self.reading.length <= FEW and not self.reading.concepts & lexicon().groups["dangers"]

    @property
    def denies(self) -> bool:
        """Whether it denies a danger and says nothing else that shows one."""
        groups, said = lexicon().groups, self.reading.concepts
        return bool(said & groups["denials"]) and not said & groups["dangers"]

    @property
    def level(self) -> int:
        """How serious it is by itself."""
        return max(self.scored, self.states[0].level if self.states else Level.NONE)

    @property
    def points(self) -> float:
        """What it adds to the turns around it: nothing if harmless, 1 where it is unclear, 2 at most."""
        if self.level >= Level.RISK:
            return 2.0
        scored = 0.0 if self.brief else min(max(self.margins[1] / DARK + 1, 0.0), 2.0)
        return max(scored, 1.0) if self.level == Level.UNCLEAR else scored


class Earlier(msgspec.Struct, frozen=True):
    """What counts of an earlier message: how serious it was, and what it adds to those after it."""

    level: int
    points: float


def floor(message: str, before: Sequence[Message] = (), by: Score | None = None) -> Judged:
    """Judge a message by itself and by the turns before it."""
    return judge(message, before, by or score(), _remembered())


def judge(
    message: str, before: Sequence[Message], by: Score, look_back: Callable[[str], Earlier] | None = None
) -> Judged:
    """Judge a message by these scores; ``look_back`` may know already what an earlier one was."""
    known = lexicon()
    look_back = look_back or functools.partial(_earlier, known=known, by=by)
    question = _question(before, known)
    now = weigh(message, known, by, question.language if question else DEFAULT)
    answered = _answer(now, question.answers & ASKS if question else frozenset())
    if answered == Level.NONE and now.level == Level.NONE:
        return Judged(says_safe=True, confidence=0.9)
    earlier = [look_back(turn.text) for turn in [one for one in before if one.role == "user"][-TURNS:]]
    seen = {ANSWERED: answered or Level.NONE, **_in_context(now, earlier)}
    level = max(now.level, *seen.values())
    names = [one.name for one in now.states] + ([READS[now.scored]] if now.scored else [])
    names += [name for name, found in seen.items() if found > now.level]
    return _judged(now, level, tuple(sorted(set(names))))


def weigh(message: str, known: Lexicon, by: Score, default: str = DEFAULT) -> Weighed:
    """Read a message, in ``default`` if its words leave that open; score it, and find what it states."""
    reading = read(message, known, default)
    return Weighed(reading, by(message, reading), stated(reading))


def _question(before: Sequence[Message], known: Lexicon) -> Reading | None:
    """The last reply, if it asked something."""
    if not before or before[-1].role != "assistant" or "?" not in before[-1].text:
        return None
    return read(before[-1].text, known)


def _answer(now: Weighed, asked: frozenset[str]) -> int | None:
    """How serious an answer to a direct question is."""
    if not asked:
        return None
    answers, short = now.reading.answers, now.reading.length <= SHORT
    if "unsafe" in answers:
        return Level.RISK
    if "safe" in answers:
        return Level.NONE
    if ("no" in answers or now.denies) and not (short and answers & {"yes", "unsure"}):
        return _denial(asked, short=short)
    if short and "unsure" in answers:
        return Level.RISK if asked == {"asks_safe"} else Level.UNCLEAR
    if short and "yes" in answers:
        return Level.IMMINENT if "asks_plan" in asked else Level.RISK if "asks_risk" in asked else Level.NONE
    return None


def _denial(asked: frozenset[str], *, short: bool) -> int:
    """What a no means: to "are you safe?" it is no comfort, and to two questions at once it is unclear."""
    if "asks_safe" not in asked or not short:
        return Level.NONE
    return Level.UNCLEAR if "asks_risk" in asked else Level.RISK


def _earlier(message: str, known: Lexicon, by: Score) -> Earlier:
    weighed = weigh(message, known, by)
    return Earlier(int(weighed.level), weighed.points)


@functools.cache
def _remembered() -> Callable[[str], Earlier]:
    """Earlier messages are met again with every turn."""
    return remembered(functools.partial(_earlier, known=lexicon(), by=score()))


def _in_context(now: Weighed, earlier: Sequence[Earlier]) -> dict[str, int]:
    """What it is with the turns before it: means or a time after dark turns, or one sign too many."""
    told = now.reading
    if not earlier or told.has("fiction", "daily", "joyful", "recovered") or now.denies:
        return {}
    found: dict[str, int] = {}
    highest = max(turn.level for turn in earlier[-RECENT:])
    means = told.concepts & lexicon().groups["means"]
    if means and highest >= Level.RISK:
        found[MEANS_AFTER] = int(Level.IMMINENT)
    elif highest and "how" in means and len(means) > 1:
        found[MEANS_AFTER] = int(Level.RISK)
    elif highest >= Level.RISK and told.has("near") and told.length <= SHORT:
        found[MEANS_AFTER] = int(Level.IMMINENT)
    dark = 0.0
    for turn in earlier:
        dark = FADES * dark + turn.points
    whole = FADES * dark + now.points
    if now.points and whole >= ASKS_FROM:
        found[ADDS_UP] = int(Level.RISK if whole >= ACTS_FROM else Level.UNCLEAR)
    return found


def _judged(now: Weighed, level: int, names: tuple[str, ...]) -> Judged:
    """What is told of a level: what kind of danger, and whose."""
    displaced = now.reading.has("asksfriend")
    about = SELF if displaced or not level or not _of_another(now) else ANOTHER
    return Judged(
        level=level,
        confidence=0.9 if now.states or max(now.margins[max(level - 1, 0)], -now.margins[0]) > 1 else 0.6,
        kind=_kind(now, about, displaced=displaced) if level else "",
        about=about,
        signs=names if level else (),
        says_safe=not level and "safe" in now.reading.answers,
        leans=bool(level) or (now.margins[0] > LEANS and not now.brief),
    )


def _of_another(now: Weighed) -> bool:
    """Whether somebody writes about another person who is in danger, and not about themselves."""
    if now.states or now.margins[3] <= 0:
        return False
    return now.reading.has(*OTHERS)


def _kind(now: Weighed, about: str, *, displaced: bool) -> str:
    if about == ANOTHER:
        return "worry for another"
    if displaced:
        return "displaced"
    if now.states:
        return now.states[0].kind
    if now.margins[4] > 0 and now.reading.has("kill", "hurt_other", "gun", "knife", "anger", "foe"):
        return "harm to others"
    told = now.reading
    if told.has("selfharm", "blood"):
        return "self-harm"
    if told.has("note", "giveaway", "goodbye", "findme"):
        return "preparation"
    if told.has("pills", "gun", "rope", "height", "train", "poison"):
        return "means"
    return "passive" if told.has("wish", "burden", "-livingness", "-here") else "veiled"


def language_of(message: str, before: Sequence[Message] = (), default: str = DEFAULT) -> str:
    """The language that somebody writes in, by its words and its letters."""
    known = lexicon()
    recent = [turn.text for turn in before if turn.role == "user"][-3:]
    text = " ".join([*recent, message])
    return language_among(words(text, known.spelling), text, known, default)
