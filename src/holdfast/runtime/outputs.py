"""What comes out of a turn."""

from typing import Any

import msgspec

from holdfast.runtime.models import Usage
from holdfast.runtime.runs import NATURAL
from holdfast.runtime.schema import Lifecycle
from holdfast.runtime.suspension import Waiting
from holdfast.runtime.turn import Turn


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is over: its text, the fields it set, how it ended, and where the thread stands now."""

    thread: str
    run: str
    version: int
    text: str = ""
    output: Any = None
    termination: str = NATURAL
    waiting: tuple[Waiting, ...] = ()
    usage: Usage = Usage()
    trace: tuple[str, ...] = ()


def done(
    turn: Turn,
    *,
    version: int,
    kind: type | None = None,
    termination: str = NATURAL,
    waiting: tuple[Waiting, ...] = (),
) -> Done:
    """The result of a turn, as the output view shows it: the fields that it names, and no others."""
    values = turn.draft.values()
    shown = {name: values.get(name, turn.draft.schema.fields[name].default()) for name in _shown(turn, kind)}
    text = values.get("reply", values.get("response_text", ""))
    return Done(
        thread=turn.thread,
        run=turn.id,
        version=version,
        text=text if isinstance(text, str) else "",
        output=shown if kind is None else msgspec.convert(msgspec.to_builtins(shown), kind),
        termination=termination,
        waiting=waiting,
        usage=turn.usage,
        trace=tuple(turn.trace),
    )


def _shown(turn: Turn, kind: type | None) -> list[str]:
    if kind is None:
        return turn.draft.schema.names(Lifecycle.TURN)
    return [field.name for field in msgspec.structs.fields(kind) if field.name in turn.draft.schema.fields]
