"""The history of a thread as messages of AG-UI, each with one id, however a client comes to it."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from clew.api.ag_ui import AgUiFunction, AgUiMessage, AgUiToolCall
from clew.core.messages.plain import as_text
from clew.core.values import Item
from clew.runtime.model.messages import CALL, REPAIR, RESULT, Message, message_of

TEXT_ROLES = ("user", "assistant", "system", "developer")
NO_RUN = "thread"
"""Stands for the run in the ids of messages that were appended by none."""


class TextPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A message of text at the end of a transcript."""

    message: AgUiMessage


class CallPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call in the last message of a transcript; ``parent`` is the id of that message."""

    parent: str
    call: AgUiToolCall


class ResultPiece(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call, as a message."""

    message: AgUiMessage


Piece: TypeAlias = TextPiece | CallPiece | ResultPiece


class Transcript:
    """The messages of a thread as a client of AG-UI has them.

    Tool calls are parts of the message of the agent before them. A message without an id of its own has one
    made of its run and its number in it, so that text which is not stored yet can have the same.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.messages: list[AgUiMessage] = []
        self._runs: dict[str, str | None] = {}
        self._counts: Counter[str] = Counter()
        self._open_calls: list[str] = []
        self._last_step: tuple[str | None, int | None] | None = None
        for item in items:
            if item.visibility == "all":
                self.add(message_of(item))

    def run_of(self, id: str | None) -> str | None:
        """Return the run of a message; None if there is no such message, or it was appended by none."""
        return self._runs.get(id or "")

    def next_id(self, run: str | None) -> str:
        """Return the id that the next message of a run will have, unless it brings one."""
        return f"{run or NO_RUN}-{self._counts[run or NO_RUN] + 1}"

    def add(self, message: Message) -> list[Piece]:
        """Add a message, and return what a client has to add."""
        if message.kind == CALL:
            return [self._add_call(message)]
        self._last_step = None
        if message.kind == RESULT:
            return [self._add_result(message, tool_call_id(message.run, message.call), message.content)]
        if message.kind == REPAIR:
            return [self._add_result(message, call, message.content) for call in list(self._open_calls)]
        if message.role == "assistant":
            self._last_step = (message.run, message.step)
        role = message.role if message.role in TEXT_ROLES else "system"
        text = AgUiMessage(id=self._take_id(message), role=role, content=as_text(message.content))
        self.messages.append(text)
        return [TextPiece(message=text)]

    def _add_call(self, message: Message) -> CallPiece:
        """Add a call to the message of the same answer, or to a new one that has no text."""
        arguments = message.arguments
        call = AgUiToolCall(
            id=tool_call_id(message.run, message.call),
            function=AgUiFunction(
                name=message.name or "", arguments=as_text({} if arguments is None else arguments)
            ),
        )
        if self._last_step != (message.run, message.step):
            self._last_step = (message.run, message.step)
            self.messages.append(AgUiMessage(id=self._take_id(message), role="assistant"))
        parent = self.messages[-1]
        calls = (*(parent.tool_calls or ()), call)
        self.messages[-1] = msgspec.structs.replace(parent, tool_calls=calls)
        self._open_calls.append(call.id)
        return CallPiece(parent=parent.id, call=call)

    def _add_result(self, message: Message, call: str, content: object) -> ResultPiece:
        """Add a result behind the message with its call, as clients do, or else at the end."""
        if call in self._open_calls:
            self._open_calls.remove(call)
        result = AgUiMessage(
            id=self._take_id(message), role="tool", content=as_text(content), tool_call_id=call
        )
        self.messages.insert(self._place_of_result(call), result)
        return ResultPiece(message=result)

    def _place_of_result(self, call: str) -> int:
        owners = (
            index
            for index, message in enumerate(self.messages)
            if any(each.id == call for each in message.tool_calls or ())
        )
        owner = next(owners, None)
        if owner is None:
            return len(self.messages)
        place = owner + 1
        while place < len(self.messages) and self.messages[place].role == "tool":
            place += 1
        return place

    def _take_id(self, message: Message) -> str:
        """Return an id for a message that no other one has."""
        made_id = self.next_id(message.run)
        self._counts[message.run or NO_RUN] += 1
        id = made_id if message.id is None or message.id in self._runs else message.id
        self._runs[id] = message.run
        return id


def tool_call_id(run: str | None, call: str | None) -> str:
    """Return the id of a tool call in a whole conversation; a runtime's own is good for one run."""
    return f"{run}:{call}" if run is not None else call or ""


def comparable(message: AgUiMessage) -> AgUiMessage:
    """Return a message as it is compared with another: a message without text is one with an empty text."""
    return msgspec.structs.replace(
        message, content=message.content or "", tool_calls=message.tool_calls or None
    )
