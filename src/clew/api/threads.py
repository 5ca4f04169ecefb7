"""Threads: their items, messages, changes and states.

Times are milliseconds since 1970, hashes are hexadecimal.
"""

from types import NoneType
from typing import Annotated, TypeAlias

import msgspec

from clew.api.route import Route
from clew.core.encoding import JSON

Title: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]


Labels: TypeAlias = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=100)
]
"""Both stand in every list of threads, so they are short."""


class NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a new thread."""

    id: str
    title: Title | None = None
    labels: Labels = []


class NewItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item to append."""

    body: JSON
    role: str = ""
    kind: str = "message"
    id: str | None = None
    log: str = "history"
    call: str | None = None


class NewChangeset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to append; patches are ops as lists, ``["set", ["mood"], "calm"]``."""

    items: list[NewItem] = []
    patches: list[JSON] = []
    reason: str = "append"


class NewFork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a thread that goes its own way from a version of another."""

    id: str
    at: int | None = None


class NewRewind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to take back a run, everything after a version, or a compaction; exactly one of them."""

    run: str | None = None
    to: int | None = None
    compaction: int | None = None


class NewAdoption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to hand a thread over to an agent."""

    agent: str


class AdoptionView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that was handed over: its agent now, the one before, and its version."""

    thread: str
    agent: str
    before: str | None
    version: int


class ParentView(msgspec.Struct, frozen=True, kw_only=True):
    """The thread and version that a fork comes from."""

    thread: str
    version: int


class ThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as a list shows it.

    ``first`` is made from the first message, for a thread without a title: one short line without marks.
    """

    id: str
    owner: str | None
    version: int
    created: int
    updated: int
    title: str | None = None
    labels: list[str] = []
    parent: ParentView | None = None
    items: int = 0
    first: str | None = None
    last: str | None = None


class ThreadDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A thread at one version: what it is, how far its logs reach, and the hash of its chain.

    ``agent`` is the only agent that writes it; None before its first turn. ``first`` is made from the first
    message of a thread without a title, if it is asked for.
    """

    id: str
    owner: str | None
    version: int
    created: int
    updated: int
    hash: str
    title: str | None = None
    labels: list[str] = []
    parent: ParentView | None = None
    agent: str | None = None
    first: str | None = None
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


class ToolCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool."""

    id: str
    name: str
    arguments: JSON = None


class ToolResultView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call."""

    id: str
    name: str = ""
    output: JSON = None


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a common form, whatever framework wrote it: text, tool calls and results.

    ``meta`` is added by an application, like the style of a reply.
    """

    role: str
    place: int
    version: int
    time: int
    text: str = ""
    calls: list[ToolCallView] = []
    results: list[ToolResultView] = []
    id: str | None = None
    format: str = "clew"
    run: str | None = None
    visibility: str = "all"
    meta: dict[str, JSON] = {}


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages, oldest first. ``next`` is the cursor of the older page."""

    thread: str
    version: int
    messages: list[MessageView]
    next: str | None = None


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
    """The difference between two versions: ops on the state, and items that were added and removed."""

    thread: str
    before: int
    after: int
    ops: list[JSON]
    added: list[ItemView] = []
    removed: list[ItemView] = []


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying the hash chain of a thread."""

    thread: str
    version: int
    hash: str
    ok: bool
    problems: list[str] = []
    erased: list[str] = []


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """The version of a thread after a change."""

    thread: str
    version: int
    time: int
    hash: str
    repeated: bool = False


class RewindView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rewind, and the effects on the world that it cannot take back."""

    thread: str
    version: int
    ended: int
    restored: int = 0
    effects: list[JSON] = []


CREATE_THREAD = Route(
    "create_thread", "POST", "/threads", ThreadDetail, body=NewThread, status=201, has_etag=True
)
LIST_THREADS = Route("list_threads", "GET", "/threads", ThreadPage)
GET_THREAD = Route("get_thread", "GET", "/threads/{id}", ThreadDetail, has_etag=True)
DELETE_THREAD = Route("delete_thread", "DELETE", "/threads/{id}", NoneType, status=204)
LIST_ITEMS = Route("list_items", "GET", "/threads/{id}/items", ItemPage)
LIST_MESSAGES = Route("list_messages", "GET", "/threads/{id}/messages", MessagePage)
LIST_CHANGESETS = Route("list_changesets", "GET", "/threads/{id}/changesets", ChangesetPage)
APPEND = Route(
    "append",
    "POST",
    "/threads/{id}/changesets",
    CommitView,
    body=NewChangeset,
    status=201,
    has_etag=True,
    commits_key=True,
)
GET_STATE = Route("get_state", "GET", "/threads/{id}/state", StateView, has_etag=True)
GET_STORED_STATE = Route(
    "get_stored_state",
    "GET",
    "/threads/{id}/stored-state",
    StateView,
    has_etag=True,
    audit="read state",
)
DIFF_THREAD = Route("diff_thread", "GET", "/threads/{id}/diff", DiffView)
VERIFY_THREAD = Route("verify_thread", "GET", "/threads/{id}/verify", VerdictView)
FORK_THREAD = Route(
    "fork_thread", "POST", "/threads/{id}/fork", ThreadDetail, body=NewFork, status=201, has_etag=True
)
REWIND_THREAD = Route(
    "rewind_thread", "POST", "/threads/{id}/rewind", RewindView, body=NewRewind, has_etag=True
)
ADOPT_THREAD = Route(
    "adopt_thread",
    "POST",
    "/threads/{id}/adopt",
    AdoptionView,
    body=NewAdoption,
    has_etag=True,
    audit="adopt thread",
)
