"""JSON values, documents and ops, drawn so that they meet on the same paths."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from clew.core import patch
from clew.core.ops import Document, Op

texts = st.text(max_size=4)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 2),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 2.0]),
    texts,
)
json_values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)

KEYS = ("a", "b", "a.b")
small = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.5, 1.0, -0.0, "", "x", "y"])
)
small_values = st.recursive(
    small,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
documents: st.SearchStrategy[Document] = st.dictionaries(st.sampled_from(KEYS), small_values, max_size=3)
paths = st.lists(st.sampled_from(KEYS) | st.integers(0, 2), min_size=0, max_size=3)
numbers = st.integers(-2, 2) | st.sampled_from([0.5, 1.0, -0.0])


def ops(where: st.SearchStrategy[Any] = paths) -> st.SearchStrategy[Op]:
    """Ops of every kind at some paths."""
    return st.one_of(
        st.builds(patch.set, where, small_values),
        st.builds(patch.delete, where),
        st.builds(patch.append, where, small_values),
        st.builds(patch.merge, where, documents),
        st.builds(patch.increment, where, numbers),
        st.builds(patch.insert, where, st.integers(0, 2), small_values),
        st.builds(patch.remove, where, small_values),
        st.builds(patch.max, where, numbers | st.sampled_from(["x", "y"])),
        st.builds(patch.min, where, numbers | st.sampled_from(["x", "y"])),
        st.builds(patch.union, where, st.lists(small, max_size=3)),
    )
