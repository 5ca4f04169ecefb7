"""The floor: the level of a message by its words and the turns before it. Deterministic, never absent.

The level is the higher of two: what the message reads like, learnt from labelled ones (``classifier``), and
what it states (``statements``). It errs to caution: a model can raise its level and never lower it.
"""

import functools
import importlib.resources
import tomllib
from collections.abc import Callable, Mapping, Sequence
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
    """A statement: the concepts that one clause must have, and must not have, to say it."""

    name: str
    kind: str
    level: int
    needs: frozenset[str]
    alternatives: Sequence[frozenset[str]]
    exclusions: frozenset[str]

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
    )


def statements_in(reading: Reading) -> list[RiskStatement]:
    """The statements in a message, the gravest first; not what is quoted, or frightens the person."""
    is_quotation = reading.has(QUOTATION) and reading.has("says", "fiction", "work", "newsy", "past")
    if is_quotation or reading.has("unwanted", "-unwanted"):
        return []
    matches = [one for one in load_statements() if any(one.is_in(clause) for clause in reading.clauses)]
    return sorted(matches, key=lambda one: -one.level)


DEFAULT_LANGUAGE = "en"
MOST_TURNS = 12
"""How many of the person's earlier messages are read."""
SHORT_ANSWER_WORDS = 8
"""An answer of so many words is an answer to the question before it, and nothing else."""
LEAN_MARGIN = -1.0
"""How far below the first level a message may score and still be asked about, if no model could be."""
BRIEF_WORDS = 3
"""So few words that name no danger are an answer and no more: they are not scored."""
RECENT_TURNS = 6
"""How many of them can make a question about means grave."""
DARK_MARGIN = 2.0
"""How far below risk a message must score to add nothing to the turns around it."""
QUESTION_POINTS, CRISIS_POINTS, FADING = 1.5, 2.0, 0.7
"""What the turns must add up to for a question and for a crisis reply, and how fast earlier ones fade."""
SCORE_SIGNS = ("", "reads as unclear", "reads as risk", "reads as danger now")
ANSWER_SIGN, MEANS_SIGN, SUM_SIGN = (
    "answers a direct question",
    "means or a time after dark turns",
    "turns add up",
)
SELF, ANOTHER = "self", "another"


class FloorVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The floor's verdict on a message. ``signs`` name its evidence and hold no word of the person.

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


class MessageSignals(msgspec.Struct, frozen=True):
    """A message by itself: what was read, how it scores, and what it states."""

    reading: Reading
    margins: Sequence[float]
    statements: Sequence[RiskStatement]

    @property
    def score_level(self) -> int:
        """The level that the scores give; a denial that nothing speaks against is believed."""
        one, two, three = self.margins[:3]
        if self.is_brief:
            return CrisisLevel.NONE
        if two > 0 and not self.is_denial:
            return CrisisLevel.IMMINENT if three > 0 else CrisisLevel.RISK
        return CrisisLevel.UNCLEAR if max(one, two) > 0 else CrisisLevel.NONE

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
        groups, concepts = load_lexicon().groups, self.reading.concepts
        return bool(concepts & groups["denials"]) and not concepts & groups["dangers"]

    @property
    def level(self) -> int:
        """The level of the message by itself."""
        return max(self.score_level, self.statements[0].level if self.statements else CrisisLevel.NONE)

    @property
    def points(self) -> float:
        """Points for the turns around it: 0 if harmless, 1 where it is unclear, 2 at most."""
        if self.level >= CrisisLevel.RISK:
            return 2.0
        score_points = 0.0 if self.is_brief else min(max(self.margins[1] / DARK_MARGIN + 1, 0.0), 2.0)
        return max(score_points, 1.0) if self.level == CrisisLevel.UNCLEAR else score_points


class EarlierMessage(msgspec.Struct, frozen=True):
    """An earlier message as it counts later: its level, and the points it adds to later ones."""

    level: int
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
    context_levels = {ANSWER_SIGN: answer_level or CrisisLevel.NONE, **_context_levels(signals, earlier)}
    level = max(signals.level, *context_levels.values())
    sign_names = [one.name for one in signals.statements] + (
        [SCORE_SIGNS[signals.score_level]] if signals.score_level else []
    )
    sign_names += [name for name, context_level in context_levels.items() if context_level > signals.level]
    return _make_verdict(signals, level, tuple(sorted(set(sign_names))))


def read_signals(
    message: str, lexicon: Lexicon, scorer: MessageScorer, default: str = DEFAULT_LANGUAGE
) -> MessageSignals:
    """Read a message, in ``default`` if its words leave that open; score it, and find what it states."""
    reading = read_message(message, lexicon, default)
    return MessageSignals(reading, scorer(message, reading), statements_in(reading))


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
    return EarlierMessage(int(signals.level), signals.points)


@functools.cache
def _earlier_message_cache() -> Callable[[str], EarlierMessage]:
    """Earlier messages are met again with every turn."""
    return cache_by_hash(functools.partial(_earlier_message, lexicon=load_lexicon(), scorer=default_scorer()))


def _context_levels(signals: MessageSignals, earlier: Sequence[EarlierMessage]) -> dict[str, int]:
    """The level with the turns before it: means or a time after dark turns, or one sign too many."""
    reading = signals.reading
    if not earlier or reading.has("fiction", "daily", "joyful", "recovered") or signals.is_denial:
        return {}
    levels: dict[str, int] = {}
    highest = max(turn.level for turn in earlier[-RECENT_TURNS:])
    means = reading.concepts & load_lexicon().groups["means"]
    if means and highest >= CrisisLevel.RISK:
        levels[MEANS_SIGN] = int(CrisisLevel.IMMINENT)
    elif highest and "how" in means and len(means) > 1:
        levels[MEANS_SIGN] = int(CrisisLevel.RISK)
    elif highest >= CrisisLevel.RISK and reading.has("near") and reading.length <= SHORT_ANSWER_WORDS:
        levels[MEANS_SIGN] = int(CrisisLevel.IMMINENT)
    earlier_points = 0.0
    for turn in earlier:
        earlier_points = FADING * earlier_points + turn.points
    points = FADING * earlier_points + signals.points
    if signals.points and points >= QUESTION_POINTS:
        levels[SUM_SIGN] = int(CrisisLevel.RISK if points >= CRISIS_POINTS else CrisisLevel.UNCLEAR)
    return levels


def _make_verdict(signals: MessageSignals, level: int, sign_names: tuple[str, ...]) -> FloorVerdict:
    """A verdict of some level: the kind of danger, and whose."""
    is_displaced = signals.reading.has("asksfriend")
    about = SELF if is_displaced or not level or not _is_about_another(signals) else ANOTHER
    return FloorVerdict(
        level=level,
        confidence=0.9
        if signals.statements or max(signals.margins[max(level - 1, 0)], -signals.margins[0]) > 1
        else 0.6,
        kind=_danger_kind(signals, about, is_displaced=is_displaced) if level else "",
        about=about,
        signs=sign_names if level else (),
        says_safe=not level and "safe" in signals.reading.answers,
        leans=bool(level) or (signals.margins[0] > LEAN_MARGIN and not signals.is_brief),
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
