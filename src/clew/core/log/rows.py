"""The rows of a store, the questions that core asks it, and the writes that it applies.

A store answers questions (``Ask``) and applies writes. It decides nothing: reading and planning are
generators that yield questions and end with an answer or a plan of writes.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from clew.core.errors import StoreDamaged
from clew.core.values import Counters, Job, Record, RecordQuery, SearchHit

T = TypeVar("T")

ThreadKey: TypeAlias = Any
"""The name of a thread inside a store: an integer or a UUID."""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of versions of a thread that lives under one ancestor: everything up to ``upto``."""

    key: ThreadKey
    upto: int
    id: str
    owner: str | None
    created: int


class ThreadRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A thread without its state. ``segments`` are its ancestors, the root first."""

    key: ThreadKey
    id: str
    owner: str | None
    created: int
    updated: int
    version: int
    hash: bytes
    counters: Counters
    segments: tuple[Segment, ...] = ()
    parent_key: ThreadKey = None
    title: str | None = None
    labels: tuple[str, ...] = ()


class UnreadableThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread whose row cannot be read: its position in a list, and what is wrong with it."""

    id: str
    created: int
    problem: str


class ItemRow(msgspec.Struct, frozen=True, gc=False):
    """An item as stored: what it is (``meta``), what it says (``body``), and the salt of its commitment.

    An erased body leaves its commitment, so that the chain can still be checked.
    """

    log: str
    place: int
    version: int
    time: int
    meta: bytes
    body: bytes | None
    salt: bytes | None = None
    erased: bytes | None = None
    id: str | None = None


class CutRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A cut as stored."""

    log: str
    first: int
    last: int
    version: int
    count: int


class ChangesetRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A changeset as stored, its items apart."""

    version: int
    time: int
    envelope: bytes
    content: bytes | None
    salt: bytes | None
    hash: bytes
    counters: Counters
    erased: bytes | None = None


class ChangesetRows(NamedTuple):
    """The row of a changeset and those of its items."""

    change: ChangesetRow
    items: Sequence[ItemRow]


class KeyRow(msgspec.Struct, frozen=True):
    """The version that an idempotency key made, and the fingerprint of its request."""

    version: int
    fingerprint: bytes


# Questions.


class Ask(msgspec.Struct, Generic[T], frozen=True):
    """A question to a store; ``T`` is the answer's type."""


class AskThread(Ask[ThreadRow | None], frozen=True):
    """The thread of that id in this scope."""

    id: str


class AskAnchor(Ask[tuple[int, bytes] | None], frozen=True):
    """The newest cached state of this key at or before a version."""

    key: ThreadKey
    upto: int


class AskChangesets(Ask[list[ChangesetRow]], frozen=True):
    """The changesets of this key with ``after < version <= upto``, oldest first."""

    key: ThreadKey
    after: int
    upto: int
    limit: int


class AskItems(Ask[list[ItemRow]], frozen=True):
    """Items of a log with ``above < place < below`` that were born by version ``upto``.

    In order of place, or from the end backwards; ``with_salts`` with their salts, which only the chain needs.
    """

    key: ThreadKey
    log: str
    above: int
    below: int
    upto: int
    limit: int
    backwards: bool
    with_salts: bool = False


class AskCuts(Ask[list[CutRow]], frozen=True):
    """Cuts of a log made by version ``upto`` that touch the places from ``first`` to ``last``."""

    key: ThreadKey
    log: str
    first: int
    last: int
    upto: int


class AskItemsAtPlaces(Ask[list[ItemRow]], frozen=True):
    """Items at these places of a log that were born by version ``upto``, in no order."""

    key: ThreadKey
    log: str
    places: tuple[int, ...]
    upto: int


class AskCutsAtPlaces(Ask[list[CutRow]], frozen=True):
    """Cuts of a log made by version ``upto`` that touch one of these places; any of them several times."""

    key: ThreadKey
    log: str
    places: tuple[int, ...]
    upto: int


class AskItemsById(Ask[list[ItemRow]], frozen=True):
    """Items with these ids born by version ``upto``."""

    key: ThreadKey
    ids: tuple[str, ...]
    upto: int


class AskIdempotencyKey(Ask[KeyRow | None], frozen=True):
    """The version that an idempotency key made."""

    key: ThreadKey
    idempotency_key: str


class AskRecord(Ask[Record | None], frozen=True):
    """A record."""

    kind: str
    id: str


class AskRecordsById(Ask[list[Record]], frozen=True):
    """Those of some records that are there, each by its kind and id."""

    names: tuple[tuple[str, str], ...]


class AskJob(Ask[Job | None], frozen=True):
    """A job."""

    id: str


class AskRecords(Ask[list[Record]], frozen=True):
    """The records a query finds."""

    query: RecordQuery


class AskJobs(Ask[list[Job]], frozen=True):
    """Jobs of a status (or any), by due time and id."""

    status: str | None
    limit: int


class AskDueJobs(Ask[list[Job]], frozen=True):
    """Jobs of some kinds that may be claimed now: waiting and due, or held by a claim that ran out.

    A claim that ends after ``latest`` counts as run out, and a job that has failed and is due then as due.
    """

    kinds: tuple[str, ...]
    now: int
    latest: int
    limit: int


class AskThreads(Ask[list[ThreadRow | UnreadableThread]], frozen=True):
    """Threads by creation time and id, newest first, older than ``before`` if it is given.

    One that cannot be read hides no other.
    """

    owner: str | None
    before: tuple[int, str] | None
    limit: int


class AskUnindexedThreads(Ask[list[tuple[ThreadRow, int]]], frozen=True):
    """Threads with changesets that the search index does not hold yet, and up to which version it does.

    One that cannot be read is left out.
    """

    limit: int


class AskHits(Ask[list[SearchHit]], frozen=True):
    """Indexed texts that hold all of these words, the best first."""

    words: tuple[str, ...]
    owner: str | None
    limit: int
    thread: str | None = None
    log: str | None = None


class TermCounts(msgspec.Struct, frozen=True, gc=False):
    """An indexed text: its place, the number of its words, and how often it holds each that was asked for."""

    thread: str
    log: str
    place: int
    version: int
    length: int
    counts: dict[str, int]


class AskTermCounts(Ask[list[TermCounts]], frozen=True):
    """Indexed texts with any of these words, the newest first; all of ``words`` are counted in them.

    With ``all`` they hold each of the words.
    """

    any: tuple[str, ...]
    words: tuple[str, ...]
    owner: str | None
    limit: int
    all: bool = False
    thread: str | None = None
    log: str | None = None


class AskTextCount(Ask[int], frozen=True):
    """The number of indexed texts of an owner, or of all, counted no further than ``most``."""

    owner: str | None
    most: int


class AskWordCounts(Ask[list[int]], frozen=True):
    """The number of indexed texts that hold each of these words, counted no further than ``most``."""

    words: tuple[str, ...]
    owner: str | None
    most: int
    thread: str | None = None
    log: str | None = None


class AskNearest(Ask[list[Record]], frozen=True):
    """Records of vectors whose signs differ least from these, in no order: so many, or all if they are fewer.

    They are in a space, of the entries of some logs, and of an owner and a thread if these are given.
    """

    space: str
    logs: tuple[str, ...]
    owner: str | None
    thread: str | None
    signs: bytes
    limit: int


class AskTenants(Ask[list[str]], frozen=True):
    """The tenants that have a thread, a record or a job; ``Forbidden`` if the store's login sees not all."""


class AskRecordsOfOwner(Ask[list[Record]], frozen=True):
    """Records of every kind that belong to an owner, but for some kinds; by kind and id."""

    owner: str
    without: tuple[str, ...]
    limit: int


class AskRecordsAbout(Ask[list[Record]], frozen=True):
    """Records of every kind that have one of these names as their id or as a tag."""

    names: tuple[str, ...]


ROW_COUNT_NAMES: Final = ("changesets", "items", "states", "keys", "index entries")


class AskRowCounts(Ask[dict[str, int]], frozen=True):
    """The number of rows under a key, by ``ROW_COUNT_NAMES``."""

    key: ThreadKey


StoreRead: TypeAlias = Generator[Ask[Any], Any, T]


def ask(question: Ask[T]) -> Generator[Ask[T], T, T]:
    """Ask a store; to be used with ``yield from``."""
    answer: T = yield question
    return answer


def run_read(read: StoreRead[T], answer: Callable[[Ask[Any]], Any]) -> T:
    """The result of a reading or planning whose questions are answered one by one.

    What is damaged is raised where it was asked for, so that a reading may pass over it.
    """
    reply: Any = None
    damage: StoreDamaged | None = None
    while True:
        try:
            question = read.send(reply) if damage is None else read.throw(damage)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            reply, damage = answer(question), None
        except StoreDamaged as error:
            damage = error


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question at which answering stopped."""

    question: Ask[Any]


def run_read_while(
    read: StoreRead[T], answer: Callable[[Ask[Any]], Any], may_answer: Callable[[Ask[Any]], bool]
) -> T | OpenQuestion:
    """The result of a reading, or the first question that is not to be answered here: see ``resume_read``."""
    reply: Any = None
    damage: StoreDamaged | None = None
    while True:
        try:
            question = read.send(reply) if damage is None else read.throw(damage)
        except StopIteration as end:
            result: T = end.value
            return result
        if not may_answer(question):
            return OpenQuestion(question)
        try:
            reply, damage = answer(question), None
        except StoreDamaged as error:
            damage = error


def resume_read(read: StoreRead[T], question: Ask[Any]) -> StoreRead[T]:
    """The rest of a reading, from a question on that it has asked and that is not answered yet."""
    try:
        while True:
            try:
                reply = yield question
            except StoreDamaged as damage:
                question = read.throw(damage)
            else:
                question = read.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_read_async(read: StoreRead[T], answer: Callable[[Ask[Any]], Awaitable[Any]]) -> T:
    """The result of a reading or planning whose answers have to be awaited, one by one."""
    reply: Any = None
    damage: StoreDamaged | None = None
    while True:
        try:
            question = read.send(reply) if damage is None else read.throw(damage)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            reply, damage = await answer(question), None
        except StoreDamaged as error:
            damage = error


class StalePlan(Exception):
    """Something that a write assumes is no longer so. Raised by stores, answered with a new plan."""


# Writes. Each carries what it assumes; a store that finds otherwise reports the plan stale.


class AddThread(msgspec.Struct, frozen=True):
    """Insert a thread, unless its id is taken. The store fills in the key if it is None."""

    row: ThreadRow


class Advance(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Move a thread from ``before.version`` to ``after.version`` by one changeset."""

    before: ThreadRow
    after: ThreadRow
    change: ChangesetRow
    items: tuple[ItemRow, ...] = ()
    cuts: tuple[CutRow, ...] = ()
    anchor: bytes | None = None
    idempotency_key: str | None = None
    fingerprint: bytes | None = None


class RestoreThread(msgspec.Struct, frozen=True, kw_only=True):
    """Insert a whole thread as it was: its row as given, and the changesets of every step."""

    row: ThreadRow
    advances: tuple[Advance, ...]


class CopyLineage(msgspec.Struct, frozen=True, kw_only=True):
    """Copy everything of the segments, up to their versions, under the key of a thread just added."""

    key: ThreadKey
    owner: str | None
    segments: tuple[Segment, ...]


class DropThread(msgspec.Struct, frozen=True, kw_only=True):
    """Hide a thread and free its id; remove its rows unless a fork still needs them.

    ``unconditional``: even if it has moved on since.
    """

    row: ThreadRow
    unconditional: bool = False


class EraseParts(msgspec.Struct, frozen=True, kw_only=True):
    """Take away what rows under a key say, and leave their commitments.

    ``items`` are given by log, place and commitment, ``contents`` by version and commitment; ``states`` is
    the version up to which cached states go too. What the search index and idempotency keys know of them goes
    as well.
    """

    key: ThreadKey
    items: tuple[tuple[str, int, bytes], ...] = ()
    contents: tuple[tuple[int, bytes], ...] = ()
    states: int = 0


class SaveRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Write a record over revision ``before`` (0: absent)."""

    record: Record
    before: int


class DropRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a record at revision ``before``."""

    kind: str
    id: str
    before: int


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a record at revision ``before`` (0: absent) until the commit is done."""

    kind: str
    id: str
    before: int


class AddJob(msgspec.Struct, frozen=True):
    """Insert a job, unless one with its key is waiting or running."""

    job: Job


class EndJob(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a job that is held by this claim (None: by no claim)."""

    id: str
    token: str | None


class MoveJob(msgspec.Struct, frozen=True, kw_only=True):
    """Replace a job that is held by this claim (None: by no claim)."""

    job: Job
    token: str | None


class SearchText(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one item, and the name of who said them, which are searched alike."""

    log: str
    place: int
    version: int
    text: str
    speaker: str = ""


class IndexTexts(msgspec.Struct, frozen=True, kw_only=True):
    """Add a thread's texts to the search index, which then holds it up to ``upto``."""

    row: ThreadRow
    texts: tuple[SearchText, ...]
    upto: int


StoreWrite: TypeAlias = (
    AddThread
    | Advance
    | RestoreThread
    | CopyLineage
    | DropThread
    | EraseParts
    | SaveRecord
    | DropRecord
    | CheckRecord
    | AddJob
    | EndJob
    | MoveJob
    | IndexTexts
)
