"""The archive: threads as lines of JSON, the same for every store. Made and read here; moved elsewhere.

A header, then for each thread an opening line, a line per changeset and a closing line, then a line for each
record and each file if there are any, and a last line with the totals. Bodies that are canonical JSON are
written as JSON, any others as base64. Nothing in it names a store, a tenant or the moment of writing, so the
same threads always make the same archive.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from clew.core.encoding import JSON, check_id, decode, encode
from clew.core.errors import (
    ArchiveInvalid,
    ClewError,
    InvalidArgument,
    InvalidId,
    StoreDamaged,
)
from clew.core.log import chain, places
from clew.core.log.codec import envelope_of, meta_of
from clew.core.log.reader import check_chain, in_append_order
from clew.core.log.rows import (
    ChangesetRow,
    ChangesetRows,
    ItemRow,
    Segment,
    ThreadRow,
)
from clew.core.values import Counters, Record

FORMAT = 1
NonNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""A number that every store can keep."""


class _TaggedLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="clew",
):
    """One line; its key ``clew`` says which."""


class HeaderLine(_TaggedLine, frozen=True, kw_only=True, tag="archive"):
    """The first line."""

    format: int


class Ancestor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thread that the archived one was forked from, and up to which version it shares its life."""

    id: str
    owner: str | None
    created: NonNegative
    upto: NonNegative


class ThreadLine(_TaggedLine, frozen=True, kw_only=True, tag="thread"):
    """The first line of a thread: all of it but its changesets."""

    id: str
    owner: str | None
    created: NonNegative
    ancestors: tuple[Ancestor, ...] = ()
    title: str | None = None
    labels: tuple[str, ...] = ()


class ArchiveItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An item, with its body as JSON, as base64, or only its commitment once it was erased."""

    log: str
    place: NonNegative
    meta: Raw
    body: Raw | UnsetType = UNSET
    base64: bytes | None = None
    salt: bytes | None = None
    erased: bytes | None = None


class ChangesetLine(_TaggedLine, frozen=True, kw_only=True, tag="changeset"):
    """A changeset with its items. Where its content was erased, the state after it is given instead."""

    version: NonNegative
    time: NonNegative
    envelope: Raw
    content: Raw | UnsetType = UNSET
    state: Raw | UnsetType = UNSET
    salt: bytes | None = None
    erased: bytes | None = None
    items: tuple[ArchiveItem, ...] = ()
    hash: str


class ThreadEndLine(_TaggedLine, frozen=True, kw_only=True, tag="end"):
    """The end of a thread: its head, and the checksum of its lines before this one."""

    id: str
    version: NonNegative
    hash: str
    sha256: str


class RecordLine(_TaggedLine, frozen=True, kw_only=True, tag="record"):
    """A record beside the threads, and the checksum of it; its revision is its store's own."""

    kind: str
    id: str
    owner: str | None = None
    tags: tuple[str, ...] = ()
    sort: int = 0
    body: Raw
    sha256: str


class FileLine(_TaggedLine, frozen=True, kw_only=True, tag="file"):
    """A file of an owner's part of a volume, and the checksum of what it holds."""

    owner: str
    path: str
    base64: bytes
    sha256: str


class TotalLine(_TaggedLine, frozen=True, kw_only=True, tag="total"):
    """The last line: how much the archive holds."""

    threads: NonNegative = 0
    changesets: NonNegative = 0
    items: NonNegative = 0
    records: NonNegative = 0
    files: NonNegative = 0


class ArchivedThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as an archive holds it, whole and checked; ``line`` is where it begins."""

    row: ThreadRow
    log: list[ChangesetRows]
    states: dict[int, bytes]
    line: int


ArchiveLine: TypeAlias = (
    HeaderLine | ThreadLine | ChangesetLine | ThreadEndLine | RecordLine | FileLine | TotalLine
)

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(ArchiveLine)


# Writing.


def encode_line(line: ArchiveLine) -> bytes:
    """Encode a line as an archive holds it."""
    return _encoder.encode(line) + b"\n"


def decode_line(data: bytes) -> ArchiveLine:
    """Decode a line of an archive.

    Raises:
        msgspec.MsgspecError: It is none.
    """
    line: ArchiveLine = _decoder.decode(data)
    return line


def thread_line(row: ThreadRow) -> ThreadLine:
    """The opening line of a thread; its ancestors go with it, without a store's own keys."""
    return ThreadLine(
        id=row.id,
        owner=row.owner,
        created=row.created,
        ancestors=tuple(
            Ancestor(id=segment.id, owner=segment.owner, created=segment.created, upto=segment.upto)
            for segment in row.segments
        ),
        title=row.title,
        labels=row.labels,
    )


def changeset_line(change: ChangesetRow, items: Iterable[ItemRow], state: JSON | None) -> ChangesetLine:
    """The line of a changeset; ``state`` is the one after it, given only if its content was erased."""
    return ChangesetLine(
        version=change.version,
        time=change.time,
        envelope=_raw_json(change.envelope),
        content=UNSET if change.content is None else _raw_json(change.content),
        state=UNSET if state is None else Raw(encode(state)),
        salt=change.salt,
        erased=change.erased,
        items=tuple(map(_archive_item, items)),
        hash=change.hash.hex(),
    )


def record_line(record: Record) -> RecordLine:
    """The line of a record."""
    return RecordLine(
        kind=record.kind,
        id=record.id,
        owner=record.owner,
        tags=record.tags,
        sort=record.sort,
        body=Raw(encode(record.body)),
        sha256=_checksum(record),
    )


def file_line(owner: str, path: str, content: bytes) -> FileLine:
    """The line of a file."""
    return FileLine(owner=owner, path=path, base64=content, sha256=sha256(content).hexdigest())


def _checksum(record: Record) -> str:
    fields = [record.kind, record.id, record.owner, list(record.tags), record.sort, record.body]
    return sha256(encode(fields)).hexdigest()


def _archive_item(row: ItemRow) -> ArchiveItem:
    is_json = row.body is not None and _is_canonical(row.body)
    return ArchiveItem(
        log=row.log,
        place=row.place,
        meta=_raw_json(row.meta),
        body=Raw(row.body) if row.body is not None and is_json else UNSET,
        base64=None if is_json else row.body,
        salt=row.salt,
        erased=row.erased,
    )


def _raw_json(data: bytes) -> Raw:
    if not _is_canonical(data):
        raise StoreDamaged(store="a stored changeset", problem="a part of it that must be JSON is not")
    return Raw(data)


def _is_canonical(data: bytes) -> bool:
    try:
        return encode(decode(data)) == data
    except StoreDamaged:
        return False


# Reading.


class ArchiveReader:
    """Takes an archive line by line, and gives back threads once they are whole, records and files."""

    def __init__(self) -> None:
        self._number = 0
        self._has_header = False
        self._has_total = False
        self._thread: _PartialThread | None = None
        self._counts = Counter[str]()

    @property
    def line(self) -> int:
        """The number of the line that was taken last."""
        return self._number

    def feed(self, line: bytes) -> ArchivedThread | Record | FileLine | None:
        """The thread that ends with this line, if one does, or the record or file that it is.

        Raises:
            ArchiveInvalid: The line does not belong here.
        """
        self._number += 1
        try:
            return self._read_line(line)
        except ArchiveInvalid:
            raise
        except (ClewError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._error(f"it is not what an archive holds there ({error})") from error

    def finish(self) -> TotalLine:
        """The totals of the whole archive.

        Raises:
            ArchiveInvalid: It ended too early.
        """
        if not self._has_header:
            raise self._error("it is empty")
        if not self._has_total:
            raise self._error("the archive ends here, before its last line; it was cut short")
        return self._total()

    def _read_line(self, data: bytes) -> ArchivedThread | Record | FileLine | None:
        if not self._has_header:
            self._read_header(data)
            return None
        match decode_line(data):
            case ThreadLine() as line if self._thread is None and not self._has_total:
                self._thread = _PartialThread(line, self._number)
            case ChangesetLine() as line if self._thread is not None:
                self._thread.add(line)
                self._counts["changesets"] += 1
                self._counts["items"] += len(line.items)
            case ThreadEndLine() as line if self._thread is not None:
                thread, self._thread = self._thread, None
                self._counts["threads"] += 1
                return thread.finish(line)
            case RecordLine() as line if self._thread is None and not self._has_total:
                self._counts["records"] += 1
                return self._read_record(line)
            case FileLine() as line if self._thread is None and not self._has_total:
                self._counts["files"] += 1
                return self._read_file(line)
            case TotalLine() as line if self._thread is None and not self._has_total:
                self._read_total(line)
                return None
            case _:
                raise self._error("the line does not belong there")
        self._thread.digest.update(data.rstrip(b"\n") + b"\n")
        return None

    def _read_record(self, line: RecordLine) -> Record:
        record = _record_from(line)
        if line.sha256 != _checksum(record):
            raise self._error("the record was altered")
        return record

    def _read_file(self, line: FileLine) -> FileLine:
        check_id(line.owner, "owner")
        if line.sha256 != sha256(line.base64).hexdigest():
            raise self._error(f"the file {line.path!r} was altered")
        return line

    def _read_header(self, data: bytes) -> None:
        try:
            header = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._error("it is not an archive of Clew") from error
        if header.get("clew") != "archive" or not isinstance(header.get("format"), int):
            raise self._error("it is not an archive of Clew")
        if header["format"] != FORMAT:
            number = header["format"]
            raise self._error(f"it has format {number}, and this release reads {FORMAT}; upgrade Clew")
        self._has_header = True

    def _read_total(self, line: TotalLine) -> None:
        if line != self._total():
            raise self._error("the totals are not those of the lines before")
        self._has_total = True

    def _total(self) -> TotalLine:
        return TotalLine(**self._counts)

    def _error(self, problem: str) -> ArchiveInvalid:
        return ArchiveInvalid(line=self._number, problem=problem)


class _PartialThread:
    """A thread of which some lines were taken. The chain is checked line by line."""

    def __init__(self, line: ThreadLine, number: int) -> None:
        self.digest = sha256()
        self._first_line = number
        self._row = _thread_row(line)
        self._log: list[ChangesetRows] = []
        self._states: dict[int, bytes] = {}
        self._hash = chain.start_hash(chain.segments_of(self._row)[0], None, b"")

    def add(self, line: ChangesetLine) -> None:
        """Take one more changeset."""
        change = _changeset_row(line)
        items = [_item_row(entry, line.version, line.time) for entry in line.items]
        in_order = sorted(items, key=lambda item: (item.log, item.place))
        self._hash, problems = check_chain(
            self._row, [ChangesetRows(change, in_order)], self._hash, len(self._log)
        )
        if problems:
            raise self._error(len(self._log) + 1, problems[0])
        if not isinstance(line.state, UnsetType):
            self._states[line.version] = bytes(line.state)
        self._log.append(ChangesetRows(change, _check_items(change, in_order)))

    def finish(self, line: ThreadEndLine) -> ArchivedThread:
        """The whole thread."""
        end = len(self._log)
        if (line.id, line.version) != (self._row.id, end):
            raise self._error(end + 1, "changesets before the thread's end are missing")
        if self._row.segments and end < self._row.segments[-1].upto:
            raise self._error(end + 1, "the thread ends before the version it was forked at")
        head_hash = chain.head_hash(self._row, end, self._hash).hex()
        if line.sha256 != self.digest.hexdigest() or line.hash != head_hash:
            raise self._error(end + 1, "the thread's lines were altered")
        return ArchivedThread(row=self._row, log=self._log, states=self._states, line=self._first_line)

    def _error(self, version: int, problem: str) -> ArchiveInvalid:
        return ArchiveInvalid(line=self._first_line + version, problem=problem)


def _thread_row(line: ThreadLine) -> ThreadRow:
    """A thread's row before its first changeset."""
    for id in (line.id, *(ancestor.id for ancestor in line.ancestors)):
        check_id(id, "thread id")
    if line.owner is not None:
        check_id(line.owner, "owner")
    uptos = [ancestor.upto for ancestor in line.ancestors]
    if any(before >= after for before, after in pairwise(uptos)):
        raise InvalidId(what="lineage", problem="its versions do not grow")
    return ThreadRow(
        key=None,
        id=line.id,
        owner=line.owner,
        created=line.created,
        updated=line.created,
        version=0,
        hash=b"",
        counters=Counters(),
        segments=tuple(Segment(None, a.upto, a.id, a.owner, a.created) for a in line.ancestors),
        title=line.title,
        labels=line.labels,
    )


def _record_from(line: RecordLine) -> Record:
    return Record(
        kind=line.kind,
        id=line.id,
        owner=line.owner,
        tags=line.tags,
        sort=line.sort,
        body=decode(bytes(line.body)),
    )


def _changeset_row(line: ChangesetLine) -> ChangesetRow:
    return ChangesetRow(
        version=line.version,
        time=line.time,
        envelope=bytes(line.envelope),
        content=None if isinstance(line.content, UnsetType) else bytes(line.content),
        salt=line.salt,
        hash=bytes.fromhex(line.hash),
        counters=Counters(),
        erased=line.erased,
    )


def _item_row(entry: ArchiveItem, version: int, time: int) -> ItemRow:
    row = ItemRow(
        log=check_id(entry.log, "log name"),
        place=entry.place,
        version=version,
        meta=bytes(entry.meta),
        body=entry.base64 if isinstance(entry.body, UnsetType) else bytes(entry.body),
        salt=entry.salt,
        erased=entry.erased,
        time=time,
    )
    return msgspec.structs.replace(row, id=meta_of(row).id)


def _check_items(change: ChangesetRow, items: Sequence[ItemRow]) -> list[ItemRow]:
    """A changeset's items in the order they were appended in, if they are those that it names."""
    ranges = envelope_of(change).items
    if sum(run.count for run in ranges) == len(items):
        positions = [
            (run.log, places.last_place(run.first, n + 1)) for run in ranges for n in range(run.count)
        ]
        if sorted(positions) == [(item.log, item.place) for item in items]:
            return in_append_order(change, items)
    raise InvalidArgument(problem="the items are not those that the changeset names")
