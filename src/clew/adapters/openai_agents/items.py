"""Between the SDK's items and ours: stored as given, with role, kind and call written beside them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from agents.items import TResponseInputItem

from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, InvalidValue
from clew.core.log.tool_calls import CALL, RESULT
from clew.core.values import Item

FORMAT: Final = "openai.responses"
"""The format of every item that a session writes."""

OUTPUT = "_output"
ANSWERS = {"mcp_approval_response": "approval_request_id"}
LONGEST_NAME = 64
LONGEST_CALL = 512


def stored(items: Sequence[TResponseInputItem]) -> tuple[Item, ...]:
    """The SDK's items, ready to append.

    Raises:
        InvalidValue: One of them is not a JSON object.
    """
    return tuple(_stored(item, index) for index, item in enumerate(items))


def given(items: Iterable[Item], session: str) -> list[TResponseInputItem]:
    """Stored items as the SDK gave them; nothing of ours is added.

    Raises:
        InvalidArgument: One of them was not written by such a session.
    """
    found: list[TResponseInputItem] = []
    for item in items:
        check_format(item, session)
        found.append(cast(TResponseInputItem, item.body))
    return found


def check_format(item: Item, session: str) -> None:
    """Refuse an item of another format.

    Raises:
        InvalidArgument: It was not written by such a session.
    """
    if item.format != FORMAT:
        raise InvalidArgument(
            problem=f"Thread {session!r} holds items of format {item.format!r}, not {FORMAT!r}. "
            "Open it with what wrote it, or choose another session id."
        )


def _stored(body: JSON, index: int) -> Item:
    if not isinstance(body, Mapping):
        raise InvalidValue(path=f"items[{index}]", problem=f"{type(body).__name__} is not a JSON object")
    said = body.get("type")
    role, kind = _role_and_kind(said if isinstance(said, str) else "", body.get("role"))
    call = body.get(ANSWERS.get(said, "call_id") if isinstance(said, str) else "call_id")
    return Item(body=body, role=role, kind=kind, call=_name(call, LONGEST_CALL), format=FORMAT)


def _role_and_kind(said: str, role: object) -> tuple[str, str]:
    """Who an item comes from and what it is, as all of Clew says it."""
    if said in ("", "message"):
        return _name(role, LONGEST_NAME) or "", "message"
    if said.endswith(OUTPUT) or said in ANSWERS:
        return "tool", RESULT
    if said.endswith("_call") or said == "mcp_approval_request":
        return "assistant", CALL
    return "assistant", _name(said, LONGEST_NAME) or "message"


def _name(value: object, longest: int) -> str | None:
    """A word that can stand beside an item; anything else is only in its body."""
    if isinstance(value, str) and 0 < len(value) <= longest and value.isascii() and value.isprintable():
        return value
    return None
