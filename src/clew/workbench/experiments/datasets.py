"""Data sets: examples made from threads or brought in, kept as records that go with whom they are about."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import plain
from clew.core.errors import (
    InvalidArgument,
    RecordNotFound,
    RevisionConflict,
    StoreDamaged,
    ThreadNotFound,
)
from clew.core.values import Drop, Item, Put, Record, RecordQuery, Write
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.workbench.experiments.examples import (
    EXAMPLE,
    Example,
    checked_name,
    example_of,
    examples_of,
    record_of,
)

DATASET: Final = "data set"
BATCH, PAGE = 100, 500
FOUND_AT_MOST = 1000
"""How many places a search for threads looks at."""


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A data set. ``added`` counts what was ever put into it; some of that may be erased since."""

    name: str
    created: int
    added: int = 0
    owner: str | None = None
    revision: int = 0


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns become examples: of which threads, from which version on, with how much before them."""

    threads: tuple[str, ...] = ()
    label: str | None = None
    search: str | None = None
    owner: str | None = None
    from_version: int = 0
    window: int = 20
    limit: int | None = None


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What was put into a data set; examples that it had already are ``known``."""

    dataset: Dataset
    added: int
    known: int = 0
    threads: int = 0


# Looking.


async def datasets(db: Database, *, limit: int = 100, after: tuple[int, str] | None = None) -> list[Dataset]:
    """Data sets, the newest first."""
    query = RecordQuery(kind=DATASET, newest=True, limit=limit, after=after)
    return [_dataset_of(record) for record in await db.records.find(query)]


async def dataset(db: Database, name: str) -> Dataset:
    """A data set.

    Raises:
        RecordNotFound: There is none of this name.
    """
    return _dataset_of(await db.records.get(DATASET, name))


async def examples(
    db: Database, name: str, *, limit: int = PAGE, after: tuple[int, str] | None = None
) -> list[Example]:
    """Some examples of a data set, in order; ``after`` is the number and record id of the last one."""
    query = RecordQuery(kind=EXAMPLE, tags=(f"dataset:{name}",), limit=limit, after=after)
    return [example_of(record) for record in await db.records.find(query)]


@check_arguments
async def every_example(db: Database, name: str) -> AsyncIterator[Example]:
    """All examples of a data set, in order, read page by page."""
    after: tuple[int, str] | None = None
    while found := await examples(db, name, after=after):
        for example in found:
            yield example
        last = record_of(name, found[-1])
        after = (last.sort, last.id)


# Making.


@check_arguments
async def make_dataset(db: Database, name: str, choice: Choice, *, now: int) -> Made:
    """Make a data set from threads, or add to one. A turn becomes an example once, however often this runs.

    Raises:
        InvalidArgument: Nothing says which threads.
        ThreadNotFound: One that was named is not there.
    """
    ids = await chosen_threads(db, choice)
    found: list[Example] = []
    for id in ids:
        left = None if choice.limit is None else choice.limit - len(found)
        found += islice(await _examples_in(db, id, choice), left)
    made = await add_examples(db, name, found, now=now)
    await _drop_orphans(db, name, found)
    return msgspec.structs.replace(made, threads=len(ids))


async def chosen_threads(db: Database, choice: Choice) -> list[str]:
    """The threads of a choice: those that are named, and those that all of its other words fit."""
    ids = dict.fromkeys(choice.threads)
    if choice.search is not None or choice.label is not None or choice.owner is not None:
        ids |= dict.fromkeys(await _fitting(db, choice))
    elif not ids:
        raise InvalidArgument(problem="Say which threads: by id, by owner, by label, or by words in them.")
    return list(ids)


async def _fitting(db: Database, choice: Choice) -> list[str]:
    words: set[str] | None = None
    if choice.search is not None:
        found = await db.search(choice.search, owner=choice.owner, limit=FOUND_AT_MOST)
        words = {hit.thread for hit in found}
    fitting: list[str] = []
    page = await db.threads(owner=choice.owner, limit=PAGE)
    while True:
        fitting += [
            thread.id
            for thread in page.threads
            if choice.label in (None, *thread.labels) and (words is None or thread.id in words)
        ]
        if page.next is None:
            return fitting
        page = await db.threads(owner=choice.owner, limit=PAGE, after=page.next)


async def _examples_in(db: Database, id: str, choice: Choice) -> Iterator[Example]:
    thread = db.thread(id)
    head = await thread.head()
    items: list[Item] = []
    after: int | None = None
    while window := (await thread.items(first=PAGE, after=after, at=head.version)).items:
        items += window
        after = window[-1].place
    return examples_of(id, head.owner, items, since=choice.from_version, window=choice.window)


async def add_examples(db: Database, name: str, given: Iterable[Example], *, now: int) -> Made:
    """Put examples into a data set, which is made if it is not there; those it has already stay as they are.

    Raises:
        InvalidArgument: The name is none, or an example would belong to somebody else.
        RevisionConflict: Others added to it again and again.
    """
    checked_name(name, "data set")
    wanted = {example.id: example for example in given}
    attempts = Attempts()
    while True:
        try:
            before = await _header(db, name, now)
            known = {example.id async for example in every_example(db, name)}
            new = [example for id, example in wanted.items() if id not in known]
            into = await _added(db, before, new)
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue  # somebody else adds to it: some of these may be there now
        return Made(dataset=into, added=len(new), known=len(wanted) - len(new))


async def _header(db: Database, name: str, now: int) -> Dataset:
    """A data set, which is made if it is not there.

    Raises:
        InvalidArgument: The name belongs to a data set of somebody else.
    """
    with suppress(RecordNotFound):
        return await dataset(db, name)
    made = Dataset(name=name, created=now)
    return _dataset_of(await db.records.put(_record_of(made), expect=0))


async def _added(db: Database, into: Dataset, new: Sequence[Example]) -> Dataset:
    """Add examples in batches, each together with the count of them all."""
    for start in range(0, len(new), BATCH):
        batch = new[start : start + BATCH]
        numbered = [
            msgspec.structs.replace(example, number=number)
            for number, example in enumerate(batch, start=into.added)
        ]
        grown = msgspec.structs.replace(into, added=into.added + len(batch))
        writes: list[Write] = [Put(record=_record_of(grown), expect=into.revision)]
        writes += [Put(record=record_of(into.name, example), expect=0) for example in numbered]
        header = (await db.commit(writes))[0]
        assert isinstance(header, Record)
        into = _dataset_of(header)
    return into


async def _drop_orphans(db: Database, name: str, made: Iterable[Example]) -> None:
    """Take back examples of threads that were erased while they were read.

    An erasure removes threads first and records after them: either it finds what was just written, or the
    thread is gone already.
    """
    by_thread: dict[str, list[Example]] = {}
    for example in made:
        if example.source is not None:
            by_thread.setdefault(example.source.thread, []).append(example)
    for thread, orphans in by_thread.items():
        try:
            await db.thread(thread).head()
        except ThreadNotFound:
            await _dropped(db, [record_of(name, example) for example in orphans])


async def drop_dataset(db: Database, name: str) -> int:
    """Delete a data set with its examples; how many there were. Results of experiments stay.

    Raises:
        RecordNotFound: There is none of this name.
    """
    await dataset(db, name)
    count = 0
    query = RecordQuery(kind=EXAMPLE, tags=(f"dataset:{name}",), limit=PAGE)
    while found := await db.records.find(query):
        await _dropped(db, found)
        count += len(found)
    await db.records.drop(DATASET, name)
    return count


async def _dropped(db: Database, records: Sequence[Record]) -> None:
    await db.commit([Drop(kind=record.kind, id=record.id) for record in records])


def _record_of(told: Dataset) -> Record:
    body = {"created": told.created, "added": told.added}
    return Record(kind=DATASET, id=told.name, owner=told.owner, sort=told.created, body=plain(body))


def _dataset_of(record: Record) -> Dataset:
    told = {"name": record.id, "owner": record.owner, "revision": record.revision}
    try:
        return msgspec.convert({**record.body, **told}, Dataset)
    except (msgspec.ValidationError, TypeError) as error:
        raise StoreDamaged(store=f"data set {record.id!r}", problem=str(error)) from error
