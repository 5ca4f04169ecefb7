"""What a model is shown, and what is kept: both made from the history's items, and apart from each other.

The view is made anew for each request and thrown away. What is kept of a turn comes from replies and tools
alone, so nothing that is done to a view can reach the history.
"""

import inspect
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from clew.core.encoding import encode, encode_checked
from clew.core.errors import InvalidArgument
from clew.core.values import ABOUT, HISTORY, Item
from clew.runtime.context import Context
from clew.runtime.model.messages import CALL, REPAIR, RESULT, Message, item_of, message_of
from clew.runtime.model.protocol import Reply, ToolCall
from clew.runtime.turn.draft import RUN, TURN

WINDOW = 40
HEARD = "$heard"
"""The key beside a turn's fields under which a stage notes how many messages it has seen to."""
SUMMARY = "summary"
"""The kind of an item that stands for others, and the mark in the state that there is one."""

Prepare: TypeAlias = Callable[[list[Message], Context], Sequence[Message] | Awaitable[Sequence[Message]]]
"""Makes of the messages what the model shall see: fewer, others, in any order. It may be async."""
Shows: TypeAlias = Callable[[Message], bool]
"""Whether the model shall see a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How much of the history a model sees, which of it, and in which shape."""

    window: int = WINDOW
    shows: Shows | None = None
    prepare: Prepare | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The newest messages of the history, and how many there are in all.

    ``own`` are those of this run that no stage before has seen to, after ``heard`` that one has. ``asked``
    is what the user said in this run.
    """

    messages: Sequence[Message]
    own: Sequence[Message]
    asked: Sequence[str]
    heard: int
    length: int


async def look(ctx: Context, window: int) -> Seen:
    """Read the newest messages: a window of them, and all that this run has added, if that is more."""
    log, run = ctx.turn.draft.log(HISTORY), ctx.turn.id
    count = window
    found: Sequence[Message] = await log.tail(count)
    while len(found) == count < len(log) and found[0].run == run:
        count *= 2
        found = await log.tail(count)
    own = [message for message in found if message.run == run]
    heard = _heard(ctx)
    return Seen(
        messages=found[max(len(found) - max(window, len(own)), 0) :],
        own=own[heard:],
        asked=[text_of(message) for message in own if message.role == "user"],
        heard=heard,
        length=len(log),
    )


def text_of(message: Message) -> str:
    """What a message says, as text, whatever its content is."""
    return message.content if isinstance(message.content, str) else encode(message.content).decode()


def _heard(ctx: Context) -> int:
    """How many messages of this run the stages before this one have seen to."""
    standing = ctx.turn.draft.state.get(RUN)
    fresh = standing.get(TURN) if isinstance(standing, dict) else None
    heard = fresh.get(HEARD, 0) if isinstance(fresh, dict) else 0
    return heard if isinstance(heard, int) else 0


async def prepared(ctx: Context, seen: Seen, view: View) -> list[Message]:
    """What the model is shown: whole calls only, without what is hidden, in the shape that was asked for.

    Raises:
        InvalidArgument: The shape holds something that is no message.
        InvalidValue: The shape holds something that is not JSON.
    """
    messages = [*await _summary(ctx, seen), *seen.messages]
    shown = [message for message in paired(messages) if view.shows is None or view.shows(message)]
    if view.prepare is not None:
        given = view.prepare([_copied(message) for message in shown], ctx)
        made = await given if inspect.isawaitable(given) else given
        shown = [_copied(message) for message in made]
    return paired(shown)


async def _summary(ctx: Context, seen: Seen) -> list[Message]:
    """The summary that the history begins with, if the window does not reach it."""
    about, stored = ctx.turn.draft.state.get(ABOUT), ctx.turn.stored
    marked = isinstance(about, dict) and SUMMARY in about
    if stored is None or not marked or seen.length <= len(seen.messages):
        return []
    return [message_of(item) for item in await stored.items(first=1) if item.kind == SUMMARY]


def _copied(message: Message) -> Message:
    """A message with nothing shared, the same as if it came from the store."""
    if not isinstance(message, Message):
        raise InvalidArgument(problem=f"A model is shown messages, not {type(message).__name__}.")
    item: Item = item_of(message)
    _, body = encode_checked(item.body, "a message of the view")
    return message_of(msgspec.structs.replace(item, body=body))


def kept(reply: Reply, own: Sequence[Message]) -> tuple[list[Message], list[ToolCall]]:
    """What the history keeps of a reply, and its calls, each with an id that no other call of the run has."""
    calls = _distinct(reply.calls, {message.call for message in own if message.kind == CALL})
    text = Message(role="assistant", content=reply.text, thoughts=reply.thoughts)
    said = [text] if reply.text or not calls else []
    asked = [
        Message(
            role="assistant",
            kind=CALL,
            call=call.id,
            name=call.name,
            arguments=call.arguments,
            thoughts=call.thoughts,
        )
        for call in calls
    ]
    return said + asked, calls


def _distinct(calls: Sequence[ToolCall], taken: set[str | None]) -> list[ToolCall]:
    found: list[ToolCall] = []
    for call in calls:
        id, number = call.id, 1
        while id in taken:
            number += 1
            id = f"{call.id}-{number}"
        taken.add(id)
        found.append(msgspec.structs.replace(call, id=id))
    return found


# Calls and their results.


def unanswered(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls among messages, in their order, that nothing after them answers."""
    open: dict[str, ToolCall] = {}
    for message in messages:
        if message.kind == CALL and message.call is not None:
            open[message.call] = ToolCall(
                id=message.call, name=message.name or "", arguments=message.arguments
            )
        elif message.kind == RESULT:
            open.pop(message.call or "", None)
        elif message.kind == REPAIR:
            open.clear()
    return list(open.values())


def paired(messages: Sequence[Message]) -> list[Message]:
    """Messages in which each call is followed by its result; a call or a result alone is left out.

    A call that was closed without an answer gets the reason as its result.
    """
    answers = _answers(messages)
    counted: Counter[tuple[str | None, str | None]] = Counter()
    found: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        if message.kind == CALL:
            key = (message.run, message.call)
            answer = answers.get((*key, counted[key]))
            counted[key] += 1
            if answer is not None:
                found.append(message)
                waiting.append(answer)
            continue
        found += waiting
        waiting = []
        if message.kind not in (RESULT, REPAIR):
            found.append(message)
    return found + waiting


_Key: TypeAlias = tuple[str | None, str | None, int]


def _answers(messages: Sequence[Message]) -> dict[_Key, Message]:
    """The answer to the first, second, … call of each id; results count before repairs."""
    answers: dict[_Key, Message] = {}
    counted: Counter[tuple[str | None, str | None]] = Counter()
    for message in messages:
        if message.kind == RESULT:
            key = (message.run, message.call)
            answers[*key, counted[key]] = message
            counted[key] += 1
    for asked, repair in _repaired(messages):
        answers.setdefault(asked, repair)
    return answers


def _repaired(messages: Sequence[Message]) -> Iterator[tuple[_Key, Message]]:
    """Every call before a repair, with the repair's reason as its result."""
    asked: defaultdict[tuple[str | None, str | None], int] = defaultdict(int)
    for message in messages:
        if message.kind == CALL:
            asked[message.run, message.call] += 1
        elif message.kind == REPAIR:
            for (run, call), count in asked.items():
                answer = Message(role="tool", kind=RESULT, call=call, content=message.content, run=run)
                yield from (((run, call, number), answer) for number in range(count))
