"""Turns of the runtime, with a model that answers at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import clew
from bench.clock import Act, Contestant
from bench.turns import turn
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage

T = TypeVar("T")
CHECKPOINTS = 3
"""A plain answer: what came in, the answer, the end."""


class Parrot:
    """A model that answers every request with the same words, without a pause."""

    name = "parrot"

    def __init__(self, text: str) -> None:
        self._reply = Reply(text=text, usage=Usage(calls=1, input_tokens=1, output_tokens=1))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The words."""
        yield TextChunk(self._reply.text)
        yield self._reply

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing is asked for."""
        raise NotImplementedError


@asynccontextmanager
async def turns(
    url: str, *, name: str = "Clew", threads: int = 1, start: int = 0
) -> AsyncIterator[Contestant]:
    """A whole turn on one of some threads, each of which has had ``start`` turns already."""
    async with clew.open(url) as db, clew.Runtime(db, model=Parrot(turn(0).answer)) as runtime:
        for number in range(threads * start):
            await runtime.run_turn(f"t{number % threads}", turn(number).question)

        def ready(number: int) -> Act:
            text = turn(number).question
            return lambda: runtime.run_turn(f"t{number % threads}", text)

        yield Contestant(
            name=name, detail="run_turn, 3 checkpoints, a model that answers at once", ready=ready
        )
