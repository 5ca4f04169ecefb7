"""Earlier words of a person that bear on a message: found by the words that they share, and told to them."""

import re
from collections import Counter
from collections.abc import Sequence

from clew.core.text.words import stem, words
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew_companion.language.second_person import in_second_person
from clew_companion.language.topics import sentences

LEAST_WORDS, MOST_WORDS = 3, 32
"""Shorter sentences say nothing by themselves; of a message, no more words than this are told."""
SHORTEST_STEM = 3
RARE_MESSAGES = 2
"""A word that occurs in no more earlier messages than this tells which one is meant."""
MOST_QUOTES, MOST_QUOTE_LETTERS = 3, 160
"""So many sentences stand for a conversation, and none that is longer."""
MOST_MESSAGES = 2
"""So many messages are told that bear on another one alike."""
USUAL_WORDS = frozenset(
    words(
        "really think know feel feels just like want need going something anything thing things now still "
        "even much lot maybe because should could would make made get got tell told said say bit yes thanks "
        "okay what when where which how why who"
    )
)
"""Words that bear on nothing in particular."""
OPENING_FILLER = re.compile(
    r"^\W*(?:(?:and|but|so|well|yeah|yes|no|ok|okay|because|honestly|actually|also|anyway|oh|by\s+the\s+way|btw|"
    r"then|plus|thanks|thank\s+you)\b[\s,]*)+",
    re.IGNORECASE,
)
QUOTE = re.compile(r'— "(?P<quote>[^"\n]{8,200})"')
"""The words that a remembered fact comes from, as they stand in the instructions."""


def recollection(message: str, earlier_texts: Sequence[str], instructions: str = "") -> str:
    """The earlier words that bear on a message, as a listener says them; empty if there are none.

    What is remembered from other conversations comes before what was said in this one.
    """
    texts = [*(match["quote"] for match in QUOTE.finditer(instructions)), *earlier_texts]
    counts = Counter(each for text in texts for each in content_stems(text))
    stems = {each for each in content_stems(message) if 0 < counts[each] <= RARE_MESSAGES}
    scores = [sum(1 / counts[each] for each in stems & content_stems(text)) for text in texts]
    if not any(scores):
        return ""
    best = [text for text, score in zip(texts, scores, strict=True) if score == max(scores)]
    return " ".join(filter(None, map(_retell, best[-MOST_MESSAGES:])))


def key_sentences(texts: Sequence[str]) -> list[str]:
    """The sentences that stand for a conversation: those with the words that it comes back to."""
    counts = Counter(each for text in texts for each in content_stems(text))
    candidates = [
        each
        for text in texts
        for each in sentences(text)
        if not each.endswith("?") and len(each.split()) > LEAST_WORDS and len(each) <= MOST_QUOTE_LETTERS
    ]
    chosen: list[str] = []
    covered: set[str] = set()
    while candidates and len(chosen) < MOST_QUOTES:
        best = max(candidates, key=lambda each: sum(counts[one] for one in content_stems(each) - covered))
        if not content_stems(best) - covered:
            break
        chosen.append(best)
        covered |= content_stems(best)
        candidates.remove(best)
    return sorted(chosen, key=lambda each: next(at for at, text in enumerate(texts) if each in text))


def content_stems(text: str) -> set[str]:
    """The stems of a text that say what it is about."""
    return {
        stem(word)
        for word in words(text.replace("’", "'"))
        if len(word) >= SHORTEST_STEM and word not in FUNCTION_WORDS and word not in USUAL_WORDS
    }


def _retell(text: str) -> str:
    """The statements of a message as a listener says them."""
    statements: list[str] = []
    for sentence in sentences(text):
        core = OPENING_FILLER.sub("", sentence).strip().rstrip(".!… ")
        is_short = sum(len(each.split()) for each in [*statements, core]) <= MOST_WORDS
        if not sentence.endswith("?") and len(core.split()) >= LEAST_WORDS and is_short:
            statements.append(in_second_person(core))
    if not statements:
        return ""
    first, *later = statements
    return " ".join([f"You told me: {first}.", *(f"{each[0].upper()}{each[1:]}." for each in later)])
