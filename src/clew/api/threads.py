"""What the HTTP API answers.

Times are milliseconds since 1970, hashes are hexadecimal. The server makes these and the client reads them.
"""

import msgspec

from clew.core.encoding import JSON


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as ``application/problem+json``: ``code`` never changes, ``facts`` are what it carries."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, JSON] = {}


class ParentView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fork comes from."""

    thread: str
    version: int


class ThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as a list shows it."""

    id: str
    owner: str | None
    version: int
    created: int
    updated: int
    title: str | None = None
    labels: list[str] = []
    parent: ParentView | None = None
    items: int = 0
    last: str | None = None


class ThreadDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A thread at one version: what it is, how far its logs reach, and the hash of its chain."""

    id: str
    owner: str | None
    version: int
    created: int
    updated: int
    hash: str
    title: str | None = None
    labels: list[str] = []
    parent: ParentView | None = None
    logs: dict[str, int] = {}
    open_calls: list[str] = []


class ThreadPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some threads, newest first. ``next`` is the cursor of the page behind this one."""

    threads: list[ThreadView]
    next: str | None = None
    broken: dict[str, str] = {}


class ItemView(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a log; a body that is not JSON is base64 text."""

    body: JSON
    place: int
    version: int
    time: int
    role: str = ""
    kind: str = "message"
    id: str | None = None
    log: str = "history"
    format: str = "clew"
    codec: str = "json"
    run: str | None = None
    step: int | None = None
    visibility: str = "all"
    call: str | None = None


class UnreadableItemView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that cannot be read."""

    log: str
    place: int
    version: int
    problem: str


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some items, oldest first. ``next`` is the cursor of the older page."""

    thread: str
    version: int
    items: list[ItemView]
    next: str | None = None
    broken: list[UnreadableItemView] = []


class ChangesetView(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a thread."""

    version: int
    time: int
    hash: str
    reason: str
    items: list[ItemView] = []
    patches: list[JSON] = []
    cuts: list[JSON] = []
    snapshot: dict[str, JSON] | None = None
    state_actions: list[JSON] = []
    run_id: str | None = None
    parent_run_id: str | None = None
    run_meta: dict[str, JSON] | None = None
    author: str | None = None
    erased: bool = False


class ChangesetPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some changesets in order of version. ``next`` is the cursor of the page behind this one."""

    thread: str
    changesets: list[ChangesetView]
    next: str | None = None


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a thread at one version."""

    thread: str
    version: int
    state: dict[str, JSON]


class DiffView(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two versions: ops on the state, and the items that came and went."""

    thread: str
    before: int
    after: int
    ops: list[JSON]
    added: list[ItemView] = []
    removed: list[ItemView] = []


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the chain of a thread holds."""

    thread: str
    version: int
    hash: str
    ok: bool
    problems: list[str] = []
    erased: list[str] = []


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thread stands after a change."""

    thread: str
    version: int
    time: int
    hash: str
    repeated: bool = False


class RewindView(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind did, and which effects on the world it cannot take back."""

    thread: str
    version: int
    ended: int
    restored: int = 0
    effects: list[JSON] = []


# Turns and runs.


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What model calls cost; ``cost`` in millionths of a dollar."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a decision."""

    call: str
    tool: str
    arguments: JSON = None
    question: JSON = None
    why: str = "approval"
    asked: int = 1


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is over."""

    thread: str
    run: str
    version: int
    text: str = ""
    output: JSON = None
    termination: str = "natural"
    waiting: list[ApprovalView] = []
    usage: UsageView = UsageView()


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One execution on a thread, as it is recorded."""

    id: str
    thread: str
    status: str
    origin: str
    started: int
    parent: str | None = None
    user: str | None = None
    ended: int | None = None
    termination: str | None = None
    problem: str | None = None
    usage: UsageView = UsageView()
    waiting: list[ApprovalView] = []
    in_doubt: list[str] = []


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs, newest first."""

    runs: list[RunView]
    next: str | None = None


class CancellationView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether there was anything to cancel."""

    cancelled: bool


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. Durable ones have an id, from which a stream can be resumed."""

    type: str
    data: dict[str, JSON]
    id: str | None = None
