"""The runtimes of a process: opened when asked for, closed when idle, and every known tenant tended."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.runtime.episodes import active_episode
from holdfast.runtime.models import Request
from holdfast.server.identity.entries import Tenant
from holdfast.server.identity.keeping import Directory
from holdfast.server.runtimes import Runtimes
from holdfast.server.settings import ServerSettings
from holdfast.testing import Clock, ScriptedModel
from tests.server.conftest import served

LONG_AGO = 1_000_000


async def test_beyond_the_limit_the_longest_idle_is_closed() -> None:
    async with hf.open("memory://") as db:
        runtimes = Runtimes(db, hf.Runtime, limit=2)
        for tenant in ("a", "b", "a", "c"):
            async with runtimes.of(tenant):
                pass
        open_now = runtimes.tenants
        await runtimes.close(drain_seconds=1)

    assert open_now == ["a", "c"]
    assert runtimes.tenants == []


async def test_one_that_is_at_work_is_never_closed() -> None:
    async with hf.open("memory://") as db:
        runtimes = Runtimes(db, hf.Runtime, limit=1)
        async with runtimes.of("a"):
            for tenant in ("b", "c"):
                async with runtimes.of(tenant):
                    pass
            open_now = runtimes.tenants
        await runtimes.close(drain_seconds=1)

    assert open_now == ["a"]


async def test_closing_lets_a_turn_come_to_its_end() -> None:
    begun, hold = asyncio.Event(), asyncio.Event()

    def line(request: Request) -> list[str | asyncio.Event]:
        begun.set()
        return [hold, "late"]

    async with hf.open("memory://") as db:
        runtimes = Runtimes(db, lambda scoped: hf.Runtime(scoped, model=ScriptedModel(line)), limit=1)

        async def turn() -> str:
            async with runtimes.of("a") as runtime:
                return (await runtime.run_turn("t", "hi", user="alice")).termination

        talking = asyncio.create_task(turn())
        await begun.wait()
        closing = asyncio.create_task(runtimes.close(drain_seconds=30))
        await asyncio.sleep(0)
        hold.set()
        await closing

        assert await talking == "natural"


async def test_a_turn_that_does_not_end_is_cut_off_in_the_end() -> None:
    begun = asyncio.Event()

    def line(request: Request) -> list[str | asyncio.Event]:
        begun.set()
        return [asyncio.Event(), "never"]

    async with hf.open("memory://") as db:
        runtimes = Runtimes(db, lambda scoped: hf.Runtime(scoped, model=ScriptedModel(line)), limit=1)

        async def turn() -> str:
            async with runtimes.of("a") as runtime:
                return (await runtime.run_turn("t", "hi", user="alice")).termination

        talking = asyncio.create_task(turn())
        await begun.wait()
        await runtimes.close(drain_seconds=0.05)
        (change,) = (await db.scope(tenant="a").thread("t").changesets())[-1:]
        await asyncio.gather(talking, return_exceptions=True)

    assert change.reason == "RunFinished"


@pytest.mark.promise("R-09")
async def test_a_tenant_that_nobody_asks_about_is_tended_too(db: hf.Database) -> None:
    await Directory(db).add(Tenant(id=db.tenant))
    past = hf.Runtime(
        db, model=ScriptedModel("hello"), clock=Clock(LONG_AGO), finalize_active_sessions_on_close=False
    )
    async with past:
        await past.run_turn("t", "hi", user="alice")
    before = await active_episode(db, "t")
    async with served(db, settings=ServerSettings(sweep_seconds=0.05)):
        async with asyncio.timeout(20):
            while await active_episode(db, "t") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # a sweep tells nobody of its end

    assert before is not None
