"""The ends of LangGraph's runs. A checkpointer is told when a run reads and writes, not when it is over.

LangGraph reports the beginning and the end of every run to LangChain's callbacks, and LangChain has a hook
for callbacks that belong to every run. The beginning is reported in the context in which the run's first read
happens, so the two can be matched; the end may be reported anywhere.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

RunEnding: TypeAlias = Callable[[], Future[None]]
"""Begins what is to be done at the end of a run."""

END_SECONDS = 5.0
"""The longest that a run waits at its end; after that its lease is left to expire."""


class RunEnds:
    """The callbacks for the ends of runs, by the ids of the runs."""

    def __init__(self) -> None:
        self._current: ContextVar[UUID | None] = ContextVar("clew_langgraph_run", default=None)
        self._endings: dict[UUID, RunEnding] = {}

    @property
    def current_run(self) -> UUID | None:
        """The run whose code this is, if LangGraph has reported one."""
        return self._current.get()

    def add(self, run: UUID, ending: RunEnding) -> None:
        """Do something when a run ends."""
        self._endings[run] = ending

    def has(self, run: UUID) -> bool:
        """Return whether something is to be done when a run ends."""
        return run in self._endings

    def begin(self, run: UUID) -> None:
        """A run has begun here."""
        self._current.set(run)

    def end(self, run: UUID) -> Future[None] | None:
        """A run has ended; the end of what is done about it."""
        ending = self._endings.pop(run, None)
        return ending() if ending is not None else None


class _ChainEvents:
    """The choice of events: only those of chains, which is what LangChain takes a graph for."""

    run_inline = True
    raise_error = False
    ignore_agent = ignore_chat_model = ignore_custom_event = ignore_llm = True
    ignore_retriever = ignore_retry = True


class _RunBegin(_ChainEvents, BaseCallbackHandler):
    """Notes that a run has begun; and ends one on a plain thread, where waiting is allowed."""

    ignore_chain = False

    def __init__(self, ends: RunEnds) -> None:
        self._ends = ends

    def on_chain_start(
        self, serialized: dict[str, Any], inputs: dict[str, Any], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self._ends.begin(run_id)

    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> None:
        self._end(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._end(run_id)

    def _end(self, run: UUID) -> None:
        if _is_on_event_loop() or (future := self._ends.end(run)) is None:
            return
        with suppress(FutureTimeout):
            future.result(END_SECONDS)


class _RunEnd(_ChainEvents, AsyncCallbackHandler):
    """Ends a run on an event loop, and awaits what is done about it."""

    def __init__(self, ends: RunEnds) -> None:
        self._ends = ends

    @property
    def ignore_chain(self) -> bool:
        """True on a plain thread, where a coroutine would cost a loop of its own."""
        return not _is_on_event_loop()

    async def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> None:
        await self._end(run_id)

    async def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        await self._end(run_id)

    async def _end(self, run: UUID) -> None:
        if (future := self._ends.end(run)) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(future), END_SECONDS)


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@cache
def run_ends() -> RunEnds:
    """The ends of all runs of this process; LangChain's hook is registered by the first call."""
    ends = RunEnds()
    begin, end = _RunBegin(ends), _RunEnd(ends)
    register_configure_hook(ContextVar("clew_langgraph_run_begin", default=begin), inheritable=False)
    register_configure_hook(ContextVar("clew_langgraph_run_end", default=end), inheritable=False)
    return ends
