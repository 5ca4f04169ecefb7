"""Which interpreter a session gets: the one it has, the one it had, or a new one, and why. Pure.

Variables are worth keeping, and worth nothing if nobody can tell whose they are. So an interpreter is kept
where it surely is this session's, on this volume, and given up otherwise, never in silence.
"""

import enum
from typing import TypeAlias

import msgspec

from clew.core.manifest.document import INTERPRETER, Interpreter
from clew.core.ops import Document


class Transition(enum.Enum):
    """What happens to the interpreter of a session."""

    RESET = "reset"
    """What an earlier one had in its hands is cleared, before another one comes."""
    CREATED = "created"
    REUSED = "reused"
    """It is the one that this program has."""
    RESUMED = "resumed"
    """It is the one that the session had, taken up again with its variables."""
    RECREATED = "recreated"
    """There was one, and it is given up for a new one, for one of the reasons."""
    CLOSED = "closed"
    """It is ended, since the session is left or another one attaches."""


class Reason(enum.Enum):
    """Why an interpreter is given up. There are no others."""

    EXPLICIT = "force_new_session"
    VOLUME = "incompatible_volume"
    SANDBOX = "unrecoverable_sandbox"
    """It is dead, is not the one that the session has now, or does not take what belongs in it."""
    RESUME = "failed_resume"


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """Which volume an interpreter has: its name, and the user's part of it."""

    name: str
    subpath: str


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter that this program holds for the session."""

    id: str
    alive: bool


class Reuse(msgspec.Struct, frozen=True):
    """Go on with the one that is held."""


class Resume(msgspec.Struct, frozen=True):
    """Try to take up the one that the session had."""

    id: str


class Make(msgspec.Struct, frozen=True, kw_only=True):
    """Start a new one; after a reset, if nothing is known of an earlier one."""

    transition: Transition
    reason: Reason | None = None


Choice: TypeAlias = Reuse | Resume | Make

WORDS = {
    Reason.EXPLICIT: "a new one was asked for",
    Reason.VOLUME: "the earlier one was on another volume",
    Reason.SANDBOX: "the earlier one ended, or could not be used any more",
    Reason.RESUME: "the earlier one could not be found again",
    None: "no earlier one is known",
}


def saved_of(state: Document) -> Interpreter:
    """What a session says of its interpreter; what makes no sense is as if it were not there."""
    try:
        return msgspec.convert(state.get(INTERPRETER, {}), Interpreter)
    except msgspec.ValidationError:
        return Interpreter()


def choice(saved: Interpreter, mount: Mount, live: Live | None, *, force_new: bool = False) -> Choice:
    """Which interpreter a session gets."""
    if force_new and (saved.sandbox_id is not None or live is not None):
        return Make(transition=Transition.RECREATED, reason=Reason.EXPLICIT)
    if live is not None:
        if live.alive and live.id == saved.sandbox_id:
            return Reuse()
        return Make(transition=Transition.RECREATED, reason=Reason.SANDBOX)
    if saved.sandbox_id is None:
        return Make(transition=Transition.CREATED)
    if (saved.volume_name, saved.volume_subpath) != (mount.name, mount.subpath):
        return Make(transition=Transition.RECREATED, reason=Reason.VOLUME)
    return Resume(saved.sandbox_id)


def news(reason: Reason | None) -> str:
    """What an agent is told that may believe its variables are still there."""
    return (
        f"The Python interpreter is a new one, because {WORDS[reason]}. All variables, imports and files of "
        "the working directory from before are gone. Loaded documents are there again in `documents`, and "
        "files on the volume are there as they were."
    )
