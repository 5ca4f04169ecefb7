"""One run of code, as it is seen from outside: outputs within their limit, and how it came to its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Output,
    OverflowOutput,
    StopOutput,
    StreamOutput,
)


class Execution:
    """The output of one run so far, for one reader who may be slower than the code."""

    def __init__(self, output: int) -> None:
        self._bytes_left = output
        self._bytes_over = 0
        self._error: ErrorOutput | None = None
        self._queue: asyncio.Queue[Output | BaseException | None] = asyncio.Queue()
        self.completion = asyncio.Event()
        """The code is at its end, or its interpreter is."""
        self.stop_request = asyncio.Event()
        """End it on request."""
        self.stop_reason = ""

    def take(self, output: Output) -> None:
        """Keep an output for the reader, as far as the limit goes."""
        if isinstance(output, ErrorOutput):
            self._error = output
        elif isinstance(output, StreamOutput):
            self._take_text(output)
        elif isinstance(output, DisplayOutput):
            self._take_display(output, sum(len(form.encode()) for form in output.forms.values()))

    def _take_text(self, output: StreamOutput) -> None:
        size = len(output.text.encode())
        if size > self._bytes_left:
            text = output.text.encode()[: self._bytes_left].decode(errors="ignore")
            self._bytes_over += size - len(text.encode())
            self._bytes_left = 0
            output = StreamOutput(output.stream, text)
        self._bytes_left = max(0, self._bytes_left - size)
        if output.text:
            self._queue.put_nowait(output)

    def _take_display(self, output: DisplayOutput, size: int) -> None:
        if size > self._bytes_left:
            self._bytes_over += size
        else:
            self._bytes_left -= size
            self._queue.put_nowait(output)

    def stop(self, reason: str) -> None:
        """Ask for its end; the first who asks gives the reason."""
        if not self.stop_request.is_set():
            self.stop_reason = reason
            self.stop_request.set()

    def finish(self, stop: StopOutput | None) -> None:
        """Say how it ended. A stop hides the error by which the code obeyed it."""
        if self._bytes_over:
            self._queue.put_nowait(OverflowOutput(self._bytes_over))
        last = stop or self._error
        if last is not None:
            self._queue.put_nowait(last)
        self._queue.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        """Say that it did not come to run, or that nobody knows how it ended."""
        self._queue.put_nowait(error)

    async def outputs(self) -> AsyncIterator[Output]:
        """The outputs as they come, up to the end."""
        while (output := await self._queue.get()) is not None:
            if isinstance(output, BaseException):
                raise output
            yield output


async def wait_for_end(
    execution: Execution, *, seconds: float, grace: float, interrupt: Callable[[], Awaitable[None]]
) -> bool:
    """Wait for the end of a run, or the grace after an interrupt; return whether it ended."""
    if not await wait_for_any(execution.completion, execution.stop_request, timeout=seconds):
        execution.stop("time")
    while not execution.completion.is_set() and grace > 0:
        await interrupt()
        # Between two messages nobody hears an interrupt, so it is sent again.
        await wait_for_any(execution.completion, timeout=min(1.0, grace))
        grace -= 1.0
    return execution.completion.is_set()


async def wait_for_any(*events: asyncio.Event, timeout: float) -> bool:
    """Wait for one of some events; return whether one came in time."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        first, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return bool(first)
    finally:
        for task in tasks:
            task.cancel()


def stop_output_of(execution: Execution, *, seconds: float, grace: float, alive: bool) -> StopOutput | None:
    """The output that says why a run was stopped; None if it was not."""
    if not execution.stop_request.is_set():
        return None
    how = f"it took longer than {seconds:g} s" if execution.stop_reason == "time" else "it was interrupted"
    after = "" if alive else f", and did not obey within {grace:g} s"
    return StopOutput(execution.stop_reason, how + after, alive=alive)
