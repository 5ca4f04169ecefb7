"""The port of an interpreter: code goes in, outputs come out, and nothing outlives it."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec


class StreamOutput(msgspec.Struct, frozen=True, tag="printed"):
    """Text that the code wrote, as it came; ``stream`` is stdout or stderr."""

    stream: str
    text: str


class DisplayOutput(msgspec.Struct, frozen=True, tag="shown"):
    """A value that the code showed, in every form it has: text by media type, pictures as base64."""

    forms: Mapping[str, str]
    result: bool = False
    """Whether it is the value of the last expression, not something displayed on the way."""


class ErrorOutput(msgspec.Struct, frozen=True, tag="raised"):
    """The error that ended the code."""

    name: str
    message: str
    traceback: str


class StopOutput(msgspec.Struct, frozen=True, tag="stopped"):
    """A limit, an interrupt or the interpreter's death ended the code; ``why`` names which.

    ``time``, ``memory`` and ``processes`` are limits; ``interrupted`` was asked for; ``died`` is an end of
    its own (an exit, a crash, the system's out-of-memory killer); ``closed`` is :meth:`Interpreter.close`;
    ``lost`` is a connection to a provider that broke.
    """

    why: str
    detail: str
    alive: bool
    """Whether the interpreter is still there with its variables."""


class OverflowOutput(msgspec.Struct, frozen=True, tag="dropped"):
    """The amount of output over the limit, which is lost; reported once, at the end. The code ran on."""

    bytes: int


Output = StreamOutput | DisplayOutput | ErrorOutput | StopOutput | OverflowOutput
"""What a run gives. The last says how it ended: ``ErrorOutput``, ``StopOutput``, or well if neither."""


class InterpreterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that code may use before it is stopped."""

    seconds: float = 60.0
    memory: int = 2 * 1024**3
    file_size: int = 256 * 1024**2
    processes: int = 64
    output: int = 1024**2
    """How many bytes of output one run may give; what is over it is dropped, and said."""
    network: bool = False


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments for making an interpreter. ``volume`` and ``scratch`` are folders; only the first one lasts.

    Both must exist. The scratch is the working directory; the volume is named by ``CLEW_VOLUME`` in the
    code's environment. At a provider, ``volume`` is the name of one of its own volumes, or ``name/folder``,
    and ``scratch`` a folder on the provider's machine.
    """

    volume: str
    scratch: str
    limits: InterpreterLimits = InterpreterLimits()
    environment: Mapping[str, str] = {}
    """The only variables that it has beside those that it cannot do without."""


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """The barriers between an interpreter's code and its machine; a field that is False is no barrier."""

    network: bool
    """Whether the network is out of reach."""
    files: bool
    """Whether files beside the system's own, the scratch and the volume are out of reach."""
    processes: bool
    """Whether other processes, and what is in their environment, are out of reach."""
    notes: tuple[str, ...] = ()
    """Why something is not kept apart, in words."""


class Interpreter(Protocol):
    """A live interpreter. Variables last as long as it does."""

    @property
    def id(self) -> str:
        """The id that :meth:`Interpreters.attach` takes."""

    def describe(self) -> Isolation:
        """The isolation of its code, measured when it started, never assumed."""

    def run(self, code: str) -> AsyncIterator[Output]:
        """Run code and give its outputs as they come; one run at a time, others wait.

        Leaving the loop early, or cancelling it, interrupts the code.

        Raises:
            InterpreterGone: It is dead or closed. A death *during* the run is a ``StopOutput``, not an error.
            InterpreterFailed: Its provider refused to run anything.
        """

    async def interrupt(self) -> None:
        """Stop the code that runs, if any; variables stay."""

    async def alive(self) -> bool:
        """Return whether it still answers."""

    async def close(self) -> None:
        """End it, and every process that its code began. Nothing of it is left when this returns."""


class Interpreters(Protocol):
    """A source of interpreters."""

    async def make(self, sandbox: Sandbox) -> Interpreter:
        """Start a new one, with no variables.

        Raises:
            InterpreterFailed: It did not come up.
        """

    async def attach(self, id: str, sandbox: Sandbox) -> Interpreter:
        """Take up one that is still alive, with its variables.

        Raises:
            InterpreterGone: There is none with this id, it is dead, or it is on another volume.
            InterpreterFailed: Its provider does not say.
        """

    async def close(self) -> None:
        """Let go of everything: interpreters on this machine end, those at a provider wait to be attached."""
