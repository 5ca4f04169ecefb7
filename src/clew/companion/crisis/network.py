"""A small network that reads English: it hears what a sum of words cannot. It needs NumPy.

It is a transformer that knew the language before, taught with the labelled messages by
``python -m tests.companion.tuning``. Its numbers are data, ``network.npz``, eight bits each.
"""

import functools
import importlib.resources
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]
HEADS = 12
"""How many ways of looking at the other words each layer has."""
LONGEST, LONGEST_WORD = 96, 40
"""How many pieces are read of a message, its beginning and its end, and how many letters of a word."""
BEGIN, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
WORDS = "words"
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")


@dataclass(frozen=True, slots=True)
class Network:
    """What was learnt: the pieces that words are made of, a row of small numbers for each, and the layers."""

    pieces: Mapping[str, int]
    words: NDArray[np.int8]
    learnt: Mapping[str, Numbers]

    def levels(self, text: str) -> list[float]:
        """How much a text reads like each level or more: above nothing, rather so than not."""
        read = self._begun(self.places(text))
        for layer in range(len(self.learnt["in"])):
            read = self._attended(read, layer)
            read = self._thought(read, layer)
        whole = np.concatenate([read.mean(0), read.max(0)])
        found: list[float] = (whole @ self.learnt["out"] + self.learnt["out bias"]).tolist()
        return found

    def places(self, text: str) -> list[int]:
        """A text as the places of its pieces."""
        found = [place for word in _words(text) for place in self._pieces(word)]
        if len(found) > LONGEST:
            found = found[: LONGEST // 2] + found[-LONGEST // 2 :]
        return [self.pieces[BEGIN], *found, self.pieces[END]]

    def _pieces(self, word: str) -> Sequence[int]:
        """A word as the longest pieces that are known, or as unknown."""
        found: list[int] = []
        start = 0
        while start < len(word):
            before = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if before + word[start:end] in self.pieces), None)
            if end is None:
                return [self.pieces[UNKNOWN]]
            found.append(self.pieces[before + word[start:end]])
            start = end
        return found

    def _begun(self, places: Sequence[int]) -> Numbers:
        rows = self.words[places] * self.learnt["words scale"][places]
        return _even(rows + self.learnt["position"][: len(places)], self.learnt["begin norm"])

    def _attended(self, read: Numbers, layer: int) -> Numbers:
        """Each piece with what it takes from the others."""
        learnt = self.learnt
        many = read @ learnt["in"][layer] + learnt["in bias"][layer]
        asks, offers, says = many.reshape(len(read), 3, HEADS, -1).transpose(1, 2, 0, 3)
        shares = asks @ offers.transpose(0, 2, 1) * np.float32(asks.shape[-1] ** -0.5)
        shares = np.exp(shares - shares.max(-1, keepdims=True))
        taken = shares @ says / shares.sum(-1, keepdims=True)
        joined = taken.transpose(1, 0, 2).reshape(len(read), -1)
        return _even(
            read + joined @ learnt["join"][layer] + learnt["join bias"][layer], learnt["join norm"][layer]
        )

    def _thought(self, read: Numbers, layer: int) -> Numbers:
        """Each piece with what follows from it."""
        learnt = self.learnt
        bent = _bent(read @ learnt["wide"][layer] + learnt["wide bias"][layer])
        return _even(
            read + bent @ learnt["narrow"][layer] + learnt["narrow bias"][layer], learnt["narrow norm"][layer]
        )


def _words(text: str) -> Iterable[str]:
    """Small letters without accents; a mark is a word of its own."""
    low = text.lower()
    if not low.isascii():
        low = "".join(sign for sign in unicodedata.normalize("NFD", low) if not unicodedata.combining(sign))
    return (found[:LONGEST_WORD] for found in _WORD.findall(low))


def _bent(rows: Numbers) -> Numbers:
    """What is negative, nearly nothing: GELU."""
    inner = rows * rows
    inner *= rows
    inner *= np.float32(0.044715)
    inner += rows
    inner *= np.float32(0.7978846)
    np.tanh(inner, out=inner)
    inner += 1
    inner *= rows
    inner *= np.float32(0.5)
    return inner


def _even(rows: Numbers, norm: Numbers) -> Numbers:
    """Rows of one mean and one spread, stretched and moved as was learnt."""
    rows -= rows.mean(-1, keepdims=True)
    rows *= 1 / np.sqrt((rows * rows).mean(-1, keepdims=True) + np.float32(1e-12))
    rows *= norm[0]
    rows += norm[1]
    return rows


@functools.cache
def network() -> Network:
    """The network that comes with the companion."""
    file = importlib.resources.files("clew.companion.crisis").joinpath("network.npz")
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    pieces = bytes(arrays.pop("pieces")).decode().split("\n")
    words = arrays.pop(WORDS)
    small = {name: rows for name, rows in arrays.items() if rows.dtype == np.int8}
    learnt = {name: rows for name, rows in arrays.items() if name not in small}
    learnt.update({name: rows * learnt[f"{name} scale"] for name, rows in small.items()})
    return Network({piece: place for place, piece in enumerate(pieces)}, words, learnt)
