"""An interpreter at a provider: a context in a sandbox of its own, reached over its provider's API."""

import ast
import asyncio
import math
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from clew.core.errors import ClewError, InterpreterFailed, InterpreterGone, InvalidArgument, MissingExtra
from clew.workbench.interpreter.execution import Execution, see_through, stop_of
from clew.workbench.interpreter.port import Isolation, Output, Printed, Raised, Sandbox, Shown, Stopped

_MARK, _END = "\x1e\x1eclew:", "\x1e"


class _Said(msgspec.Struct):
    result: bool
    forms: dict[str, str]


def asking_for_result(code: str) -> str:
    """The code, with its last expression handed to what shows it; lines keep their numbers."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    if not tree.body or not isinstance(last := tree.body[-1], ast.Expr):
        return code
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    source = code.encode()
    lines = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", source))]
    start = lines[last.lineno - 1] + last.col_offset
    end = lines[last.end_lineno - 1] + last.end_col_offset
    if source[end:].lstrip().startswith(b";"):
        return code
    spliced = source[:start] + b"__clew_result__((" + source[start:end] + b"))" + source[end:]
    return spliced.decode()


class Listening:
    """Takes what a context prints, piece by piece, and gives texts and shown values."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = ""

    def take(self, text: str) -> list[Output]:
        """What can be told so far; the beginning of a mark is held until the rest has come."""
        self._held += text
        given: list[Output] = []
        while True:
            before, mark, after = self._held.partition(_MARK)
            if not mark:
                keep = _beginning(self._held)
                given += _printed(self._held[: len(self._held) - keep])
                self._held = self._held[len(self._held) - keep :]
                return given
            said, end, rest = after.partition(_END)
            if not end and len(said) <= self._most:
                given += _printed(before)
                self._held = mark + after
                return given
            given += _printed(before)
            given += _shown(said) if end else _printed(mark + said)
            self._held = rest

    def rest(self) -> list[Output]:
        """What is left when nothing more comes."""
        held, self._held = self._held, ""
        return _printed(held)


def _beginning(text: str) -> int:
    """How many characters at the end may be the beginning of a mark."""
    return next((size for size in range(len(_MARK) - 1, 0, -1) if text.endswith(_MARK[:size])), 0)


def _printed(text: str) -> list[Output]:
    return [Printed("stdout", text)] if text else []


def _shown(said: str) -> list[Output]:
    try:
        found = msgspec.json.decode(said, type=_Said)
    except msgspec.DecodeError:
        return _printed(_MARK + said + _END)
    return [Shown(found.forms, result=found.result)]


try:
    from daytona import AsyncSandbox, DaytonaError
    from daytona.common.code_interpreter import ExecutionError, OutputMessage
    from daytona.common.errors import DaytonaConnectionError, DaytonaTimeoutError
    from daytona_toolbox_api_client_async import InterpreterContext
except ImportError as error:
    raise MissingExtra(extra="daytona", package="daytona") from error

_CLOSED = "it was closed"
_ENDED = "worker process ended"
_UNKNOWN = ("context is not active", "context not found")
"""What the provider says when a context's process ends, or has ended before; it has no codes for that."""


def _refusal(error: DaytonaError) -> int | None:
    """The status with which a provider refused, however deep in the error it is."""
    status = error.status_code
    cause: BaseException | None = error
    while status is None and cause is not None:
        status, cause = getattr(cause, "status", None), cause.__cause__
    return status


def translated(error: DaytonaError, id: str | None = None) -> ClewError:
    """A provider's error as ours; ``id`` is of the interpreter that it was about."""
    status = _refusal(error)
    if id is not None and status in (404, 410):
        return InterpreterGone(id, "its provider does not know it any more")
    again = (
        isinstance(error, DaytonaConnectionError | DaytonaTimeoutError)
        or status == 429
        or (status is not None and status >= 500)
    )
    return InterpreterFailed("daytona", " ".join(str(error).split()).rstrip("."), retry=again)


def _was_interrupted(error: DaytonaError) -> bool:
    """Whether the code ended by an interrupt, as the provider says it: as a time-out of its own."""
    return isinstance(error, DaytonaTimeoutError) and not isinstance(error, DaytonaConnectionError)


class RemoteInterpreter:
    """A context in a sandbox of its own; see :class:`~clew.workbench.interpreter.port.Interpreter`."""

    def __init__(
        self,
        sandbox: Sandbox,
        remote: AsyncSandbox,
        context: InterpreterContext,
        process: int,
        *,
        grace: float,
    ) -> None:
        self.id = f"{remote.id}/{context.id}/{process}"
        self.sandbox = sandbox
        self._remote = remote
        self._context = context
        self._process = process
        self._grace = grace
        self._turn = asyncio.Lock()
        self._current: Execution | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = ""

    def describe(self) -> Isolation:
        """What its code is kept apart from: it runs on the provider's machine."""
        off = bool(self._remote.network_block_all)
        return Isolation(
            network=off, files=True, processes=True, notes=() if off else ("the network is allowed",)
        )

    async def run(self, code: str) -> AsyncIterator[Output]:
        """Run code and give its outputs as they come; one run at a time, others wait."""
        try:
            code.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"The code is not text: {error}.") from error
        execution = Execution(self.sandbox.limits.output)
        task = asyncio.create_task(self._conduct(execution, code))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            async for output in execution.outputs():
                yield output
        finally:
            execution.stop("interrupted")

    async def _conduct(self, execution: Execution, code: str) -> None:
        """See one run through to its end, whoever still listens."""
        async with self._turn:
            if self._gone:
                execution.fail(InterpreterGone(self.id, self._gone))
            elif execution.stopping.is_set():
                execution.finish(Stopped(execution.why, "it had not begun", alive=True))
            elif not code.strip():
                execution.finish(None)
            else:
                self._current = execution
                try:
                    await self._execute(execution, code)
                except Exception as error:  # noqa: BLE001  # nobody awaits this; who reads the outputs raises it
                    execution.fail(error)
                finally:
                    self._current = None

    async def _execute(self, execution: Execution, code: str) -> None:
        sending = asyncio.create_task(self._send(execution, code))
        sending.add_done_callback(lambda _: execution.settled.set())
        seconds = self.sandbox.limits.seconds
        if not await see_through(execution, seconds=seconds, grace=self._grace, interrupt=self._signal):
            await self._give_up("it did not obey an interrupt, and was killed")
        if not sending.done():
            sending.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await sending
        except DaytonaError as error:
            await self._end_badly(execution, error)
        else:
            execution.finish(self._how_it_stopped(execution))

    async def _send(self, execution: Execution, code: str) -> None:
        listening = Listening(2 * self.sandbox.limits.output)

        def raised(error: ExecutionError) -> None:
            execution.take(Raised(error.name, error.value, error.traceback))

        def printed(said: OutputMessage) -> None:
            for output in listening.take(said.output):
                execution.take(output)

        try:
            await self._remote.code_interpreter.run_code(
                asking_for_result(code),
                context=self._context,
                on_stdout=printed,
                on_stderr=lambda said: execution.take(Printed("stderr", said.output)),
                on_error=raised,
                timeout=math.ceil(self.sandbox.limits.seconds + 2 * self._grace),
            )
        finally:
            for output in listening.rest():
                execution.take(output)

    def _how_it_stopped(self, execution: Execution) -> Stopped | None:
        if self._gone == _CLOSED:
            return Stopped("closed", "the interpreter was closed", alive=False)
        seconds = self.sandbox.limits.seconds
        return stop_of(execution, seconds=seconds, grace=self._grace, alive=not self._gone)

    async def _end_badly(self, execution: Execution, error: DaytonaError) -> None:
        if self._gone == _CLOSED or (self._gone and execution.stopping.is_set()):
            execution.finish(self._how_it_stopped(execution))
        elif _was_interrupted(error):
            if not execution.stopping.is_set():
                execution.take(Raised("KeyboardInterrupt", "", ""))
            execution.finish(self._how_it_stopped(execution))
        elif any(words in str(error) for words in _UNKNOWN):
            self._gone = "its process has ended"
            execution.fail(InterpreterGone(self.id, self._gone))
        elif _ENDED in str(error):
            self._gone = "its process ended"
            execution.finish(Stopped("died", self._gone, alive=False))
        elif _refusal(error) is not None:
            execution.fail(translated(error, self.id))
        else:
            await self._end_lost(execution, error)

    async def _end_lost(self, execution: Execution, error: DaytonaError) -> None:
        """Nobody knows how far the code came: it is interrupted, and what is left of it is looked at."""
        await self._signal()
        alive = await self.alive()
        if not alive:
            self._gone = "the connection to its provider broke, and it does not answer"
        execution.finish(Stopped("lost", str(error), alive=alive))

    async def _signal(self) -> None:
        """Interrupt the context's process: the provider has no other way to say it."""
        with suppress(DaytonaError):
            await self._remote.process.exec(f"kill -INT {self._process}", timeout=5)

    async def _give_up(self, why: str) -> None:
        self._gone = why
        with suppress(DaytonaError):
            await self._remote.code_interpreter.delete_context(self._context, request_timeout=10)

    async def interrupt(self) -> None:
        """Stop the code that runs, if any; variables stay."""
        if self._current is not None:
            self._current.stop("interrupted")

    async def alive(self) -> bool:
        """Whether its provider still has it."""
        if self._gone:
            return False
        try:
            contexts = await self._remote.code_interpreter.list_contexts(request_timeout=10)
        except DaytonaError:
            return False
        return any(context.id == self._context.id and context.active for context in contexts)

    async def close(self) -> None:
        """End it with its sandbox. Nothing of it is left when this returns.

        Raises:
            InterpreterFailed: Its provider did not say that it is gone; closing again may help.
        """
        self._gone = _CLOSED
        try:
            await self._remote.delete(wait=True)
        except DaytonaError as error:
            if _refusal(error) not in (404, 410):
                raise translated(error) from error
        if self._current is not None:
            self._current.settled.set()
