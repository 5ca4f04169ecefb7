"""An interpreter at a provider: a context in a sandbox of its own, reached over its provider's API."""

import ast
import asyncio
import math
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from clew.core.errors import ClewError, InterpreterFailed, InterpreterGone, InvalidArgument, MissingExtra
from clew.workbench.interpreter.execution import Execution, stop_output_of, wait_for_end
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Isolation,
    Output,
    Sandbox,
    StopOutput,
    StreamOutput,
)

try:
    from daytona import AsyncSandbox, DaytonaError
    from daytona.common.code_interpreter import ExecutionError, OutputMessage
    from daytona.common.errors import DaytonaConnectionError, DaytonaTimeoutError
    from daytona_toolbox_api_client_async import InterpreterContext
except ImportError as error:
    raise MissingExtra(extra="daytona", package="daytona") from error

_MARK, _END = "\x1e\x1eclew:", "\x1e"


class _DisplayMessage(msgspec.Struct):
    result: bool
    forms: dict[str, str]


def wrap_last_expression(code: str) -> str:
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
    line_starts = [0, *(newline.end() for newline in re.finditer(rb"\r\n|\r|\n", source))]
    start = line_starts[last.lineno - 1] + last.col_offset
    end = line_starts[last.end_lineno - 1] + last.end_col_offset
    if source[end:].lstrip().startswith(b";"):
        return code
    result = source[:start] + b"__clew_result__((" + source[start:end] + b"))" + source[end:]
    return result.decode()


class OutputParser:
    """Takes what a context prints, piece by piece, and gives texts and shown values."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = ""

    def take(self, text: str) -> list[Output]:
        """The output that is complete so far; the beginning of a mark is held until the rest has come."""
        self._buffer += text
        outputs: list[Output] = []
        while True:
            before, mark, after = self._buffer.partition(_MARK)
            if not mark:
                tail_length = _partial_mark_length(self._buffer)
                outputs += _stream_outputs(self._buffer[: len(self._buffer) - tail_length])
                self._buffer = self._buffer[len(self._buffer) - tail_length :]
                return outputs
            message, end, rest = after.partition(_END)
            if not end and len(message) <= self._longest:
                outputs += _stream_outputs(before)
                self._buffer = mark + after
                return outputs
            outputs += _stream_outputs(before)
            outputs += _display_outputs(message) if end else _stream_outputs(mark + message)
            self._buffer = rest

    def flush(self) -> list[Output]:
        """The output that is left when nothing more comes."""
        text, self._buffer = self._buffer, ""
        return _stream_outputs(text)


def _partial_mark_length(text: str) -> int:
    """The number of characters at the end that may be the beginning of a mark."""
    return next((size for size in range(len(_MARK) - 1, 0, -1) if text.endswith(_MARK[:size])), 0)


def _stream_outputs(text: str) -> list[Output]:
    return [StreamOutput("stdout", text)] if text else []


def _display_outputs(message: str) -> list[Output]:
    try:
        display = msgspec.json.decode(message, type=_DisplayMessage)
    except msgspec.DecodeError:
        return _stream_outputs(_MARK + message + _END)
    return [DisplayOutput(display.forms, result=display.result)]


_CLOSE_REASON = "it was closed"
_EXIT_WORDS = "worker process ended"
_UNKNOWN_CONTEXT_WORDS = ("context is not active", "context not found")
"""What the provider says when a context's process ends, or has ended before; it has no codes for that."""


def _status_code(error: DaytonaError) -> int | None:
    """The status with which a provider refused, however deep in the error it is."""
    status = error.status_code
    cause: BaseException | None = error
    while status is None and cause is not None:
        status, cause = getattr(cause, "status", None), cause.__cause__
    return status


def translate_error(error: DaytonaError, id: str | None = None) -> ClewError:
    """A provider's error as ours; ``id`` is of the interpreter that it was about."""
    status = _status_code(error)
    if id is not None and status in (404, 410):
        return InterpreterGone(id, "its provider does not know it any more")
    may_retry = (
        isinstance(error, DaytonaConnectionError | DaytonaTimeoutError)
        or status == 429
        or (status is not None and status >= 500)
    )
    return InterpreterFailed("daytona", " ".join(str(error).split()).rstrip("."), retry=may_retry)


def _was_interrupted(error: DaytonaError) -> bool:
    """Return whether the code ended by an interrupt, as the provider says it: as a time-out of its own."""
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
        self._run_lock = asyncio.Lock()
        self._current: Execution | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._end_reason = ""

    def describe(self) -> Isolation:
        """The isolation of its code: it runs on the provider's machine."""
        is_offline = bool(self._remote.network_block_all)
        return Isolation(
            network=is_offline,
            files=True,
            processes=True,
            notes=() if is_offline else ("the network is allowed",),
        )

    async def run(self, code: str) -> AsyncIterator[Output]:
        """Run code and give its outputs as they come; one run at a time, others wait."""
        try:
            code.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"The code is not text: {error}.") from error
        execution = Execution(self.sandbox.limits.output)
        task = asyncio.create_task(self._run_to_end(execution, code))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            async for output in execution.outputs():
                yield output
        finally:
            execution.stop("interrupted")

    async def _run_to_end(self, execution: Execution, code: str) -> None:
        """Follow one run to its end, also if nobody listens any more."""
        async with self._run_lock:
            if self._end_reason:
                execution.fail(InterpreterGone(self.id, self._end_reason))
            elif execution.stop_request.is_set():
                execution.finish(StopOutput(execution.stop_reason, "it had not begun", alive=True))
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
        task = asyncio.create_task(self._send(execution, code))
        task.add_done_callback(lambda _: execution.completion.set())
        seconds = self.sandbox.limits.seconds
        if not await wait_for_end(
            execution, seconds=seconds, grace=self._grace, interrupt=self._send_interrupt
        ):
            await self._delete_context("it did not obey an interrupt, and was killed")
        if not task.done():
            task.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await task
        except DaytonaError as error:
            await self._finish_after_error(execution, error)
        else:
            execution.finish(self._stop_output(execution))

    async def _send(self, execution: Execution, code: str) -> None:
        parser = OutputParser(2 * self.sandbox.limits.output)

        def take_error(error: ExecutionError) -> None:
            execution.take(ErrorOutput(error.name, error.value, error.traceback))

        def take_text(message: OutputMessage) -> None:
            for output in parser.take(message.output):
                execution.take(output)

        try:
            await self._remote.code_interpreter.run_code(
                wrap_last_expression(code),
                context=self._context,
                on_stdout=take_text,
                on_stderr=lambda said: execution.take(StreamOutput("stderr", said.output)),
                on_error=take_error,
                timeout=math.ceil(self.sandbox.limits.seconds + 2 * self._grace),
            )
        finally:
            for output in parser.flush():
                execution.take(output)

    def _stop_output(self, execution: Execution) -> StopOutput | None:
        if self._end_reason == _CLOSE_REASON:
            return StopOutput("closed", "the interpreter was closed", alive=False)
        seconds = self.sandbox.limits.seconds
        return stop_output_of(execution, seconds=seconds, grace=self._grace, alive=not self._end_reason)

    async def _finish_after_error(self, execution: Execution, error: DaytonaError) -> None:
        if self._end_reason == _CLOSE_REASON or (self._end_reason and execution.stop_request.is_set()):
            execution.finish(self._stop_output(execution))
        elif _was_interrupted(error):
            if not execution.stop_request.is_set():
                execution.take(ErrorOutput("KeyboardInterrupt", "", ""))
            execution.finish(self._stop_output(execution))
        elif any(words in str(error) for words in _UNKNOWN_CONTEXT_WORDS):
            self._end_reason = "its process has ended"
            execution.fail(InterpreterGone(self.id, self._end_reason))
        elif _EXIT_WORDS in str(error):
            self._end_reason = "its process ended"
            execution.finish(StopOutput("died", self._end_reason, alive=False))
        elif _status_code(error) is not None:
            execution.fail(translate_error(error, self.id))
        else:
            await self._finish_lost_run(execution, error)

    async def _finish_lost_run(self, execution: Execution, error: DaytonaError) -> None:
        """Nobody knows how far the code came: it is interrupted, and what is left of it is looked at."""
        await self._send_interrupt()
        alive = await self.alive()
        if not alive:
            self._end_reason = "the connection to its provider broke, and it does not answer"
        execution.finish(StopOutput("lost", str(error), alive=alive))

    async def _send_interrupt(self) -> None:
        """Interrupt the context's process: the provider has no other way to say it."""
        with suppress(DaytonaError):
            await self._remote.process.exec(f"kill -INT {self._process}", timeout=5)

    async def _delete_context(self, reason: str) -> None:
        self._end_reason = reason
        with suppress(DaytonaError):
            await self._remote.code_interpreter.delete_context(self._context, request_timeout=10)

    async def interrupt(self) -> None:
        """Stop the code that runs, if any; variables stay."""
        if self._current is not None:
            self._current.stop("interrupted")

    async def alive(self) -> bool:
        """Return whether its provider still has it."""
        if self._end_reason:
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
        self._end_reason = _CLOSE_REASON
        try:
            await self._remote.delete(wait=True)
        except DaytonaError as error:
            if _status_code(error) not in (404, 410):
                raise translate_error(error) from error
        if self._current is not None:
            self._current.completion.set()
