"""How serious a message is, by its words and the turns before it: always an answer, always the same.

The words are data (``lexicon/``); this is how their signs are weighed. It errs to caution: what a model
judges can raise its level and never lower it.
"""

from collections.abc import Sequence

import msgspec

from holdfast.companion.crisis.lexicon import Lexicon, lexicon
from holdfast.companion.crisis.reading import AIDS, CORE, OTHERS, Reading, read
from holdfast.companion.crisis.words import words
from holdfast.companion.values import Level
from holdfast.runtime.messages import Message

TURNS = 12
"""How many of the person's earlier messages are read."""
SHORT = 8
"""An answer of so many words is an answer to the question before it, and nothing else."""
MANY = 4
"""So many kinds of small signs in one message are no chance."""
ASKS_FROM, ACTS_FROM = 2.5, 4.0
"""What small signs of several turns must add up to."""
KINDS = {
    "intent": "explicit",
    "act": "explicit",
    "wish": "explicit",
    "passive": "passive",
    "veiled": "veiled",
    "coded": "coded",
    "selfharm": "self-harm",
    "method": "means",
    "means": "means",
    "might": "means",
    "prepared": "preparation",
    "farewell": "preparation",
    "threat": "harm to others",
    "violence": "harm to others",
    "concern": "worry for another",
    "distress": "unclear",
    "topic": "unclear",
    "weak": "unclear",
}
ORDER = list(KINDS)
"""Which of two signs of one weight names the whole: danger to oneself comes first."""
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


def floor(message: str, before: Sequence[Message] = ()) -> Judged:
    """Judge a message by itself and by the turns before it."""
    known = lexicon()
    now = read(message, known)
    answered = _answer(now, _asked(before, known))
    if answered == Level.NONE and not now.has(*CORE, *OTHERS, "intent", "act"):
        return _judged(now, Level.NONE, says_safe=True)
    earlier = [read(turn.text, known) for turn in before if turn.role == "user"][-TURNS:]
    alone = max(level_of(now), answered or Level.NONE)
    level = max(alone, _in_context(now, earlier, alone))
    return _judged(now, level, says_safe=level == Level.NONE and now.has("safe"))


def level_of(now: Reading) -> int:
    """How serious a message is by itself."""
    displaced = now.has("displaced")
    hits = [hit for hit in now.hits if displaced or not hit.other]
    kinds = {hit.sign.shows for hit in hits}
    aids = len({hit.pattern for hit in hits if hit.sign.shows in AIDS})
    small = len({hit.sign.name for hit in hits if hit.sign.shows == "weak"}) + now.has("soon")
    level = _of_self(kinds, aids, small, soon=now.has("soon"))
    level = max(level, _of_others(kinds, soon=now.has("soon")))
    if now.has("wants_distance") and level == Level.RISK and not kinds & {"intent", "act", "selfharm"}:
        level = Level.UNCLEAR
    return level if displaced else max(level, _of_another(now))


def _of_self(kinds: set[str], aids: int, small: int, *, soon: bool) -> int:
    if kinds & {"intent", "act"}:
        return Level.IMMINENT
    if kinds & CORE:
        return Level.IMMINENT if aids or soon else Level.RISK
    if kinds & {"selfharm", "concern"}:  # a concern only stays among them where the friend may be nobody else
        return Level.RISK
    points = aids + bool(kinds & {"distress", "topic"}) + (0.5 if soon else 0)
    if small >= MANY:
        return Level.RISK
    if aids >= 2 and points >= 2.5:
        return Level.IMMINENT
    if points >= 1.5 and aids:
        return Level.RISK
    return (
        Level.UNCLEAR
        if small >= MANY - 1 or kinds & {"distress", "topic", *AIDS} - {"farewell"}
        else Level.NONE
    )


def _of_others(kinds: set[str], *, soon: bool) -> int:
    if "threat" in kinds:
        return Level.IMMINENT
    if "violence" in kinds:
        return Level.IMMINENT if "means" in kinds else Level.RISK
    return Level.NONE


def _of_another(now: Reading) -> int:
    if not any(hit.other and hit.sign.weight >= Level.RISK for hit in now.hits):
        return Level.NONE
    return Level.RISK if now.has("worry") else Level.UNCLEAR


def _asked(before: Sequence[Message], known: Lexicon) -> frozenset[str]:
    """What the last reply asked."""
    if not before or before[-1].role != "assistant":
        return frozenset()
    return read(before[-1].text, known).frames & {"asks_risk", "asks_plan", "asks_safe"}


def _answer(now: Reading, asked: frozenset[str]) -> int | None:
    """How serious an answer to a direct question is."""
    if not asked:
        return None
    short = now.length <= SHORT
    if now.has("safe"):
        return Level.NONE
    if now.has("no") and not (short and now.has("yes", "unsure")):
        return _denial(asked, short=short)
    if short and now.has("unsure"):
        return Level.RISK if asked == {"asks_safe"} else Level.UNCLEAR
    if short and now.has("yes"):
        return Level.IMMINENT if "asks_plan" in asked else Level.RISK if "asks_risk" in asked else Level.NONE
    return None


def _denial(asked: frozenset[str], *, short: bool) -> int:
    """What a no means: to "are you safe?" it is no comfort, and to two questions at once it is unclear."""
    if "asks_safe" not in asked or not short:
        return Level.NONE
    return Level.UNCLEAR if "asks_risk" in asked else Level.RISK


def _in_context(now: Reading, earlier: Sequence[Reading], alone: int) -> int:
    """What it is with the turns before it: a question about means, a preparation, one sign too many."""
    if not earlier or now.has("story", "leaving"):
        return alone
    highest = max(level_of(turn) for turn in earlier)
    dark = sum(_points(turn) for turn in earlier)
    if now.has("might", "method", *AIDS, "soon") and highest >= Level.RISK:
        return Level.IMMINENT if now.has("might", "method", *AIDS) else Level.RISK
    if dark >= 1 and now.has("might", "method", "means", "prepared"):
        return Level.RISK
    own = _points(now)
    if own and dark + own >= ACTS_FROM:
        return Level.RISK
    return Level.UNCLEAR if own and dark + own >= ASKS_FROM else alone


def _points(turn: Reading) -> float:
    """What the signs of a turn about the person weigh together: each once, and no frame."""
    if turn.has("story", "leaving"):
        return 0.0
    weights = {hit.pattern: hit.sign.weight for hit in turn.hits if not hit.other}
    return min(sum(weights.values()), 2.0)


def _judged(now: Reading, level: int, *, says_safe: bool) -> Judged:
    ranked = sorted(now.hits, key=lambda hit: (-hit.sign.weight, ORDER.index(hit.sign.shows)))
    displaced = now.has("displaced")
    other = (
        bool(ranked) and not displaced and all(hit.other for hit in ranked if hit.sign.weight >= Level.RISK)
    )
    other = other and any(hit.other for hit in ranked)
    kind = KINDS[ranked[0].sign.shows] if ranked and level else ("unclear" if level else "")
    return Judged(
        level=level,
        confidence=_confidence(level, ranked[0].sign.weight if ranked else 0.0),
        kind="worry for another" if other and level else "displaced" if displaced and level else kind,
        about=ANOTHER if other and level else SELF,
        signs=tuple(sorted({hit.sign.name for hit in ranked})) if level else (),
        says_safe=says_safe,
        leans=any(not hit.other and hit.sign.shows != "might" for hit in now.hits),
    )


def _confidence(level: int, strongest: float) -> float:
    """Sure where one sign says it all, less so where several had to."""
    return 0.9 if level == Level.NONE or strongest >= level else 0.6


def language_of(message: str, before: Sequence[Message] = (), default: str = "en") -> str:
    """The language that somebody writes in, by its commonest words."""
    known = lexicon()
    recent = [turn.text for turn in before if turn.role == "user"][-3:]
    said = set(words(" ".join([*recent, message, message]), known.spelling))
    counts = {code: len(said & language.common) for code, language in known.languages.items()}
    best = max(counts, key=lambda code: (counts[code], code == default))
    return best if counts[best] > counts.get(default, 0) else default
