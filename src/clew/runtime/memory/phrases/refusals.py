"""Refusals: the words that "don't remember that" refers to, and no more."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from clew.core.text.words import words
from clew.runtime.memory.phrases.statements import SENTENCE
from clew.runtime.memory.values import Candidate

PATTERN_PARTS = {
    "start": (
        r"(?:^\s*|[,.;:!?–—(]\s*|\b(?:and|but|so|oh|please|actually|hey|wait|also|just|bitte|und|aber)[,\s]+)"
        r"(?:(?:can|could|would|will)\s+you\s+)?(?:please\s+|kindly\s+|just\s+|maybe\s+)*"
    ),
    "keep": (
        r"(?:remember|save|store|note|record|log|retain|memori[sz]e|write\s+down|hold\s+on\s+to|keep(?!\s+\w+ing\b))"
    ),
    "kept": r"(?:remembered|saved|stored|noted|recorded|logged|memori[sz]ed|written\s+down|kept)",
    "what": r"\s+(?P<what>[^.;!?\n]{1,80})",
}
REFUSAL_PATTERNS = tuple(
    re.compile(says.format(**PATTERN_PARTS), re.IGNORECASE)
    for says in (
        r"{start}(?:do\s+not|don['’]?t|never|not)\s+{keep}{what}",
        r"{start}(?:do\s+not|don['’]?t|never|not)\s+write{what}\s+down",
        r"{start}forget(?:\s+about)?{what}",
        r"{start}(?:erase|delete|ignore|disregard|scratch|strike)(?P<deictic>){what}",
        r"{start}(?:keep|leave)(?P<hushed>){what}",
        r"\bi(?:['’]d|\s+would)\s+(?:rather|prefer|like|appreciate)[^.!?]{{0,12}}\byou\s+"
        r"(?:didn['’]?t|did\s+not|don['’]?t|do\s+not|not|to\s+not|not\s+to)\s+{keep}{what}",
        r"\bi\s+(?:really\s+)?(?:don['’]?t|do\s+not)\s+want\s+(?:you|this|that|it)\s+to\s+{keep}{what}",
        r"\bi\s+(?:really\s+)?(?:don['’]?t|do\s+not)\s+want{what}\s+(?:to\s+be\s+)?{kept}",
        r"\b(?:no\s+need\s+to|you\s+(?:don['’]?t|do\s+not)\s+(?:need|have)\s+to|you\s+needn['’]?t)\s+{keep}{what}",
        r"\bpretend(?P<what>\s+i\s+(?:didn['’]?t|did\s+not|never)\s+(?:say|said|tell|told|mention)[^.;!?\n]{{0,60}})",
        r"{start}(?:merke?\s+dir|speicher\w*|notiere?|behalte?){what}\s+nicht",
        r"{start}(?:vergiss|l[öo]sche?),?(?P<deictic>){what}",
        r"{start}ne\s+(?:retiens|retenez|garde|gardez|note|notez|enregistre|enregistrez)\s+pas{what}",
        r"{start}oublie[sz]?{what}",
        r"{start}no\s+(?:recuerdes|guardes|anotes|memorices|recuerde|guarde){what}",
        r"{start}olvid[ae]{what}",
        r"{start}non\s+(?:ricordare|salvare|memorizzare){what}",
        r"{start}dimentica(?P<deictic>){what}",
        r"{start}vergeet(?P<deictic>){what}",
        r"{start}onthoud(?P<deictic>){what}\s+niet",
        r"{start}zapomnij,?(?P<deictic>){what}",
        r"{start}nie\s+zapami[ęe]tuj(?P<deictic>){what}",
        r"{start}esque[çc][ea](?P<deictic>){what}",
        r"{start}n[ãa]o\s+guardes?(?P<deictic>){what}",
        r"(?:^|,\s*)(?:l[üu]tfen\s+)?(?P<deictic>)(?P<what>bunu|[şs]unu|(?:az\s+[öo]nce\s+)?\w+di[ğg]imi)\s+"
        r"(?:unut|akl[ıi]nda\s+tutma|hat[ıi]rlama|kaydetme)\b",
        r"^unut(?P<deictic>)\s+(?P<what>bunu|[şs]unu)\b",
    )
)
OFF_THE_RECORD = re.compile(
    r"\boff\s+the\s+record\b|\b(?:just|strictly|only)\s+between\s+(?:you\s+and\s+me|us)\b"
    r"|\bbetween\s+(?:you\s+and\s+me|us)\s+only\b|\bthat(?:['’]s|\s+(?:is|was))\s+(?:private|confidential)\b",
    re.IGNORECASE,
)
SECRECY = re.compile(
    r"\b(?:out\s+of\s+(?:your\s+)?memory|to\s+yourself|off\s+the\s+record|private|between\s+(?:us|you\s+and\s+me))\b",
    re.IGNORECASE,
)
"""What makes "keep that …" a wish not to keep it."""

I_SAID = (
    r"(?:what\s+)?i(?:['’]ve)?\s+(?:just\s+|never\s+|didn['’]?t\s+|did\s+not\s+)?"
    r"(?:said|say|told|tell|wrote|mentioned|mention)(?:\s+you)?"
)
ABOUT_NAME = re.compile(
    rf"^\s*(?:anything|everything|all|that|{I_SAID}(?:\s+anything)?)\s+(?:i\s+said\s+)?about\s+(?P<name>.+)$",
    re.IGNORECASE,
)
EVERYTHING = re.compile(
    r"^(?:everything|anything|any\s+of\s+(?:this|it|that)|all\s+(?:of\s+)?(?:this|that|it)|(?:a\s+record\s+of\s+)?this\s+"
    r"(?:conversation|chat|session)|today|alles|tout|todo|tutto)\b",
    re.IGNORECASE,
)
FUTURE = re.compile(r"\bi\s+say\b|\btoday\b|\bthis\s+(?:conversation|chat|session)\b", re.IGNORECASE)
PAST = re.compile(r"\bforget\b|\bsaid\b|\btold\b", re.IGNORECASE)
"""Whether "everything" is also what will be said, or only what was."""

FOLLOWING = re.compile(
    r"^(?:this|the\s+following|what\s+i['’]?m\s+(?:about|going)\s+to|das\s+folgende|ceci|esto)\b",
    re.IGNORECASE,
)
PRECEDING = re.compile(
    rf"^\s*(?:that|it(?!\s+(?:short|brief))|das|[çc]a|cela|eso|questo|{I_SAID}|was\s+ich|ce\s+que\s+j|lo\s+que|"
    r"d[ai]t|wat\s+ik|quello|ci[òo]|o\s+tym|tego|co\s+(?:w[łl]a[śs]nie\s+)?powiedzia[łl][ae]m|is[st]o|o\s+que|"
    r"bunu|[şs]unu|(?:az\s+[öo]nce\s+)?\w+di[ğg]imi|"
    r"(?:the|my)\s+last\s+(?:thing|bit|part|message|sentence))(?:\b|(?<=ça))",
    re.IGNORECASE,
)
IDIOM = re.compile(r"^(?:it\s+(?:short|brief|simple|up|going|real)|going|calm|in\s+mind)\b", re.IGNORECASE)
ENOUGH_WORDS = 3
"""A sentence that has so many words besides the wish says something itself."""

FILLER_WORD = re.compile(
    r"please|but|and|actually|wait|oh|hey|hmm|no|sorry|ok|okay|thanks|thank|you|can|could|would|so|well|just|"
    r"bitte|danke|now|either|too|then|this|that|is|s"
)
UNIMPORTANT_WORD = re.compile(
    r"my|the|an?|about|s|name|that|i|m|am|is|to|me|you|your|for|of|in|on|any|anything|everything|all|said|told"
)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A wish of the user that something is not stored: words of some turns, or anything about some words.

    ``first`` and ``last`` bound it within its turn, if it is not all of it. ``wish_turn`` is the turn of the
    wish.
    """

    turns: frozenset[int] = frozenset()
    first: int = 0
    last: int | None = None
    about: frozenset[str] = frozenset()
    wish_turn: int = 0
    extent: Literal["that", "all", "named"] = "that"


def refusals_in(turns: Sequence[str]) -> list[Refusal]:
    """The refusals in some turns of the user, in order."""
    return [refusal for number in range(len(turns)) for refusal in _refusals_in_turn(turns, number)]


def is_refused(candidate: Candidate, refusals: Sequence[Refusal], text: str) -> bool:
    """Return whether the user refused a candidate; ``text`` is the turn it was noticed in."""
    candidate_words = set(
        words(f"{candidate.subject} {candidate.predicate} {candidate.object} {candidate.quote}")
    )
    return any(
        (candidate.turn in refusal.turns and _overlaps(candidate.quote, refusal, text))
        or (refusal.about and refusal.about <= candidate_words and candidate.turn <= refusal.wish_turn)
        for refusal in refusals
    )


def candidates_without_refusal(candidates: Sequence[Candidate], texts: Sequence[str]) -> list[Candidate]:
    """The candidates that nothing said later speaks against; ``texts`` are the newest turns."""
    session_refusals = refusals_in(texts)
    remaining: list[Candidate] = []
    for candidate in candidates:
        turn = next((at for at, text in enumerate(texts) if candidate.quote in text), 0)
        candidate_in_turn = msgspec.structs.replace(candidate, turn=turn)
        if not is_refused(candidate_in_turn, session_refusals, texts[turn] if texts else ""):
            remaining.append(candidate)
    return remaining


def without_refusals(turns: Sequence[str]) -> list[str]:
    """The turns of the user without refused words, and without the refusals themselves."""
    refusals = refusals_in(turns)
    return [
        " ".join(
            s[0].strip() for s in SENTENCE.finditer(text) if not _is_sentence_refused(s, number, refusals)
        )
        for number, text in enumerate(turns)
    ]


def _is_sentence_refused(sentence: re.Match[str], number: int, refusals: Sequence[Refusal]) -> bool:
    sentence_words = set(words(sentence[0]))
    return any(
        (number in refusal.turns and _overlaps(sentence[0], refusal, sentence.string))
        or (refusal.about and refusal.about <= sentence_words and number <= refusal.wish_turn)
        or (refusal.wish_turn == number and any(pattern.search(sentence[0]) for pattern in REFUSAL_PATTERNS))
        for refusal in refusals
    )


def _overlaps(quote: str, refusal: Refusal, text: str) -> bool:
    """Return whether a quote overlaps the refused part of its turn. One that is not found there does."""
    at = text.find(quote)
    until = len(text) if refusal.last is None else refusal.last
    return at < 0 or (at < until and at + len(quote) > refusal.first)


def _refusals_in_turn(turns: Sequence[str], number: int) -> Iterator[Refusal]:
    text, has_wish = turns[number], False
    for sentence in SENTENCE.finditer(text):
        for match in (match for pattern in REFUSAL_PATTERNS for match in pattern.finditer(sentence[0])):
            refusal = _refusal_of_match(match, sentence, turns, number)
            if refusal is not None:
                has_wish = True
                yield refusal
    if not has_wish and OFF_THE_RECORD.search(text):
        yield _refusal_of_turn(OFF_THE_RECORD.sub(" ", text), number)


def _refusal_of_match(
    match: re.Match[str], sentence: re.Match[str], turns: Sequence[str], number: int
) -> Refusal | None:
    """The refusal that a match expresses; None if it is none."""
    what, groups, text = match["what"].strip(), match.groupdict(), turns[number]
    if IDIOM.match(what) or ("hushed" in groups and not SECRECY.search(what)):
        return None
    about = ABOUT_NAME.match(what)
    if about is not None:
        return _refusal_by_name(about["name"], number)
    if EVERYTHING.match(what):
        until = len(turns) if FUTURE.search(what) and not PAST.search(match[0]) else number + 1
        return Refusal(turns=frozenset(range(until)), wish_turn=number, extent="all")
    if FOLLOWING.match(what):
        return _refusal_of_turn(
            text[: sentence.start()] + _text_besides(match) + text[sentence.end() :], number
        )
    if PRECEDING.match(what):
        return _refusal_before(match, sentence, text, number)
    return None if {"hushed", "deictic"} & groups.keys() else _refusal_by_name(what, number)


def _refusal_by_name(what: str, number: int) -> Refusal | None:
    name = re.split(r"[,:–—]|\b(?:please|but)\b", what, maxsplit=1, flags=re.IGNORECASE)[0]
    about = frozenset(word for word in words(name) if not UNIMPORTANT_WORD.fullmatch(word))
    return Refusal(about=about, wish_turn=number, extent="named") if about else None


def _refusal_before(match: re.Match[str], sentence: re.Match[str], text: str, number: int) -> Refusal:
    """The sentence of the refusal if it says anything else, else the text before it, or the turn before."""
    here = frozenset({number})
    if _has_content(_text_besides(match)):
        return Refusal(turns=here, first=sentence.start(), last=sentence.end(), wish_turn=number)
    if _has_content(text[: sentence.start()]):
        return Refusal(turns=here, last=sentence.start(), wish_turn=number)
    return Refusal(turns=frozenset({max(number - 1, 0)}), wish_turn=number)


def _refusal_of_turn(rest: str, number: int) -> Refusal:
    """The turn itself if it says anything besides the wish, else the one before."""
    turn = number if _has_content(rest) else max(number - 1, 0)
    return Refusal(turns=frozenset({turn}), wish_turn=number)


def _text_besides(match: re.Match[str]) -> str:
    """The text of a sentence besides a refusal. Text after a comma is not part of the refusal."""
    after = re.split(r"[,:–—]|\bbut\b", match["what"], maxsplit=1)[1:]
    return f" {match.string[: match.start()]} {' '.join(after)} {match.string[match.end() :]} "


def _has_content(rest: str) -> bool:
    return len([word for word in words(rest) if not FILLER_WORD.fullmatch(word)]) >= ENOUGH_WORDS
