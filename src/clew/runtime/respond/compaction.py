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
from clew.core.log.tool_calls import CLEW_FORMAT, split_index
from clew.core.values import ABOUT_KEY, HISTORY, Changeset, Head, Item, Window
from clew.database.log import commit_compaction
from clew.runtime.context import Context
from clew.runtime.model.boundary import checked_value, model_boundary
from clew.runtime.model.messages import CALL, RESULT, Message, message_of
from clew.runtime.model.protocol import ModelRequest, Reply
from clew.runtime.respond.view import SUMMARY, HistoryTail, message_text

log = logging.getLogger("clew")
COMPACT = "Compact"
SUMMARIZE = "summarize"
"""The name of a function that makes summaries, in the error of its failure."""
CHUNK = 24_000
"""The estimated tokens of a part of a history that a model summarizes at once."""
INSTRUCTIONS = (
    "Summarise this conversation so that it can go on without its beginning. Keep names, facts, numbers, "
    "decisions, what was promised, what the tools found, and what is still open. Leave out small talk. "
    "Answer with the summary alone."
)

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""Makes one text of some messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The rules by which histories are compacted.

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


class CompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a compaction. At ``version - 1`` the history is what it was before."""

    thread: str
    version: int
    summary: str
    items_removed: int
    items_left: int


async def compact(
    head: Head,
    items: Window,
    keep: int,
    summarize: Summarize,
    commit: Callable[[Changeset], Awaitable[int]],
) -> CompactionResult:
    """Put a summary in place of all visible items but the last few of a thread that is read at one version.

    ``commit`` commits only there, and returns the version that it made.

    Raises:
        InvalidArgument: There is nothing to compact, the summary is empty, or a guest keeps this history.
        VersionConflict: Another writer was faster; nothing was changed.
        ModelFailed: There is no summary; nothing was changed.
    """
    check_own_format(head.id, items)
    count = _removal_count(items, keep)
    text = await summarize([message_of(item) for item in items[:count]]) if count else ""
    if count and not text.strip():
        raise InvalidArgument(problem="The summary is empty.")
    summary = Item(role="system", kind=SUMMARY, body={"content": text})

    async def commit_with_mark(change: Changeset) -> int:
        mark = patch.merge([ABOUT_KEY], {SUMMARY: True})  # the history begins with a summary
        return await commit(msgspec.structs.replace(change, patches=(mark,)))

    version = await commit_compaction(head, items, [summary], commit_with_mark, log=HISTORY, keep=keep)
    return CompactionResult(
        thread=head.id, version=version, summary=text, items_removed=count, items_left=len(items) - count
    )


def check_own_format(id: str, items: Window) -> None:
    """Refuse a history that a guest keeps, or that only mirrors one kept by a server.

    Raises:
        InvalidArgument: It holds items of another format, and a summary of ours must not be among them.
    """
    guest = next((item.format for item in items if item.format != CLEW_FORMAT), None)
    if guest is not None:
        raise InvalidArgument(
            problem=f"Thread {id!r} holds items of format {guest!r}; only what wrote them can compact them."
        )


def _removal_count(items: Window, keep: int) -> int:
    """Return how many items a compaction ends: a call stays with its result."""
    return split_index(items.items, max(len(items) - keep, 0))


# In the middle of a turn.


class TokenGauge:
    """Estimates the tokens of messages by their size, corrected by the provider's last count."""

    def __init__(self) -> None:
        self._ratio = 1.0
        self.has_failed = False
        """True if a compaction was tried in this turn and did not come about."""

    def tokens(self, messages: Sequence[Message], instructions: str = "") -> int:
        """Return an estimate of the tokens of messages and instructions."""
        return round(estimate_tokens(messages, instructions) * self._ratio)

    def calibrate(self, request: ModelRequest, reply: Reply) -> None:
        """Correct the estimates by the provider's count of a request, if it gave one."""
        estimate = estimate_tokens(request.messages, request.instructions)
        if reply.usage.input_tokens and estimate:
            self._ratio = reply.usage.input_tokens / estimate


def estimate_tokens(messages: Sequence[Message], instructions: str = "") -> int:
    """Estimate tokens by size: one for every four bytes, and four for each message around them."""
    size = sum(len(encode([message.content, message.name, message.arguments])) for message in messages)
    return (size + len(instructions.encode())) // 4 + 4 * len(messages)


async def compact_in_turn(
    context: Context, tail: HistoryTail, compaction: Compaction, gauge: TokenGauge
) -> bool:
    """Compact the history of a running turn, whose own messages all stay; return whether it was done.

    It is put off while tool calls are open, and left for later without a summary or after a conflict.
    """
    turn, thread = context.turn, context.turn.store_thread
    if thread is None or any(item.format != CLEW_FORMAT for item in await thread.items(first=1)):
        return False  # a guest's history is not ours to compact, so it is not read as a whole
    head = await thread.head()
    items = await thread.items(at=head.version)
    keep = max(_keep_count(tail.messages, compaction, gauge), tail.handled_count + len(tail.own))
    old_items = items[: _removal_count(items, keep)]
    if head.counters.open or all(item.kind == SUMMARY for item in old_items):
        return False

    async def ask(request: ModelRequest) -> Reply:
        return await turn.ask(context.control_llm, request, quiet=True)

    async def commit(change: Changeset) -> int:
        new_change = await turn.append_change(change)
        after = await thread.head(at=new_change.version)
        turn.draft.rebase_onto(after.state, after.counters.logs)
        return new_change.version

    custom = compaction.summarize
    summarize = model_summarizer(ask, compaction.instructions) if custom is None else _guard_summarize(custom)
    try:
        await compact(head, items, keep, summarize, commit)
    except (RunFailed, VersionConflict, InvalidArgument) as error:
        log.warning("The history of thread %s was not compacted: %s", turn.thread, error)
        gauge.has_failed = True
        return False
    return True


def _guard_summarize(summarize: Summarize) -> Summarize:
    """Wrap a function that is not ours: whatever it raises or returns instead of text is ``ModelFailed``."""

    async def summarize_or_fail(messages: Sequence[Message]) -> str:
        with model_boundary(SUMMARIZE):
            text = await summarize(messages)
        return checked_value(SUMMARIZE, text, str)

    return summarize_or_fail


def is_outgrown(
    tail: HistoryTail,
    messages: Sequence[Message],
    instructions: str,
    *,
    window: int,
    compaction: Compaction,
    gauge: TokenGauge,
) -> bool:
    """Return whether a history is over its budget, or longer than a model sees."""
    if compaction.budget is None or gauge.has_failed:
        return False
    return tail.length > window or gauge.tokens(messages, instructions) > compaction.budget


def _keep_count(messages: Sequence[Message], compaction: Compaction, gauge: TokenGauge) -> int:
    """Return how many of the newest messages to keep: at least one, at most half of the budget."""
    most = (compaction.budget or 0) // 2
    count = 1
    while count < min(compaction.keep, len(messages)) and gauge.tokens(messages[-count - 1 :]) <= most:
        count += 1
    return count


# Summaries by a model.


def model_summarizer(
    ask: Callable[[ModelRequest], Awaitable[Reply]], instructions: str, chunk: int = CHUNK
) -> Summarize:
    """Return a function that has a model summarize: in parts if it is long, each with the summary so far."""

    async def summarize(messages: Sequence[Message]) -> str:
        text = ""
        for part in _parts(messages, chunk):
            before = f"summary: {text}\n" if text else ""
            prompt = Message(role="user", content=before + "\n".join(map(transcript_line, part)))
            reply = await ask(ModelRequest(messages=[prompt], instructions=instructions))
            text = reply.text.strip()
            if not text:
                raise ModelFailed(model="the model", problem="its summary is empty")
        return text

    return summarize


def _parts(messages: Sequence[Message], chunk: int) -> Iterator[list[Message]]:
    part: list[Message] = []
    for message in messages:
        if part and estimate_tokens([*part, message]) > chunk:
            yield part
            part = []
        part.append(message)
    if part:
        yield part


def transcript_line(message: Message) -> str:
    """A message as a line of a transcript."""
    content = message_text(message)
    if message.kind == CALL:
        return f"{message.role} called {message.name}: {encode(message.arguments).decode()}"
    if message.kind == RESULT:
        return f"{message.role} answered: {content}"
    return f"{message.kind if message.kind == SUMMARY else message.role}: {content}"
