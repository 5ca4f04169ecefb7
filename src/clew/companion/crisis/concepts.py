"""What a message says, as concepts: who, what, denied or not, and what stands together in a sentence."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from clew.companion.crisis.lexicon import ANSWER, Found, Language, Lexicon, language_among
from clew.companion.crisis.words import COMMA, MARKS, QUOTE, STOP, words

LONGEST = 600
"""Words that are read of one message: its beginning and its end, if there are more."""
SENTENCE = 40
"""Words after which a sentence counts as ended, for those who write none."""
REACH = 4
"""How many words a "not" reaches."""
NOTS = frozenset({"not", "cannot"})
OTHERS = frozenset({"third", "kin", "friend", "child", "foe"})
QUESTION, QUOTED = "question", "quotation"
YES, NO = ANSWER + "yes", ANSWER + "no"
ASKS = frozenset({"asks_risk", "asks_plan", "asks_safe"})


class Sign(msgspec.Struct, frozen=True):
    """A concept where it stands. ``name`` has a minus before it if a "not" reaches it."""

    name: str
    start: int
    end: int
    clause: int


class Reading(msgspec.Struct, frozen=True):
    """A message as concepts. ``frames`` are those that colour all of it."""

    said: Sequence[str]
    language: str
    signs: Sequence[Sign]
    sentences: Sequence[frozenset[str]]
    clauses: Sequence[frozenset[str]]
    concepts: frozenset[str]
    answers: frozenset[str]

    def has(self, *names: str) -> bool:
        """Whether one of these was said."""
        return not self.concepts.isdisjoint(names)

    @property
    def length(self) -> int:
        """How many words there are, without the marks between them."""
        return sum(word.isalnum() for word in self.said)


def read(message: str, known: Lexicon, default: str = "en") -> Reading:
    """Read a message."""
    said = words(message, known.spelling)
    if len(said) > LONGEST:
        said = said[: LONGEST // 2] + said[-LONGEST // 2 :]
    language = known.languages[language_among(said, message, known, default)]
    found = language.find(said)
    sentence, clause = _parts(said, language)
    signs = list(_signed([hit for hit in found if not hit.concept.startswith(ANSWER)], clause))
    together: defaultdict[int, set[str]] = defaultdict(set)
    apart: defaultdict[int, set[str]] = defaultdict(set)
    for sign in signs:
        together[sentence[sign.start]].add(sign.name)
        apart[sign.clause].add(sign.name)
    marks = {QUESTION} if "?" in message else set()
    return Reading(
        said=said,
        language=language.code,
        signs=signs,
        sentences=[frozenset(one) for one in together.values()],
        clauses=[frozenset(apart[number]) for number in range(max(apart, default=-1) + 1)],
        concepts=frozenset({sign.name for sign in signs} | marks | ({QUOTED} if QUOTE in said else set())),
        answers=frozenset(
            hit.concept.removeprefix(ANSWER)
            for hit in found
            if hit.concept.startswith(ANSWER) and _is_answer(hit, said, language)
        ),
    )


def _is_answer(hit: Found, said: Sequence[str], language: Language) -> bool:
    """Whether a yes or a no is one: "no, I am fine" and "I am." are; "no one", "I am just tired" are not."""
    if hit.end >= len(said) or said[hit.end] in MARKS:
        return True
    if hit.concept == NO:
        return language.is_self(said, hit.end)
    return hit.concept != YES or not language.is_self(said, hit.start)


def _parts(said: Sequence[str], language: Language) -> tuple[list[int], list[int]]:
    """The number of the sentence and of the clause that each word is in."""
    sentences, clauses, sentence, clause, length = [], [], 0, 0, 0
    for at, word in enumerate(said):
        length += 1
        if word == STOP or length > SENTENCE:
            sentence, clause, length = sentence + 1, clause + 1, 0
        elif word == COMMA or word in language.ends or language.begins(said, at):
            clause += 1
        sentences.append(sentence)
        clauses.append(clause)
    return sentences, clauses


def _signed(found: Sequence[Found], clause: Sequence[int]) -> Iterator[Sign]:
    nots = sorted(hit.end - 1 for hit in found if hit.concept in NOTS)
    for hit in found:
        at = bisect_right(nots, hit.start - 1) - 1
        denied = (
            at >= 0
            and hit.concept not in NOTS
            and not hit.concept.startswith("-")
            and hit.start - nots[at] <= REACH
            and clause[nots[at]] == clause[hit.start]
        )
        yield Sign("-" + hit.concept if denied else hit.concept, hit.start, hit.end, clause[hit.start])
