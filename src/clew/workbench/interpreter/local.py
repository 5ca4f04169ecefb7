"""Interpreters on this machine: Jupyter's kernel under a supervisor, ended with the process that made it."""

import asyncio
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from clew.core.arguments import check_methods
from clew.core.errors import InterpreterFailed, InterpreterGone, InvalidArgument, MissingExtra
from clew.workbench.interpreter.execution import Execution, see_through, stop_of
from clew.workbench.interpreter.kernel import Family, private_folder
from clew.workbench.interpreter.port import Isolation, Output, Sandbox, Stopped

try:
    from clew.workbench.interpreter.kernel import (
        Channels,
        Message,
        answers,
        is_idle,
        output_of,
        write_connection,
    )
except ImportError as error:
    raise MissingExtra(extra="workbench", package="jupyter_client") from error

_PARTING = 0.05
"""Seconds in which what a dead kernel had published still reaches us."""
_LAST_WORDS = 3.0
"""Seconds to wait, after a reply, for outputs still under way."""


WALLS = frozenset({"namespaces", "landlock"})
"""What may keep code apart: the first where the system allows it, the second where not."""


class LocalInterpreter:
    """A live kernel on this machine; see :class:`~clew.workbench.interpreter.port.Interpreter`."""

    def __init__(self, sandbox: Sandbox, family: Family, channels: Channels, *, grace: float) -> None:
        self.id = f"local-{secrets.token_hex(8)}"
        self.sandbox = sandbox
        self._family = family
        self._channels = channels
        self._grace = grace
        self._turn = asyncio.Lock()
        self._current: tuple[Message, Execution] | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        listening = [asyncio.create_task(self._hear()), asyncio.create_task(self._hear_replies())]
        self._mourning = asyncio.create_task(self._mourn(listening))

    def describe(self) -> Isolation:
        """What its code is kept apart from, and what not."""
        return self._family.isolation

    async def run(self, code: str) -> AsyncIterator[Output]:
        """Run code and give its outputs as they come; one run at a time, others wait."""
        try:
            code.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"The code is not text: {error}.") from error
        execution = Execution(self.sandbox.limits.output)
        self._keep(asyncio.create_task(self._conduct(execution, code)))
        try:
            async for output in execution.outputs():
                yield output
        finally:
            execution.stop("interrupted")

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _conduct(self, execution: Execution, code: str) -> None:
        """See one run through to its end, whoever still listens."""
        async with self._turn:
            if self._family.dead.is_set():
                execution.fail(InterpreterGone(self.id, self._family.death.detail))
                return
            if execution.stopping.is_set():
                execution.finish(Stopped(execution.why, "it had not begun", alive=True))
                return
            try:
                await self._execute(execution, code)
                execution.finish(self._how_it_stopped(execution))
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
        interrupt = self._family.interrupt
        if not await see_through(execution, seconds=seconds, grace=self._grace, interrupt=interrupt):
            await self._family.end("it did not obey an interrupt, and was killed")

    def _how_it_stopped(self, execution: Execution) -> Stopped | None:
        alive = not self._family.dead.is_set()
        if self._closed and not alive:
            return Stopped("closed", "the interpreter was closed", alive=False)
        stopped = stop_of(execution, seconds=self.sandbox.limits.seconds, grace=self._grace, alive=alive)
        if stopped is None and not alive:
            return Stopped(self._family.death.why, self._family.death.detail, alive=False)
        return stopped

    async def _hear(self) -> None:
        while True:
            message = await self._channels.published()
            if self._current is not None and answers(message, self._current[0]):
                self._pass_on(message, self._current[1])

    def _pass_on(self, message: Message, execution: Execution) -> None:
        output = output_of(message)
        if output is not None:
            execution.take(output)
        elif is_idle(message):
            execution.settled.set()

    async def _hear_replies(self) -> None:
        while True:
            message = await self._channels.reply()
            if self._current is not None and answers(message, self._current[0]):
                # Where so much was published that its end was lost, the reply is the end.
                asyncio.get_running_loop().call_later(_LAST_WORDS, self._current[1].settled.set)

    async def _mourn(self, listening: list[asyncio.Task[None]]) -> None:
        await self._family.dead.wait()
        # What it published on its way out may still be under way.
        await asyncio.sleep(_PARTING)
        for task in listening:
            task.cancel()
        await asyncio.wait(listening)
        if self._current is not None:
            self._current[1].settled.set()
        self._channels.close()

    async def interrupt(self) -> None:
        """Stop the code that runs, if any; variables stay."""
        if self._current is not None:
            self._current[1].stop("interrupted")

    async def alive(self) -> bool:
        """Whether its process is there."""
        return not self._family.dead.is_set()

    async def close(self) -> None:
        """End it, and every process that its code began."""
        if not self._family.dead.is_set():
            self._closed = True
        await self._family.end("it was closed")
        await asyncio.shield(self._mourning)


@check_methods
class LocalInterpreters:
    """Makes interpreters on this machine, and finds again those that it made itself.

    ``grace`` is how long code has to obey an interrupt before it is killed; ``patience`` how long a kernel
    has to come up. ``walls`` are the system's means that may be used to keep it apart.
    """

    def __init__(self, *, grace: float = 5.0, patience: float = 60.0, walls: Collection[str] = WALLS) -> None:
        self._grace = grace
        self._patience = patience
        self._walls = walls
        self._made: dict[str, LocalInterpreter] = {}

    async def make(self, sandbox: Sandbox) -> LocalInterpreter:
        """Start a new one, with no variables.

        Raises:
            InterpreterFailed: It did not come up.
        """
        _look_at(sandbox)
        private = private_folder()
        connection = write_connection(private / "run")
        try:
            family = await Family.start(sandbox, private, walls=self._walls)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        channels = Channels(connection)
        try:
            await self._meet(family, channels)
        except BaseException:
            channels.close()
            await family.end("it did not come up")
            raise
        made = LocalInterpreter(sandbox, family, channels, grace=self._grace)
        self._made = {id: other for id, other in self._made.items() if await other.alive()}
        self._made[made.id] = made
        return made

    async def close(self) -> None:
        """End every interpreter that it made."""
        await asyncio.gather(*(made.close() for made in self._made.values()))

    async def _meet(self, family: Family, channels: Channels) -> None:
        greeting = asyncio.create_task(channels.greet())
        dying = asyncio.create_task(family.dead.wait())
        try:
            await asyncio.wait({greeting, dying}, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
            if dying.done():
                raise InterpreterFailed("local", f"it did not come up: {family.death.detail}")
            if not greeting.done():
                raise InterpreterFailed("local", f"it did not answer within {self._patience:g} s", retry=True)
        finally:
            for task in (greeting, dying):
                task.cancel()
            await asyncio.wait({greeting, dying})

    async def attach(self, id: str, sandbox: Sandbox) -> LocalInterpreter:
        """Take up one that this object made and that is still alive, with its variables.

        Raises:
            InterpreterGone: There is none with this id, it is dead, or it is on another volume.
        """
        found = self._made.get(id)
        if found is None:
            raise InterpreterGone(id, "this process made none with this id")
        if not await found.alive():
            raise InterpreterGone(id, "it is dead")
        if not _same_volume(found.sandbox, sandbox):
            raise InterpreterGone(id, "it is on another volume")
        return found


def _look_at(sandbox: Sandbox) -> None:
    if sys.platform != "linux":
        raise InterpreterFailed("local", "it needs Linux; elsewhere, use a provider")
    for folder in (sandbox.scratch, sandbox.volume):
        if not Path(folder).is_absolute() or not Path(folder).is_dir():
            raise InterpreterFailed("local", f"there is no folder {folder}, or it is not an absolute path")


def _same_volume(one: Sandbox, other: Sandbox) -> bool:
    return Path(one.volume).resolve() == Path(other.volume).resolve()
