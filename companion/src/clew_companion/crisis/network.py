"""A small network that reads English: it hears what a sum of words cannot. It needs NumPy.

It is a transformer that knew the language before, taught with the labelled messages by
``python -m tests.companion.tuning``. Its numbers are data, ``network.npz``, eight bits each.
"""

import contextlib
import ctypes
import functools
import importlib.resources
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
HEADS = 12
"""How many ways of looking at the other words each layer has."""
MOST_PIECES, LONGEST_WORD = 96, 40
"""How many pieces are read of a message, its beginning and its end, and how many letters of a word."""
BEGIN, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
WORDS_KEY = "words"
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")


@dataclass(frozen=True, slots=True)
class Network:
    """The learnt network: the pieces of words, a row of small numbers for each, and the layers."""

    pieces: Mapping[str, int]
    word_rows: NDArray[np.int8]
    parameters: Mapping[str, FloatArray]

    def levels(self, text: str) -> list[float]:
        """A score for each level: positive if the text reads like that level or more."""
        with _one_thread():
            return self._levels(self.piece_ids(text))

    def _levels(self, ids: Sequence[int]) -> list[float]:
        rows = self._embed(ids)
        for layer in range(len(self.parameters["in"])):
            rows = self._attend(rows, layer)
            rows = self._feed_forward(rows, layer)
        summary = np.concatenate([rows.mean(0), rows.max(0)])
        levels: list[float] = (summary @ self.parameters["out"] + self.parameters["out bias"]).tolist()
        return levels

    def piece_ids(self, text: str) -> list[int]:
        """A text as the places of its pieces."""
        ids = [place for word in _network_words(text) for place in self._piece_ids_of_word(word)]
        if len(ids) > MOST_PIECES:
            ids = ids[: MOST_PIECES // 2] + ids[-MOST_PIECES // 2 :]
        return [self.pieces[BEGIN], *ids, self.pieces[END]]

    def _piece_ids_of_word(self, word: str) -> Sequence[int]:
        """A word as the longest pieces that are known, or as unknown."""
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.pieces), None)
            if end is None:
                return [self.pieces[UNKNOWN]]
            ids.append(self.pieces[prefix + word[start:end]])
            start = end
        return ids

    def _embed(self, ids: Sequence[int]) -> FloatArray:
        rows = self.word_rows[ids] * self.parameters["words scale"][ids]
        return _layer_norm(rows + self.parameters["position"][: len(ids)], self.parameters["begin norm"])

    def _attend(self, rows: FloatArray, layer: int) -> FloatArray:
        """Each piece with what it takes from the others."""
        parameters = self.parameters
        projections = rows @ parameters["in"][layer] + parameters["in bias"][layer]
        queries, keys, values = projections.reshape(len(rows), 3, HEADS, -1).transpose(1, 2, 0, 3)
        shares = queries @ keys.transpose(0, 2, 1) * np.float32(queries.shape[-1] ** -0.5)
        shares = np.exp(shares - shares.max(-1, keepdims=True))
        attention = shares @ values / shares.sum(-1, keepdims=True)
        all_heads = attention.transpose(1, 0, 2).reshape(len(rows), -1)
        return _layer_norm(
            rows + all_heads @ parameters["join"][layer] + parameters["join bias"][layer],
            parameters["join norm"][layer],
        )

    def _feed_forward(self, rows: FloatArray, layer: int) -> FloatArray:
        """Each piece with what follows from it."""
        parameters = self.parameters
        hidden_rows = _gelu(rows @ parameters["wide"][layer] + parameters["wide bias"][layer])
        return _layer_norm(
            rows + hidden_rows @ parameters["narrow"][layer] + parameters["narrow bias"][layer],
            parameters["narrow norm"][layer],
        )


def _network_words(text: str) -> Iterable[str]:
    """Small letters without accents; a mark is a word of its own."""
    letters = text.lower()
    if not letters.isascii():
        letters = "".join(
            sign for sign in unicodedata.normalize("NFD", letters) if not unicodedata.combining(sign)
        )
    return (word[:LONGEST_WORD] for word in _WORD.findall(letters))


def _gelu(rows: FloatArray) -> FloatArray:
    """The GELU function."""
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


def _layer_norm(rows: FloatArray, norm: FloatArray) -> FloatArray:
    """Rows of one mean and one spread, stretched and moved as was learnt."""
    rows -= rows.mean(-1, keepdims=True)
    rows *= 1 / np.sqrt((rows * rows).mean(-1, keepdims=True) + np.float32(1e-12))
    rows *= norm[0]
    rows += norm[1]
    return rows


_LOCK = threading.Lock()
_BLAS_PREFIXES, _BLAS_SUFFIXES = ("scipy_openblas", "openblas"), ("64_", "")


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for the products of small matrices: several wait for each other longer than they work.

    What the process has set for others is set again afterwards.
    """
    get_count, set_count = _thread_settings()
    with _LOCK:
        count = get_count()
        set_count(1)
        try:
            yield
        finally:
            set_count(count)


@functools.cache
def _thread_settings() -> tuple[Callable[[], int], Callable[[int], object]]:
    """The functions of NumPy's OpenBLAS that give and set its threads; for another BLAS, none that do."""
    folder = Path(np.__file__).parent
    for file in sorted([*folder.parent.glob("numpy.libs/*openblas*"), *folder.glob(".dylibs/*openblas*")]):
        library = ctypes.CDLL(str(file))
        for prefix in _BLAS_PREFIXES:
            for suffix in _BLAS_SUFFIXES:
                get_name, set_name = f"{prefix}_get_num_threads{suffix}", f"{prefix}_set_num_threads{suffix}"
                if hasattr(library, get_name) and hasattr(library, set_name):
                    return getattr(library, get_name), getattr(library, set_name)
    return (lambda: 1), (lambda count: None)


def load_network() -> Network:
    """The network that comes with the companion, loaded once."""
    with _LOCK:
        return _load_network()


@functools.cache
def _load_network() -> Network:
    file = importlib.resources.files("clew_companion.crisis").joinpath("network.npz")
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    pieces = bytes(arrays.pop("pieces")).decode().split("\n")
    word_rows = arrays.pop(WORDS_KEY)
    small_arrays = {name: rows for name, rows in arrays.items() if rows.dtype == np.int8}
    parameters = {name: rows for name, rows in arrays.items() if name not in small_arrays}
    parameters.update({name: rows * parameters[f"{name} scale"] for name, rows in small_arrays.items()})
    return Network({piece: place for place, piece in enumerate(pieces)}, word_rows, parameters)
