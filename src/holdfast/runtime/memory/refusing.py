"""What "don't remember that" refers to, and no more than that."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from holdfast.core.text import words
from holdfast.runtime.memory.values import Candidate

CLAUSE = r"(?:^|[,.;:!?–—(]\s*|\b(?:and|but|so|oh|please|actually|hey|wait|also|just)[,\s]+)"
NOT_KEPT = re.compile(
    CLAUSE
    + r"(?:please\s+)?(?:"
    + r"(?:do\s+not|don['’]?t|never)\s+(?:remember|save|store|keep|note|record|write\s+down|memori[sz]e)"
    + r"|forget|keep|leave|merke?\s+dir(?=[^.!?]*\bnicht\b)|vergiss|ne\s+retiens\s+pas|oublie|"
    + r"no\s+(?:recuerdes|guardes)|olvida)\s+(?P<what>[^.;!?\n]{1,80})",
    re.IGNORECASE,
)
OFF_RECORD = re.compile(r"\boff\s+the\s+record\b|\bbetween\s+(?:you\s+and\s+me|us)\s+only\b", re.IGNORECASE)
THAT = re.compile(
    r"^(?:that|this|it(?!\s+(?:short|brief))|das|ça|cela|eso|esto|what\s+i(?:['’]ve)?\s+(?:just\s+)?(?:said|told|wrote|mentioned)|"
    r"what\s+i\s+just\s+said|the\s+last\s+(?:thing|bit|part|message))\b(?P<more>.*)$",
    re.IGNORECASE,
)
ALL = re.compile(
    r"^(?:everything|anything|any\s+of\s+(?:this|it|that)|all\s+(?:of\s+)?(?:this|that|it)|this\s+(?:conversation|chat|"
    r"session)|today|alles|tout|todo)\b",
    re.IGNORECASE,
)
IDIOM = re.compile(
    r"^(?:it\s+(?:short|brief|simple|up|going|real)|going|calm|in\s+mind|about\s+it\b)", re.IGNORECASE
)
KEEPING = re.compile(
    r"\b(?:out\s+of\s+(?:your\s+)?memory|to\s+yourself|off\s+the\s+record|private)\b", re.IGNORECASE
)
SHORT = 3
FILLER = re.compile(r"please|but|and|actually|wait|oh|hey|no|sorry|ok|okay|thanks|you|can|so")
BESIDES = frozenset(("my", "the", "a", "an", "about", "s", "name", "that", "i", "m", "am", "is", "to"))


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody does not want kept: what they said in some turns, or what is about some words."""

    turns: frozenset[int] = frozenset()
    about: frozenset[str] = frozenset()
    by: int = 0
    how: Literal["that", "all", "named"] = "that"


def refusals(turns: Sequence[str]) -> list[Refusal]:
    """What the user asked not to be kept, in the order in which they asked."""
    found: list[Refusal] = []
    for number, text in enumerate(turns):
        for match in NOT_KEPT.finditer(text):
            refusal = _meant(match["what"].strip(), text, match, number)
            found += [refusal] if refusal is not None else []
        if OFF_RECORD.search(text) and not any(refusal.by == number for refusal in found):
            found.append(Refusal(turns=_here_or_before(OFF_RECORD.sub("", text), number), by=number))
    return found


def is_refused(candidate: Candidate, among: Sequence[Refusal]) -> bool:
    """Whether the user asked not to keep this."""
    said = set(words(f"{candidate.subject} {candidate.predicate} {candidate.object} {candidate.quote}"))
    return any(
        candidate.turn in refusal.turns
        or (refusal.about and refusal.about <= said and candidate.turn <= refusal.by)
        for refusal in among
    )


def _meant(what: str, text: str, match: re.Match[str], number: int) -> Refusal | None:
    verb = match[0][: match.start("what") - match.start()].lower()
    keeps = "keep" in verb or "leave" in verb
    is_told_not_to = re.search(r"n['’]?t|not|never", verb) is not None
    if IDIOM.match(what) or (keeps and not is_told_not_to and not KEEPING.search(what)):
        return None
    if ALL.match(what):
        return Refusal(turns=frozenset(range(number + 1)), by=number, how="all")
    if THAT.match(what):
        rest = text[: match.start()] + " " + text[match.end() :]
        return Refusal(turns=_here_or_before(rest, number), by=number)
    about = frozenset(words(what)) - BESIDES
    return Refusal(about=about, by=number, how="named") if about and not keeps else None


def _here_or_before(rest: str, number: int) -> frozenset[int]:
    """The turn itself if it says anything besides the refusal, else the one before."""
    said = [word for word in words(rest) if not FILLER.fullmatch(word)]
    return frozenset({number if len(said) >= SHORT else max(number - 1, 0)})
