"""The runtimes of a process: opened when asked for, closed when idle, and every known tenant tended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import clew
from clew.core.errors import StoreUnavailable
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.episodes import active_episode
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant
from clew.server.settings import ServerSettings
from clew.server.tenants.runtimes import TenantRuntimes
from clew.testing import Clock, ScriptedModel
from tests.server.conftest import clients_of

LONG_AGO = 1_000_000


async def test_beyond_the_limit_the_longest_idle_is_closed() -> None:
    async with clew.open("memory://") as db:
        runtimes = TenantRuntimes(db, clew.Runtime, limit=2)
        for tenant in ("a", "b", "a", "c"):
            async with runtimes.runtime_for(tenant):
                pass
        open_now = runtimes.tenants
        await runtimes.close(drain_seconds=1)

    assert open_now == ["a", "c"]
    assert runtimes.tenants == []


async def test_one_that_is_at_work_is_never_closed() -> None:
    async with clew.open("memory://") as db:
        runtimes = TenantRuntimes(db, clew.Runtime, limit=1)
        async with runtimes.runtime_for("a"):
            for tenant in ("b", "c"):
                async with runtimes.runtime_for(tenant):
                    pass
            open_now = runtimes.tenants
        await runtimes.close(drain_seconds=1)

    assert open_now == ["a"]


class Lingering(clew.Runtime[Any, Any]):
    """A runtime that is at work until it is told otherwise, and takes as long to close as it is told."""

    def __init__(self, db: clew.Database, closing: asyncio.Queue[str], go: asyncio.Event) -> None:
        super().__init__(db)
        self.at_work = True
        self._closing = closing
        self._tenant = db.tenant
        self._go = go

    @property
    def is_idle(self) -> bool:
        return not self.at_work

    async def close(self) -> None:
        self._closing.put_nowait(self._tenant)
        await self._go.wait()
        await super().close()


async def test_one_that_is_asked_for_while_another_closes_stays_open() -> None:
    closing: asyncio.Queue[str] = asyncio.Queue()
    go, all_runtimes = asyncio.Event(), list[Lingering]()

    def make(tenant_db: clew.Database) -> Lingering:
        all_runtimes.append(Lingering(tenant_db, closing, go))
        return all_runtimes[-1]

    async def ask(runtimes: TenantRuntimes, tenant: str) -> None:
        async with runtimes.runtime_for(tenant):
            pass

    async with clew.open("memory://") as db:
        runtimes = TenantRuntimes(db, make, limit=1)
        for tenant in ("a", "b"):
            await ask(runtimes, tenant)
        for runtime in all_runtimes:
            runtime.at_work = False  # their turns are over
        shrinking = asyncio.create_task(ask(runtimes, "c"))
        first = await closing.get()
        async with runtimes.runtime_for("b"):
            go.set()
            await shrinking
            open_now = set(runtimes.tenants)
        all_runtimes[-1].at_work = False
        await runtimes.close(drain_seconds=1)

    assert (first, open_now) == ("a", {"b", "c"})


async def test_what_one_tenant_meets_keeps_no_other_from_being_tended() -> None:
    tenants: asyncio.Queue[str] = asyncio.Queue()

    def make(tenant_db: clew.Database) -> clew.Runtime[Any, Any]:
        if tenant_db.tenant == "broken":
            raise StoreUnavailable(problem="it is away")
        tenants.put_nowait(tenant_db.tenant)
        return clew.Runtime(tenant_db)

    async def known_tenants() -> list[str]:
        return ["broken", "whole"]

    async with clew.open("memory://") as db:
        runtimes = TenantRuntimes(db, make, limit=5)
        tending = asyncio.create_task(runtimes.tend_tenants(known_tenants, seconds=3600))
        async with asyncio.timeout(10):
            tenant = await tenants.get()
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        await runtimes.close(drain_seconds=1)

    assert tenant == "whole"


async def test_closing_lets_a_turn_come_to_its_end() -> None:
    start, hold = asyncio.Event(), asyncio.Event()

    def line(request: ModelRequest) -> list[str | asyncio.Event]:
        start.set()
        return [hold, "late"]

    async with clew.open("memory://") as db:
        runtimes = TenantRuntimes(
            db, lambda tenant_db: clew.Runtime(tenant_db, model=ScriptedModel(line)), limit=1
        )

        async def turn() -> str:
            async with runtimes.runtime_for("a") as runtime:
                return (await runtime.run_turn("t", "hi", user="alice")).termination

        talking = asyncio.create_task(turn())
        await start.wait()
        closing = asyncio.create_task(runtimes.close(drain_seconds=30))
        await asyncio.sleep(0)
        hold.set()
        await closing

        assert await talking == "natural"


async def test_a_turn_that_does_not_end_is_cut_off_in_the_end() -> None:
    start = asyncio.Event()

    def line(request: ModelRequest) -> list[str | asyncio.Event]:
        start.set()
        return [asyncio.Event(), "never"]

    async with clew.open("memory://") as db:
        runtimes = TenantRuntimes(
            db, lambda tenant_db: clew.Runtime(tenant_db, model=ScriptedModel(line)), limit=1
        )

        async def turn() -> str:
            async with runtimes.runtime_for("a") as runtime:
                return (await runtime.run_turn("t", "hi", user="alice")).termination

        talking = asyncio.create_task(turn())
        await start.wait()
        await runtimes.close(drain_seconds=0.05)
        (change,) = (await db.scope(tenant="a").thread("t").changesets())[-1:]
        await asyncio.gather(talking, return_exceptions=True)

    assert change.reason == "RunFinished"


@pytest.mark.promise("R-09")
async def test_a_tenant_that_nobody_asks_about_is_tended_too(db: clew.Database) -> None:
    await Directory(db).add(Tenant(id=db.tenant))
    past = clew.Runtime(
        db,
        model=ScriptedModel("hello"),
        config=RuntimeConfig(
            sessions=SessionConfig(finalize_active_sessions_on_close=False), clock=Clock(LONG_AGO)
        ),
    )
    async with past:
        await past.run_turn("t", "hi", user="alice")
    before = await active_episode(db, "t")
    async with clients_of(db, settings=ServerSettings(sweep_seconds=0.05)):
        async with asyncio.timeout(20):
            while await active_episode(db, "t") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # a sweep tells nobody of its end

    assert before is not None
