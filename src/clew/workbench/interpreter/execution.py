"""One run of code, as it is seen from outside: outputs within their limit, and how it came to its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from clew.workbench.interpreter.port import Dropped, Output, Printed, Raised, Shown, Stopped


class Execution:
    """What one run gave so far, for one reader who may be slower than the code."""

    def __init__(self, output: int) -> None:
        self._left = output
        self._dropped = 0
        self._raised: Raised | None = None
        self._waiting: asyncio.Queue[Output | BaseException | None] = asyncio.Queue()
        self.settled = asyncio.Event()
        """The code is at its end, or its interpreter is."""
        self.stopping = asyncio.Event()
        """Somebody wants it to end."""
        self.why = ""

    def take(self, output: Output) -> None:
        """Keep an output for the reader, as far as the limit goes."""
        if isinstance(output, Raised):
            self._raised = output
        elif isinstance(output, Printed):
            self._take_text(output)
        elif isinstance(output, Shown):
            self._take_whole(output, sum(len(form.encode()) for form in output.forms.values()))

    def _take_text(self, output: Printed) -> None:
        size = len(output.text.encode())
        if size > self._left:
            kept = output.text.encode()[: self._left].decode(errors="ignore")
            self._dropped += size - len(kept.encode())
            self._left = 0
            output = Printed(output.stream, kept)
        self._left = max(0, self._left - size)
        if output.text:
            self._waiting.put_nowait(output)

    def _take_whole(self, output: Shown, size: int) -> None:
        if size > self._left:
            self._dropped += size
        else:
            self._left -= size
            self._waiting.put_nowait(output)

    def stop(self, why: str) -> None:
        """Ask for its end; the first who asks gives the reason."""
        if not self.stopping.is_set():
            self.why = why
            self.stopping.set()

    def finish(self, stopped: Stopped | None) -> None:
        """Say how it ended. A stop hides the error by which the code obeyed it."""
        if self._dropped:
            self._waiting.put_nowait(Dropped(self._dropped))
        last = stopped or self._raised
        if last is not None:
            self._waiting.put_nowait(last)
        self._waiting.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        """Say that it did not come to run, or that nobody knows how it ended."""
        self._waiting.put_nowait(error)

    async def outputs(self) -> AsyncIterator[Output]:
        """What it gives, as it comes, to its end."""
        while (output := await self._waiting.get()) is not None:
            if isinstance(output, BaseException):
                raise output
            yield output


async def see_through(
    execution: Execution, *, seconds: float, grace: float, interrupt: Callable[[], Awaitable[None]]
) -> bool:
    """Whether a run that was begun came to its end: by itself, or within the grace after an interrupt."""
    if not await either(execution.settled, execution.stopping, timeout=seconds):
        execution.stop("time")
    while not execution.settled.is_set() and grace > 0:
        await interrupt()
        # Between two messages nobody hears an interrupt, so it is sent again.
        await either(execution.settled, timeout=min(1.0, grace))
        grace -= 1.0
    return execution.settled.is_set()


async def either(*events: asyncio.Event, timeout: float) -> bool:
    """Whether one of the events came in time."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in waiting:
            task.cancel()


def stop_of(execution: Execution, *, seconds: float, grace: float, alive: bool) -> Stopped | None:
    """How a run was stopped, if it was asked to."""
    if not execution.stopping.is_set():
        return None
    how = f"it took longer than {seconds:g} s" if execution.why == "time" else "it was interrupted"
    after = "" if alive else f", and did not obey within {grace:g} s"
    return Stopped(execution.why, how + after, alive=alive)
