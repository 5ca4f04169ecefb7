"""Sessions whose process is killed: between turns, in the middle of one, and while its end is made."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

import msgspec

import clew
from clew.core.clock import now_ms
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.episodes import Episode, EpisodeResult
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.testing.scripted_model import ScriptedModel

THREAD = "a"
LEASE_SECONDS = 0.5


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


async def notice(state: clew.State, ctx: Context) -> None:
    """A stage that holds what was said, takes its first digit for a level, and asks a model."""
    text = str(getattr(state, "message", ""))
    assert ctx.session_memory_buffer is not None
    ctx.session_memory_buffer.add({"said": text})
    ctx.turn.note_level(int(text[0]))
    await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))


async def answer(state: clew.State, ctx: Context) -> clew.Delta:
    """A stage that answers, unless the process is to end here."""
    if "die" in str(getattr(state, "message", "")):
        die()
    return {"reply": "Noted.", "history": [clew.Message(role="assistant", content="Noted.")]}


async def answer_calmly(state: clew.State, ctx: Context) -> clew.Delta:
    """The same, in a process that lives."""
    return {"reply": "Noted.", "history": [clew.Message(role="assistant", content="Noted.")]}


answer_calmly.__name__ = "answer"


def runtime_of(db: Database, *, calm: bool = True) -> Runtime:
    """A runtime that notices and answers, and ends no session by itself."""
    return Runtime(
        db,
        stages=[notice, answer_calmly if calm else answer],
        model=ScriptedModel(*["ok"] * 9),
        finalize=keep_all if calm else die_in_the_end,
        config=RuntimeConfig(
            leases=LeaseConfig(seconds=LEASE_SECONDS, sweep_seconds=3600),
            sessions=SessionConfig(finalize_active_sessions_on_close=False),
        ),
    )


async def keep_all(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
    """An end that keeps what was held, and how much was said."""
    arc = {"held": list(of.candidates), "said": [message.text for message in transcript]}
    return EpisodeResult(episode=msgspec.structs.replace(of, arc=arc))


async def die_in_the_end(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
    """An end that its process does not live to see."""
    die()
    raise AssertionError("it is still there")


def talk(url: str, *messages: str) -> None:
    """Turns of one session in a process of its own, which is killed after the last, or in it."""
    asyncio.run(_talk(url, messages))


async def _talk(url: str, messages: Sequence[str]) -> None:
    async with clew.open(url) as db:
        runtime = runtime_of(db, calm=False)
        for message in messages:
            await runtime.run_turn(THREAD, message)
        die()


def end(url: str) -> None:
    """End the session in a process of its own, which is killed while the end is made."""
    asyncio.run(_end(url))


async def _end(url: str) -> None:
    async with clew.open(url) as db:
        await runtime_of(db, calm=False).end_session(THREAD, feedback="positive")


async def until_its_lease_is_over(db: Database, job: str) -> None:
    """Wait until the claim of whoever had a job has run out."""
    job_now = await db.jobs.get(job)
    await asyncio.sleep(max(job_now.until - now_ms(), 0) / 1000 + 0.05)
