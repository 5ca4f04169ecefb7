"""Interpreters on this machine: Jupyter's kernel under a supervisor, ended with the process that made it."""

import asyncio
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from clew.core.arguments import check_methods
from clew.core.errors import InterpreterFailed, InterpreterGone, InvalidArgument, MissingExtra
from clew.workbench.interpreter.execution import Execution, stop_output_of, wait_for_end
from clew.workbench.interpreter.port import Isolation, Output, Sandbox, StopOutput
from clew.workbench.interpreter.processes import SupervisedProcesses, make_private_folder

try:
    from clew.workbench.interpreter.kernel import (
        KERNEL_SCRIPT,
        Channels,
        KernelMessage,
        is_answer_to,
        is_idle,
        isolation_of,
        output_of,
        start_kernel,
        write_connection_file,
    )
except ImportError as error:
    raise MissingExtra(extra="workbench", package="jupyter_client") from error

_DRAIN_SECONDS = 0.05
"""Seconds in which what a dead kernel had published still reaches us."""
_LATE_OUTPUT_SECONDS = 3.0
"""Seconds to wait, after a reply, for outputs still under way."""


WALLS = frozenset({"namespaces", "landlock"})
"""What may keep code apart: the first where the system allows it, the second where not."""


class LocalInterpreter:
    """A live kernel on this machine; see :class:`~clew.workbench.interpreter.port.Interpreter`."""

    def __init__(
        self, sandbox: Sandbox, processes: SupervisedProcesses, channels: Channels, *, grace: float
    ) -> None:
        self.id = f"local-{secrets.token_hex(8)}"
        self.sandbox = sandbox
        self._processes = processes
        self._channels = channels
        self._grace = grace
        self._run_lock = asyncio.Lock()
        self._current: tuple[KernelMessage, Execution] | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        readers = [asyncio.create_task(self._read_publications()), asyncio.create_task(self._read_replies())]
        self._closing_task = asyncio.create_task(self._close_after_exit(readers))

    def describe(self) -> Isolation:
        """The isolation of its code from this machine, and its gaps."""
        return isolation_of(self.sandbox, self._processes.report)

    async def run(self, code: str) -> AsyncIterator[Output]:
        """Run code and give its outputs as they come; one run at a time, others wait."""
        try:
            code.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"The code is not text: {error}.") from error
        execution = Execution(self.sandbox.limits.output)
        self._track_task(asyncio.create_task(self._run_to_end(execution, code)))
        try:
            async for output in execution.outputs():
                yield output
        finally:
            execution.stop("interrupted")

    def _track_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_to_end(self, execution: Execution, code: str) -> None:
        """Follow one run to its end, also if nobody listens any more."""
        async with self._run_lock:
            if self._processes.exit_event.is_set():
                execution.fail(InterpreterGone(self.id, self._processes.exit_reason.detail))
                return
            if execution.stop_request.is_set():
                execution.finish(StopOutput(execution.stop_reason, "it had not begun", alive=True))
                return
            try:
                await self._execute(execution, code)
                execution.finish(self._stop_output(execution))
            except Exception as error:  # noqa: BLE001  # nobody awaits this; who reads the outputs raises it
                execution.fail(error)
            finally:
                self._current = None

    async def _execute(self, execution: Execution, code: str) -> None:
        request = self._channels.request(
            "execute_request", code=code, silent=False, store_history=True, user_expressions={},
            allow_stdin=False, stop_on_error=False,
        )  # fmt: skip
        self._current = (request, execution)
        await self._channels.send(request)
        seconds = self.sandbox.limits.seconds
        interrupt = self._processes.interrupt
        if not await wait_for_end(execution, seconds=seconds, grace=self._grace, interrupt=interrupt):
            await self._processes.kill("it did not obey an interrupt, and was killed")

    def _stop_output(self, execution: Execution) -> StopOutput | None:
        alive = not self._processes.exit_event.is_set()
        if self._closed and not alive:
            return StopOutput("closed", "the interpreter was closed", alive=False)
        stop = stop_output_of(execution, seconds=self.sandbox.limits.seconds, grace=self._grace, alive=alive)
        if stop is None and not alive:
            return StopOutput(
                self._processes.exit_reason.why, self._processes.exit_reason.detail, alive=False
            )
        return stop

    async def _read_publications(self) -> None:
        while True:
            message = await self._channels.next_publication()
            if self._current is not None and is_answer_to(message, self._current[0]):
                self._take_message(message, self._current[1])

    def _take_message(self, message: KernelMessage, execution: Execution) -> None:
        output = output_of(message)
        if output is not None:
            execution.take(output)
        elif is_idle(message):
            execution.completion.set()

    async def _read_replies(self) -> None:
        while True:
            message = await self._channels.next_reply()
            if self._current is not None and is_answer_to(message, self._current[0]):
                # Where so much was published that its end was lost, the reply is the end.
                asyncio.get_running_loop().call_later(_LATE_OUTPUT_SECONDS, self._current[1].completion.set)

    async def _close_after_exit(self, readers: list[asyncio.Task[None]]) -> None:
        await self._processes.exit_event.wait()
        # What it published on its way out may still be under way.
        await asyncio.sleep(_DRAIN_SECONDS)
        for task in readers:
            task.cancel()
        await asyncio.wait(readers)
        if self._current is not None:
            self._current[1].completion.set()
        self._channels.close()

    async def interrupt(self) -> None:
        """Stop the code that runs, if any; variables stay."""
        if self._current is not None:
            self._current[1].stop("interrupted")

    async def alive(self) -> bool:
        """Return whether its process is there."""
        return not self._processes.exit_event.is_set()

    async def close(self) -> None:
        """End it, and every process that its code began."""
        if not self._processes.exit_event.is_set():
            self._closed = True
        await self._processes.kill("it was closed")
        await asyncio.shield(self._closing_task)


@check_methods
class LocalInterpreters:
    """Makes interpreters on this machine, and finds again those that it made itself.

    ``grace`` is how long code has to obey an interrupt before it is killed; ``patience`` how long a kernel
    has to come up. ``walls`` are the system's means that may be used to keep it apart.
    """

    def __init__(
        self, *, grace: float = 5.0, start_timeout: float = 60.0, walls: Collection[str] = WALLS
    ) -> None:
        self._grace = grace
        self._start_timeout = start_timeout
        self._walls = walls
        self._interpreters: dict[str, LocalInterpreter] = {}

    async def make(self, sandbox: Sandbox) -> LocalInterpreter:
        """Start a new one, with no variables.

        Raises:
            InterpreterFailed: It did not come up.
        """
        _check_sandbox(sandbox)
        private = make_private_folder(KERNEL_SCRIPT)
        connection = write_connection_file(private / "run")
        try:
            processes = await start_kernel(sandbox, private, walls=self._walls)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        channels = Channels(connection)
        try:
            await self._wait_until_ready(processes, channels)
        except BaseException:
            channels.close()
            await processes.kill("it did not come up")
            raise
        interpreter = LocalInterpreter(sandbox, processes, channels, grace=self._grace)
        self._interpreters = {id: other for id, other in self._interpreters.items() if await other.alive()}
        self._interpreters[interpreter.id] = interpreter
        return interpreter

    async def close(self) -> None:
        """End every interpreter that it made."""
        await asyncio.gather(*(interpreter.close() for interpreter in self._interpreters.values()))

    async def _wait_until_ready(self, processes: SupervisedProcesses, channels: Channels) -> None:
        ready_task = asyncio.create_task(channels.wait_until_ready())
        exit_task = asyncio.create_task(processes.exit_event.wait())
        try:
            await asyncio.wait(
                {ready_task, exit_task}, timeout=self._start_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if exit_task.done():
                raise InterpreterFailed("local", f"it did not come up: {processes.exit_reason.detail}")
            if not ready_task.done():
                raise InterpreterFailed(
                    "local", f"it did not answer within {self._start_timeout:g} s", retry=True
                )
        finally:
            for task in (ready_task, exit_task):
                task.cancel()
            await asyncio.wait({ready_task, exit_task})

    async def attach(self, id: str, sandbox: Sandbox) -> LocalInterpreter:
        """Take up one that this object made and that is still alive, with its variables.

        Raises:
            InterpreterGone: There is none with this id, it is dead, or it is on another volume.
        """
        interpreter = self._interpreters.get(id)
        if interpreter is None:
            raise InterpreterGone(id, "this process made none with this id")
        if not await interpreter.alive():
            raise InterpreterGone(id, "it is dead")
        if not _is_same_volume(interpreter.sandbox, sandbox):
            raise InterpreterGone(id, "it is on another volume")
        return interpreter


def _check_sandbox(sandbox: Sandbox) -> None:
    if sys.platform != "linux":
        raise InterpreterFailed("local", "it needs Linux; elsewhere, use a provider")
    for folder in (sandbox.scratch, sandbox.volume):
        if not Path(folder).is_absolute() or not Path(folder).is_dir():
            raise InterpreterFailed("local", f"there is no folder {folder}, or it is not an absolute path")


def _is_same_volume(one: Sandbox, other: Sandbox) -> bool:
    return Path(one.volume).resolve() == Path(other.volume).resolve()
