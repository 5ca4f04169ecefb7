"""What the machine draws at random: small, so that things meet."""

from typing import Any, Final

from hypothesis import strategies as st

from clew.core import making
from clew.core.items import call, result
from clew.core.ops import Document, Op
from clew.core.values import (
    ABOUT,
    Absent,
    Anywhere,
    AppendTo,
    Changeset,
    Drop,
    Enqueue,
    Exact,
    Item,
    Job,
    Put,
    Record,
    Require,
)

LOGS: Final = ("history", "notes")
WORDS: Final = ("fox", "dog", "Café")

thread_ids = st.sampled_from(["a", "b", "c/d", "é🦊"])
logs = st.sampled_from(LOGS)
words = st.sampled_from(WORDS)
revisions = st.none() | st.integers(0, 3)
tags = st.sampled_from([(), ("x",), ("x", "y")])

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -0.0, 2**64]),
    st.sampled_from(["", "a", "\x00", "🦊"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
)
documents: st.SearchStrategy[Document] = st.dictionaries(
    st.sampled_from(["x", "y", "a.b"]), values, max_size=3
)
keys = st.sampled_from(["x", "y", "a.b"]) | st.integers(0, 2)
paths = st.lists(keys, min_size=1, max_size=3)
numbers = st.integers(-3, 3) | st.sampled_from([0.5, 1.0])

ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(making.set, paths, values),
    st.builds(making.set, st.just([ABOUT]), st.sampled_from([{"title": "T", "labels": ["l"]}, {}, 1])),
    st.builds(making.delete, paths),
    st.builds(making.append, paths, values),
    st.builds(making.merge, paths | st.just([]), documents),
    st.builds(making.increment, paths, numbers),
    st.builds(making.insert, paths, st.integers(0, 2), values),
    st.builds(making.remove, paths, values),
    st.builds(making.max, paths, numbers | st.sampled_from(["a", "b"])),
    st.builds(making.min, paths, numbers | st.sampled_from(["a", "b"])),
    st.builds(making.union, paths, st.lists(leaves, max_size=3)),
)

messages = st.builds(
    Item,
    body=st.fixed_dictionaries({"content": words | values}),
    role=st.sampled_from(["user", "assistant", ""]),
    id=st.none() | st.sampled_from(["m1", "m2"]),
    log=logs,
    format=st.sampled_from(["clew", "openai.responses"]),
)
opaque = st.builds(
    Item, body=st.binary(max_size=8), codec=st.just("raw"), format=st.just("langchain"), log=logs
)
calls = st.builds(call, st.sampled_from(["c1", "c2"]), st.just("f"), leaves, run=st.sampled_from([None, "r"]))
results = st.builds(result, st.sampled_from(["c1", "c2"]), leaves, run=st.sampled_from([None, "r"]))
items = st.lists(st.one_of(messages, messages, opaque, calls, results), max_size=4).map(tuple)

changesets = st.builds(
    Changeset,
    items=items,
    patches=st.lists(ops, max_size=2).map(tuple),
    snapshot=st.none() | documents,
    state_actions=st.lists(leaves, max_size=2).map(tuple),
    reason=st.sampled_from(["append", "UserMessage"]),
    run_id=st.sampled_from([None, "r"]),
    run_meta=st.none() | documents,
    key=st.sampled_from([None, None, "k1", "k2"]),
)
expects = st.one_of(
    st.just(Anywhere()),
    st.just(Anywhere()),
    st.builds(Exact, st.integers(0, 6)),
    st.just(Absent(owner="alice")),
)

item_queries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"log": logs},
    optional={
        "at": st.integers(0, 12),
        "last": st.integers(0, 6),
        "first": st.integers(0, 6),
        "after": st.integers(-1, 2500),
        "before": st.integers(-1, 2500),
    },
)

records = st.builds(Record, kind=st.just("k"), id=st.sampled_from("abc"), body=values, tags=tags)
writes = st.lists(
    st.one_of(
        st.builds(AppendTo, thread=thread_ids, change=changesets, expect=expects),
        st.builds(Put, record=records, expect=revisions),
        st.builds(Drop, kind=st.just("k"), id=st.sampled_from("abc"), expect=revisions),
        st.builds(Require, kind=st.just("k"), id=st.sampled_from("abc"), expect=st.integers(0, 3)),
        st.builds(Enqueue, job=st.builds(Job, id=st.sampled_from("jk"), kind=st.just("w"), body=values)),
    ),
    max_size=4,
)
