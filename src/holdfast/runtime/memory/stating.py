"""What a person states plainly, found without a model: preferences, names, allergies, where they live."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.runtime.memory.phrases import FACTS, OTHERS, RELATIONS, RULES, Phrase
from holdfast.runtime.memory.values import QUOTE, Candidate, Source

SENTENCE = re.compile(r"[^.!?\n…]+[.!?…]*(?=\s|$)|[^\n]+?(?=\n|$)")
REQUEST = re.compile(r"^\W*(?:so\s+|and\s+|hey\s+|hi\s+)?(?:can|could|would|will)\s+you\b", re.IGNORECASE)
REPORTED = re.compile(
    r"\b(?:he|she|they|you|who|everyone|everybody|people|mom|mum|mother|dad|father|sister|brother|boss|friend)\b"
    r"[^,.;]{0,30}\b(?:said|says|say|told|tells|asked|asks|wants|thinks|thought|calls|called|call|wrote)\b"
    r"|\bif\b|\bimagine\b|\bpretend\b|\bfor\s+example\b|\bin\s+the\s+(?:book|film|movie|story|song|dream)\b",
    re.IGNORECASE,
)
FLEETING = re.compile(
    r"\b(?:just\s+|only\s+)?(?:for\s+(?:today|now|tonight|this\s+(?:one|time|answer|chat|conversation|session|once))"
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
TRAILING = re.compile(r"\s+(?:please|pls|too|as\s+well|any\s?more|though|and|or|really|now)$", re.IGNORECASE)
EDGES = " ,\"'’“”"
NOBODY = re.compile(
    r"(?:back|tomorrow|later|when|if|crazy|maybe|anytime|now|today|tonight|please|again|soon|old|names|stupid|an?|the|"
    r"and|or|at|on|whatever|anything|once|after|before|an|by)",
    re.IGNORECASE,
)
"""What follows "call me" without being a name."""

VAGUE = re.compile(
    r"(?:it|that|this|them|you|him|her|how|when|what|the|to|your|being|if|these|those|an?|one|everything|nothing|"
    r"myself|talking|where|who|some)",
    re.IGNORECASE,
)
"""What a liking of says nothing by itself, or begins a clause."""


SAME = {
    "bullets": "bullet points",
    "bullet point": "bullet points",
    "bulletpoints": "bullet points",
    "emoji": "emojis",
    "headers": "headings",
}


def stated(text: str, *, turn: int = 0, source: Source | None = None) -> list[Candidate]:
    """What one turn states plainly, each with the words it stands in."""
    found: dict[tuple[str, str, str, str], Candidate] = {}
    for sentence in SENTENCE.findall(text):
        for candidate in _in_sentence(sentence.strip()):
            kept = msgspec.structs.replace(candidate, turn=turn, source=source)
            name = (kept.kind, kept.subject, kept.predicate, kept.object.casefold())
            found.setdefault(name, kept)
    return list(found.values())


def is_fleeting(sentence: str) -> bool:
    """Whether a wish is meant for the moment: "just for today", without "from now on"."""
    return bool(FLEETING.search(sentence)) and not LASTING.search(sentence)


def _in_sentence(sentence: str) -> Iterator[Candidate]:
    if sentence.endswith("?") and not REQUEST.search(sentence):
        return
    for phrase in (*RULES, *FACTS, *OTHERS):
        for match in phrase.pattern.finditer(sentence):
            if not REPORTED.search(sentence[: match.start()]) and not _is_quoted(sentence, match.start()):
                yield from _made(phrase, match, sentence)


def _is_quoted(sentence: str, at: int) -> bool:
    """Whether a place stands inside quotation marks: then somebody else may have said it."""
    return sentence.count('"', 0, at) % 2 == 1 or sentence.count("“", 0, at) > sentence.count("”", 0, at)


def _made(phrase: Phrase, match: re.Match[str], sentence: str) -> Iterator[Candidate]:
    groups = match.groupdict()
    whole = _cleaned(groups.get("what") or "")
    who = RELATIONS.get((groups.get("who") or "").lower(), (groups.get("who") or "").lower())
    parts = _split(whole) if phrase.splits else [whole]
    for what in (_named(part) if phrase.subject == "name" else part for part in parts):
        if not _says_something(phrase, what):
            continue
        yield Candidate(
            kind=phrase.kind,
            category=phrase.category if phrase.kind == "fact" else "preference",
            subject=_usual(phrase.subject.format(who=who, what=what)),
            predicate=phrase.predicate or "WANTS_REPLIES",
            object=phrase.object.format(what=what.lower() if "without" in phrase.object else what),
            negated=bool(groups.get("neg")),
            single=phrase.single,
            quote=_quote(sentence, match),
            confidence=phrase.confidence,
            plain=phrase.plain,
            fleeting=is_fleeting(sentence),
        )


def _named(what: str) -> str:
    return what.capitalize() if what.islower() else what


def _usual(subject: str) -> str:
    """One word for one thing: bullets are bullet points."""
    return SAME.get(subject.lower(), subject)


def _says_something(phrase: Phrase, what: str) -> bool:
    first, _, rest = what.partition(" ")
    if phrase.subject == "name":
        return bool(first) and not NOBODY.fullmatch(first)
    if phrase.predicate in ("LIKES", "WANTS", "WORRIES_ABOUT") or phrase.subject == "topic {what}":
        is_vague = VAGUE.fullmatch(first) is not None and " " not in rest
        return bool(first) and not is_vague and first.lower() not in ("to", "it", "how", "you")
    return "{what}" not in phrase.object or bool(what)


def _cleaned(what: str) -> str:
    return TRAILING.sub("", FLEETING.sub("", what).strip(EDGES)).strip(EDGES)


def _split(what: str) -> Sequence[str]:
    parts = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|und|et|y|e)\s+", what)
    return [part.strip() for part in parts if part.strip()]


def _quote(sentence: str, match: re.Match[str]) -> str:
    """The sentence, or as much of it around the words as a quote may have."""
    if len(sentence) <= QUOTE:
        return sentence
    return sentence[match.start() : match.start() + QUOTE].strip()
