"""The concepts of a message: who, what, denied or not, and what occurs together in a sentence."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from clew_companion.crisis.lexicon import ANSWER_PREFIX, ConceptMatch, Language, Lexicon, language_of_tokens
from clew_companion.crisis.words import COMMA, MARKS, QUOTE, STOP, tokenize

MOST_TOKENS = 600
"""Words that are read of one message: its beginning and its end, if there are more."""
LONGEST_SENTENCE = 40
"""Words after which a sentence counts as ended, for those who write none."""
LONGEST_CLAUSE = 14
"""Words after which a clause ends where the person speaks of themselves again, if there are no marks."""
NEGATION_REACH = 4
"""How many words a "not" reaches."""
NEGATIONS = frozenset({"not", "cannot"})
LIFE = frozenset({"livingness", "here"})
"""Concepts that a "not" always reaches: "not sure I want to live" denies life, and no danger."""
OTHER_PERSONS = frozenset({"third", "kin", "friend", "child", "foe"})
QUESTION, QUOTATION = "question", "quotation"
YES, NO = ANSWER_PREFIX + "yes", ANSWER_PREFIX + "no"
RISK_QUESTIONS = frozenset({"asks_risk", "asks_plan", "asks_safe"})


class Sign(msgspec.Struct, frozen=True):
    """A concept at its place. ``name`` has a minus before it if a "not" reaches it."""

    name: str
    start: int
    end: int
    clause: int


class Reading(msgspec.Struct, frozen=True):
    """A message as concepts. ``frames`` are those that colour all of it."""

    tokens: Sequence[str]
    language: str
    signs: Sequence[Sign]
    sentences: Sequence[frozenset[str]]
    clauses: Sequence[frozenset[str]]
    concepts: frozenset[str]
    answers: frozenset[str]

    def has(self, *names: str) -> bool:
        """Return whether one of these was said."""
        return not self.concepts.isdisjoint(names)

    @property
    def length(self) -> int:
        """The number of words, without the marks between them."""
        return sum(word.isalnum() for word in self.tokens)


def read_message(message: str, lexicon: Lexicon, default: str = "en") -> Reading:
    """Read a message."""
    tokens = tokenize(message, lexicon.spelling)
    if len(tokens) > MOST_TOKENS:
        tokens = tokens[: MOST_TOKENS // 2] + tokens[-MOST_TOKENS // 2 :]
    language = lexicon.languages[language_of_tokens(tokens, message, lexicon, default)]
    matches = language.find_concepts(tokens)
    sentence_numbers, clause_numbers = _part_numbers(tokens, language)
    signs = list(
        _signs_in(
            [hit for hit in matches if not hit.concept.startswith(ANSWER_PREFIX)],
            tokens,
            language,
            clause_numbers,
        )
    )
    names_by_sentence: defaultdict[int, set[str]] = defaultdict(set)
    names_by_clause: defaultdict[int, set[str]] = defaultdict(set)
    for sign in signs:
        names_by_sentence[sentence_numbers[sign.start]].add(sign.name)
        names_by_clause[sign.clause].add(sign.name)
    marks = {QUESTION} if "?" in message else set()
    return Reading(
        tokens=tokens,
        language=language.code,
        signs=signs,
        sentences=[frozenset(one) for one in names_by_sentence.values()],
        clauses=[
            frozenset(names_by_clause[number]) for number in range(max(names_by_clause, default=-1) + 1)
        ],
        concepts=frozenset(
            {sign.name for sign in signs} | marks | ({QUOTATION} if QUOTE in tokens else set())
        ),
        answers=frozenset(
            hit.concept.removeprefix(ANSWER_PREFIX)
            for hit in matches
            if hit.concept.startswith(ANSWER_PREFIX) and _is_answer(hit, tokens, language)
        ),
    )


def _is_answer(hit: ConceptMatch, tokens: Sequence[str], language: Language) -> bool:
    """Return whether a yes or no answers: "no, I am fine", "I am." do; "no one", "I am just tired" do not."""
    if hit.end >= len(tokens) or tokens[hit.end] in MARKS:
        return True
    if hit.concept == NO:
        return language.is_self(tokens, hit.end)
    return hit.concept != YES or not language.is_self(tokens, hit.start)


def _part_numbers(tokens: Sequence[str], language: Language) -> tuple[list[int], list[int]]:
    """The number of the sentence and of the clause that each word is in."""
    sentences, clauses, sentence, clause, length, clause_length = [], [], 0, 0, 0, 0
    for at, word in enumerate(tokens):
        length, clause_length = length + 1, clause_length + 1
        if word == STOP or length > LONGEST_SENTENCE:
            sentence, clause, length, clause_length = sentence + 1, clause + 1, 0, 0
        elif (
            word == COMMA
            or word in language.clause_ends
            or language.begins_clause(tokens, at)
            or (clause_length > LONGEST_CLAUSE and language.is_self(tokens, at))
        ):
            clause, clause_length = clause + 1, 0
        sentences.append(sentence)
        clauses.append(clause)
    return sentences, clauses


def _signs_in(
    matches: Sequence[ConceptMatch], tokens: Sequence[str], language: Language, clause_numbers: Sequence[int]
) -> Iterator[Sign]:
    negations = sorted({hit.end - 1 for hit in matches if hit.concept in NEGATIONS})
    void_negations = _void_negations(negations, tokens, language, clause_numbers)
    for hit in matches:
        at = bisect_right(negations, hit.start - 1) - 1
        is_denied = (
            at >= 0
            and hit.concept not in NEGATIONS
            and not hit.concept.startswith("-")
            and negations[at] not in void_negations
            and hit.start - negations[at] <= NEGATION_REACH
            and clause_numbers[negations[at]] == clause_numbers[hit.start]
            and (hit.concept in LIFE or language.keepers.isdisjoint(tokens[negations[at] + 1 : hit.start]))
        )
        yield Sign(
            "-" + hit.concept if is_denied else hit.concept, hit.start, hit.end, clause_numbers[hit.start]
        )


def _void_negations(
    negations: Sequence[int], tokens: Sequence[str], language: Language, clause_numbers: Sequence[int]
) -> set[int]:
    """The negations that an earlier one turns round, and that therefore deny nothing.

    So are "no reason not to", "cannot promise I won't" and "not a day without".
    """
    return {
        end
        for number, end in enumerate(negations)
        if any(
            clause_numbers[before] == clause_numbers[end]
            and (tokens[end] in language.exceptions or not language.turners.isdisjoint(tokens[before:end]))
            for before in negations[:number]
        )
    }
