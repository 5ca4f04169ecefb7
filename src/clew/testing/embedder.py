"""An embedder without a model, for tests: it knows how words are spelled, not what they mean."""

import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from clew.core.arguments import check_methods
from clew.core.log.vectors import vector_length
from clew.core.text.words import words
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS


@check_methods
class SpellingEmbedder:
    """Words and pieces of words, hashed into a vector. Not for use: recall by words alone is better.

    Two texts are alike if they share words, or words that are spelled alike ("allergic", "allergies"). It
    needs no model and no network.
    """

    def __init__(self, dimensions: int = 512) -> None:
        self.name = f"spelling-{dimensions}"
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for piece, weight in _pieces(text):
            digest = int.from_bytes(blake2b(piece.encode(), digest_size=8).digest())
            vector[digest % self._dimensions] += weight if digest >> 63 else -weight
        norm = vector_length(vector) or 1.0
        return [value / norm for value in vector]


def _pieces(text: str) -> Iterator[tuple[str, float]]:
    """Words and their pieces of three and four letters; all pieces of a word weigh as much as the word."""
    text_words = words(text)
    for word in [word for word in text_words if word not in FUNCTION_WORDS] or text_words:
        yield word, 1.0
        token = f"<{word}>"
        pieces = [token[start : start + size] for size in (3, 4) for start in range(len(token) - size + 1)]
        yield from ((piece, 1 / math.sqrt(len(pieces))) for piece in pieces)
