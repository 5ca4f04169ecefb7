"""Plain statements of a person, found without a model: who they are, with whom, where, and what they wish."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from clew.core.arguments import check_arguments
from clew.runtime.memory.phrases.phrase import Phrase
from clew.runtime.memory.phrases.tables import (
    antecedent_pattern,
    frame,
    phrase_table,
    predicates_of_topic,
    usual_words,
    word_check,
    word_table,
)
from clew.runtime.memory.values import LONGEST_QUOTE, Candidate, FactPattern, MemorySource

SENTENCE = re.compile(
    r"(?:[^.!?\n…]|(?<=\bDr)\.|(?<=\bMr)\.|(?<=\bMs)\.|(?<=\bMrs)\.|(?<=\bProf)\.|(?<=\d)\.(?=\d))+[.!?…]*"
    r"(?=\s|$)|[^\n]+?(?=\n|$)"
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
ASIDE = re.compile(
    r"(?:by|so|which|just|as|it|i|if|because|but|you|please|thanks|btw|though|especially|when|even|unfortunately|at|for|"
    r"in|that|this|then|also|my|our|he|she|they|we|the\s+doctor|apparently|always|says|not|no|though|since|ever|found)\b",
    re.IGNORECASE,
)
"""How a part of a list begins that is no part of it: an aside, or a clause of its own."""

QUOTATION = re.compile(
    r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“”\n]*[“”]|(?<!\w)'(?=\w)[^\n]*?(?<=[\w.,!?])'(?!\w)"
)
LEADING_WORDS = re.compile(r"[\s,.;:!?–—(]*(?:(?:and|but|so)[,\s]+)?", re.IGNORECASE)
NEGATION_REACH = 20
WORD_END = re.compile(r"(?!\w)")
MOST_PART_WORDS = 4
POSSESSIVE = {"his": "'s", "her": "'s", "their": "'s"}


@check_arguments
def statements_in(text: str, *, turn: int = 0, source: MemorySource | None = None) -> list[Candidate]:
    """The plain statements of one turn, each with its quote."""
    message = _plain_apostrophes(text)
    if frame("story").search(message) or frame("supposed_message").search(message):
        return []
    candidates: dict[tuple[str, str, str, str], Candidate] = {}
    for sentence in _resolved_sentences(_own_sentences(text)):
        for candidate in _candidates_in_sentence(sentence):
            entry = msgspec.structs.replace(candidate, turn=turn, source=source)
            key = (entry.kind, entry.subject, entry.predicate, entry.object.casefold())
            candidates.setdefault(key, entry)
    return list(candidates.values())


class _Sentence(msgspec.Struct, frozen=True):
    """A sentence as it is matched, as it was written, and how far the first is ahead of the second."""

    text: str
    quotation: str
    shift: int = 0

    def original(self, match: re.Match[str], name: str) -> str:
        """The words of a group as they were written."""
        if match.groupdict().get(name) is None:
            return ""
        first, last = match.span(name)
        is_rewritten = first - self.shift < 0
        return match[name] if is_rewritten else self.quotation[first - self.shift : last - self.shift]


def _resolved_sentences(sentences: Iterable[str]) -> Iterator[_Sentence]:
    """The sentences, and those clauses of them that a pronoun begins with the person that it stands for."""
    person = ""
    for quotation in sentences:
        sentence = _plain_apostrophes(quotation)
        yield _Sentence(sentence, quotation)
        for clause in frame("pronoun").finditer(sentence):
            person = _last_relation(sentence[: clause.start()]) or person
            if person:
                subject = f"my {person}{POSSESSIVE.get(clause['pronoun'].lower(), '')}"
                text = f"{subject}{sentence[clause.end('pronoun') :]}"
                yield _Sentence(text, quotation, len(text) - len(sentence))
        person = _last_relation(sentence) or person


def _last_relation(text: str) -> str:
    """The person or animal of the speaker that a text names last."""
    relations = [match["who"] for match in antecedent_pattern().finditer(text)]
    return relations[-1] if relations else ""


def is_fleeting(sentence: str) -> bool:
    """Return whether a wish is meant for the moment: "just for today", without "from now on"."""
    return bool(FLEETING.search(sentence)) and not LASTING.search(sentence)


def _plain_apostrophes(text: str) -> str:
    """A text with one kind of apostrophe; every letter keeps its place."""
    return text.replace("’", "'").replace("‘", "'")


def _own_sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without those inside quotation marks: another person may have said them."""
    quotations = [match.span() for match in QUOTATION.finditer(_plain_apostrophes(text))]
    for sentence in SENTENCE.finditer(text):
        is_quoted = any(
            first < sentence.end() - 1 and sentence.start() + 1 < last for first, last in quotations
        )
        if not is_quoted:
            yield sentence[0].strip()


def _candidates_in_sentence(unit: _Sentence) -> Iterator[Candidate]:
    sentence = unit.text
    if _is_question(sentence):
        return
    has_facts = _may_tell_facts(sentence)
    if has_facts:
        # What ends goes first: it must not take away what the same sentence puts in its place.
        yield from _endings_in_sentence(unit)
    spans: list[tuple[int, int]] = []
    for phrase in phrase_table().cued_phrases(sentence):
        if phrase.kind == "fact" and not has_facts:
            continue
        for match in phrase.pattern.finditer(sentence):
            if _is_free(match, spans) and _is_meant(phrase, match):
                candidates = list(_candidates_of_match(phrase, match, unit))
                spans += [match.span()] if candidates else []
                yield from candidates


def _endings_in_sentence(unit: _Sentence) -> Iterator[Candidate]:
    """Candidates that end the facts of which a sentence tells that they are over; they teach nothing."""
    for match in frame("over").finditer(unit.text):
        if _is_own(match):
            clause = _clause_around(match)
            yield Candidate(
                predicate="IS_OVER",
                object=clause,
                quote=_quote(unit, match),
                confidence=0.9,
                plain=True,
                ends=True,
                supersedes=(FactPattern(subject="", words=clause),),
            )


def _clause_around(match: re.Match[str]) -> str:
    before = frame("clause_break").split(match.string[: match.start()])[-1]
    after = frame("clause_break").split(match.string[match.end() :])[0]
    return f"{before}{match[0]}{after}".strip(EDGE_CHARACTERS + ".!;:")


def _may_tell_facts(sentence: str) -> bool:
    """Return whether a sentence is no joke, and asks for nothing; wishes about answers may."""
    is_request = sentence.endswith("?") and bool(frame("request").search(sentence))
    return not is_request and not frame("task").search(sentence) and not frame("joke").search(sentence)


def _is_question(sentence: str) -> bool:
    """Return whether a sentence asks; "did I mention that …?" and "…, you know?" tell."""
    if frame("factive").search(sentence) or frame("tag").search(sentence):
        return False
    if sentence.endswith("?"):
        return not frame("request").search(sentence)
    return bool(frame("question").search(sentence))


def _is_free(match: re.Match[str], spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether no other statement has the same words: a request is not also a liking."""
    return all(match.end() <= first or last <= match.start() for first, last in spans)


def _is_own(match: re.Match[str]) -> bool:
    """Return whether the words of a match are the speaker's own, and not supposed."""
    before, after = _text_before(match), match.string[match.end() :]
    report, opening = (frame(name).split(before)[-1] for name in ("report_break", "clause_break"))
    is_framed = frame("supposition").search(before) or frame("reported").search(report)
    return not (is_framed or frame("doubt").search(opening) or frame("reported_after").search(after))


def _is_meant(phrase: Phrase, match: re.Match[str]) -> bool:
    """Return whether a match states what its phrase says: not denied, on no condition, not long past."""
    if not _is_own(match):
        return False
    opening, after = frame("clause_break").split(_text_before(match))[-1], match.string[match.end() :]
    is_positive = (phrase.kind == "fact" and not phrase.negative) or phrase.subject == "name"
    if is_positive and frame("negation").search(opening[-NEGATION_REACH:] + _opening_words(match)):
        return False
    if phrase.kind == "rule":
        return True
    clause = opening + match[0] + frame("clause_break").split(after)[0]
    is_over = not phrase.past and frame("past").search(clause)
    return not is_over and not frame("condition_after").search(after)


def _text_before(match: re.Match[str]) -> str:
    """The text before the words of a match, without what joins it to them."""
    leading = LEADING_WORDS.match(match[0])
    return match.string[: match.start() + (leading.end() if leading else 0)]


def _opening_words(match: re.Match[str]) -> str:
    """The words of a match up to the first ones of what it states: there it is denied, if at all."""
    groups = match.groupdict()
    first = match.start("what") if groups.get("what") is not None else match.start()
    end = WORD_END.search(match.string, min(first + NEGATION_REACH, match.end()))
    return match.string[match.start() : end.start() if end else len(match.string)]


def _candidates_of_match(phrase: Phrase, match: re.Match[str], unit: _Sentence) -> Iterator[Candidate]:
    groups = {name: value or "" for name, value in match.groupdict().items()}
    said = unit.original(match, "what") or unit.original(match, "what2")
    who = groups.get("who", "").lower()
    parts = {
        "who": usual_words("english").get(who, who),
        "old": groups.get("old", ""),
        "named": groups.get("named", ""),
    }
    for what in _list_parts(_trim(said)) if phrase.splits else [_trim(said)]:
        if not _has_content(phrase, what):
            continue
        yield _candidate(phrase, {**parts, "what": _wording(phrase, what)}, match, unit)


def _candidate(phrase: Phrase, parts: Mapping[str, str], match: re.Match[str], unit: _Sentence) -> Candidate:
    subject = phrase.subject.format(**parts)
    is_denial = phrase.only_ends or bool(match.groupdict().get("denied"))
    is_for_now = (
        is_fleeting(unit.quotation) if phrase.kind == "rule" or phrase.past else _is_passing(match.string)
    )
    return Candidate(
        kind=phrase.kind,
        category=phrase.category if phrase.kind == "fact" else "preference",
        subject=usual_words("usual").get(subject.lower(), subject),
        predicate=phrase.predicate or "WANTS_REPLIES",
        object=phrase.object.format(**parts),
        negated=phrase.negated or bool(match.groupdict().get("neg")),
        single=phrase.single
        and not (phrase.predicate == "IS_CALLED" and parts["who"] in word_table("several")),
        quote=_quote(unit, match),
        confidence=phrase.confidence,
        plain=phrase.plain,
        fleeting=is_for_now,
        ends=is_denial,
        supersedes=tuple(_superseded_patterns(phrase, subject, parts, match.string)),
    )


def _superseded_patterns(
    phrase: Phrase, subject: str, parts: Mapping[str, str], sentence: str
) -> Iterator[FactPattern]:
    """The facts that a statement ends beside that of its slot; with "now", also its like of other words."""
    if phrase.kind == "rule":
        return
    for pattern in phrase.ends:
        text = pattern.words.format(**parts).strip()
        if text or not pattern.words:
            for name in pattern.subject.format(**parts).split("|"):
                yield msgspec.structs.replace(pattern, subject=name, words=text)
    if frame("replacement").search(sentence):
        for predicate in predicates_of_topic(phrase.predicate):
            yield FactPattern(subject=subject, predicate=predicate)
        yield FactPattern(subject=subject, predicate=phrase.predicate, words=parts["what"])
    old = frame("outdated").search(sentence)
    if old is not None:
        yield FactPattern(subject="", words=old["old"])


def _is_passing(sentence: str) -> bool:
    return (bool(frame("fleeting").search(sentence)) or is_fleeting(sentence)) and not LASTING.search(
        sentence
    )


def _wording(phrase: Phrase, what: str) -> str:
    if phrase.subject == "name" and what.islower():
        return what.capitalize()
    return what.lower() if phrase.lower else what


def _has_content(phrase: Phrase, what: str) -> bool:
    """Return whether the words of a match say something that its phrase may be about."""
    text = _plain_apostrophes(what)
    if phrase.needs and not word_check(phrase.needs).passes(text):
        return False
    if phrase.bars and word_check(phrase.bars).passes(text):
        return False
    return "{what}" not in phrase.object or bool(what)


def _trim(what: str) -> str:
    return TRAILING_WORD.sub("", FLEETING.sub("", what).strip(EDGE_CHARACTERS)).strip(EDGE_CHARACTERS)


def _list_parts(what: str) -> Sequence[str]:
    """The parts of a list, up to what is said aside in it."""
    parts = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|und|et|y|e)\s+", what)
    nonempty = [part.strip() for part in parts if part.strip()]
    return [part for part in nonempty if not ASIDE.match(part) and len(part.split()) <= MOST_PART_WORDS]


def _quote(unit: _Sentence, match: re.Match[str]) -> str:
    """The sentence, or as much of it around the words as a quote may have."""
    sentence, first = unit.quotation, max(match.start() - unit.shift, 0)
    if len(sentence) <= LONGEST_QUOTE:
        return sentence
    return sentence[first : first + LONGEST_QUOTE].strip()
