"""The inputs of a turn: checked against the schema, and as an item of the history."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from clew.core import items
from clew.core.encoding import JSON, check_id
from clew.core.errors import InvalidArgument, InvalidId, StateInvalid
from clew.core.log.owners import ADK
from clew.core.values import RESERVED_THREAD_PREFIXES, Item
from clew.runtime.state.schema import Lifecycle, Schema

MESSAGE = "message"
SESSION_ID, USER_ID = "session_id", "user_id"
"""Inputs that the runtime sets where a schema has them: the id of the turn's thread, and that of its user."""
CALLER = "the caller"
NOT_FREE = (*RESERVED_THREAD_PREFIXES, ADK)
"""The prefixes of ids that no conversation may have: our own, and those of the threads of ADK."""


def check_thread_id(thread: object, what: str = "thread id") -> str:
    """Return the id of a thread, if a conversation may have it.

    Raises:
        InvalidId: It is missing, cannot name anything, or is reserved.
    """
    what = "thread id" if what == "thread" else what  # as the argument of a turn is called
    if thread is None or thread == "":
        raise InvalidId(what=what, problem="it is missing, and the runtime never makes one up")
    if (id := check_id(thread, what)).startswith(NOT_FREE):
        problem = f"{thread!r} is reserved, as all names that begin with {' or '.join(NOT_FREE)}"
        raise InvalidId(what=what, problem=problem)
    return id


FreeId: TypeAlias = Annotated[str, check_thread_id]
"""The id of a thread that a conversation may have."""


def inputs_of(turn_input: Any, what: str = "message") -> Mapping[str, Any]:
    """Return the inputs of a turn by name; text alone is the message.

    Raises:
        InvalidArgument: It is neither text, nor a dict, nor a struct.
    """
    if isinstance(turn_input, str):
        return {MESSAGE: turn_input}
    if isinstance(turn_input, msgspec.Struct):
        return msgspec.structs.asdict(turn_input)
    if dataclasses.is_dataclass(turn_input) and not isinstance(turn_input, type):
        return {field.name: getattr(turn_input, field.name) for field in dataclasses.fields(turn_input)}
    if isinstance(turn_input, Mapping):
        return turn_input
    problem = f"{what} must be text, a dict of inputs or a struct of them, not {type(turn_input).__name__}."
    raise InvalidArgument(problem=problem)


TurnInput: TypeAlias = Annotated[str | Mapping[str, Any] | msgspec.Struct, inputs_of]
"""The input of a turn: the message alone, a dict of inputs, or an input type of the application."""


def validate_inputs(schema: Schema, turn_input: TurnInput) -> dict[str, JSON]:
    """Return the inputs of a turn as plain values; text alone is the message.

    Raises:
        StateInvalid: One is missing, unknown, no input, or of another type.
    """
    inputs = check_inputs(schema, inputs_of(turn_input))
    for name in schema.names(Lifecycle.INPUT):
        if schema.fields[name].required and name not in inputs:
            raise StateInvalid(stage=CALLER, field=name, problem="the turn needs it")
    return inputs


def check_inputs(schema: Schema, inputs: Mapping[str, Any]) -> dict[str, JSON]:
    """Return some inputs as plain values; none of them has to be there.

    Raises:
        StateInvalid: One is unknown, no input, or of another type.
    """
    values: dict[str, JSON] = {}
    for name, value in inputs.items():
        field = schema.field(name, CALLER)
        if field.lifecycle is not Lifecycle.INPUT:
            raise field.error(CALLER, "it is not an input")
        values[name] = field.validate(value, CALLER)
    return values


def inputs_on_thread(
    schema: Schema, turn_input: TurnInput, *, thread: str, user: str | None
) -> dict[str, JSON]:
    """Return the inputs of a turn on a thread, with the ids of the thread and of the user among them.

    Raises:
        StateInvalid: One is missing, unknown, no input, of another type, or an id of something else.
    """
    inputs = dict(inputs_of(turn_input))
    for name, id, what in ((SESSION_ID, thread, "thread"), (USER_ID, user, "user")):
        field = schema.fields.get(name)
        if field is None or field.lifecycle is not Lifecycle.INPUT:
            continue
        value = inputs.get(name)
        if value is not None and value != id:
            problem = (
                f"it is {value!r}, and the {what} of the turn is {id!r}; leave it out, or make them equal"
            )
            raise field.error(CALLER, problem)
        if id is not None:
            inputs[name] = id
    return validate_inputs(schema, inputs)


def user_items(schema: Schema, inputs: Mapping[str, JSON], *, id: str | None = None) -> Sequence[Item]:
    """Return the user's message as an item of the history, if the schema has one."""
    if MESSAGE not in inputs or not schema.has_history:
        return ()
    return [items.user(inputs[MESSAGE], id=id)]
