"""The tools of MCP: each is a route of the HTTP API under another name, with the same checks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from clew.api.memory import ForgetView, MemoryPage, NewCorrection, NewForgetRequest, NewUndo, UndoView
from clew.api.search import SearchHitPage
from clew.api.threads import (
    CommitView,
    MessagePage,
    NewChangeset,
    NewItem,
    NewThread,
    ThreadDetail,
    ThreadPage,
)
from clew.api.turns import MemoryModeName, NewTurn, TurnView, WhenBusy
from clew.core.encoding import JSON, as_json, check_id
from clew.core.values import AnyVersion, Exact
from clew.runtime.memory.recall.render import render_entries
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Candidate
from clew.runtime.search import SearchKind
from clew.runtime.state.inputs import check_thread_id
from clew.server.http.callers import Caller
from clew.server.http.creation import fork_planner, new_thread_detail
from clew.server.http.paths import check_reachable
from clew.server.http.views import commit_view, turn_view
from clew.server.identity.roles import WRITE
from clew.server.protocols.mcp.server import McpActions
from clew.server.protocols.mcp.tool import McpTool
from clew.server.routes.mcp_runs import (
    MCP,
    BackgroundTurns,
    cancel_task_run,
    get_task_run,
    resume_task_run,
)
from clew.server.routes.memory import correct_memory, forget_memory, list_memory, memory_for, undo_memory
from clew.server.routes.search import search
from clew.server.routes.threads import append_change, list_messages, list_threads, plan_new_thread
from clew.server.routes.turns import run_whole_turn

RESOURCES_PER_PAGE = 100

ThreadName: TypeAlias = Annotated[str, msgspec.Meta(description="The id of a thread.")]
PageSize: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at most.")]
PageCursor: TypeAlias = Annotated[
    str | None, msgspec.Meta(description="The cursor `next` of the page before, with the same arguments.")
]
AtVersion: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
TimeMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53, description="Milliseconds since 1970.")]
OnBehalf: TypeAlias = Annotated[
    str | None, msgspec.Meta(description="On whose behalf, where the credentials name no user.")
]
RepeatKey: TypeAlias = Annotated[
    str | None, msgspec.Meta(description="A name for this call; sent again with it, it is done once.")
]
Moment: TypeAlias = Annotated[
    str, msgspec.Meta(max_length=40, description="A year, a month, a day or a moment: 2026-05, 2026-05-15.")
]
Words: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class McpArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool; any other is refused."""


class SearchArguments(McpArguments, frozen=True, kw_only=True):
    """A search: words, and where to look for them."""

    query: Words
    kind: list[SearchKind] | None = None
    thread: ThreadName | None = None
    role: Annotated[str | None, msgspec.Meta(description="Only what this role has said.")] = None
    since: TimeMs | None = None
    until: TimeMs | None = None
    limit: PageSize = 20
    cursor: PageCursor = None
    user: OnBehalf = None


class ListThreadsArguments(McpArguments, frozen=True, kw_only=True):
    """A page of the list of threads."""

    search: Annotated[str | None, msgspec.Meta(description="Part of an id, a title or a label.")] = None
    limit: PageSize = 50
    cursor: PageCursor = None


class ReadThreadArguments(McpArguments, frozen=True, kw_only=True):
    """A page of the messages of a thread."""

    thread: ThreadName
    at: Annotated[AtVersion | None, msgspec.Meta(description="A version instead of the newest.")] = None
    limit: PageSize = 50
    cursor: PageCursor = None


class NewMessage(McpArguments, frozen=True, kw_only=True):
    """A message to append."""

    role: Literal["user", "assistant", "system"]
    text: str
    id: str | None = None


class AppendArguments(McpArguments, frozen=True, kw_only=True):
    """Messages to append to a thread."""

    thread: ThreadName
    messages: Annotated[list[NewMessage], msgspec.Meta(min_length=1, max_length=1_000)]
    expect: Annotated[
        AtVersion | None, msgspec.Meta(description="Only if the thread is at this version.")
    ] = None
    key: RepeatKey = None


class ForkArguments(McpArguments, frozen=True, kw_only=True):
    """A thread to fork, the version to fork it from, and the id of the fork."""

    thread: ThreadName
    id: Annotated[str, msgspec.Meta(description="The id of the new thread.")]
    at: Annotated[AtVersion | None, msgspec.Meta(description="A version instead of the newest.")] = None


class MemoryArguments(McpArguments, frozen=True, kw_only=True):
    """A memory: that of a user, or that of a thread which is nobody's."""

    user: OnBehalf = None
    thread: Annotated[
        str | None, msgspec.Meta(description="The thread whose memory it is, if it is nobody's.")
    ] = None


class RecallArguments(MemoryArguments, frozen=True, kw_only=True):
    """A text to recall for."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000, description="A message or question.")]


class ListMemoryArguments(MemoryArguments, frozen=True, kw_only=True):
    """A page of the entries of a memory."""

    kind: Literal["facts", "arcs"] = "facts"
    at: Moment | None = None
    past: Annotated[bool, msgspec.Meta(description="Also facts that held once.")] = False
    limit: PageSize = 50
    cursor: PageCursor = None


class RememberArguments(MemoryArguments, frozen=True, kw_only=True):
    """A fact to remember, or a rule of style."""

    object: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000, description="“green tea”")]
    kind: Literal["fact", "rule"] = "fact"
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "User"
    predicate: Annotated[
        str, msgspec.Meta(min_length=1, max_length=100, description="In capitals, like LIKES.")
    ] = "MENTIONED"
    category: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "context"
    negated: bool = False
    single: Annotated[
        bool, msgspec.Meta(description="The subject can have one such object only; another replaces it.")
    ] = False
    quote: Annotated[str, msgspec.Meta(max_length=280, description="The words that it comes from.")] = ""
    key: RepeatKey = None


class CorrectArguments(MemoryArguments, frozen=True, kw_only=True):
    """An entry to correct, and what is right. With ``since``, a fact was right until then."""

    id: str
    object: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    negated: bool = False
    since: Moment | None = None


class ForgetArguments(MemoryArguments, frozen=True, kw_only=True):
    """Entries to forget. Without ``confirmed`` they are only shown, and wait."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=200)]
    confirmed: Annotated[bool, msgspec.Meta(description="Only after the user has agreed.")] = False


class UndoArguments(MemoryArguments, frozen=True, kw_only=True):
    """A change to take back: the last, or the one that made a version."""

    version: AtVersion | None = None


class TurnArguments(McpArguments, frozen=True, kw_only=True):
    """A message to the agent of a thread; a thread that does not exist is created."""

    thread: ThreadName
    message: str
    user: OnBehalf = None
    mode: Annotated[
        MemoryModeName | None, msgspec.Meta(description="With incognito nothing of it is stored.")
    ] = None
    busy: WhenBusy = "wait"
    agent: Annotated[
        str | None, msgspec.Meta(description="The agent that answers, where the server has several.")
    ] = None
    key: RepeatKey = None

    def turn(self, busy: WhenBusy) -> NewTurn:
        """Return the turn that is asked for."""
        return NewTurn(message=self.message, user=self.user, mode=self.mode, busy=busy, agent=self.agent)


class RecallView(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that bear on a text, as lines and with their ids, and the rules of style."""

    lines: list[str] = []
    entries: list[JSON] = []
    rules: list[JSON] = []
    path: str = "token_recall"


class LearnView(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of something to remember, and the version of the memory."""

    version: int
    outcomes: list[JSON] = []
    repeated: bool = False


class MemoryEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """A fact or a rule."""

    entry: dict[str, JSON]


async def reply_of(handler: HTTPRouteHandler, **arguments: Any) -> Any:
    """Return the reply of a route, called as the framework calls it, without its status and headers."""
    reply = await handler.fn(**arguments)
    return reply.content if isinstance(reply, Response) else reply


def _thread_of(arguments: Any) -> str:
    return check_reachable(check_id(arguments.thread, "thread"))


async def _search(caller: Caller, arguments: SearchArguments) -> SearchHitPage:
    options = msgspec.structs.asdict(arguments)
    page: SearchHitPage = await reply_of(search, caller=caller, q=options.pop("query"), **options)
    return page


async def _list_threads(caller: Caller, arguments: ListThreadsArguments) -> ThreadPage:
    page: ThreadPage = await reply_of(list_threads, caller=caller, **msgspec.structs.asdict(arguments))
    return page


async def _read_thread(caller: Caller, arguments: ReadThreadArguments) -> MessagePage:
    thread, options = _thread_of(arguments), msgspec.structs.asdict(arguments)
    del options["thread"]
    page: MessagePage = await reply_of(list_messages, caller=caller, thread_id=thread, **options)
    return page


async def _create_thread(caller: Caller, arguments: NewThread) -> ThreadDetail:
    planner = plan_new_thread(caller, arguments)
    return new_thread_detail(await caller.db.store.change(caller.scope, planner))


async def _append(caller: Caller, arguments: AppendArguments) -> CommitView:
    items = [NewItem(body={"content": each.text}, role=each.role, id=each.id) for each in arguments.messages]
    expect = AnyVersion() if arguments.expect is None else Exact(arguments.expect)
    commit = await append_change(
        caller, _thread_of(arguments), NewChangeset(items=items), key=arguments.key, expect=expect
    )
    return commit_view(commit)


async def _fork_thread(caller: Caller, arguments: ForkArguments) -> ThreadDetail:
    planner = fork_planner(_thread_of(arguments), check_thread_id(arguments.id), arguments.at)
    return new_thread_detail(await caller.db.store.change(caller.scope, planner))


async def _recall(caller: Caller, arguments: RecallArguments) -> RecallView:
    memory = await memory_for(caller, arguments.user, arguments.thread)
    async with caller.runtime() as runtime:
        retriever = Retriever(memory, runtime.embedding_provider)
    recalled = await retriever.working_memory(arguments.text, first_turn=False)
    entries = recalled.result.entries if recalled.profile.recall else ()
    return RecallView(
        lines=render_entries(entries),
        entries=as_json(entries),
        rules=as_json(recalled.profile.rules),
        path=recalled.result.path,
    )


async def _list_memory(caller: Caller, arguments: ListMemoryArguments) -> MemoryPage:
    page: MemoryPage = await reply_of(list_memory, caller=caller, **msgspec.structs.asdict(arguments))
    return page


async def _remember(caller: Caller, arguments: RememberArguments) -> LearnView:
    memory = await memory_for(caller, arguments.user, arguments.thread)
    options = msgspec.structs.asdict(arguments)
    fields = {name: options[name] for name in Candidate.__struct_fields__ if name in options}
    candidate = Candidate(**fields, how="user", confidence=1.0, plain=True)
    result = await memory.learn([candidate], key=arguments.key)
    return LearnView(version=result.version, outcomes=as_json(result.outcomes), repeated=result.repeated)


async def _correct_memory(caller: Caller, arguments: CorrectArguments) -> MemoryEntryView:
    data = NewCorrection(object=arguments.object, negated=arguments.negated, since=arguments.since)
    entry = await reply_of(
        correct_memory,
        entry=arguments.id,
        data=data,
        caller=caller,
        user=arguments.user,
        thread=arguments.thread,
    )
    return MemoryEntryView(entry=entry)


async def _forget_memory(caller: Caller, arguments: ForgetArguments) -> ForgetView:
    data = NewForgetRequest(ids=arguments.ids, confirmed=arguments.confirmed)
    view: ForgetView = await reply_of(
        forget_memory, data=data, caller=caller, user=arguments.user, thread=arguments.thread
    )
    return view


async def _undo_memory(caller: Caller, arguments: UndoArguments) -> UndoView:
    data = NewUndo(version=arguments.version)
    view: UndoView = await reply_of(
        undo_memory, data=data, caller=caller, user=arguments.user, thread=arguments.thread
    )
    return view


async def _run_turn(caller: Caller, arguments: TurnArguments) -> TurnView:
    turn = arguments.turn(arguments.busy)
    if arguments.key is not None:
        check_id(arguments.key, "idempotency key")
    result = await run_whole_turn(caller, _thread_of(arguments), turn, key=arguments.key, origin=MCP)
    return turn_view(result)


TOOLS = (
    McpTool(
        name="search",
        title="Search",
        description="Search what was said in threads and what is known of the user, the best first.",
        arguments=SearchArguments,
        reply=SearchHitPage,
        call=_search,
    ),
    McpTool(
        name="recall",
        title="Recall",
        description="Return what is known of the user that bears on a text, with the rules of style.",
        arguments=RecallArguments,
        reply=RecallView,
        call=_recall,
    ),
    McpTool(
        name="list_threads",
        title="List threads",
        description="List threads, the newest first; with a search, those that match it.",
        arguments=ListThreadsArguments,
        reply=ThreadPage,
        call=_list_threads,
    ),
    McpTool(
        name="read_thread",
        title="Read a thread",
        description="Return the newest messages of a thread, oldest first; the cursor leads to older ones.",
        arguments=ReadThreadArguments,
        reply=MessagePage,
        call=_read_thread,
    ),
    McpTool(
        name="create_thread",
        title="Create a thread",
        description="Create an empty thread, to which messages can be appended.",
        arguments=NewThread,
        reply=ThreadDetail,
        call=_create_thread,
        scope=WRITE,
    ),
    McpTool(
        name="append",
        title="Append messages",
        description="Append messages to a thread, as they are; no agent answers. A key makes it repeatable.",
        arguments=AppendArguments,
        reply=CommitView,
        call=_append,
        scope=WRITE,
    ),
    McpTool(
        name="fork_thread",
        title="Fork a thread",
        description="Create a thread that goes its own way from a version of another, which stays as it is.",
        arguments=ForkArguments,
        reply=ThreadDetail,
        call=_fork_thread,
        scope=WRITE,
    ),
    McpTool(
        name="list_memory",
        title="List memory",
        description="List what is known of the user, the newest first, with the rules and what waits.",
        arguments=ListMemoryArguments,
        reply=MemoryPage,
        call=_list_memory,
    ),
    McpTool(
        name="remember",
        title="Remember",
        description="Remember a fact about the user, or a rule of style, that the user asked to remember.",
        arguments=RememberArguments,
        reply=LearnView,
        call=_remember,
        scope=WRITE,
        idempotent=True,
    ),
    McpTool(
        name="correct_memory",
        title="Correct memory",
        description="Correct what a fact says, or how a rule is worded. It can be undone.",
        arguments=CorrectArguments,
        reply=MemoryEntryView,
        call=_correct_memory,
        scope=WRITE,
        destructive=True,
    ),
    McpTool(
        name="forget_memory",
        title="Forget memory",
        description=(
            "Forget entries, in two steps: without `confirmed` they are shown and wait; with it, once the "
            "user has agreed, they are forgotten."
        ),
        arguments=ForgetArguments,
        reply=ForgetView,
        call=_forget_memory,
        scope=WRITE,
        destructive=True,
    ),
    McpTool(
        name="undo_memory",
        title="Undo a change of memory",
        description="Take back the last change of what is known, or the one that made a version.",
        arguments=UndoArguments,
        reply=UndoView,
        call=_undo_memory,
        scope=WRITE,
        destructive=True,
    ),
    McpTool(
        name="run_turn",
        title="Run a turn",
        description=(
            "Send a message to the agent of a thread, and return its answer. If the agent waits for a "
            "person, the answer says for what. A key makes it repeatable after any failure."
        ),
        arguments=TurnArguments,
        reply=TurnView,
        call=_run_turn,
        scope=WRITE,
        runs_turn=True,
    ),
)


def mcp_actions(background: BackgroundTurns, more_tools: tuple[McpTool, ...] = ()) -> McpActions:
    """Return what MCP does for a caller, with turns that go on in the background."""

    async def start_turn(caller: Caller, arguments: TurnArguments) -> str | None:
        # A task need not wait for the turn before it: in the queue it survives this process.
        turn = arguments.turn("queue" if arguments.busy == "wait" else arguments.busy)
        return await background.start(caller, _thread_of(arguments), turn, arguments.key)

    tools: Mapping[str, McpTool] = {tool.name: tool for tool in (*TOOLS, *more_tools)}
    return McpActions(
        tools=tools,
        list_threads=_resource_page,
        read_messages=_resource_messages,
        start_turn=start_turn,
        get_run=get_task_run,
        cancel_run=cancel_task_run,
        decide=background.decide,
        resume_run=resume_task_run,
    )


async def _resource_page(caller: Caller, cursor: str | None) -> ThreadPage:
    return await _list_threads(caller, ListThreadsArguments(limit=RESOURCES_PER_PAGE, cursor=cursor))


async def _resource_messages(caller: Caller, thread: str, cursor: str | None) -> MessagePage:
    return await _read_thread(caller, ReadThreadArguments(thread=thread, cursor=cursor))
