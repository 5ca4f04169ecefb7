"""Windows of items against a naive model: random cuts, insertions and forks, read in small batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import InvalidInput
from clew.core.items import user
from clew.core.log import places, reader
from clew.core.values import Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.stores.memory import MemoryStore

Entry = tuple[int, str]


@dataclass
class Naive:
    """A thread as a list of its versions, each a list of what is visible: place and text."""

    thread: Thread
    versions: list[list[Entry]] = field(default_factory=lambda: [[]])
    ends: list[int] = field(default_factory=lambda: [0])

    def now(self) -> list[Entry]:
        return self.versions[-1]

    def advance(self, visible: list[Entry], count: int = 0) -> None:
        self.versions.append(sorted(visible))
        self.ends.append(self.ends[-1] + count)


commands = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("pop"), st.just(0), st.just(0)),
    st.tuples(st.just("clear"), st.just(0), st.just(0)),
    st.tuples(st.just("compact"), st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.just("insert"), st.integers(0, 6), st.integers(1, 4)),
    st.tuples(st.just("fork"), st.integers(0, 20), st.just(0)),
)
queries = st.fixed_dictionaries(
    {},
    optional={
        "last": st.integers(0, 7),
        "after": st.integers(-1, 2600),
        "before": st.integers(-1, 2600),
    },
) | st.fixed_dictionaries(
    {"first": st.integers(0, 7)}, optional={"after": st.integers(-1, 2600), "before": st.integers(-1, 2600)}
)


async def _append(model: Naive, count: int, _: int) -> None:
    end = model.ends[-1]
    entries = [
        (places.place_of(end + n + 1), f"{model.thread.id} {len(model.versions)}.{n}") for n in range(count)
    ]
    await model.thread.append(items=[user(text) for _, text in entries])
    model.advance([*model.now(), *entries], count)


async def _pop(model: Naive, *_: int) -> None:
    item = await model.thread.log().pop()

    assert (item and (item.place, item.body["content"])) == (model.now()[-1] if model.now() else None)
    if item:
        model.advance(model.now()[:-1])


async def _clear(model: Naive, *_: int) -> None:
    if await model.thread.log().clear():
        model.advance([])


async def _compact(model: Naive, keep: int, count: int) -> None:
    version = len(model.versions)
    texts = [f"summary {version}.{n}" for n in range(count)]
    try:
        await model.thread.log().compact([user(text) for text in texts], keep=keep)
    except InvalidInput:
        return
    prefix = model.now()[: len(model.now()) - keep]
    suffix = model.now()[len(prefix) :]
    window = [*((prefix[-1][0] + 1 + n, text) for n, text in enumerate(texts)), *suffix]
    if (await model.thread.items(first=1))[0].place == window[0][0]:
        model.advance(window)
    else:  # there was no room: all of it stands at the end
        entries = enumerate([*texts, *(text for _, text in suffix)], start=model.ends[-1] + 1)
        model.advance([(places.place_of(n), text) for n, text in entries], count + len(suffix))


async def _insert(model: Naive, number: int, offset: int) -> None:
    entry = (places.place_of(number) + offset, f"between {len(model.versions)}")
    try:
        await model.thread.append(items=[Item(body={"content": entry[1]}, place=entry[0])])
    except InvalidInput:
        return
    model.advance([*model.now(), entry])


STEPS: dict[str, Callable[..., object]] = {
    "append": _append,
    "pop": _pop,
    "clear": _clear,
    "compact": _compact,
    "insert": _insert,
}


async def run_commands(life: list[tuple[int, tuple[str, int, int]]]) -> list[Naive]:
    """Threads that went through some commands, each beside its model."""
    db = Database(MemoryStore())
    models = [Naive(await db.create("root"))]
    for which, (name, first, second) in life:
        model = models[which % len(models)]
        if name == "fork":
            at = first % len(model.versions)
            fork = await model.thread.fork(f"fork {len(models)}", at=at)
            models.append(Naive(fork, model.versions[: at + 1], model.ends[: at + 1]))
        else:
            await STEPS[name](model, first, second)  # type: ignore[misc]
    return models


def naive_window(visible: list[Entry], query: dict[str, int]) -> list[Entry]:
    """What a window should hold."""
    between = [e for e in visible if query.get("after", -1) < e[0] < query.get("before", 1 << 32)]
    if "last" in query:
        return between[max(len(between) - query["last"], 0) :]
    return between[: query["first"]] if "first" in query else between


@pytest.mark.promise("S-01", "S-03", "B-03", "T-13")
@settings(deadline=None, max_examples=80)
@given(
    life=st.lists(st.tuples(st.integers(0, 3), commands), min_size=3, max_size=24),
    queries=st.lists(queries, min_size=1, max_size=4),
    batch=st.integers(1, 4),
)
def test_windows_are_what_a_naive_reader_sees(
    life: list[tuple[int, tuple[str, int, int]]], queries: list[dict[str, int]], batch: int
) -> None:
    async def check() -> None:
        for model in await run_commands(life):
            assert (await model.thread.head()).length() == len(model.now())
            for version, visible in enumerate(model.versions):
                for query in [{}, *queries]:
                    window = await model.thread.items(at=version, **query)  # type: ignore[arg-type]
                    entries = [(item.place, item.body["content"]) for item in window]
                    assert entries == naive_window(visible, query)
            assert (await model.thread.verify()).problems == ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "ROWS_PER_QUESTION", batch)
        asyncio.run(check())
