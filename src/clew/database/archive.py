"""Moving threads, and records and files beside them, out and in: an archive written and read line by line."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec

from clew.core.archive import format as archive_format
from clew.core.archive.admission import plan_record
from clew.core.archive.format import (
    Archived,
    Closing,
    File,
    Header,
    Total,
    beside_of,
    file_of,
    line_of,
    opening_of,
    step_of,
)
from clew.core.archive.restore import plan_restore
from clew.core.encoding import JSON
from clew.core.errors import (
    ArchiveInvalid,
    ClewError,
    Forbidden,
    InvalidInput,
    RevisionConflict,
    StoreDamaged,
    ThreadExists,
    VolumeFileChanged,
)
from clew.core.log import chain
from clew.core.log import reader as log_reader
from clew.core.log.checks import made_ready
from clew.core.log.rows import (
    AskRecords,
    AskRecordsOf,
    AskThreads,
    ChangesetRow,
    ItemRow,
    ThreadRow,
    Unreadable,
    ask,
)
from clew.core.ports import Files, OwnedFile, Store
from clew.core.values import ERASED, Put, Record, RecordQuery, Scope

BATCH = 64
PAGE = 256


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """How far a thread has been moved. Its hash is given when it is done."""

    thread: str
    version: int
    of: int
    hash: str | None = None
    skipped: bool = False


Told: TypeAlias = Callable[[Passed], None]
"""Who is told how far it has come."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import has done; ``total`` is what the archive held.

    ``records`` and ``files`` say how many of them were taken in.
    """

    threads: tuple[Passed, ...]
    skipped: tuple[str, ...]
    total: Total
    records: int = 0
    files: int = 0


def _nobody(passed: Passed) -> None:
    """Nobody is told."""


async def export_threads(
    store: Store,
    scope: Scope,
    ids: Sequence[str] | None = None,
    *,
    kinds: Sequence[str] = (),
    files: Files | None = None,
    told: Told = _nobody,
) -> AsyncIterator[bytes]:
    """The lines of an archive of some threads, or of all: each as it stood when its turn came.

    Records of some ``kinds`` go with them. With the scope of a user it is an archive of what is theirs; from
    ``files`` all of theirs go with them then.

    Raises:
        ThreadNotFound: One of the threads asked for is not there.
        StoreDamaged: A thread does not stand on its chain; what came before is no archive without its end.
    """
    named = None
    if ids is not None:
        named = [await store.read(scope, log_reader.read_thread(id)) for id in dict.fromkeys(ids)]
    yield line_of(Header(format=archive_format.FORMAT))
    threads = changesets = items = 0
    async for row in _every(store, scope) if named is None else _each(named):
        async for line, born in _lines(store, scope, row, told):
            items += born
            yield line
        threads, changesets = threads + 1, changesets + row.version
    records = 0
    async for record in _beside(store, scope, kinds):
        yield line_of(beside_of(record))
        records += 1
    count = 0
    async for line in _files(files, scope):
        yield line
        count += 1
    total = Total(threads=threads, changesets=changesets, items=items, records=records, files=count)
    yield line_of(total)


async def kinds_of(store: Store, scope: Scope, owner: str, without: Sequence[str]) -> list[str]:
    """The kinds of the records that belong to an owner, but for some."""
    kinds: list[str] = []
    while found := await store.read(scope, ask(AskRecordsOf(owner, (*without, *kinds), 1))):
        kinds.append(found[0].kind)
    return kinds


async def _each(rows: Sequence[ThreadRow]) -> AsyncIterator[ThreadRow]:
    for row in rows:
        yield row


async def _every(store: Store, scope: Scope) -> AsyncIterator[ThreadRow]:
    before: tuple[int, str] | None = None
    while rows := await store.read(scope, ask(AskThreads(None, before, PAGE))):
        for row in rows:
            if isinstance(row, Unreadable):
                raise StoreDamaged(store=f"Thread {row.id!r}", problem=row.problem)
            yield row
        before = (rows[-1].created, rows[-1].id)


async def _beside(store: Store, scope: Scope, kinds: Sequence[str]) -> AsyncIterator[Record]:
    """The records of some kinds, each kind in its own order."""
    for kind in dict.fromkeys(kinds):
        query = RecordQuery(kind=kind, limit=PAGE)
        while found := await store.read(scope, ask(AskRecords(query))):
            for record in found:
                yield record
            query = msgspec.structs.replace(query, after=(found[-1].sort, found[-1].id))


async def _files(files: Files | None, scope: Scope) -> AsyncIterator[bytes]:
    """The lines of all files of a user."""
    if files is not None and scope.user is not None:
        async for file in files.of_owner(scope.tenant, scope.user):
            yield line_of(file_of(scope.user, file.path, file.content))


async def _lines(store: Store, scope: Scope, row: ThreadRow, told: Told) -> AsyncIterator[tuple[bytes, int]]:
    """The lines of one thread, each with the number of its items. What is written was checked."""
    lines = sha256()
    opening = line_of(opening_of(row))
    lines.update(opening)
    yield opening, 0
    version, hash = 0, chain.start_of(chain.segments_of(row)[0], None, b"")
    while version < row.version:
        batch = await store.read(scope, log_reader.read_log(row, version, None, BATCH))
        hash = _checked(row, batch, hash, version)
        for change, items in batch:
            state = await _state_after(store, scope, row, change)
            line = line_of(step_of(change, items, state))
            lines.update(line)
            yield line, len(items)
        version = batch[-1][0].version
        told(Passed(thread=row.id, version=version, of=row.version))
    if archive_format.end_hash(row, row.version, hash) != row.hash:
        raise StoreDamaged(
            store=f"Thread {row.id!r}", problem="its head does not stand on its last changeset"
        )
    closing = Closing(id=row.id, version=row.version, hash=row.hash.hex(), sha256=lines.hexdigest())
    yield line_of(closing), 0
    told(Passed(thread=row.id, version=row.version, of=row.version, hash=row.hash.hex()))


def _checked(
    row: ThreadRow, batch: list[tuple[ChangesetRow, list[ItemRow]]], hash: bytes, version: int
) -> bytes:
    """The hash after some changesets that were read, if they are whole."""
    if not batch:
        raise StoreDamaged(store=f"Thread {row.id!r}", problem=f"version {version + 1} is missing")
    hash, problems = log_reader.check_log(row, batch, hash, version)
    if problems:
        raise StoreDamaged(store=f"Thread {row.id!r}", problem=problems[0])
    return hash


async def _state_after(store: Store, scope: Scope, row: ThreadRow, change: ChangesetRow) -> JSON:
    """The state after a changeset whose content was erased: nothing else leads there any more."""
    if change.erased is None:
        return None
    try:
        state = await store.read(scope, log_reader.read_state(row, change.version))
    except ClewError:
        return None  # nothing leads there in the store either
    return None if ERASED in state else state


async def import_threads(
    store: Store,
    scope: Scope,
    lines: AsyncIterable[bytes],
    *,
    files: Files | None = None,
    skip_existing: bool = False,
    told: Told = _nobody,
) -> Imported:
    """Take in the threads of an archive, each whole or not at all, and the records beside them.

    Its files are taken in if there is somewhere to keep them. With the scope of a user only what is theirs is
    taken in; records that a user cannot bring, and those without their thread, are passed over.

    Raises:
        ArchiveInvalid: A line is damaged, or the archive was cut short; threads before it were taken in.
        ThreadExists: A thread of that id is there already.
        RevisionConflict: A record of that kind and id is there already.
        VolumeFileChanged: Another file is there already.
        Forbidden: A file is another user's.
    """
    reader = archive_format.Reader()
    done: list[Passed] = []
    records = kept = 0
    async for line in lines:
        match reader.take(line):
            case Archived() as archived:
                done.append(await _taken_in(store, scope, archived, skip_existing=skip_existing))
                told(done[-1])
            case Record() as record:
                records += await _put(store, scope, record, reader.line, skip_existing=skip_existing)
            case File() as file if files is not None:
                kept += await _kept(files, scope, file, reader.line, skip_existing=skip_existing)
    total = reader.finish()
    return Imported(
        threads=tuple(passed for passed in done if not passed.skipped),
        skipped=tuple(passed.thread for passed in done if passed.skipped),
        total=total,
        records=records,
        files=kept,
    )


async def _kept(files: Files, scope: Scope, line: File, number: int, *, skip_existing: bool) -> bool:
    """Keep a file of an archive; whether it was taken in."""
    if scope.user not in (None, line.owner):
        raise Forbidden(problem="A file of the archive belongs to another user.")
    try:
        await files.keep(scope.tenant, line.owner, OwnedFile(path=line.path, content=line.base64))
    except VolumeFileChanged:
        if not skip_existing:
            raise
        return False
    except InvalidInput as error:
        raise ArchiveInvalid(line=number, problem=str(error).rstrip(".")) from error
    return True


async def _put(store: Store, scope: Scope, record: Record, line: int, *, skip_existing: bool) -> bool:
    """Write a record of an archive; whether it is new, and was not passed over."""
    write = Put(record=record, expect=0)
    try:
        made_ready(write, store.limits)
        plan = await store.change(scope, lambda setting: plan_record(write, setting))
    except RevisionConflict:
        if not skip_existing:
            raise
        return False
    except InvalidInput as error:
        raise ArchiveInvalid(line=line, problem=str(error).rstrip(".")) from error
    return bool(plan.effects)


async def _taken_in(store: Store, scope: Scope, archived: Archived, *, skip_existing: bool) -> Passed:
    id, version = archived.row.id, len(archived.log)
    try:
        plan = await store.change(scope, lambda setting: plan_restore(archived, setting))
    except ThreadExists:
        if not skip_existing:
            raise
        return Passed(thread=id, version=version, of=version, skipped=True)
    except (InvalidInput, msgspec.MsgspecError) as error:
        raise ArchiveInvalid(line=archived.line, problem=str(error).rstrip(".")) from error
    known = plan.known[id]
    assert known is not None
    return Passed(thread=id, version=version, of=version, hash=known.row.hash.hex())
