"""Writes whose outcome is known before a cancellation goes on: nobody reads half of a change."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """The result of a write, which goes on to its end even if who waits for it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue  # it is raised once the outcome is known
        if not task.cancelled():
            task.exception()  # looked at, so that nobody is told of it twice
        raise
