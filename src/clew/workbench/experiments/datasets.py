"""Data sets: examples made from threads or brought in, kept as records that go with whom they are about."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import as_json
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
    EXAMPLE_KIND,
    Example,
    check_name,
    example_of,
    example_record,
    examples_of,
)

DATASET_KIND: Final = "data set"
BATCH_SIZE, ROWS_PER_PAGE = 100, 500
MOST_HITS = 1000
"""How many places a search for threads looks at."""


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A data set. ``added`` counts what was ever put into it; some of that may be erased since."""

    name: str
    created: int
    added: int = 0
    owner: str | None = None
    revision: int = 0


class ExampleSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of turns to become examples: the threads, the first version, and the context before each."""

    threads: tuple[str, ...] = ()
    label: str | None = None
    search: str | None = None
    owner: str | None = None
    from_version: int = 0
    window: int = 20
    limit: int | None = None


class AdditionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of adding examples to a data set; those that it had already are ``known``."""

    dataset: Dataset
    added: int
    known: int = 0
    threads: int = 0


# Looking.


async def read_datasets(
    db: Database, *, limit: int = 100, after: tuple[int, str] | None = None
) -> list[Dataset]:
    """Data sets, the newest first."""
    query = RecordQuery(kind=DATASET_KIND, newest=True, limit=limit, after=after)
    return [_dataset_of(record) for record in await db.records.find(query)]


async def read_dataset(db: Database, name: str) -> Dataset:
    """A data set.

    Raises:
        RecordNotFound: There is none of this name.
    """
    return _dataset_of(await db.records.get(DATASET_KIND, name))


async def read_examples(
    db: Database, name: str, *, limit: int = ROWS_PER_PAGE, after: tuple[int, str] | None = None
) -> list[Example]:
    """Some examples of a data set, in order; ``after`` is the number and record id of the last one."""
    query = RecordQuery(kind=EXAMPLE_KIND, tags=(f"dataset:{name}",), limit=limit, after=after)
    return [example_of(record) for record in await db.records.find(query)]


@check_arguments
async def every_example(db: Database, name: str) -> AsyncIterator[Example]:
    """All examples of a data set, in order, read page by page."""
    after: tuple[int, str] | None = None
    while page := await read_examples(db, name, after=after):
        for example in page:
            yield example
        last = example_record(name, page[-1])
        after = (last.sort, last.id)


# Making.


@check_arguments
async def make_dataset(db: Database, name: str, selection: ExampleSelection, *, now: int) -> AdditionResult:
    """Make a data set from threads, or add to one. A turn becomes an example once, however often this runs.

    Raises:
        InvalidArgument: Nothing says which threads.
        ThreadNotFound: One that was named is not there.
    """
    ids = await select_threads(db, selection)
    examples: list[Example] = []
    for id in ids:
        left = None if selection.limit is None else selection.limit - len(examples)
        examples += islice(await _read_thread_examples(db, id, selection), left)
    result = await add_examples(db, name, examples, now=now)
    await _drop_orphans(db, name, examples)
    return msgspec.structs.replace(result, threads=len(ids))


async def select_threads(db: Database, selection: ExampleSelection) -> list[str]:
    """The threads of a choice: those that are named, and those that all of its other words fit."""
    ids = dict.fromkeys(selection.threads)
    if selection.search is not None or selection.label is not None or selection.owner is not None:
        ids |= dict.fromkeys(await _matching_threads(db, selection))
    elif not ids:
        raise InvalidArgument(problem="Say which threads: by id, by owner, by label, or by words in them.")
    return list(ids)


async def _matching_threads(db: Database, selection: ExampleSelection) -> list[str]:
    threads_with_words: set[str] | None = None
    if selection.search is not None:
        hits = await db.search(selection.search, owner=selection.owner, limit=MOST_HITS)
        threads_with_words = {hit.thread for hit in hits}
    ids: list[str] = []
    page = await db.threads(owner=selection.owner, limit=ROWS_PER_PAGE)
    while True:
        ids += [
            thread.id
            for thread in page.threads
            if selection.label in (None, *thread.labels)
            and (threads_with_words is None or thread.id in threads_with_words)
        ]
        if page.next is None:
            return ids
        page = await db.threads(owner=selection.owner, limit=ROWS_PER_PAGE, after=page.next)


async def _read_thread_examples(db: Database, id: str, selection: ExampleSelection) -> Iterator[Example]:
    thread = db.thread(id)
    head = await thread.head()
    items: list[Item] = []
    after: int | None = None
    while window := (await thread.items(first=ROWS_PER_PAGE, after=after, at=head.version)).items:
        items += window
        after = window[-1].place
    return examples_of(id, head.owner, items, since=selection.from_version, window=selection.window)


async def add_examples(db: Database, name: str, examples: Iterable[Example], *, now: int) -> AdditionResult:
    """Put examples into a data set, which is made if it is not there; those it has already stay as they are.

    Raises:
        InvalidArgument: The name is none, or an example would belong to another owner.
        RevisionConflict: Others added to it again and again.
    """
    check_name(name, "data set")
    examples_by_id = {example.id: example for example in examples}
    attempts = Attempts()
    while True:
        try:
            before = await _ensure_dataset(db, name, now)
            existing_ids = {example.id async for example in every_example(db, name)}
            new = [example for id, example in examples_by_id.items() if id not in existing_ids]
            dataset = await _add_batches(db, before, new)
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue  # another writer adds to it: some of these may be there now
        return AdditionResult(dataset=dataset, added=len(new), known=len(examples_by_id) - len(new))


async def _ensure_dataset(db: Database, name: str, now: int) -> Dataset:
    """A data set, which is made if it is not there.

    Raises:
        InvalidArgument: The name belongs to a data set of another owner.
    """
    with suppress(RecordNotFound):
        return await read_dataset(db, name)
    new = Dataset(name=name, created=now)
    return _dataset_of(await db.records.put(_dataset_record(new), expect=0))


async def _add_batches(db: Database, dataset: Dataset, new: Sequence[Example]) -> Dataset:
    """Add examples in batches, each together with the count of them all."""
    for start in range(0, len(new), BATCH_SIZE):
        batch = new[start : start + BATCH_SIZE]
        examples = [
            msgspec.structs.replace(example, number=number)
            for number, example in enumerate(batch, start=dataset.added)
        ]
        dataset_after = msgspec.structs.replace(dataset, added=dataset.added + len(batch))
        writes: list[Write] = [Put(record=_dataset_record(dataset_after), expect=dataset.revision)]
        writes += [Put(record=example_record(dataset.name, example), expect=0) for example in examples]
        record = (await db.commit(writes))[0]
        assert isinstance(record, Record)
        dataset = _dataset_of(record)
    return dataset


async def _drop_orphans(db: Database, name: str, examples: Iterable[Example]) -> None:
    """Take back examples of threads that were erased while they were read.

    An erasure removes threads first and records after them: either it finds what was just written, or the
    thread is gone already.
    """
    by_thread: dict[str, list[Example]] = {}
    for example in examples:
        if example.source is not None:
            by_thread.setdefault(example.source.thread, []).append(example)
    for thread, orphans in by_thread.items():
        try:
            await db.thread(thread).head()
        except ThreadNotFound:
            await _drop_records(db, [example_record(name, example) for example in orphans])


async def drop_dataset(db: Database, name: str) -> int:
    """Delete a data set with its examples; how many there were. Results of experiments stay.

    Raises:
        RecordNotFound: There is none of this name.
    """
    await read_dataset(db, name)
    count = 0
    query = RecordQuery(kind=EXAMPLE_KIND, tags=(f"dataset:{name}",), limit=ROWS_PER_PAGE)
    while records := await db.records.find(query):
        await _drop_records(db, records)
        count += len(records)
    await db.records.drop(DATASET_KIND, name)
    return count


async def _drop_records(db: Database, records: Sequence[Record]) -> None:
    await db.commit([Drop(kind=record.kind, id=record.id) for record in records])


def _dataset_record(dataset: Dataset) -> Record:
    body = {"created": dataset.created, "added": dataset.added}
    return Record(
        kind=DATASET_KIND, id=dataset.name, owner=dataset.owner, sort=dataset.created, body=as_json(body)
    )


def _dataset_of(record: Record) -> Dataset:
    attributes = {"name": record.id, "owner": record.owner, "revision": record.revision}
    try:
        return msgspec.convert({**record.body, **attributes}, Dataset)
    except (msgspec.ValidationError, TypeError) as error:
        raise StoreDamaged(store=f"data set {record.id!r}", problem=str(error)) from error
