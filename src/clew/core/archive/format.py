"""The archive: threads as lines of JSON, the same for every store. Made and read here; moved elsewhere.

A header, then for each thread an opening line, a line per changeset and a closing line, then a line for each
record and each file if there are any, and a last line with the totals. Bodies that are canonical JSON stand
as JSON, any others as base64. Nothing in it names a store, a tenant or the moment of writing, so the same
threads always make the same archive.
"""

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
from clew.core.log.reader import as_given, check_log
from clew.core.log.rows import (
    ChangesetRow,
    ItemRow,
    Segment,
    ThreadRow,
)
from clew.core.values import Counters, Record

FORMAT = 1
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""A number that every store can keep."""


class _Line(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="clew",
):
    """One line; its key ``clew`` says which."""


class Header(_Line, frozen=True, kw_only=True, tag="archive"):
    """The first line."""

    format: int


class Ancestor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thread that the archived one was forked from, and up to which version it shares its life."""

    id: str
    owner: str | None
    created: Whole
    upto: Whole


class Opening(_Line, frozen=True, kw_only=True, tag="thread"):
    """What a thread is."""

    id: str
    owner: str | None
    created: Whole
    ancestors: tuple[Ancestor, ...] = ()
    title: str | None = None
    labels: tuple[str, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An item, with its body as JSON, as base64, or only its commitment once it was erased."""

    log: str
    place: Whole
    meta: Raw
    body: Raw | UnsetType = UNSET
    base64: bytes | None = None
    salt: bytes | None = None
    erased: bytes | None = None


class Step(_Line, frozen=True, kw_only=True, tag="changeset"):
    """A changeset with its items. Where its content was erased, the state after it stands in for it."""

    version: Whole
    time: Whole
    envelope: Raw
    content: Raw | UnsetType = UNSET
    state: Raw | UnsetType = UNSET
    salt: bytes | None = None
    erased: bytes | None = None
    items: tuple[Entry, ...] = ()
    hash: str


class Closing(_Line, frozen=True, kw_only=True, tag="end"):
    """The end of a thread: its head, and the checksum of its lines before this one."""

    id: str
    version: Whole
    hash: str
    sha256: str


class Beside(_Line, frozen=True, kw_only=True, tag="record"):
    """A record beside the threads, and the checksum of it; its revision is its store's own."""

    kind: str
    id: str
    owner: str | None = None
    tags: tuple[str, ...] = ()
    sort: int = 0
    body: Raw
    sha256: str


class File(_Line, frozen=True, kw_only=True, tag="file"):
    """A file of an owner's part of a volume, and the checksum of what it holds."""

    owner: str
    path: str
    base64: bytes
    sha256: str


class Total(_Line, frozen=True, kw_only=True, tag="total"):
    """The last line: how much the archive holds."""

    threads: Whole = 0
    changesets: Whole = 0
    items: Whole = 0
    records: Whole = 0
    files: Whole = 0


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as an archive holds it, whole and checked; ``line`` is where it begins."""

    row: ThreadRow
    log: list[tuple[ChangesetRow, tuple[ItemRow, ...]]]
    states: dict[int, bytes]
    line: int


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Header | Opening | Step | Closing | Beside | File | Total)


# Writing.


def line_of(line: _Line) -> bytes:
    """A line as it stands in the archive."""
    return _encoder.encode(line) + b"\n"


def opening_of(row: ThreadRow) -> Opening:
    """The opening line of a thread; its ancestors go with it, without a store's own keys."""
    return Opening(
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


def step_of(change: ChangesetRow, items: Iterable[ItemRow], state: JSON | None) -> Step:
    """The line of a changeset; ``state`` is the one after it, given only if its content was erased."""
    return Step(
        version=change.version,
        time=change.time,
        envelope=_as_json(change.envelope),
        content=UNSET if change.content is None else _as_json(change.content),
        state=UNSET if state is None else Raw(encode(state)),
        salt=change.salt,
        erased=change.erased,
        items=tuple(map(_entry_of, items)),
        hash=change.hash.hex(),
    )


def beside_of(record: Record) -> Beside:
    """The line of a record."""
    return Beside(
        kind=record.kind,
        id=record.id,
        owner=record.owner,
        tags=record.tags,
        sort=record.sort,
        body=Raw(encode(record.body)),
        sha256=_checksum(record),
    )


def file_of(owner: str, path: str, content: bytes) -> File:
    """The line of a file."""
    return File(owner=owner, path=path, base64=content, sha256=sha256(content).hexdigest())


def _checksum(record: Record) -> str:
    said = [record.kind, record.id, record.owner, list(record.tags), record.sort, record.body]
    return sha256(encode(said)).hexdigest()


def _entry_of(row: ItemRow) -> Entry:
    readable = row.body is not None and _is_canonical(row.body)
    return Entry(
        log=row.log,
        place=row.place,
        meta=_as_json(row.meta),
        body=Raw(row.body) if row.body is not None and readable else UNSET,
        base64=None if readable else row.body,
        salt=row.salt,
        erased=row.erased,
    )


def _as_json(data: bytes) -> Raw:
    if not _is_canonical(data):
        raise StoreDamaged(store="a stored changeset", problem="a part of it that must be JSON is not")
    return Raw(data)


def _is_canonical(data: bytes) -> bool:
    try:
        return encode(decode(data)) == data
    except StoreDamaged:
        return False


# Reading.


class Reader:
    """Takes an archive line by line, and gives back threads once they are whole, records and files."""

    def __init__(self) -> None:
        self._number = 0
        self._begun = False
        self._ended = False
        self._thread: _Partial | None = None
        self._count = [0, 0, 0, 0, 0]

    @property
    def line(self) -> int:
        """The number of the line that was taken last."""
        return self._number

    def take(self, line: bytes) -> Archived | Record | File | None:
        """The thread that ends with this line, if one does, or the record or file that it is.

        Raises:
            ArchiveInvalid: The line does not belong where it stands.
        """
        self._number += 1
        try:
            return self._taken(line)
        except ArchiveInvalid:
            raise
        except (ClewError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._wrong(f"it is not what an archive holds there ({error})") from error

    def finish(self) -> Total:
        """What the whole archive held.

        Raises:
            ArchiveInvalid: It ended too early.
        """
        if not self._begun:
            raise self._wrong("it is empty")
        if not self._ended:
            raise self._wrong("the archive ends here, before its last line; it was cut short")
        return self._total()

    def _taken(self, data: bytes) -> Archived | Record | File | None:
        if not self._begun:
            self._begin(data)
            return None
        match _decoder.decode(data):
            case Opening() as line if self._thread is None and not self._ended:
                self._thread = _Partial(line, self._number)
            case Step() as line if self._thread is not None:
                self._thread.add(line)
                self._count[1] += 1
                self._count[2] += len(line.items)
            case Closing() as line if self._thread is not None:
                thread, self._thread = self._thread, None
                self._count[0] += 1
                return thread.closed(line)
            case Beside() as line if self._thread is None and not self._ended:
                self._count[3] += 1
                return self._checked(line)
            case File() as line if self._thread is None and not self._ended:
                self._count[4] += 1
                return self._whole(line)
            case Total() as line if self._thread is None and not self._ended:
                self._end(line)
                return None
            case _:
                raise self._wrong("the line does not belong there")
        self._thread.digest.update(data.rstrip(b"\n") + b"\n")
        return None

    def _checked(self, line: Beside) -> Record:
        record = _record_of(line)
        if line.sha256 != _checksum(record):
            raise self._wrong("the record was altered")
        return record

    def _whole(self, line: File) -> File:
        check_id(line.owner, "owner")
        if line.sha256 != sha256(line.base64).hexdigest():
            raise self._wrong(f"the file {line.path!r} was altered")
        return line

    def _begin(self, data: bytes) -> None:
        try:
            header = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._wrong("it is not an archive of Clew") from error
        if header.get("clew") != "archive" or not isinstance(header.get("format"), int):
            raise self._wrong("it is not an archive of Clew")
        if header["format"] != FORMAT:
            found = header["format"]
            raise self._wrong(f"it has format {found}, and this release reads {FORMAT}; upgrade Clew")
        self._begun = True

    def _end(self, line: Total) -> None:
        if line != self._total():
            raise self._wrong("the totals are not those of the lines before")
        self._ended = True

    def _total(self) -> Total:
        threads, changesets, items, records, files = self._count
        return Total(threads=threads, changesets=changesets, items=items, records=records, files=files)

    def _wrong(self, problem: str) -> ArchiveInvalid:
        return ArchiveInvalid(line=self._number, problem=problem)


class _Partial:
    """A thread of which some lines were taken. The chain is checked line by line."""

    def __init__(self, line: Opening, number: int) -> None:
        self.digest = sha256()
        self._first = number
        self._row = _row_of(line)
        self._log: list[tuple[ChangesetRow, tuple[ItemRow, ...]]] = []
        self._states: dict[int, bytes] = {}
        self._hash = chain.start_of(chain.segments_of(self._row)[0], None, b"")

    def add(self, line: Step) -> None:
        """Take one more changeset."""
        change = _change_of(line)
        items = [_item_of(entry, line.version, line.time) for entry in line.items]
        in_order = sorted(items, key=lambda item: (item.log, item.place))
        self._hash, problems = check_log(self._row, [(change, in_order)], self._hash, len(self._log))
        if problems:
            raise self._wrong(len(self._log) + 1, problems[0])
        if not isinstance(line.state, UnsetType):
            self._states[line.version] = bytes(line.state)
        self._log.append((change, _all_named(change, in_order)))

    def closed(self, line: Closing) -> Archived:
        """The whole thread."""
        end = len(self._log)
        if (line.id, line.version) != (self._row.id, end):
            raise self._wrong(end + 1, "changesets before the thread's end are missing")
        if self._row.segments and end < self._row.segments[-1].upto:
            raise self._wrong(end + 1, "the thread ends before the version it was forked at")
        if line.sha256 != self.digest.hexdigest() or line.hash != end_hash(self._row, end, self._hash).hex():
            raise self._wrong(end + 1, "the thread's lines were altered")
        return Archived(row=self._row, log=self._log, states=self._states, line=self._first)

    def _wrong(self, version: int, problem: str) -> ArchiveInvalid:
        return ArchiveInvalid(line=self._first + version, problem=problem)


def end_hash(row: ThreadRow, version: int, hash: bytes) -> bytes:
    """The hash of a head: that of its last changeset, or of the fork if it has none of its own."""
    if row.segments and row.segments[-1].upto == version:
        return chain.start_of(chain.segments_of(row)[-1], row.segments[-1], hash)
    return hash


def _row_of(line: Opening) -> ThreadRow:
    """A thread's row before its first changeset."""
    for what, name in [("thread id", line.id), *(("thread id", ancestor.id) for ancestor in line.ancestors)]:
        check_id(name, what)
    if line.owner is not None:
        check_id(line.owner, "owner")
    uptos = [ancestor.upto for ancestor in line.ancestors]
    if any(upto < 0 for upto in uptos) or any(before >= after for before, after in pairwise(uptos)):
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


def _record_of(line: Beside) -> Record:
    return Record(
        kind=line.kind,
        id=line.id,
        owner=line.owner,
        tags=line.tags,
        sort=line.sort,
        body=decode(bytes(line.body)),
    )


def _change_of(line: Step) -> ChangesetRow:
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


def _item_of(entry: Entry, version: int, time: int) -> ItemRow:
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


def _all_named(change: ChangesetRow, items: Sequence[ItemRow]) -> tuple[ItemRow, ...]:
    """A changeset's items in the order they were appended in, if they are those that it names."""
    runs = envelope_of(change).items
    if sum(run.count for run in runs) == len(items):
        stands = [(run.log, places.last_of(run.first, n + 1)) for run in runs for n in range(run.count)]
        if sorted(stands) == [(item.log, item.place) for item in items]:
            return tuple(as_given(change, items))
    raise InvalidArgument(problem="the items are not those that the changeset names")
