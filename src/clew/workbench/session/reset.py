"""The choice of a session's interpreter: the present one, the earlier one, or a new one, and why. Pure.

Variables are worth keeping, and worth nothing if nobody can tell whose they are. So an interpreter is kept
where it surely is this session's, on this volume, and given up otherwise, never in silence.
"""

import enum
from typing import TypeAlias

import msgspec

from clew.core.manifest.document import INTERPRETER_KEY, InterpreterState
from clew.core.ops import Document


class Transition(enum.Enum):
    """A transition of a session's interpreter."""

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


class ResetReason(enum.Enum):
    """The reasons for giving an interpreter up. There are no others."""

    EXPLICIT = "force_new_session"
    VOLUME = "incompatible_volume"
    SANDBOX = "unrecoverable_sandbox"
    """It is dead, is not the one that the session has now, or does not take what belongs in it."""
    RESUME = "failed_resume"


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """The volume of an interpreter: its name, and the user's part of it."""

    name: str
    subpath: str


class LiveInterpreter(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter that this program holds for the session."""

    id: str
    alive: bool


class ReuseInterpreter(msgspec.Struct, frozen=True):
    """Go on with the one that is held."""


class ResumeInterpreter(msgspec.Struct, frozen=True):
    """Try to take up the one that the session had."""

    id: str


class StartInterpreter(msgspec.Struct, frozen=True, kw_only=True):
    """Start a new one; after a reset, if nothing is known of an earlier one."""

    transition: Transition
    reason: ResetReason | None = None


InterpreterChoice: TypeAlias = ReuseInterpreter | ResumeInterpreter | StartInterpreter

REASON_TEXTS = {
    ResetReason.EXPLICIT: "a new one was asked for",
    ResetReason.VOLUME: "the earlier one was on another volume",
    ResetReason.SANDBOX: "the earlier one ended, or could not be used any more",
    ResetReason.RESUME: "the earlier one could not be found again",
    None: "no earlier one is known",
}


def interpreter_state_of(state: Document) -> InterpreterState:
    """The interpreter that a session's state names; a malformed entry counts as none."""
    try:
        return msgspec.convert(state.get(INTERPRETER_KEY, {}), InterpreterState)
    except msgspec.ValidationError:
        return InterpreterState()


def choose_interpreter(
    state: InterpreterState, mount: Mount, live: LiveInterpreter | None, *, force_new: bool = False
) -> InterpreterChoice:
    """Choose the interpreter of a session."""
    if force_new and (state.sandbox_id is not None or live is not None):
        return StartInterpreter(transition=Transition.RECREATED, reason=ResetReason.EXPLICIT)
    if live is not None:
        if live.alive and live.id == state.sandbox_id:
            return ReuseInterpreter()
        return StartInterpreter(transition=Transition.RECREATED, reason=ResetReason.SANDBOX)
    if state.sandbox_id is None:
        return StartInterpreter(transition=Transition.CREATED)
    if (state.volume_name, state.volume_subpath) != (mount.name, mount.subpath):
        return StartInterpreter(transition=Transition.RECREATED, reason=ResetReason.VOLUME)
    return ResumeInterpreter(state.sandbox_id)


def interpreter_news(reason: ResetReason | None) -> str:
    """The text for an agent that may believe its variables are still there."""
    return (
        f"The Python interpreter is a new one, because {REASON_TEXTS[reason]}. "
        "All variables, imports and files of "
        "the working directory from before are gone. Loaded documents are there again in `documents`, and "
        "files on the volume are there as they were."
    )
