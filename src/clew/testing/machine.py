"""A machine that drives any store beside the one in memory, at random, and compares all there is to see."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from clew.core import patch
from clew.core.encoding import JSON
from clew.core.errors import ClewError
from clew.core.items import call, result, user
from clew.core.ops import Document, Op
from clew.core.values import (
    ABOUT_KEY,
    Absent,
    AnyVersion,
    AppendTo,
    Changeset,
    Committed,
    Drop,
    Enqueue,
    Exact,
    Expectation,
    Head,
    Item,
    Job,
    Put,
    Record,
    RecordQuery,
    Require,
    Scope,
    Window,
)
from clew.database.database import Database
from clew.database.search import index_threads
from clew.stores.memory import MemoryStore
from clew.testing.clock import Clock
from clew.testing.fixtures import StoreOpener

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
    st.builds(patch.set, paths, values),
    st.builds(patch.set, st.just([ABOUT_KEY]), st.sampled_from([{"title": "T", "labels": ["l"]}, {}, 1])),
    st.builds(patch.delete, paths),
    st.builds(patch.append, paths, values),
    st.builds(patch.merge, paths | st.just([]), documents),
    st.builds(patch.increment, paths, numbers),
    st.builds(patch.insert, paths, st.integers(0, 2), values),
    st.builds(patch.remove, paths, values),
    st.builds(patch.max, paths, numbers | st.sampled_from(["a", "b"])),
    st.builds(patch.min, paths, numbers | st.sampled_from(["a", "b"])),
    st.builds(patch.union, paths, st.lists(leaves, max_size=3)),
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
expectations = st.one_of(
    st.just(AnyVersion()),
    st.just(AnyVersion()),
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
        st.builds(AppendTo, thread=thread_ids, change=changesets, expect=expectations),
        st.builds(Put, record=records, expect=revisions),
        st.builds(Drop, kind=st.just("k"), id=st.sampled_from("abc"), expect=revisions),
        st.builds(Require, kind=st.just("k"), id=st.sampled_from("abc"), expect=st.integers(0, 3)),
        st.builds(Enqueue, job=st.builds(Job, id=st.sampled_from("jk"), kind=st.just("w"), body=values)),
    ),
    max_size=4,
)


T = TypeVar("T")
Attempt = Callable[[Database], Awaitable[object]]
STEPS = 30


def run_machine(opening: StoreOpener, *, examples: int = 25, steps: int = STEPS) -> None:
    """Drive a store through some random lives. Must not be called from a running event loop."""
    run_state_machine_as_test(
        store_machine(opening),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def store_machine(opening: StoreOpener) -> type["StoreMachine"]:
    """A machine for the store that is opened so. ``store_machine(opening).TestCase`` is a test."""

    class Machine(StoreMachine):
        def opener(self) -> StoreOpener:
            return opening

    return Machine


def comparable(value: object) -> object:
    """The part of a result that two stores must agree on: everything but hashes, which hold salts."""
    match value:
        case Committed():
            return value.thread, value.version, value.time, value.repeated
        case Head() | Changeset():
            return msgspec.to_builtins(msgspec.structs.replace(value, hash=b""))
        case Window():
            return (
                [comparable(item) for item in value],
                [comparable(entry) for entry in value.broken],
                value.version,
            )
        case list() | tuple():
            return [comparable(part) for part in value]
        case msgspec.Struct():
            return msgspec.to_builtins(value)
    return value


class StoreMachine(RuleBasedStateMachine):
    """A store and the one in memory, side by side, in an event loop of their own."""

    def opener(self) -> StoreOpener:
        """Opens the store."""
        raise NotImplementedError

    @initialize()
    def open(self) -> None:
        """Open both; the store may hold other tenants, so a new one is taken."""
        self.clock = Clock()
        self.stack = AsyncExitStack()
        self.runner = asyncio.Runner()
        self.scope = Scope(tenant=f"machine-{uuid4().hex}")
        store = self.runner.run(self.stack.enter_async_context(self.opener()(self.clock)))
        self.pair = [Database(store, self.scope), Database(MemoryStore(clock=self.clock), self.scope)]
        for id in ("a", "b"):  # so that most of what is drawn meets a thread
            self.create(id)

    def teardown(self) -> None:
        """Look at everything once more, and close."""
        if not hasattr(self, "runner"):
            return
        try:
            self.compare_everything()
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()

    def compare(self, attempt: Attempt) -> object:
        """Do the same to both; what it came to in each must be the same."""
        outcome, memory_outcome = [self.runner.run(_outcome(attempt, db)) for db in self.pair]
        assert outcome == memory_outcome
        return outcome

    def compare_everything(self) -> None:
        """Read all of every thread, at every version, and check it."""
        page = self.runner.run(self.pair[1].threads(limit=100))
        self.compare(lambda db: db.threads(limit=100))
        self.compare(lambda db: db.records.find(RecordQuery(kind="k", limit=1000)))
        for summary in page.threads:
            self.compare(_changesets_of(summary.id))
            for version in range(summary.version + 1):
                self.compare(_head_of(summary.id, version))
                for log in LOGS:
                    self.compare(_items_of(summary.id, version, log))
            for db in self.pair:
                assert self.runner.run(db.thread(summary.id).verify()).problems == ()

    @rule(ms=st.integers(-5, 50))
    def pass_time(self, ms: int) -> None:
        """Time passes, or the clock is set back."""
        self.clock.advance(ms)

    @rule(id=thread_ids)
    def create(self, id: str) -> None:
        """A new thread, unless the id is taken."""
        self.compare(lambda db: _discard_result(db.create(id)))

    @rule(id=thread_ids, change=changesets, expect=expectations)
    def append(self, id: str, change: Changeset, expect: Expectation) -> None:
        """A changeset, which may be stale, ill-typed, repeated or a repetition in name only."""
        self.compare(lambda db: db.thread(id).append(change, expect=expect))
        self.compare(lambda db: db.thread(id).head())

    @rule(id=thread_ids, ops=st.lists(ops, min_size=1, max_size=4))
    def patch(self, id: str, ops: list[Op]) -> None:
        """A change of state, each op in a changeset of its own, so that many fit."""
        for op in ops:
            self.compare(_append_of(id, op))
        self.compare(lambda db: db.thread(id).state())

    @rule(id=thread_ids, log=logs, at=st.integers(0, 8), offset=st.integers(-1, 5))
    def insert(self, id: str, log: str, at: int, offset: int) -> None:
        """An item between two others, or where none can be."""
        item = Item(body={"content": "between"}, log=log, place=256 * at + offset)
        self.compare(lambda db: db.thread(id).append(items=[item]))
        self.compare(lambda db: db.thread(id).items(log=log))

    @rule(id=thread_ids, log=logs)
    def pop(self, id: str, log: str) -> None:
        """The newest item taken away."""
        self.compare(lambda db: db.thread(id).log(log).pop())
        self.compare(lambda db: db.thread(id).items(log=log))

    @rule(id=thread_ids, log=logs)
    def clear(self, id: str, log: str) -> None:
        """All items taken away."""
        self.compare(lambda db: db.thread(id).log(log).clear())

    @rule(id=thread_ids, log=logs, keep=st.integers(0, 4), count=st.integers(0, 2))
    def compact(self, id: str, log: str, keep: int, count: int) -> None:
        """A summary in the place of older items."""
        summary = [user(f"summary {n}") for n in range(count)]
        self.compare(lambda db: db.thread(id).log(log).compact(summary, keep=keep))
        self.compare(lambda db: db.thread(id).items(log=log))

    @rule(id=thread_ids, new=thread_ids, at=st.none() | st.integers(0, 12))
    def fork(self, id: str, new: str, at: int | None) -> None:
        """A fork at some version, if there is such a one."""
        self.compare(lambda db: _discard_result(db.thread(id).fork(new, at=at)))
        self.compare(lambda db: db.thread(new).head())

    @rule(id=thread_ids)
    def delete(self, id: str) -> None:
        """The end of a thread, but not of its forks."""
        self.compare(lambda db: db.thread(id).delete())

    @rule(id=thread_ids)
    def repair(self, id: str) -> None:
        """Open calls closed."""
        self.compare(lambda db: db.thread(id).repair())

    @rule(id=thread_ids, query=item_queries)
    def read(self, id: str, query: dict[str, Any]) -> None:
        """A window at some version."""
        self.compare(lambda db: db.thread(id).items(**query))

    @rule(id=thread_ids, after=st.integers(-1, 12), limit=st.integers(0, 5))
    def read_changesets(self, id: str, after: int, limit: int) -> None:
        """A page of changesets."""
        self.compare(lambda db: db.thread(id).changesets(after=after, limit=limit))

    @rule(id=thread_ids, before=st.integers(0, 9), after=st.integers(0, 9))
    def diff(self, id: str, before: int, after: int) -> None:
        """Compare the changes between two versions."""
        self.compare(lambda db: db.thread(id).diff(before, after))

    @rule(limit=st.integers(1, 4))
    def list(self, limit: int) -> None:
        """A page of threads."""
        self.compare(lambda db: db.threads(limit=limit))

    @rule(id=st.sampled_from("abc"), body=values, tags=tags, expect=revisions)
    def put(self, id: str, body: JSON, tags: tuple[str, ...], expect: int | None) -> None:
        """A record, which may be stale."""
        self.compare(
            lambda db: db.commit([Put(record=Record(kind="k", id=id, body=body, tags=tags), expect=expect)])
        )
        self.compare(lambda db: db.records.find(RecordQuery(kind="k", tags=tags)))

    @rule(id=st.sampled_from("abc"), expect=revisions)
    def drop(self, id: str, expect: int | None) -> None:
        """A record less."""
        self.compare(lambda db: db.commit([Drop(kind="k", id=id, expect=expect)]))

    @rule(writes=writes)
    def commit(self, writes: "list[Any]") -> None:  # type: ignore[valid-type]  # the rule above is called list, too
        """Several writes, all or none."""
        self.compare(lambda db: db.commit(writes))

    @rule(indexed=st.booleans(), word=words)
    def search(self, indexed: bool, word: str) -> None:  # noqa: FBT001 - drawn by name
        """Search for a word, through the index and before it is built."""
        if indexed:
            self.compare(lambda db: _discard_result(index_threads(db.store, self.scope)))
        self.compare(lambda db: _places(db, word))


def _changesets_of(id: str) -> Attempt:
    return lambda db: db.thread(id).changesets(limit=1000)


def _head_of(id: str, at: int) -> Attempt:
    return lambda db: db.thread(id).head(at=at)


def _items_of(id: str, at: int, log: str) -> Attempt:
    return lambda db: db.thread(id).items(at=at, log=log)


def _append_of(id: str, op: Op) -> Attempt:
    return lambda db: db.thread(id).append(patches=[op])


async def _outcome(attempt: Attempt, db: Database) -> object:
    try:
        return comparable(await attempt(db))
    except ClewError as error:
        return error.code, error.facts()


async def _discard_result(attempt: Awaitable[object]) -> None:
    await attempt


async def _places(db: Database, word: str) -> set[tuple[str, str, int]]:
    return {(hit.thread, hit.log, hit.place) for hit in await db.search(word, limit=1000)}
