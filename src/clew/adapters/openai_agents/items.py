"""Between the SDK's items and ours: stored as given, with role, kind and call written beside them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import msgspec
from agents.items import TResponseInputItem
from agents.models.fake_id import FAKE_RESPONSES_ID

from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, InvalidValue
from clew.core.log.tool_calls import CALL, RESULT
from clew.core.messages.orphans import find_orphans
from clew.core.values import Item

FORMAT: Final = "openai.responses"
"""The format of every item that a session writes."""

OUTPUT_SUFFIX = "_output"
REASONING = "reasoning"
NO_IDS = ("", FAKE_RESPONSES_ID)
"""Ids that say nothing: the SDK has one for providers that give none."""
CALL_KEYS = {"mcp_approval_request": "id", "mcp_approval_response": "approval_request_id"}
"""The keys of a call's id in items that have it under another than ``call_id``."""
CALL_TYPES = ("program", "mcp_approval_request")
RESULT_TYPES = ("mcp_approval_response",)
"""Calls and results whose types do not end as such."""
LONGEST_NAME = 64
LONGEST_CALL = 512


def items_from_sdk(items: Sequence[TResponseInputItem]) -> tuple[Item, ...]:
    """The SDK's items, ready to append.

    Raises:
        InvalidValue: One of them is not a JSON object.
    """
    return tuple(_item_from_sdk(item, index) for index, item in enumerate(items))


def sdk_items(items: Iterable[Item], session: str) -> list[TResponseInputItem]:
    """Stored items as the SDK gave them; nothing of ours is added.

    Raises:
        InvalidArgument: One of them was not written by such a session.
    """
    result: list[JSON] = []
    for item in items:
        if item.format != FORMAT:
            check_format(item, session)
        result.append(item.body)
    return cast(list[TResponseInputItem], result)


class HiddenItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a model is not shown, since its provider would refuse it, and the reason."""

    place: int
    type: str
    problem: str


def hidden_items(items: Sequence[Item]) -> list[HiddenItem]:
    """The items that a provider would refuse in a history: outputs without a call, thoughts without a sequel.

    A call without an output is no such item: what comes after the history may answer it, and the SDK leaves
    it out if nothing does.
    """
    orphans = find_orphans((_call_ids(item, CALL), _call_ids(item, RESULT)) for item in items)
    problems = {index: f"it answers no call {call!r}" for index, call in orphans.results}
    follower: Item | None = None
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item.kind == REASONING:
            if follower is None or follower.role != "assistant":
                problems[index] = "nothing that it led to follows"
        elif index not in problems:
            follower = item
    return [
        HiddenItem(place=items[index].place, type=str(items[index].body.get("type")), problem=problem)
        for index, problem in sorted(problems.items())
    ]


def _call_ids(item: Item, kind: str) -> tuple[str, ...]:
    return (item.call,) if item.kind == kind and item.call is not None else ()


def keys_of(item: TResponseInputItem) -> frozenset[tuple[str, str]]:
    """The keys by which a copy of an item is recognised: its call and its provider's id.

    A message of a person has none; said twice, it is two items.
    """
    body = cast(JSON, item)
    if not isinstance(body, Mapping):
        return frozenset()
    sdk_type = body.get("type") or "message"
    keys = {("id", body.get("id")), (sdk_type, body.get(CALL_KEYS.get(sdk_type, "call_id")))}
    return frozenset((name, value) for name, value in keys if isinstance(value, str) and value not in NO_IDS)


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


def _item_from_sdk(body: JSON, index: int) -> Item:
    if not isinstance(body, Mapping):
        raise InvalidValue(path=f"items[{index}]", problem=f"{type(body).__name__} is not a JSON object")
    sdk_type = body.get("type")
    role, kind = _role_and_kind(sdk_type if isinstance(sdk_type, str) else "", body.get("role"))
    call = body.get(CALL_KEYS.get(sdk_type, "call_id") if isinstance(sdk_type, str) else "call_id")
    return Item(body=body, role=role, kind=kind, call=_short_text(call, LONGEST_CALL), format=FORMAT)


def _role_and_kind(sdk_type: str, role: object) -> tuple[str, str]:
    """The role and the kind of an item, in Clew's words."""
    if sdk_type in ("", "message"):
        return _short_text(role, LONGEST_NAME) or "", "message"
    if sdk_type.endswith(OUTPUT_SUFFIX) or sdk_type in RESULT_TYPES:
        return "tool", RESULT
    if sdk_type.endswith("_call") or sdk_type in CALL_TYPES:
        return "assistant", CALL
    return "assistant", _short_text(sdk_type, LONGEST_NAME) or "message"


def _short_text(value: object, longest: int) -> str | None:
    """A word that can be stored beside an item; anything else is only in its body."""
    if isinstance(value, str) and 0 < len(value) <= longest and value.isascii() and value.isprintable():
        return value
    return None
