"""Long work in a thread, which ends soon after the task that waits for it is cancelled."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run some work in a thread; if the task is cancelled, call ``stop`` and wait for the thread.

    A thread cannot be cancelled: left alone it would go on writing after its caller has tidied up.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        while not task.done():
            await asyncio.wait([task])
        task.exception()
        raise
