"""Work done in a child process, which starts clean and may be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 380

# The server that forks has no threads and has imported what most need, so a child takes milliseconds.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "clew",
        "clew.cli.app",
        "clew.runtime",
        "clew.stores.postgres.store",
        "clew.stores.sqlite.store",
        "clew.testing.disk",
    ]
)


class ChildFailed(Exception):
    """The work raised; the text says what, and where."""


class ChildProcess(Generic[T]):
    """A process that does some work, with a pipe to and from it."""

    def __init__(self, work: Callable[..., T], *args: object) -> None:
        self.pipe, theirs = _context.Pipe()
        self.process: ForkServerProcess = _context.Process(target=_do, args=(theirs, work, args), daemon=True)
        self.process.start()
        theirs.close()

    def result(self, timeout: float = 100) -> T:
        """What the work came to.

        Raises:
            ChildFailed: It raised, took too long, or was killed.
        """
        try:
            if not self.pipe.poll(timeout):
                raise ChildFailed(f"No answer after {timeout} s.")
            kind, value = self.pipe.recv()
        except EOFError as error:
            self.process.join()
            raise ChildFailed(f"The process ended with {self.process.exitcode}.") from error
        finally:
            self.end()
        if kind == "raised":
            raise ChildFailed(value)
        result: T = value
        return result

    def kill(self) -> None:
        """End it with SIGKILL, at once."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def end(self) -> None:
        """Wait a little for it to end by itself, then kill it, and forget it."""
        self.process.join(5)
        self.kill()
        self.pipe.close()


def run_in_child(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run some work in a child process and return its result."""
    assert not kwargs
    return ChildProcess(work, *args).result(PATIENCE)


def _do(pipe: Connection, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        message = ("done", work(*args))
    except BaseException:  # noqa: BLE001 - it is told to whoever waits
        message = ("raised", traceback.format_exc())
    pipe.send(message)


def pipe() -> tuple[Connection, Connection]:
    """A pipe whose ends can be handed to other processes."""
    return _context.Pipe()
