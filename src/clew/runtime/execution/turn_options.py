"""What can be said about a turn, and the request that comes of it."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from clew.core.arguments import check_fields
from clew.core.ops import Document
from clew.runtime.context import MemoryMode
from clew.runtime.execution.start import BusyPolicy, TurnRequest
from clew.runtime.model.messages import Message, item_of
from clew.runtime.state.inputs import TurnInput, user_items, validate_inputs
from clew.runtime.state.schema import Schema


class TurnOptions(TypedDict, total=False):
    """The options of a turn, by name; see ``Runtime.run_turn``."""

    user: str | None
    key: str | None
    busy: BusyPolicy
    message_id: str | None
    messages: Sequence[Message]
    replace_state: Document | None
    origin: str
    parent: str | None
    mode: MemoryMode | None


def turn_request(
    schema: Schema, thread: str, message: TurnInput, **options: Unpack[TurnOptions]
) -> TurnRequest:
    """The request for a turn, its inputs checked against the schema.

    Raises:
        StateInvalid: An input is missing, unknown, or of another type.
    """
    inputs = validate_inputs(schema, message)
    messages = options.get("messages", ())
    for each in messages:
        check_fields(each)
    user_message = user_items(schema, inputs, id=options.get("message_id"))
    return TurnRequest(
        thread=thread,
        inputs=inputs,
        items=(*map(item_of, messages), *user_message),
        user=options.get("user"),
        key=options.get("key"),
        busy=options.get("busy", "wait"),
        replace=options.get("replace_state"),
        origin=options.get("origin", "user"),
        parent=options.get("parent"),
    )
