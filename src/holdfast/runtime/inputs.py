"""What comes into a turn: checked against the schema, and as an item of the history."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core import items
from holdfast.core.encoding import JSON
from holdfast.core.errors import StateInvalid
from holdfast.core.values import HISTORY, Item
from holdfast.runtime.schema import Fold, Lifecycle, Schema

MESSAGE = "message"
CALLER = "the caller"


def checked_inputs(schema: Schema, given: str | Mapping[str, Any]) -> dict[str, JSON]:
    """The inputs of a turn as plain values; text alone is the message.

    Raises:
        StateInvalid: One is missing, unknown, no input, or of another type.
    """
    values = {MESSAGE: given} if isinstance(given, str) else dict(given)
    inputs: dict[str, JSON] = {}
    for name, value in values.items():
        field = schema.field(name, CALLER)
        if field.lifecycle is not Lifecycle.INPUT:
            raise StateInvalid(stage=CALLER, field=name, problem="it is not an input")
        inputs[name] = field.checked(value, CALLER)
    for name in schema.names(Lifecycle.INPUT):
        if schema.fields[name].required and name not in inputs:
            raise StateInvalid(stage=CALLER, field=name, problem="the turn needs it")
    return inputs


def user_item(schema: Schema, inputs: Mapping[str, JSON], *, id: str | None = None) -> Sequence[Item]:
    """The user's message as it goes into the history, if the schema has one."""
    history = schema.fields.get(HISTORY)
    if MESSAGE not in inputs or history is None or history.fold is not Fold.APPEND:
        return ()
    return [items.user(inputs[MESSAGE], id=id)]
