"""The result of a turn."""

import dataclasses
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from clew.core.encoding import JSON, as_json
from clew.core.errors import SchemaInvalid, StateInvalid
from clew.runtime.model.protocol import Usage
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.records.runs import NATURAL, SUPERSEDED, SUSPENDED
from clew.runtime.state.call_state import Approval
from clew.runtime.state.schema import Fold, Lifecycle, Schema
from clew.runtime.turn.turn import Turn

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Output = TypeVar("Output", default=dict[str, Any])
else:
    from typing import TypeVar

    Output = TypeVar("Output")


_NOTHING: Any = None
REPLY_FIELDS = ("reply", "response_text")
"""The fields whose text is the text of a turn; the first one that there is."""


class TurnResult(msgspec.Struct, Generic[Output], frozen=True, kw_only=True):
    """The result of a turn: its text, its output, its ending, and the version of the thread after it.

    ``effects`` are those of the run that it rolled back, if it did: they happened all the same.
    """

    thread: str
    run: str
    version: int
    text: str = ""
    output: Output = _NOTHING
    termination: str = NATURAL
    waiting: tuple[Approval, ...] = ()
    usage: Usage = Usage()
    trace: tuple[str, ...] = ()
    effects: tuple[ExternalEffect, ...] = ()


def result_of_turn(
    turn: Turn,
    *,
    version: int,
    kind: type[Any] | None = None,
    termination: str = NATURAL,
) -> TurnResult[Any]:
    """Return the result of a turn, with the fields that the output type names and no others.

    Raises:
        StateInvalid: A value does not fit the output type.
    """
    values = turn.draft.values()
    text = next((values[name] for name in REPLY_FIELDS if name in values), "")
    if termination == SUPERSEDED and not text:
        text = turn.unfinished_text
    return TurnResult(
        thread=turn.thread,
        run=turn.id,
        version=version,
        text=text if isinstance(text, str) else "",
        output=_output_view(turn.draft.schema, values, kind),
        termination=termination,
        waiting=turn.run_state.approvals if termination == SUSPENDED else (),
        usage=turn.usage,
        trace=tuple(turn.trace),
        effects=turn.rolled_back_effects,
    )


def stored_result(document: JSON, kind: type[Any] | None = None) -> TurnResult[Any]:
    """Return a result as the caller got it the first time, from its stored form."""
    is_typed = kind is not None and isinstance(document, dict) and document.get("output") is not None
    result: TurnResult[Any] = msgspec.convert(document, TurnResult[kind] if is_typed else TurnResult)  # type: ignore[valid-type]  # made
    return result


def output_of_turn(turn: Turn, kind: type[Any] | None) -> Any:
    """Return the output of a turn: of a type, or else the fields that are fresh in each turn.

    Raises:
        StateInvalid: A value does not fit the output type.
    """
    return _output_view(turn.draft.schema, turn.draft.values(), kind)


def _output_view(schema: Schema, values: dict[str, Any], kind: type[Any] | None) -> Any:
    names = schema.names(Lifecycle.TURN) if kind is None else output_fields(kind)
    view = {
        name: values[name] if name in values else as_json(schema.fields[name].default()) for name in names
    }
    if kind is None:
        return view
    try:
        return msgspec.convert(view, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise StateInvalid(stage="the output", field=kind.__name__, problem=str(error)) from error


def output_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of an output type's fields."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    raise SchemaInvalid(schema=str(kind), field="", problem="an output is a msgspec Struct or a dataclass")


def check_output(schema: Schema, kind: type[Any] | None) -> None:
    """Refuse an output type that shows what the state does not have.

    Raises:
        SchemaInvalid: It does; the error names the field.
    """
    for name in () if kind is None else output_fields(kind):
        field = schema.fields.get(name)
        if field is None or field.fold is Fold.APPEND:
            problem = f"{schema.cls.__name__} has no such field that is not a log"
            raise SchemaInvalid(schema=getattr(kind, "__name__", ""), field=name, problem=problem)
