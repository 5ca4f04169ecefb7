"""The floor: the level of a message by its words and the turns before it. Deterministic, never absent.

It knows two kinds of evidence. What a message states (``statements``, an answer to a direct question, a named
means after a stated danger) holds against any model. What it only reads like, learnt from labelled ones
(``classifier``), asks for a judge: a model may put it higher or lower, and without one it stands.
"""

import functools
import importlib.resources
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from clew.runtime.model.messages import Message
from clew_companion.crisis.classifier import MessageScorer, cache_by_hash, default_scorer
from clew_companion.crisis.concepts import OTHER_PERSONS, QUOTATION, RISK_QUESTIONS, Reading, read_message
from clew_companion.crisis.lexicon import Lexicon, language_of_tokens, load_lexicon
from clew_companion.crisis.words import tokenize
from clew_companion.values import CrisisLevel


@dataclass(frozen=True, slots=True)
class RiskStatement:
    """A statement: the concepts that one clause must have, and must not have, to say it.

    ``reads`` is how far above risk the message must score as well; None where the words are enough. What does
    not ``hold`` is a reason to ask, which a model may find to be none.
    """

    name: str
    kind: str
    level: int
    needs: frozenset[str]
    alternatives: Sequence[frozenset[str]]
    exclusions: frozenset[str]
    reads: float | None = None
    holds: bool = True

    def is_in(self, clause: frozenset[str]) -> bool:
        """Return whether a clause says it."""
        return (
            self.needs <= clause
            and self.exclusions.isdisjoint(clause)
            and all(not one.isdisjoint(clause) for one in self.alternatives)
        )


@functools.cache
def load_statements() -> Sequence[RiskStatement]:
    """The statements that come with the companion."""
    file = importlib.resources.files("clew_companion.crisis").joinpath("statements.toml")
    table = tomllib.loads(file.read_text("utf-8"))
    return tuple(_make_statement(one, table) for one in table["statement"])


def _make_statement(entry: Mapping[str, Any], table: Mapping[str, Any]) -> RiskStatement:
    exclusions = [
        name for group in entry["without"] for name in (table["others"] if group == "others" else [group])
    ]
    return RiskStatement(
        name=entry["name"],
        kind=entry["kind"],
        level=entry["level"],
        needs=frozenset(entry.get("all", ())),
        alternatives=tuple(frozenset(names) for names in entry.get("some", ())),
        exclusions=frozenset([*table["never"], *exclusions]) - frozenset(entry.get("despite", ())),
        reads=entry.get("reads"),
        holds=entry.get("holds", True),
    )


def denies_danger(reading: Reading) -> bool:
    """Return whether a message denies a danger and says nothing else that shows one."""
    groups = load_lexicon().groups
    return not reading.concepts.isdisjoint(groups["denials"]) and reading.concepts.isdisjoint(
        groups["dangers"]
    )


def statements_in(reading: Reading, risk: float = 0.0) -> list[RiskStatement]:
    """The statements in a message, the gravest first; not what is quoted, or frightens the person."""
    is_quotation = reading.has(QUOTATION) and reading.has("says", "fiction", "work", "newsy", "past")
    if is_quotation or reading.has("unwanted", "-unwanted"):
        return []
    clauses = [*reading.clauses, *_stretches(reading)]
    may_read = not denies_danger(reading) and (reading.has("final_act") or not is_helped(reading))
    matches = [
        one
        for one in load_statements()
        if any(one.is_in(clause) for clause in clauses)
        and (one.reads is None or (risk > one.reads and may_read))
    ]
    return sorted(matches, key=lambda one: -one.level)


def _stretches(reading: Reading) -> Iterator[frozenset[str]]:
    """The clauses up to a few words behind what is said outright: what follows does not take it away."""
    explicit = load_lexicon().groups["explicit"]
    for sign in reading.signs:
        if sign.name in explicit:
            yield frozenset(
                other.name
                for other in reading.signs
                if other.clause == sign.clause and other.start < sign.end + STRETCH_WORDS
            )


def is_helped(reading: Reading) -> bool:
    """Return whether a message says that help is coming, somebody is there, or the person is safe."""
    return any("helped" in clause and "nobody" not in clause for clause in reading.clauses)


STRETCH_WORDS = 3
"""How many words behind what is said outright can still take it away."""
DEFAULT_LANGUAGE = "en"
MOST_TURNS = 12
"""How many of the person's earlier messages are read."""
SHORT_ANSWER_WORDS = 8
"""An answer of so many words is an answer to the question before it, and nothing else."""
BRIEF_WORDS = 2
"""So few words that name no danger are an answer and no more: they are not scored."""
RECENT_TURNS = 6
"""How many of them can make a named means grave."""
DARK_MARGIN = 3.0
"""How far below a question a message must score to add nothing to the turns around it."""
QUESTION_POINTS, SUPPORT_POINTS, LEAST_POINTS, FADING = 1.45, 0.7, 0.3, 0.85
"""What the turns must add up to for a question; what the earlier ones must for a crisis reply to what only
reads like risk; what a message must have to count at all; and how fast earlier ones fade."""
SCORE_SIGNS = ("", "reads as unclear", "reads as risk", "reads as danger now")
ANSWER_SIGN, MEANS_SIGN, SUM_SIGN = (
    "answers a direct question",
    "named means after a stated danger",
    "turns add up",
)
SELF, ANOTHER = "self", "another"


class FloorVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The floor's verdict on a message. ``signs`` name its evidence and hold no word of the person.

    ``stated`` is the level that holds against any model; ``level`` is the level without a model, and never
    lower; ``worded`` is the part of ``stated`` that no score has a say in. ``risk`` is how far the score of
    risk is above where it counts. ``says_safe`` is an answer that they are safe: it is believed only after
    they were asked.
    """

    level: int = 0
    stated: int = 0
    worded: int = 0
    risk: float = 0.0
    confidence: float = 1.0
    kind: str = ""
    about: str = SELF
    signs: tuple[str, ...] = ()
    says_safe: bool = False


class MessageSignals(msgspec.Struct, frozen=True):
    """A message by itself: what was read, how it scores, and what it states."""

    reading: Reading
    margins: Sequence[float]
    statements: Sequence[RiskStatement]

    @property
    def score_level(self) -> int:
        """The level that the scores give, 2 at most; a denial with nothing against it is believed."""
        question, risk = self.margins[:2]
        if self.is_brief:
            return CrisisLevel.NONE
        if risk > 0 and not self.is_denial:
            return CrisisLevel.UNCLEAR if self.is_helped else CrisisLevel.RISK
        has_reason = max(question, risk) > 0 or any(not one.holds for one in self.statements)
        return CrisisLevel.UNCLEAR if has_reason else CrisisLevel.NONE

    @property
    def stated_level(self) -> int:
        """The level of what it states."""
        return max((one.level for one in self.statements if one.holds), default=CrisisLevel.NONE)

    @property
    def is_helped(self) -> bool:
        """Return whether it says that help is there, and states no danger."""
        return is_helped(self.reading) and not self.stated_level and not self.reading.has("final_act")

    @property
    def is_brief(self) -> bool:
        """Return whether it is an answer of a few words that names no danger."""
        return (
            self.reading.length <= BRIEF_WORDS
            and not self.reading.concepts & load_lexicon().groups["dangers"]
        )

    @property
    def is_denial(self) -> bool:
        """Return whether it denies a danger and says nothing else that shows one."""
        return denies_danger(self.reading)

    @property
    def level(self) -> int:
        """The level of the message by itself."""
        return max(self.score_level, self.stated_level)

    @property
    def points(self) -> float:
        """Points for the turns around it: 0 if harmless, 1 where a question begins, 2 at most."""
        if self.stated_level >= CrisisLevel.RISK:
            return 1.0  # it was answered as what it is
        if self.is_brief or self.is_helped or self.is_denial:
            return 0.0
        points = min(max(self.margins[0] / DARK_MARGIN + 1, 0.0), 2.0)
        return max(points, 1.0) if self.score_level else points


class EarlierMessage(msgspec.Struct, frozen=True):
    """An earlier message as it counts later: the level that it stated, and the points that it adds."""

    stated: int
    points: float


def judge_message(
    message: str, before: Sequence[Message] = (), scorer: MessageScorer | None = None
) -> FloorVerdict:
    """Judge a message by itself and by the turns before it."""
    return judge_message_with(message, before, scorer or default_scorer(), _earlier_message_cache())


def judge_message_with(
    message: str,
    before: Sequence[Message],
    scorer: MessageScorer,
    look_back: Callable[[str], EarlierMessage] | None = None,
) -> FloorVerdict:
    """Judge a message by these scores; ``look_back`` may know already what an earlier one was."""
    lexicon = load_lexicon()
    look_back = look_back or functools.partial(_earlier_message, lexicon=lexicon, scorer=scorer)
    question = _question_before(before, lexicon)
    signals = read_signals(message, lexicon, scorer, question.language if question else DEFAULT_LANGUAGE)
    answer_level = _answer_level(signals, question.answers & RISK_QUESTIONS if question else frozenset())
    if answer_level == CrisisLevel.NONE and signals.level == CrisisLevel.NONE:
        return FloorVerdict(says_safe=True, confidence=0.9)
    earlier = [look_back(turn.text) for turn in [one for one in before if one.role == "user"][-MOST_TURNS:]]
    danger_before = max((turn.stated for turn in earlier[-RECENT_TURNS:]), default=0) >= CrisisLevel.RISK
    is_new = bool(earlier) and not danger_before and _points_of(earlier) < SUPPORT_POINTS
    stated_levels = {
        **{
            one.name: one.level
            for one in signals.statements
            if one.holds and not (is_new and one.reads is not None)
        },
        ANSWER_SIGN: answer_level or CrisisLevel.NONE,
        MEANS_SIGN: _means_level(signals, danger_before=danger_before),
    }
    has_stated = danger_before or max(stated_levels.values()) >= CrisisLevel.RISK
    read_level = _read_level(signals, is_new=is_new, has_stated=has_stated)
    read_levels = {SCORE_SIGNS[read_level]: read_level, SUM_SIGN: _sum_level(signals, earlier)}
    return _make_verdict(signals, stated_levels, read_levels)


def _read_level(signals: MessageSignals, *, is_new: bool, has_stated: bool) -> int:
    """The level that the scores give: danger now only where a danger was stated.

    In a talk that has shown nothing so far, what only reads like risk is asked about first.
    """
    if signals.score_level < CrisisLevel.RISK:
        return signals.score_level
    if has_stated:
        return CrisisLevel.IMMINENT if signals.margins[2] > 0 else CrisisLevel.RISK
    return CrisisLevel.UNCLEAR if is_new else CrisisLevel.RISK


def read_signals(
    message: str, lexicon: Lexicon, scorer: MessageScorer, default: str = DEFAULT_LANGUAGE
) -> MessageSignals:
    """Read a message, in ``default`` if its words leave that open; score it, and find what it states."""
    reading = read_message(message, lexicon, default)
    margins = scorer(message, reading)
    return MessageSignals(reading, margins, statements_in(reading, margins[1]))


def _question_before(before: Sequence[Message], lexicon: Lexicon) -> Reading | None:
    """The last reply, if it asked something."""
    if not before or before[-1].role != "assistant" or "?" not in before[-1].text:
        return None
    return read_message(before[-1].text, lexicon)


def _answer_level(signals: MessageSignals, questions: frozenset[str]) -> int | None:
    """The level of an answer to a direct question."""
    if not questions:
        return None
    answers, is_short = signals.reading.answers, signals.reading.length <= SHORT_ANSWER_WORDS
    if "unsafe" in answers:
        return CrisisLevel.RISK
    if "safe" in answers:
        return CrisisLevel.NONE
    if ("no" in answers or signals.is_denial) and not (is_short and answers & {"yes", "unsure"}):
        return _denial_level(questions, is_short=is_short)
    if is_short and "unsure" in answers:
        return CrisisLevel.RISK if questions == {"asks_safe"} else CrisisLevel.UNCLEAR
    if is_short and "yes" in answers:
        return (
            CrisisLevel.IMMINENT
            if "asks_plan" in questions
            else CrisisLevel.RISK
            if "asks_risk" in questions
            else CrisisLevel.NONE
        )
    return None


def _denial_level(questions: frozenset[str], *, is_short: bool) -> int:
    """The level of a no: to "are you safe?" it is no comfort, and to two questions at once it is unclear."""
    if "asks_safe" not in questions or not is_short:
        return CrisisLevel.NONE
    return CrisisLevel.UNCLEAR if "asks_risk" in questions else CrisisLevel.RISK


def _earlier_message(message: str, lexicon: Lexicon, scorer: MessageScorer) -> EarlierMessage:
    signals = read_signals(message, lexicon, scorer)
    return EarlierMessage(int(signals.stated_level), signals.points)


@functools.cache
def _earlier_message_cache() -> Callable[[str], EarlierMessage]:
    """Earlier messages are met again with every turn."""
    return cache_by_hash(functools.partial(_earlier_message, lexicon=load_lexicon(), scorer=default_scorer()))


HARMLESS_FRAMES = ("fiction", "daily", "joyful", "recovered")
"""What makes a word that is a means elsewhere harmless."""


def _means_level(signals: MessageSignals, *, danger_before: bool) -> int:
    """The level of a named means, or an act, in the turns after a stated danger."""
    reading = signals.reading
    if not danger_before or signals.is_denial:
        return CrisisLevel.NONE
    if reading.has("final_act"):
        return CrisisLevel.IMMINENT
    is_harmless = signals.is_helped or reading.has(*HARMLESS_FRAMES)
    return CrisisLevel.IMMINENT if reading.has("lethal_means") and not is_harmless else CrisisLevel.NONE


def _sum_level(signals: MessageSignals, earlier: Sequence[EarlierMessage]) -> int:
    """The level of small signs that add up over the turns: a question at most."""
    if not earlier or signals.points < LEAST_POINTS or signals.reading.has(*HARMLESS_FRAMES):
        return CrisisLevel.NONE
    points = FADING * _points_of(earlier) + signals.points
    return CrisisLevel.UNCLEAR if points >= QUESTION_POINTS else CrisisLevel.NONE


def _points_of(earlier: Sequence[EarlierMessage]) -> float:
    """The points of the turns before, the older ones faded."""
    points = 0.0
    for turn in earlier:
        points = FADING * points + turn.points
    return points


def _make_verdict(
    signals: MessageSignals, stated_levels: Mapping[str, int], read_levels: Mapping[str, int]
) -> FloorVerdict:
    """A verdict: both levels, the kind of danger, and whose."""
    stated = int(max(stated_levels.values()))
    scored = {one.name for one in signals.statements if one.reads is not None}
    level = max(stated, *map(int, read_levels.values()))
    is_displaced = signals.reading.has("asksfriend")
    about = SELF if is_displaced or not level or not _is_about_another(signals) else ANOTHER
    return FloorVerdict(
        level=level,
        stated=stated,
        worded=max(int(found) for name, found in stated_levels.items() if name not in scored),
        risk=signals.margins[1],
        confidence=0.9
        if signals.statements or max(signals.margins[max(level - 1, 0)], -signals.margins[0]) > 1
        else 0.6,
        kind=_danger_kind(signals, about, is_displaced=is_displaced) if level else "",
        about=about,
        signs=tuple(sorted(name for name, found in {**stated_levels, **read_levels}.items() if found)),
        says_safe=not level and "safe" in signals.reading.answers,
    )


def _is_about_another(signals: MessageSignals) -> bool:
    """Return whether the person writes about another who is in danger, and not about themselves."""
    if signals.statements or signals.margins[3] <= 0:
        return False
    return signals.reading.has(*OTHER_PERSONS)


def _danger_kind(signals: MessageSignals, about: str, *, is_displaced: bool) -> str:
    if about == ANOTHER:
        return "worry for another"
    if is_displaced:
        return "displaced"
    if signals.statements:
        return signals.statements[0].kind
    if signals.margins[4] > 0 and signals.reading.has("kill", "hurt_other", "gun", "knife", "anger", "foe"):
        return "harm to others"
    reading = signals.reading
    if reading.has("selfharm", "blood"):
        return "self-harm"
    if reading.has("note", "giveaway", "goodbye", "findme"):
        return "preparation"
    if reading.has("pills", "gun", "rope", "height", "train", "poison"):
        return "means"
    return "passive" if reading.has("wish", "burden", "-livingness", "-here") else "veiled"


def language_of(message: str, before: Sequence[Message] = (), default: str = DEFAULT_LANGUAGE) -> str:
    """The language of a message, by its words and its letters."""
    lexicon = load_lexicon()
    recent = [turn.text for turn in before if turn.role == "user"][-3:]
    text = " ".join([*recent, message])
    return language_of_tokens(tokenize(text, lexicon.spelling), text, lexicon, default)
