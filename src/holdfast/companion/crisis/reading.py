"""What a message shows: the signs found in it, without those that idiom, denial, past or story explain."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.companion.crisis.lexicon import Language, Lexicon, Sign
from holdfast.companion.crisis.words import COMMA, QUOTE, STOP, words

REACH = 5
"""How many words a "not" reaches."""
LONGEST = 2_000
"""Words that are read of one message: its beginning and its end, if there are more."""
CORE = frozenset({"wish", "passive", "veiled", "coded", "method"})
AIDS = frozenset({"means", "prepared", "farewell"})
SELF = CORE | AIDS | {"intent", "act", "selfharm", "topic"}
OTHERS = frozenset({"threat", "violence"})
DENIABLE = frozenset(
    {"intent", "act", "wish", "selfharm", "coded", "means", "violence", "threat", "concern", "topic"}
)
TOLD = SELF | OTHERS | {"concern", "distress", "topic"}
FRAMES = frozenset(
    {"harmless", "past", "current", "story", "loss", "joke", "earnest", "displaced", "leaving", "worry"}
    | {"wants_distance", "soon", "asks_risk", "asks_plan", "asks_safe", "yes", "no", "unsure", "safe"}
)


class Hit(msgspec.Struct, frozen=True):
    """A sign, where it stands, and whether it is about another person.

    ``between`` are the words that a pattern leaves room for: they are not part of the sign.
    """

    sign: Sign
    pattern: int
    start: int
    end: int
    sentence: int
    between: tuple[str, ...] = ()
    other: bool = False


class Reading(msgspec.Struct, frozen=True):
    """The signs that a message has, and what frames it."""

    hits: Sequence[Hit]
    frames: frozenset[str]
    length: int

    def of(self, *kinds: str) -> list[Hit]:
        """The signs of some kinds."""
        return [hit for hit in self.hits if hit.sign.shows in kinds]

    def has(self, *kinds: str) -> bool:
        """Whether there is a sign or a frame of one of these kinds."""
        return any(kind in self.frames for kind in kinds) or any(hit.sign.shows in kinds for hit in self.hits)


def read(message: str, lexicon: Lexicon) -> Reading:
    """Find what a message shows."""
    said = words(message, lexicon.spelling)
    if len(said) > LONGEST:
        said = said[: LONGEST // 2] + said[-LONGEST // 2 :]
    said = [*said, STOP]
    found = list(_found(said, lexicon))
    frames = [hit for hit in found if hit.sign.shows in FRAMES]
    hits = _kept(said, [hit for hit in found if hit.sign.shows not in FRAMES], frames, lexicon)
    return Reading(hits, frozenset(hit.sign.shows for hit in frames), sum(word.isalnum() for word in said))


def _found(said: Sequence[str], lexicon: Lexicon) -> Iterator[Hit]:
    text = " " + " ".join(said) + " "
    starts, stops, at = [], [], 1
    for number, word in enumerate(said):
        starts.append(at)
        at += len(word) + 1
        if word == STOP:
            stops.append(number)
    for number in sorted(lexicon.index.worth_trying(set(said))):
        for match in lexicon.index.patterns[number].expression.finditer(text):
            start = bisect_right(starts, match.start()) - 1
            end = bisect_right(starts, match.end() - 1)
            between = tuple(" ".join(gap for gap in match.groups() if gap).split())
            yield Hit(lexicon.signs[number], number, start, end, bisect_right(stops, start - 1), between)


def _kept(said: Sequence[str], hits: Iterable[Hit], frames: Sequence[Hit], lexicon: Lexicon) -> list[Hit]:
    kinds = {frame.sign.shows for frame in frames}
    harmless = [frame for frame in frames if frame.sign.shows == "harmless"]
    over = _sentences(frames, "past") - _sentences(frames, "current")
    quoted = _quoted(said)
    kept = []
    for hit in hits:
        language = lexicon.languages[hit.sign.language]
        if any(idiom.start < hit.end and hit.start < idiom.end for idiom in harmless):
            continue
        if hit.sign.shows in TOLD and hit.sentence in over:
            continue
        if hit.sign.shows in DENIABLE and _denied(said, hit, language):
            continue
        about = _about_another(said, hit, language) if hit.sign.shows in SELF else hit.sign.shows == "concern"
        told = hit.start in quoted and ("story" in kinds or not language.others.isdisjoint(said))
        if _explained(hit, kinds, about=about, told=told, mine=_mine(said, hit, language)):
            continue
        kept.append(msgspec.structs.replace(hit, other=about))
    return kept


def _sentences(frames: Iterable[Hit], kind: str) -> set[int]:
    return {frame.sentence for frame in frames if frame.sign.shows == kind}


def _quoted(said: Sequence[str]) -> set[int]:
    marks = [number for number, word in enumerate(said) if word == QUOTE]
    return {at for start, end in zip(marks[::2], marks[1::2], strict=False) for at in range(start, end)}


def _denied(said: Sequence[str], hit: Hit, language: Language) -> bool:
    """Whether a "not" reaches a sign that is none itself: from before it, from within, or right behind it."""
    if any(word in language.nots for word in hit.between):
        return True
    if any(word in language.nots for word in said[hit.start : hit.end]):
        return False
    for at in range(hit.start - 1, max(hit.start - 1 - REACH, -1), -1):
        if said[at] in (STOP, COMMA) or said[at] in language.ends:
            break
        if said[at] in language.nots:
            return said[at + 1] not in language.keeps
    return any(word in language.nots_after for word in said[hit.end : hit.end + 2])


def _about_another(said: Sequence[str], hit: Hit, language: Language) -> bool:
    if any(word in language.self for word in said[hit.start : hit.end]):
        return False
    for at in range(hit.end - 1, -1, -1):
        if said[at] == STOP and at < hit.start:
            return False
        if said[at] in language.others:
            return True
        if at < hit.start and said[at] in language.self:
            return False
    return False


def _mine(said: Sequence[str], hit: Hit, language: Language) -> bool:
    return any(word in language.self for word in said[max(hit.start - 2, 0) : hit.end])


def _explained(hit: Hit, kinds: set[str], *, about: bool, told: bool, mine: bool) -> bool:
    """Whether the rest of the message makes a sign harmless."""
    shows = hit.sign.shows
    if told and shows in TOLD and not kinds & {"displaced", "earnest"}:
        return True
    if "story" in kinds and shows in TOLD and (about or not mine):
        return True
    if "loss" in kinds and (about or shows == "topic"):
        return True
    if "joke" in kinds and "earnest" not in kinds and shows == "coded":
        return True
    return "leaving" in kinds and shows in AIDS | {"weak", "distress", "might"}
