"""The view of a model: the messages that it is shown, made from the history and apart from it.

The view is built anew for each request and thrown away. What a turn stores comes from replies and tools
alone, so no change of a view can reach the history.
"""

import inspect
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from clew.core.encoding import encode, encode_checked
from clew.core.errors import InvalidArgument
from clew.core.values import ABOUT_KEY, HISTORY, Item
from clew.runtime.context import Context
from clew.runtime.model.messages import (
    CALL,
    CUT_MARK,
    CUT_SHORT,
    REPAIR,
    RESULT,
    Message,
    item_of,
    message_of,
)
from clew.runtime.model.protocol import Reply, ToolCall

WINDOW = 40
CALL_KINDS = frozenset((CALL, RESULT, REPAIR))
"""The kinds of messages that are about tool calls."""
SUMMARY = "summary"
"""The kind of an item that replaces others, and the mark in the state that there is one."""

Prepare: TypeAlias = Callable[[list[Message], Context], Sequence[Message] | Awaitable[Sequence[Message]]]
"""Turns the messages into those that the model sees: fewer, others, in any order. It may be async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTail:
    """The newest messages of the history; ``length`` is the number of all.

    ``own`` are those of this run that no earlier stage has answered, after ``handled_count`` that one has.
    ``user_texts`` are the words of the user in this run.
    """

    messages: Sequence[Message]
    own: Sequence[Message]
    user_texts: Sequence[str]
    handled_count: int
    length: int


async def read_history_tail(context: Context, window: int) -> HistoryTail:
    """Read the newest whole turns: as many as a window of messages holds, and always the present one."""
    log, run = context.turn.draft.log(HISTORY), context.turn.id
    count = window + 1  # one more, which tells whether the first of the window begins a turn
    messages: Sequence[Message] = await log.tail(count)
    while len(messages) == count < len(log) and messages[0].run == run:
        count *= 2
        messages = await log.tail(count)
    own = [message for message in messages if message.run == run]
    handled_count = context.turn.run_state.handled_count
    return HistoryTail(
        messages=messages[_window_start(messages, window, run, is_whole=len(messages) == len(log)) :],
        own=own[handled_count:],
        user_texts=[message_text(message) for message in own if message.role == "user"],
        handled_count=handled_count,
        length=len(log),
    )


def _window_start(messages: Sequence[Message], window: int, run: str, *, is_whole: bool) -> int:
    """Return where a window begins: with the first turn that it holds whole, no later than the present one.

    A model would be shown half a turn otherwise: a result without its call, or an answer to nothing.
    """
    earliest = max(len(messages) - window, 0)
    if is_whole and earliest == 0:
        return 0
    own_start = next((at for at, message in enumerate(messages) if message.run == run), None)
    # A run may go on with what a user said before it began: then the present turn begins there.
    newest = len(messages) - 1 if own_start is None else own_start
    starts = (at for at in range(newest, 0, -1) if _begins_turn(messages, at))
    present = next(starts, earliest if own_start is None else own_start)
    return next((at for at in range(earliest, present) if _begins_turn(messages, at)), present)


def _begins_turn(messages: Sequence[Message], at: int) -> bool:
    """Return whether a message is a user's and the first of its run, as far as the messages tell."""
    if not 0 < at < len(messages) or messages[at].role != "user":
        return False
    return messages[at].run is None or messages[at].run != messages[at - 1].run


def message_text(message: Message) -> str:
    """Return the content of a message as text."""
    return message.content if isinstance(message.content, str) else encode(message.content).decode()


async def messages_for_model(
    context: Context, tail: HistoryTail, shows: Callable[[Message], bool] | None, prepare: Prepare | None
) -> list[Message]:
    """Return the messages for the model: whole calls only, of them those that it is shown, as prepared.

    Raises:
        InvalidArgument: What was prepared holds something that is no message.
        InvalidValue: What was prepared holds something that is not JSON.
    """
    messages = [*await _summary(context, tail), *tail.messages]
    visible = pair_calls([_with_cut_mark(message) if message.meta else message for message in messages])
    if shows is None and prepare is None:
        return visible
    visible = [message for message in visible if shows is None or shows(message)]
    if prepare is not None:
        result = prepare([_copy_message(message) for message in visible], context)
        new_messages = await result if inspect.isawaitable(result) else result
        visible = [_copy_message(message) for message in new_messages]
    return pair_calls(visible)


def _with_cut_mark(message: Message) -> Message:
    """Return a message that says so if it was cut short: a model must not take half an answer for a whole."""
    if not message.meta.get(CUT_SHORT) or message.role != "assistant":
        return message
    return msgspec.structs.replace(message, content=f"{message_text(message)} {CUT_MARK}")


async def _summary(context: Context, tail: HistoryTail) -> list[Message]:
    """Return the summary that the history begins with, if the window does not reach it."""
    about, thread = context.turn.draft.state.get(ABOUT_KEY), context.turn.store_thread
    has_summary = isinstance(about, dict) and SUMMARY in about
    if thread is None or not has_summary or tail.length <= len(tail.messages):
        return []
    return [message_of(item) for item in await thread.items(first=1) if item.kind == SUMMARY]


def _copy_message(message: Message) -> Message:
    """Return a message that shares nothing, the same as if it came from the store."""
    if not isinstance(message, Message):
        raise InvalidArgument(problem=f"A model is shown messages, not {type(message).__name__}.")
    item: Item = item_of(message)
    _, body = encode_checked(item.body, "a message of the view")
    return message_of(msgspec.structs.replace(item, body=body))


def messages_of_reply(reply: Reply, own: Sequence[Message]) -> tuple[list[Message], list[ToolCall]]:
    """Return the messages and the calls of a reply, each call with an id that no other of the run has."""
    used_ids = {message.call for message in own if message.kind == CALL and message.call is not None}
    calls = [msgspec.structs.replace(call, id=free_call_id(call.id, used_ids)) for call in reply.calls]
    text = Message(role="assistant", content=reply.text, thoughts=reply.thoughts)
    texts = [text] if reply.text or not calls else []
    call_messages = [
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
    return texts + call_messages, calls


def free_call_id(base: str, used_ids: set[str]) -> str:
    """Return an id for a call that is not used yet, and add it to the used ones."""
    id, number = base, 1
    while id in used_ids:
        number += 1
        id = f"{base}-{number}"
    used_ids.add(id)
    return id


# Calls and their results.


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls among messages, in their order, that nothing after them answers."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if message.kind == CALL and message.call is not None:
            calls[message.call] = ToolCall(
                id=message.call, name=message.name or "", arguments=message.arguments
            )
        elif message.kind == RESULT:
            calls.pop(message.call or "", None)
        elif message.kind == REPAIR:
            calls.clear()
    return list(calls.values())


def pair_calls(messages: Sequence[Message]) -> list[Message]:
    """Return messages in which each call is followed by its result; a call or a result alone is left out.

    A call that was closed without an answer gets the reason as its result.
    """
    if {message.kind for message in messages}.isdisjoint(CALL_KINDS):
        return list(messages)
    answers = _answers(messages)
    counts: Counter[tuple[str | None, str | None]] = Counter()
    result: list[Message] = []
    results: list[Message] = []
    for message in messages:
        if message.kind == CALL:
            key = (message.run, message.call)
            answer = answers.get((*key, counts[key]))
            counts[key] += 1
            if answer is not None:
                result.append(message)
                results.append(answer)
            continue
        result += results
        results = []
        if message.kind not in (RESULT, REPAIR):
            result.append(message)
    return result + results


_CallKey: TypeAlias = tuple[str | None, str | None, int]


def _answers(messages: Sequence[Message]) -> dict[_CallKey, Message]:
    """Return the answer to the first, second, … call of each id; a result goes before a repair."""
    answers: dict[_CallKey, Message] = {}
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for message in messages:
        if message.kind == RESULT:
            key = (message.run, message.call)
            answers[*key, counts[key]] = message
            counts[key] += 1
    for call_key, repair in _repair_answers(messages):
        answers.setdefault(call_key, repair)
    return answers


def _repair_answers(messages: Sequence[Message]) -> Iterator[tuple[_CallKey, Message]]:
    """Yield every call before a repair, with the reason of the repair as its result."""
    call_counts: defaultdict[tuple[str | None, str | None], int] = defaultdict(int)
    for message in messages:
        if message.kind == CALL:
            call_counts[message.run, message.call] += 1
        elif message.kind == REPAIR:
            for (run, call), count in call_counts.items():
                answer = Message(role="tool", kind=RESULT, call=call, content=message.content, run=run)
                yield from (((run, call, number), answer) for number in range(count))
