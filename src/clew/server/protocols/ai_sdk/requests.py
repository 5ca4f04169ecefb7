"""Requests of a chat: the turn, or the decisions, that the last message of its list asks for."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clew.api.ai_sdk import NewChatRequest, UiMessage
from clew.api.turns import NewTurn
from clew.core.encoding import JSON, encode
from clew.core.errors import InvalidArgument
from clew.runtime.state.call_state import INPUT, Approval, Decision, PassOn, Replay, UseResult
from clew.server.protocols.ai_sdk.chunks import DECLINED, asked_in

RESPONDED = "approval-responded"
"""The state of a tool part that a person has decided about, and the server has not."""
NO_REASON = "A person declined this call."


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a person to the question about a call."""

    approved: bool
    reason: str | None = None
    asked: int | None = None

    def decision(self, approval: Approval | None) -> Decision:
        """Return the decision that the answer is, to the question that waits, if it still does."""
        if not self.approved:
            return UseResult({DECLINED: self.reason or NO_REASON}, self.asked)
        if approval is not None and approval.why == INPUT:
            return PassOn(self.reason or True, self.asked)
        return Replay(self.asked)


def new_message(request: NewChatRequest) -> UiMessage:
    """Return the message that a chat asks to be answered: the last of its list.

    Raises:
        InvalidArgument: There is none, or it is not a user's.
    """
    if not request.messages or request.messages[-1].role != "user":
        problem = "There is nothing to answer: the last message is neither a user's nor decides about a call."
        raise InvalidArgument(problem=problem)
    return request.messages[-1]


def new_turn(request: NewChatRequest, message: UiMessage) -> NewTurn:
    """Return the turn that a message asks for.

    Raises:
        InvalidArgument: The message has parts that are no text.
    """
    return NewTurn(
        message=text_of(message),
        user=request.user,
        mode=request.mode,
        message_id=message.id,
        busy=request.busy,
        channel=request.channel,
        installed_skills=request.installed_skills,
        agent=request.agent,
    )


def text_of(message: UiMessage) -> str:
    """Return the text of a user's message.

    Raises:
        InvalidArgument: It has parts that are no text.
    """
    others = sorted({str(part.get("type")) for part in message.parts} - {"text"})
    if others:
        problem = f"A message can have text alone. This one has parts of the type {', '.join(others)}."
        raise InvalidArgument(problem=problem)
    return "".join(str(part.get("text", "")) for part in message.parts)


def is_edit(request: NewChatRequest) -> bool:
    """Return whether the last message was sent before, and is sent again with another text."""
    return request.trigger == "submit-message" and request.message_id is not None


def turn_key(request: NewChatRequest, message: UiMessage, earlier_run: str | None) -> str:
    """Return the idempotency key of the turn that answers a message.

    The same message sent again has the same key, so it runs once. One that was edited has another, and so has
    one that is to be answered anew, in place of an earlier run.
    """
    parts: list[JSON] = [message.id]
    if request.trigger == "regenerate-message":
        parts.append(request.message_id or earlier_run)
    elif is_edit(request):
        parts.append([text_of(message)])
    return f"ai-sdk-{hashlib.sha256(encode(parts)).hexdigest()[:32]}"


def approval_answers(request: NewChatRequest) -> dict[str, ChatAnswer]:
    """Return the answers about calls that the last message has, by call; none if it is a user's."""
    if not request.messages or request.messages[-1].role != "assistant":
        return {}
    return dict(_answers(request.messages[-1].parts))


def _answers(parts: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, ChatAnswer]]:
    for part in parts:
        approval = part.get("approval")
        if part.get("state") != RESPONDED or not isinstance(approval, dict):
            continue
        reason = approval.get("reason")
        yield (
            str(part.get("toolCallId", "")),
            ChatAnswer(
                approved=approval.get("approved") is True,
                reason=reason if isinstance(reason, str) else None,
                asked=asked_in(str(approval.get("id", ""))),
            ),
        )
