"""Times of a turn, in the state's own ``diagnostics``, where a schema has such a field."""

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.runtime.schema import Field, Fold
from clew.runtime.turn import Turn

DIAGNOSTICS = "diagnostics"
TOTAL, STAGES = "turn_total_ms", "stage_ms"


def stamp(turn: Turn, *, total_ms: float) -> None:
    """Note how long the turn and each of its stages took, as far as the field has room for it."""
    note(turn, {TOTAL: total_ms, STAGES: dict(turn.times)})


def note(turn: Turn, entries: Mapping[str, Any]) -> None:
    """Note entries, as far as the schema has room for them."""
    field = turn.draft.schema.fields.get(DIAGNOSTICS)
    if field is None or field.fold is not Fold.MERGE:
        return
    noted = {key: value for key, value in entries.items() if _takes(field, key, value)}
    if noted:
        turn.write("the runtime", {DIAGNOSTICS: noted})


def _takes(field: Field, key: str, value: Any) -> bool:
    """Whether a field has room for an entry of this kind."""
    if field.nested is not None:
        return key in field.nested.fields
    try:
        msgspec.convert({key: value}, field.type)
    except msgspec.ValidationError:
        return False
    return True
