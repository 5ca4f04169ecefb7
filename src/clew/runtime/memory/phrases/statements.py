"""Plain statements of a person, found without a model: preferences, names, allergies, home."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from clew.core.arguments import check_arguments
from clew.runtime.memory.phrases.phrase import ENGLISH_RELATIONS, PLURAL_RELATIONS, Phrase
from clew.runtime.memory.phrases.tables import (
    FACT_PHRASES,
    OTHER_LANGUAGE_PHRASES,
    REMEMBER_PHRASES,
    RULE_PHRASES,
)
from clew.runtime.memory.values import LONGEST_QUOTE, Candidate, MemorySource

SENTENCE = re.compile(
    r"(?:[^.!?\n…]|(?<=\bDr)\.|(?<=\bMr)\.|(?<=\bMs)\.|(?<=\bMrs)\.|(?<=\bProf)\.)+[.!?…]*(?=\s|$)"
    r"|[^\n]+?(?=\n|$)"
)
REQUEST = re.compile(
    r"^\W*(?:so\s+|and\s+|hey\s+|hi\s+)?(?:can|could|would|will)\s+(?:you|we)\b", re.IGNORECASE
)
CLAUSE_BREAK = re.compile(
    r"(?<!said)(?<!says)(?<!say)(?<!told me)(?<!thinks)[,;]\s+|\s(?:and|but|so)\s+", re.IGNORECASE
)
"""The end of one clause and the beginning of another; not between a quotation and its speaker."""

REPORTED_SPEECH = re.compile(
    r"\b(?:he|she|they|you|who|everyone|everybody|people|mom|mum|mother|dad|father|sister|brother|boss|friend)\b"
    r"[^.;]{0,30}\b(?:said|says|say|told|tells|asked|asks|wants|thinks|thought|calls|(?<!is\s)(?<!['’]s\s)called|call|"
    r"wrote)\b",
    re.IGNORECASE,
)
DOUBT = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|might|wish|hope|when|whenever|whether|unless|until|not\s+sure|doubt|"
    r"(?:don['’]?t|do\s+not|didn['’]?t)\s+(?:think|believe|know|mean|say)|thought|as\s+(?:if|though))\b",
    re.IGNORECASE,
)
SUPPOSITION = re.compile(
    r"\bif\b|\bimagine\b|\bpretend\b|\bsuppos(?:e|ing)\b|\blet['’]?s\s+say\b|\bfor\s+example\b|\b(?:translate|rewrite|"
    r"proofread)\b|\bin\s+(?:the|a|my|this)\s+(?:book|novel|film|movie|story|song|dream|game|text|poem|letter|essay)\b",
    re.IGNORECASE,
)
FLEETING = re.compile(
    r"\b(?:just\s+|only\s+)?(?:for\s+(?:today|now|tonight|this\s+\w+)"
    r"|this\s+time|today\s+only|just\s+(?:today|now|once|tonight)|right\s+now|at\s+the\s+moment|for\s+once"
    r"|nur\s+heute|f[üu]r\s+heute|gerade|juste\s+(?:pour\s+)?aujourd['’]?hui|pour\s+l['’]instant"
    r"|s[óo]lo\s+(?:por\s+)?hoy|por\s+ahora)\b",
    re.IGNORECASE,
)
LASTING = re.compile(
    r"\b(?:always|from\s+now\s+on|in\s+general|generally|in\s+future|in\s+the\s+future|never|immer|ab\s+jetzt|"
    r"toujours|d[ée]sormais|siempre)\b",
    re.IGNORECASE,
)
TRAILING_WORD = re.compile(
    r"\s+(?:please|pls|too|as\s+well|at\s+all|any\s?more|though|and|or|really|now)$", re.IGNORECASE
)
EDGE_CHARACTERS = " ,\"'’“”"
NO_NAME = re.compile(
    r"(?:back|tomorrow|later|when|if|crazy|maybe|anytime|now|today|tonight|please|again|soon|old|names|stupid|an?|the|"
    r"and|or|at|on|whatever|anything|once|after|before|an|by)",
    re.IGNORECASE,
)
"""What follows "call me" without being a name."""

POINTING_WORD = re.compile(
    r"(?:it|that|this|them|these|those|you|him|her|how|when|what|if|to|where|who|being|because|everything|nothing|"
    r"anything|something|much|enough|more|myself|talking|your?)",
    re.IGNORECASE,
)
"""The first word of what says nothing by itself, or begins a clause."""

BACK_REFERENCE = re.compile(
    r"(?:the|an?|some|one)(?:\s+(?:idea|way|plan|sound|look|first|second|third|last|one|other|suggestion|answer|fact|"
    r"thought|question|point)\b.*)?",
    re.IGNORECASE,
)
"""What is only understood by what was said before it."""

NO_PLACE = re.compile(
    r"(?:constant\s+)?(?:fear|hope|denial|peace|hell|pain|poverty|sin|terror|progress|silence|here|there|nights?|days?|"
    r"shifts?|free|nothing|money|teams?|pairs?)\b"
    r"|(?:the|an?|my|this|that)\s+(?:past|present|moment|future|now|wrong|dream|world|bubble|fantasy|head|lie|nightmare|"
    r"(?:morning|evening|afternoon|night|weekend)s?|hurry|rush)\b",
    re.IGNORECASE,
)
"""Where one can live or work without its being a place."""

ASIDE = re.compile(
    r"(?:by|so|which|just|as|it|i|if|because|but|you|please|thanks|btw|though|especially|when|even|unfortunately|at|for|"
    r"in|that|this|then|also)\b",
    re.IGNORECASE,
)
"""How a part of a list begins that is no part of it."""

MOST_PART_WORDS = 4
OPEN_PREDICATES = ("LIKES", "PREFERS", "WANTS", "WORRIES_ABOUT", "AVOIDS", "IS")
"""Predicates whose object can be anything that has a name."""

USUAL_WORDS = {
    "bullets": "bullet points",
    "bullet point": "bullet points",
    "bulletpoints": "bullet points",
    "emoji": "emojis",
    "headers": "headings",
}


@check_arguments
def statements_in(text: str, *, turn: int = 0, source: MemorySource | None = None) -> list[Candidate]:
    """The plain statements of one turn, each with its quote."""
    candidates: dict[tuple[str, str, str, str], Candidate] = {}
    for sentence in SENTENCE.findall(text):
        for candidate in _candidates_in_sentence(sentence.strip()):
            entry = msgspec.structs.replace(candidate, turn=turn, source=source)
            key = (entry.kind, entry.subject, entry.predicate, entry.object.casefold())
            candidates.setdefault(key, entry)
    return list(candidates.values())


def is_fleeting(sentence: str) -> bool:
    """Return whether a wish is meant for the moment: "just for today", without "from now on"."""
    return bool(FLEETING.search(sentence)) and not LASTING.search(sentence)


def _candidates_in_sentence(sentence: str) -> Iterator[Candidate]:
    if sentence.endswith("?") and not REQUEST.search(sentence):
        return
    spans: list[tuple[int, int]] = []
    for phrase in (*RULE_PHRASES, *FACT_PHRASES, *OTHER_LANGUAGE_PHRASES, *REMEMBER_PHRASES):
        for match in phrase.pattern.finditer(sentence):
            if _is_free(match, spans) and _is_meant(sentence, match.start()):
                candidates = list(_candidates_of_match(phrase, match, sentence))
                spans += [match.span()] if candidates else []
                yield from candidates


def _is_free(match: re.Match[str], spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether no other statement has the same words: a request is not also a liking."""
    return all(match.end() <= first or last <= match.start() for first, last in spans)


def _is_meant(sentence: str, at: int) -> bool:
    """Return whether the words at a place are the speaker's own, and no supposition."""
    before = sentence[:at]
    clause = CLAUSE_BREAK.split(before)[-1]
    frame = SUPPOSITION.search(before) or REPORTED_SPEECH.search(clause) or DOUBT.search(clause)
    return not frame and not _is_quoted(sentence, at)


def _is_quoted(sentence: str, at: int) -> bool:
    """Return whether a place is inside quotation marks: then another person may have said it."""
    return sentence.count('"', 0, at) % 2 == 1 or sentence.count("“", 0, at) > sentence.count("”", 0, at)


def _candidates_of_match(phrase: Phrase, match: re.Match[str], sentence: str) -> Iterator[Candidate]:
    groups = match.groupdict()
    text = _trim(groups.get("what") or groups.get("what2") or "")
    who = ENGLISH_RELATIONS.get((groups.get("who") or "").lower(), (groups.get("who") or "").lower())
    parts = _list_parts(text) if phrase.splits else [text]
    for what in (_capitalize_name(part) if phrase.subject == "name" else part for part in parts):
        if not _has_content(phrase, what):
            continue
        yield Candidate(
            kind=phrase.kind,
            category=phrase.category if phrase.kind == "fact" else "preference",
            subject=_usual_subject(phrase.subject.format(who=who, what=what)),
            predicate=phrase.predicate or "WANTS_REPLIES",
            object=phrase.object.format(what=what.lower() if phrase.lower else what),
            negated=bool(groups.get("neg")),
            single=phrase.single and who not in PLURAL_RELATIONS,
            quote=_quote(sentence, match),
            confidence=phrase.confidence,
            plain=phrase.plain,
            fleeting=is_fleeting(sentence),
        )


def _capitalize_name(what: str) -> str:
    return what.capitalize() if what.islower() else what


def _usual_subject(subject: str) -> str:
    """One word for one thing: bullets are bullet points."""
    return USUAL_WORDS.get(subject.lower(), subject)


def _has_content(phrase: Phrase, what: str) -> bool:
    first = what.partition(" ")[0]
    if phrase.subject == "name":
        return bool(first) and not NO_NAME.fullmatch(first) and (len(what) < 4 or not what.isupper())
    if phrase.predicate in OPEN_PREDICATES or phrase.subject == "topic {what}":
        return bool(first) and not POINTING_WORD.fullmatch(first) and not BACK_REFERENCE.fullmatch(what)
    if phrase.predicate in ("LIVES_IN", "WORKS_AT"):
        return bool(first) and not NO_PLACE.match(what)
    return "{what}" not in phrase.object or bool(what)


def _trim(what: str) -> str:
    return TRAILING_WORD.sub("", FLEETING.sub("", what).strip(EDGE_CHARACTERS)).strip(EDGE_CHARACTERS)


def _list_parts(what: str) -> Sequence[str]:
    """The parts of a list; what is said aside in it is none."""
    parts = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|und|et|y|e)\s+", what)
    nonempty = [part.strip() for part in parts if part.strip()]
    return [part for part in nonempty if not ASIDE.match(part) and len(part.split()) <= MOST_PART_WORDS]


def _quote(sentence: str, match: re.Match[str]) -> str:
    """The sentence, or as much of it around the words as a quote may have."""
    if len(sentence) <= LONGEST_QUOTE:
        return sentence
    return sentence[match.start() : match.start() + LONGEST_QUOTE].strip()
