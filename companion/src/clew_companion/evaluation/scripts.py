"""Scripts of conversations: what is said, and what has to come of it."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec


class ScriptTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn: what is said, and what is expected of the answer. What is not named is not looked at.

    ``exercise`` and ``step`` are those of an exercise after it; an empty ``exercise`` means that none is
    under way. ``has`` and ``lacks`` are words of the reply. ``level`` is at least the crisis level, and no
    level is expected to be 0.
    """

    say: str
    style: str | None = None
    approach: str | None = None
    level: int = 0
    exercise: str | None = None
    step: int | None = None
    pending: bool | None = None
    persists: bool | None = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class ScriptSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sitting. ``ends`` ends the session; otherwise the program just stops, and the next goes on.

    ``knows`` and ``knows_not`` are words of what is remembered afterwards, ``concerns`` and ``count`` (of
    turns) what the state holds.
    """

    thread: str
    user: str = "sam"
    ends: bool = True
    turns: tuple[ScriptTurn, ...]
    knows: tuple[str, ...] = ()
    knows_not: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    count: int | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation over several sessions, and the words that no reply of it may have."""

    name: str
    about: str
    model: Literal["offline", "misbehaving"] = "offline"
    never: tuple[str, ...] = ()
    sessions: tuple[ScriptSession, ...]

    @property
    def length(self) -> int:
        """The number of turns."""
        return sum(len(session.turns) for session in self.sessions)


@cache
def scripts() -> Mapping[str, Script]:
    """Every script by its name."""
    files = sorted(resources.files("clew_companion.evaluation").iterdir(), key=lambda file: file.name)
    all_scripts = [
        msgspec.toml.decode(file.read_bytes(), type=Script) for file in files if file.name.endswith(".toml")
    ]
    return MappingProxyType({script.name: script for script in all_scripts})
