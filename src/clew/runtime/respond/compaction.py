"""Compaction: a summary in place of old messages, as one changeset that can be taken back.

What was compacted stays readable at earlier versions. If anything fails, nothing has changed.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from clew.core import patch
from clew.core.arguments import check_async, check_fields
from clew.core.encoding import encode
from clew.core.errors import InvalidArgument, ModelFailed, RunFailed, VersionConflict
from clew.core.log.tool_calls import OURS, parted
from clew.core.values import ABOUT, HISTORY, Changeset, Committed, Exact, Expect, Head, Item, Window
from clew.database.log import Log
from clew.runtime.context import Context
from clew.runtime.model.boundary import checked_value, model_boundary
from clew.runtime.model.messages import CALL, RESULT, Message, message_of
from clew.runtime.model.protocol import Reply, Request
from clew.runtime.respond.view import SUMMARY, Seen, text_of

log = logging.getLogger("clew")
COMPACT = "Compact"
SUMMARIZE = "summarize"
"""What a function that makes summaries is called when it fails."""
CHUNK = 24_000
INSTRUCTIONS = (
    "Summarise this conversation so that it can go on without its beginning. Keep names, facts, numbers, "
    "decisions, what was promised, what the tools found, and what is still open. Leave out small talk. "
    "Answer with the summary alone."
)

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""Makes one text of some messages."""
Ask: TypeAlias = Callable[[Request], Awaitable[Reply]]
Commit: TypeAlias = Callable[[Changeset], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """How histories are compacted.

    The newest ``keep`` messages stay as they are. With a ``budget``, a turn compacts by itself, before it
    asks the model, when what the model would be shown is more than so many tokens or more than the window
    holds. The summary is made by ``summarize``, or by the model with these instructions.
    """

    keep: int = 10
    budget: int | None = None
    summarize: Summarize | None = None
    instructions: str = INSTRUCTIONS

    def __post_init__(self) -> None:
        check_fields(self)
        if self.summarize is not None:
            check_async(self.summarize, "summarize")
        if self.keep < 0 or (self.budget is not None and self.budget < 1):
            raise InvalidArgument(
                problem=f"To keep {self.keep} messages of {self.budget} tokens makes no sense."
            )


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did. At ``version - 1`` the history is what it was before."""

    thread: str
    version: int
    summary: str
    ended: int
    kept: int


async def compact(
    id: str, head: Head, items: Window, keep: int, summarize: Summarize, commit: Commit
) -> Compacted:
    """Put a summary in place of all visible items but the last few.

    Raises:
        InvalidArgument: There is nothing to compact, the summary is empty, or a guest keeps this history.
        VersionConflict: Somebody wrote meanwhile; nothing was changed.
        ModelFailed: There is no summary; nothing was changed.
    """
    check_ours(id, items)
    ended = _ended(items, keep)
    text = await summarize([message_of(item) for item in items[:ended]]) if ended else ""
    if ended and not text.strip():
        raise InvalidArgument(problem="The summary is empty.")
    summary = Item(role="system", kind=SUMMARY, body={"content": text})
    standing = _Standing(id, head, items, commit)
    done = await Log(standing, HISTORY).compact([summary], keep=keep)
    return Compacted(thread=id, version=done.version, summary=text, ended=ended, kept=len(items) - ended)


def check_ours(id: str, items: Window) -> None:
    """Refuse a history that a guest keeps, or that only mirrors one kept by a server.

    Raises:
        InvalidArgument: It holds items of another format, and a summary of ours must not stand among them.
    """
    guest = next((item.format for item in items if item.format != OURS), None)
    if guest is not None:
        raise InvalidArgument(
            problem=f"Thread {id!r} holds items of format {guest!r}; only what wrote them can compact them."
        )


def _ended(items: Window, keep: int) -> int:
    """How many items a compaction ends: a call stays with its result."""
    return parted(items.items, max(len(items) - keep, 0))


class _Standing:
    """A thread as it stood when its summary was made; what is appended to it must find it there."""

    def __init__(self, id: str, head: Head, items: Window, commit: Commit) -> None:
        self.id = id
        self._head = head
        self._items = items
        self._commit = commit

    async def head(self) -> Head:
        """The thread as it stood."""
        return self._head

    async def items(self, *, last: int | None = None, at: int | None = None, log: str = HISTORY) -> Window:
        """Its history as it stood."""
        return self._items

    async def append(self, change: Changeset, *, expect: Expect) -> Committed:
        """Commit the compaction, with a mark that the history begins with a summary."""
        assert expect == Exact(self._head.version)
        marked = msgspec.structs.replace(change, patches=(patch.merge([ABOUT], {SUMMARY: True}),))
        version = await self._commit(marked)
        return Committed(thread=self.id, version=version, time=0, hash=b"")


# In the middle of a turn.


class Gauge:
    """About how many tokens messages are: by their size, set right by what the provider last counted."""

    def __init__(self) -> None:
        self._ratio = 1.0
        self.failed = False
        """Whether a compaction was tried in this turn and did not come about."""

    def tokens(self, messages: Sequence[Message], instructions: str = "") -> int:
        """About how many tokens these are."""
        return round(tokens_of(messages, instructions) * self._ratio)

    def counted(self, request: Request, reply: Reply) -> None:
        """Learn from what the provider counted, if it did."""
        guessed = tokens_of(request.messages, request.instructions)
        if reply.usage.input_tokens and guessed:
            self._ratio = reply.usage.input_tokens / guessed


def tokens_of(messages: Sequence[Message], instructions: str = "") -> int:
    """A guess: a token for every four bytes, and four for each message around them."""
    size = sum(len(encode([message.content, message.name, message.arguments])) for message in messages)
    return (size + len(instructions.encode())) // 4 + 4 * len(messages)


async def compact_in_turn(ctx: Context, seen: Seen, compaction: Compaction, gauge: Gauge) -> bool:
    """Compact the history of a running turn, whose own messages all stay; whether it was done.

    It is put off while tool calls are open, and left for later if there is no summary or somebody wrote.
    """
    turn, stored = ctx.turn, ctx.turn.stored
    if stored is None or any(item.format != OURS for item in await stored.items(first=1)):
        return False  # a guest's history is not ours to compact, and not read in vain
    head = await stored.head()
    items = await stored.items(at=head.version)
    keep = max(_fitting(seen.messages, compaction, gauge), seen.heard + len(seen.own))
    ended = items[: _ended(items, keep)]
    if head.counters.open or all(item.kind == SUMMARY for item in ended):
        return False

    async def ask(request: Request) -> Reply:
        return await turn.ask(ctx.control_llm, request, quiet=True)

    async def commit(change: Changeset) -> int:
        done = await turn.append(change)
        after = await stored.head(at=done.version)
        turn.draft.rebased(after.state, after.counters.logs)
        return done.version

    given = compaction.summarize
    summarize = by_model(ask, compaction.instructions) if given is None else _guarded(given)
    try:
        await compact(turn.thread, head, items, keep, summarize, commit)
    except (RunFailed, VersionConflict, InvalidArgument) as error:
        log.warning("The history of thread %s was not compacted: %s", turn.thread, error)
        gauge.failed = True
        return False
    return True


def _guarded(summarize: Summarize) -> Summarize:
    """A summary by somebody else's function: if it fails there is none, and the turn goes on."""

    async def guarded(messages: Sequence[Message]) -> str:
        with model_boundary(SUMMARIZE):
            text = await summarize(messages)
        return checked_value(SUMMARIZE, text, str)

    return guarded


def outgrown(
    seen: Seen,
    shown: Sequence[Message],
    instructions: str,
    *,
    window: int,
    compaction: Compaction,
    gauge: Gauge,
) -> bool:
    """Whether a history is over its budget, or longer than a model sees."""
    if compaction.budget is None or gauge.failed:
        return False
    return seen.length > window or gauge.tokens(shown, instructions) > compaction.budget


def _fitting(messages: Sequence[Message], compaction: Compaction, gauge: Gauge) -> int:
    """How many of the newest messages to keep: at least one, at most half of the budget."""
    most = (compaction.budget or 0) // 2
    count = 1
    while count < min(compaction.keep, len(messages)) and gauge.tokens(messages[-count - 1 :]) <= most:
        count += 1
    return count


# Summaries by a model.


def by_model(ask: Ask, instructions: str, chunk: int = CHUNK) -> Summarize:
    """Let a model write the summary; a long history goes to it in parts, each with the summary so far."""

    async def summarize(messages: Sequence[Message]) -> str:
        text = ""
        for part in _parts(messages, chunk):
            before = f"summary: {text}\n" if text else ""
            said = Message(role="user", content=before + "\n".join(map(line_of, part)))
            reply = await ask(Request(messages=[said], instructions=instructions))
            text = reply.text.strip()
            if not text:
                raise ModelFailed(model="the model", problem="its summary is empty")
        return text

    return summarize


def _parts(messages: Sequence[Message], chunk: int) -> Iterator[list[Message]]:
    part: list[Message] = []
    for message in messages:
        if part and tokens_of([*part, message]) > chunk:
            yield part
            part = []
        part.append(message)
    if part:
        yield part


def line_of(message: Message) -> str:
    """A message as a line of a transcript."""
    content = text_of(message)
    if message.kind == CALL:
        return f"{message.role} called {message.name}: {encode(message.arguments).decode()}"
    if message.kind == RESULT:
        return f"{message.role} answered: {content}"
    return f"{message.kind if message.kind == SUMMARY else message.role}: {content}"
