"""The nouns: threads, items, changesets, records and jobs as the caller sees them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.arguments import Count, check_count, check_fields
from clew.core.encoding import JSON, Id
from clew.core.ops import Document, Op

DEFAULT_TENANT: Final = "default"
HISTORY: Final = "history"
ABOUT_KEY: Final = "$thread"
"""The key of the state under which a thread keeps its title, labels, agent and schema version."""
AGENT_KEY: Final = "agent"
"""The key of the agent's name, below ``ABOUT_KEY``."""
ERASED_KEY: Final = "$erased"
"""The only key of a state that is not known any more, since a part of what led to it was erased."""
THREAD_TAG: Final = "thread:"
"""The prefix of the tag by which a record names its thread."""
ACTIVE_EPISODE_KIND: Final = "active episode"
"""The kind of the record of the episode that a thread is in; its id is that of the thread."""
MEMORY_PREFIX: Final = "memory/"
"""The prefix of the ids of memory threads."""
RESERVED_THREAD_PREFIXES: Final = (MEMORY_PREFIX, "clew/")
"""The prefixes of the ids of Clew's own threads. They are listed only on request."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant and user that a call is made for. Without a user it reaches every user of the tenant."""

    tenant: Id = DEFAULT_TENANT
    user: Id | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class Exact(msgspec.Struct, frozen=True, gc=False):
    """The thread must be at this version; with this hash, if one is given.

    The hash distinguishes a thread from another that was made under its id after it was deleted.
    """

    version: Count
    hash: bytes | None = None

    def __post_init__(self) -> None:
        # By hand, since one is made for every append.
        check_count(self.version, "Exact.version")
        if self.hash is not None and type(self.hash) is not bytes:
            check_fields(self)


class AnyVersion(msgspec.Struct, frozen=True, gc=False):
    """The thread must exist, at whatever version."""


class Absent(msgspec.Struct, frozen=True):
    """The thread must not exist yet; it is created by the append."""

    owner: Id | None = None

    def __post_init__(self) -> None:
        check_fields(self)


Expectation: TypeAlias = Exact | AnyVersion | Absent


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One entry of a log.

    ``format`` names the dialect of the body (``clew``, ``openai.responses``, ``langchain``, …) and
    ``codec`` its encoding: ``json``, or any other name for bytes that are kept as given. ``call`` pairs a
    tool call with its result. ``place``, ``version`` and ``time`` are filled in by the store; giving a
    ``place`` puts the item there instead of at the end.
    """

    body: JSON
    role: str = ""
    kind: str = "message"
    id: str | None = None
    log: str = HISTORY
    format: str = "clew"
    codec: str = "json"
    run: str | None = None
    step: int | None = None
    visibility: str = "all"
    call: str | None = None
    place: int = 0
    version: int = 0
    time: int = 0


class UnreadableItem(msgspec.Struct, frozen=True, kw_only=True):
    """A stored entry that cannot be read, or was ``erased``. It hides nothing else."""

    log: str
    place: int
    version: int
    problem: str
    erased: bool = False


class Window(Sequence[Item]):
    """Some items of a log, oldest first, and what could not be read among them."""

    __slots__ = ("broken", "items", "version")

    def __init__(
        self, items: Sequence[Item], unreadable: Sequence[UnreadableItem] = (), version: int = 0
    ) -> None:
        self.items = tuple(items)
        self.broken = tuple(unreadable)
        self.version = version

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"Window({len(self.items)} items, {len(self.broken)} broken, version {self.version})"


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The end of every item of a log from one place to another: a pop, a rewind, a compaction or a clear.

    ``count`` says how many visible items it ends and ``open`` which tool calls are open after it.
    """

    first: int
    last: int
    count: int
    log: str = HISTORY
    open: dict[str, str | None] = {}


class Changeset(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One change of a thread. ``version``, ``time`` and ``hash`` are filled in by the store."""

    items: tuple[Item, ...] = ()
    patches: tuple[Op, ...] = ()
    cuts: tuple[Cut, ...] = ()
    snapshot: Document | None = None
    state_actions: tuple[JSON, ...] = ()
    reason: str = "append"
    run_id: str | None = None
    parent_run_id: str | None = None
    run_meta: Document | None = None
    key: str | None = None
    author: str | None = None
    version: int = 0
    time: int = 0
    hash: bytes = b""
    erased: bool = False


class LogSize(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The size of a log: items ever appended (``end``), items visible (``length``), and cuts."""

    end: int = 0
    length: int = 0
    cuts: int = 0


class Counters(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Numbers of a version that are known without reading it: log sizes, open calls, patch weight."""

    logs: dict[str, LogSize] = {}
    open: dict[str, str | None] = {}
    weight: int = 0
    size: int = 0


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The thread and version that a fork comes from."""

    thread: str
    version: int


class Head(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A thread at one version, as a caller sees it."""

    id: str
    owner: str | None
    version: int
    state: Document
    counters: Counters
    hash: bytes
    created: int
    updated: int
    parent: Parent | None = None

    @property
    def title(self) -> str | None:
        """The thread's title, if it has one."""
        about = self.state.get(ABOUT_KEY)
        return about.get("title") if isinstance(about, dict) else None

    @property
    def agent(self) -> str | None:
        """The name of the agent that the thread belongs to; None before its first turn."""
        about = self.state.get(ABOUT_KEY)
        agent = about.get(AGENT_KEY) if isinstance(about, dict) else None
        return agent if isinstance(agent, str) else None

    def length(self, log: str = HISTORY) -> int:
        """The number of visible items of a log."""
        return self.counters.logs.get(log, LogSize()).length


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as a list shows it."""

    id: str
    owner: str | None
    version: int
    created: int
    updated: int
    title: str | None = None
    labels: tuple[str, ...] = ()
    parent: Parent | None = None
    items: int = 0


class SummaryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some threads, newest first, and the cursor of the next page if there is one.

    ``broken`` names those among them that cannot be read, and what is wrong with each.
    """

    threads: tuple[ThreadSummary, ...]
    next: str | None = None
    broken: dict[str, str] = {}


class Committed(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The result of an append: the thread's new version, time and hash."""

    thread: str
    version: int
    time: int
    hash: bytes
    repeated: bool = False


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A small document beside the threads: a run, an episode, a fact.

    ``tags`` and ``sort`` are what it can be found by; ``revision`` counts its changes and is filled in
    by the store.
    """

    kind: str
    id: str
    body: JSON
    owner: str | None = None
    tags: tuple[str, ...] = ()
    sort: int = 0
    revision: int = 0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work to be done later, at least once. ``token`` is the claim of the worker that is doing it.

    Jobs with the same ``key`` wait only once.
    """

    id: Id
    kind: Id
    body: JSON = None
    owner: Id | None = None
    key: Id | None = None
    due: int = 0
    attempts: int = 0
    limit: int = 8
    status: str = "waiting"
    token: str | None = None
    until: int = 0
    problem: str | None = None


class ProvisionalText(msgspec.Struct, frozen=True, kw_only=True):
    """The text so far of an answer that is not committed yet. It is kept apart from the log.

    ``version`` is the one of the thread that the answer follows: once its run has committed another, the text
    is void. ``parts`` are as they were written, in order; a store does not look into them.
    """

    thread: Id
    owner: Id | None
    run: Id
    version: int
    step: int
    attempt: int
    parts: tuple[bytes, ...] = ()

    @property
    def id(self) -> str:
        """The name of the answer: a thread has each once."""
        return f"{self.run}.{self.version}.{self.step}.{self.attempt}"


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A place with the searched words."""

    thread: str
    log: str
    place: int
    version: int
    text: str
    score: float


# What can be committed together.


class AppendTo(msgspec.Struct, frozen=True, kw_only=True):
    """Append a changeset to a thread, if it is where ``expect`` says: a number is that version exactly."""

    thread: str
    change: Changeset
    expect: Expectation | int = AnyVersion()


class Put(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Write a record. ``expect`` is its revision now: 0 if it must be absent, None for any."""

    record: Record
    expect: Count | None = None


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a record; one that is absent is fine unless a revision is expected."""

    kind: Id
    id: Id
    expect: Count | None = None


class Require(msgspec.Struct, frozen=True, kw_only=True):
    """Change nothing, but refuse the commit unless the record is at this revision."""

    kind: Id
    id: Id
    expect: Count


class Enqueue(msgspec.Struct, frozen=True, kw_only=True):
    """Add a job."""

    job: Job


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """End a claimed job, if the claim still holds."""

    job: Id
    token: str


Write: TypeAlias = AppendTo | Put | Drop | Require | Enqueue | Finish
WriteResult: TypeAlias = Committed | Record | Job | None


class CommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of writes, one for each, and the heads of threads that are known then."""

    results: list[WriteResult]
    heads: Mapping[str, Head]


class ItemQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query for items: the latest (``last``) or the earliest (``first``) between two places.

    ``whole`` asks for all that was ever appended, also what was ended since, without the summaries put in
    its place.
    """

    log: str = HISTORY
    at: int | None = None
    last: int | None = None
    first: int | None = None
    after: int | None = None
    before: int | None = None
    whole: bool = False


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query for records: those with all of the tags, in order of ``sort`` and id."""

    kind: Id
    tags: tuple[str, ...] = ()
    owner: Id | None = None
    since: int | None = None
    until: int | None = None
    newest: bool = False
    limit: int = 100
    after: tuple[int, str] | None = None


class VectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query for vectors: those of a space that are most like one, of the entries of some logs.

    Without an owner it is the user on whose behalf the database is used, or everybody. ``least`` is how much
    alike they must be: the cosine of their angle.
    """

    vector: tuple[float, ...]
    space: Id
    logs: tuple[str, ...]
    owner: Id | None = None
    thread: Id | None = None
    limit: int = 20
    least: float = -1.0


class VectorMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a vector, and how much it is like the one that was searched by."""

    likeness: float
    record: Record


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest sizes allowed, in bytes."""

    body: Count = 16 * 1024 * 1024
    changeset: Count = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        check_fields(self)
