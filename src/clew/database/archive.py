"""Moving threads, and records and files beside them, out and in: an archive written and read line by line."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec

from clew.core.archive import format as archive_format
from clew.core.archive.admission import plan_record_import
from clew.core.archive.format import (
    ArchivedThread,
    FileLine,
    HeaderLine,
    ThreadEndLine,
    TotalLine,
    changeset_line,
    encode_line,
    file_line,
    record_line,
    thread_line,
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
from clew.core.log.checks import prepare_write
from clew.core.log.rows import (
    AskRecords,
    AskRecordsOfOwner,
    ChangesetRow,
    ChangesetRows,
    ThreadRow,
    UnreadableThread,
    ask,
)
from clew.core.ports import Files, OwnedFile, Store
from clew.core.values import ERASED_KEY, Put, Record, RecordQuery, Scope
from clew.database.inventory import all_threads

CHANGESETS_PER_BATCH = 64
ROWS_PER_PAGE = 256


class ThreadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a thread that is moved. Its hash is given when it is done."""

    thread: str
    version: int
    of: int
    hash: str | None = None
    skipped: bool = False


ProgressListener: TypeAlias = Callable[[ThreadProgress], None]
"""A function that is called with the progress of each thread."""


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import; ``total`` is what the archive held.

    ``records`` and ``files`` say how many of them were taken in.
    """

    threads: tuple[ThreadProgress, ...]
    skipped: tuple[str, ...]
    total: TotalLine
    records: int = 0
    files: int = 0


def _ignore_progress(progress: ThreadProgress) -> None:
    """Do nothing with the progress."""


async def export_threads(
    store: Store,
    scope: Scope,
    ids: Sequence[str] | None = None,
    *,
    kinds: Sequence[str] = (),
    files: Files | None = None,
    notify: ProgressListener = _ignore_progress,
) -> AsyncIterator[bytes]:
    """The lines of an archive of some threads, or of all: each as it stood when its turn came.

    Records of some ``kinds`` go with them. With the scope of a user it is an archive of what is theirs; from
    ``files`` all of theirs go with them then.

    Raises:
        ThreadNotFound: One of the threads asked for is not there.
        StoreDamaged: A thread does not follow its chain; what came before is no archive without its end.
    """
    rows = None
    if ids is not None:
        rows = [await store.read(scope, log_reader.read_thread(id)) for id in dict.fromkeys(ids)]
    yield encode_line(HeaderLine(format=archive_format.FORMAT))
    threads = changesets = items = 0
    async for row in _all_threads(store, scope) if rows is None else _iterate(rows):
        async for line, item_count in _thread_lines(store, scope, row, notify):
            items += item_count
            yield line
        threads, changesets = threads + 1, changesets + row.version
    records = 0
    async for record in _records_of_kinds(store, scope, kinds):
        yield encode_line(record_line(record))
        records += 1
    file_count = 0
    async for line in _file_lines(files, scope):
        yield line
        file_count += 1
    total = TotalLine(threads=threads, changesets=changesets, items=items, records=records, files=file_count)
    yield encode_line(total)


async def record_kinds(store: Store, scope: Scope, owner: str, without: Sequence[str]) -> list[str]:
    """The kinds of the records that belong to an owner, but for some."""
    kinds: list[str] = []
    while records := await store.read(scope, ask(AskRecordsOfOwner(owner, (*without, *kinds), 1))):
        kinds.append(records[0].kind)
    return kinds


async def _iterate(rows: Sequence[ThreadRow]) -> AsyncIterator[ThreadRow]:
    for row in rows:
        yield row


async def _all_threads(store: Store, scope: Scope) -> AsyncIterator[ThreadRow]:
    async for row in all_threads(store, scope):
        if isinstance(row, UnreadableThread):
            raise StoreDamaged(store=f"Thread {row.id!r}", problem=row.problem)
        yield row


async def _records_of_kinds(store: Store, scope: Scope, kinds: Sequence[str]) -> AsyncIterator[Record]:
    """The records of some kinds, each kind in its own order."""
    for kind in dict.fromkeys(kinds):
        query = RecordQuery(kind=kind, limit=ROWS_PER_PAGE)
        while records := await store.read(scope, ask(AskRecords(query))):
            for record in records:
                yield record
            query = msgspec.structs.replace(query, after=(records[-1].sort, records[-1].id))


async def _file_lines(files: Files | None, scope: Scope) -> AsyncIterator[bytes]:
    """The lines of all files of a user."""
    if files is not None and scope.user is not None:
        async for file in files.files_of(scope.tenant, scope.user):
            yield encode_line(file_line(scope.user, file.path, file.content))


async def _thread_lines(
    store: Store, scope: Scope, row: ThreadRow, notify: ProgressListener
) -> AsyncIterator[tuple[bytes, int]]:
    """The lines of one thread, each with the number of its items. What is written was checked."""
    digest = sha256()
    opening = encode_line(thread_line(row))
    digest.update(opening)
    yield opening, 0
    version, hash = 0, chain.start_hash(chain.segments_of(row)[0], None, b"")
    while version < row.version:
        batch = await store.read(
            scope, log_reader.read_changeset_rows(row, version, None, CHANGESETS_PER_BATCH)
        )
        hash = _check_batch(row, batch, hash, version)
        for change, items in batch:
            state = await _state_after(store, scope, row, change)
            line = encode_line(changeset_line(change, items, state))
            digest.update(line)
            yield line, len(items)
        version = batch[-1].change.version
        notify(ThreadProgress(thread=row.id, version=version, of=row.version))
    if chain.head_hash(row, row.version, hash) != row.hash:
        raise StoreDamaged(
            store=f"Thread {row.id!r}", problem="its head does not follow from its last changeset"
        )
    closing = ThreadEndLine(id=row.id, version=row.version, hash=row.hash.hex(), sha256=digest.hexdigest())
    yield encode_line(closing), 0
    notify(ThreadProgress(thread=row.id, version=row.version, of=row.version, hash=row.hash.hex()))


def _check_batch(row: ThreadRow, batch: list[ChangesetRows], hash: bytes, version: int) -> bytes:
    """The hash after some changesets that were read, if they are whole."""
    if not batch:
        raise StoreDamaged(store=f"Thread {row.id!r}", problem=f"version {version + 1} is missing")
    hash, problems = log_reader.check_chain(row, batch, hash, version)
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
    return None if ERASED_KEY in state else state


async def import_threads(
    store: Store,
    scope: Scope,
    lines: AsyncIterable[bytes],
    *,
    files: Files | None = None,
    skip_existing: bool = False,
    notify: ProgressListener = _ignore_progress,
) -> ImportResult:
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
    reader = archive_format.ArchiveReader()
    progress: list[ThreadProgress] = []
    records = file_count = 0
    async for line in lines:
        match reader.feed(line):
            case ArchivedThread() as thread:
                progress.append(await _import_thread(store, scope, thread, skip_existing=skip_existing))
                notify(progress[-1])
            case Record() as record:
                records += await _import_record(
                    store, scope, record, reader.line, skip_existing=skip_existing
                )
            case FileLine() as file if files is not None:
                file_count += await _import_file(files, scope, file, reader.line, skip_existing=skip_existing)
    total = reader.finish()
    return ImportResult(
        threads=tuple(entry for entry in progress if not entry.skipped),
        skipped=tuple(entry.thread for entry in progress if entry.skipped),
        total=total,
        records=records,
        files=file_count,
    )


async def _import_file(
    files: Files, scope: Scope, line: FileLine, number: int, *, skip_existing: bool
) -> bool:
    """Keep a file of an archive; return whether it was taken in."""
    if scope.user not in (None, line.owner):
        raise Forbidden(problem="A file of the archive belongs to another user.")
    try:
        await files.add(scope.tenant, line.owner, OwnedFile(path=line.path, content=line.base64))
    except VolumeFileChanged:
        if not skip_existing:
            raise
        return False
    except InvalidInput as error:
        raise ArchiveInvalid(line=number, problem=str(error).rstrip(".")) from error
    return True


async def _import_record(
    store: Store, scope: Scope, record: Record, line: int, *, skip_existing: bool
) -> bool:
    """Write a record of an archive; return whether it is new, and was not passed over."""
    write = Put(record=record, expect=0)
    try:
        prepare_write(write, store.limits)
        plan = await store.change(scope, lambda context: plan_record_import(write, context))
    except RevisionConflict:
        if not skip_existing:
            raise
        return False
    except InvalidInput as error:
        raise ArchiveInvalid(line=line, problem=str(error).rstrip(".")) from error
    return bool(plan.writes)


async def _import_thread(
    store: Store, scope: Scope, thread: ArchivedThread, *, skip_existing: bool
) -> ThreadProgress:
    id, version = thread.row.id, len(thread.log)
    try:
        plan = await store.change(scope, lambda context: plan_restore(thread, context))
    except ThreadExists:
        if not skip_existing:
            raise
        return ThreadProgress(thread=id, version=version, of=version, skipped=True)
    except (InvalidInput, msgspec.MsgspecError) as error:
        raise ArchiveInvalid(line=thread.line, problem=str(error).rstrip(".")) from error
    head = plan.heads[id]
    assert head is not None
    return ThreadProgress(thread=id, version=version, of=version, hash=head.row.hash.hex())
