"""Messages: the entries of the history, as a stage and a model see them."""

from typing import Any

import msgspec

from clew.core.encoding import JSON
from clew.core.log.tool_calls import CALL, REPAIR, RESULT
from clew.core.values import HISTORY, Item

THOUGHTS = "thoughts"
"""The key of an item's body under which it keeps what a model thought."""

CUT_SHORT = "cut_short"
"""The key of a message's ``meta`` that is true if a new message came before the answer was finished."""
CUT_MARK = "[cut short by the next message]"
"""Follows the words of such an answer where a model reads them."""


class Message(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One entry of the conversation.

    A tool call has a ``call`` id, a ``name`` and ``arguments``; its result has the ``call`` id and its
    output as ``content``. ``meta`` is what an application stamps on it; an answer that was cut short by the
    next message has a true ``cut_short`` there. ``thoughts`` are what a model thought before it said this,
    for its provider alone: nobody is shown them.
    """

    role: str
    content: JSON = ""
    kind: str = "message"
    id: str | None = None
    call: str | None = None
    name: str | None = None
    arguments: JSON = None
    run: str | None = None
    step: int | None = None
    visibility: str = "all"
    meta: dict[str, JSON] = {}
    thoughts: tuple[JSON, ...] = ()

    @property
    def text(self) -> str:
        """The content, if it is text."""
        return self.content if isinstance(self.content, str) else ""


def message_of(item: Item) -> Message:
    """The message behind an item of our own format."""
    body: dict[str, Any] = item.body if isinstance(item.body, dict) else {"content": item.body}
    if len(body) == 1 and "content" in body and item.kind != RESULT:  # plain words, as most items are
        return Message(
            role=item.role,
            content=body["content"],
            kind=item.kind,
            id=item.id,
            call=item.call,
            run=item.run,
            step=item.step,
            visibility=item.visibility,
        )
    content = body.get("output", "") if item.kind == RESULT else body.get("content", "")
    return Message(
        role=item.role,
        content=content,
        kind=item.kind,
        id=item.id,
        call=item.call,
        name=body.get("name"),
        arguments=body.get("arguments"),
        run=item.run,
        step=item.step,
        visibility=item.visibility,
        meta=body.get("meta", {}),
        thoughts=tuple(body.get(THOUGHTS, ())),
    )


def item_of(message: Message, log: str = HISTORY) -> Item:
    """The item that a message is stored as."""
    if message.kind == CALL:
        body: dict[str, JSON] = {"name": message.name, "arguments": message.arguments}
    else:
        body = {"output" if message.kind == RESULT else "content": message.content}
    if message.meta:
        body["meta"] = message.meta
    if message.thoughts:
        body[THOUGHTS] = list(message.thoughts)
    return Item(
        body=body,
        role=message.role,
        kind=message.kind,
        id=message.id,
        log=log,
        run=message.run,
        step=message.step,
        call=message.call,
        visibility=message.visibility,
    )


__all__ = ["CALL", "REPAIR", "RESULT", "THOUGHTS", "Message", "item_of", "message_of"]
