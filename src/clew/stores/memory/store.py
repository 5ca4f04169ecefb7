"""The store: questions answered and effects applied at once, in one process."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from clew.core.errors import StoreClosed
from clew.core.heads import Heads
from clew.core.owners import obstacle
from clew.core.planning import Plan, Setting, plan_claim
from clew.core.ports import Report, Scrubbed
from clew.core.rows import (
    Ask,
    Asking,
    AskTenants,
    Effect,
    MoveJob,
    Stale,
    answered,
)
from clew.core.values import Job, Limits, Scope
from clew.stores.clock import now_ms
from clew.stores.memory.answers import answer
from clew.stores.memory.effects import apply
from clew.stores.memory.rows import Tenant
from clew.stores.waking import Wakes

T = TypeVar("T")


class MemoryStore:
    """Threads, records and jobs in this process only."""

    name = "memory"

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = now_ms,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.limits = limits or Limits()
        self._clock = clock
        self._random = random
        self._tenants: dict[str, Tenant] = {}
        self._heads = Heads()
        self._wakes = Wakes()
        self._keys = 0
        self._closed = False

    async def read(self, scope: Scope, asking: Asking[T]) -> T:
        """The result of a reading."""
        tenant = self._tenant(scope)
        return answered(asking, self._answers(tenant, scope))

    async def change(self, scope: Scope, planning: Callable[[Setting], Asking[Plan]]) -> Plan:
        """The plan that was applied."""
        tenant = self._tenant(scope)
        stale: Sequence[Effect] = ()
        for fresh in (False, True):
            plan = answered(planning(self._setting(scope, fresh=fresh)), self._answers(tenant, scope))
            try:
                apply(tenant, plan.effects)
            except Stale:
                stale = plan.effects
                continue
            self._heads.learn(scope.tenant, plan.known)
            self._wakes.wake(scope.tenant, plan.known)
            return plan
        raise obstacle(stale)

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Jobs that are due, now held by a claim of their own for so long."""
        plan = await self.change(scope, lambda setting: plan_claim(kinds, limit, lease_ms, setting))
        jobs = [effect.job for effect in plan.effects if isinstance(effect, MoveJob)]
        return [job for job in jobs if job.status == "running"]

    async def changed(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        tenant = self._tenant(scope)
        key = tenant.ids.get(thread)
        if key is not None and tenant.rows[key].thread.version <= after:
            with self._wakes.waiting(scope, thread, after) as woken:
                await asyncio.wait([woken], timeout=timeout)

    async def stirred(self, after: int, timeout: float) -> int:
        """A number that is no longer ``after`` once anybody may have changed a thread."""
        return await self._wakes.stirred(after, timeout)

    def now(self) -> int:
        """The time by this machine's clock, in milliseconds since 1970."""
        return self._clock()

    async def report(self) -> Report:
        """What the store says about its health."""
        threads = sum(len(tenant.ids) for tenant in self._tenants.values())
        return Report(store="memory", format=1, healthy=not self._closed, facts={"threads": threads})

    async def scrub(self) -> Scrubbed:
        """Leave no trace of rows that were removed: there is none."""
        return Scrubbed()

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._tenants.clear()
        self._wakes.wake_all()

    def _tenant(self, scope: Scope) -> Tenant:
        if self._closed:
            raise StoreClosed
        return self._tenants.setdefault(scope.tenant, Tenant())

    def _answers(self, tenant: Tenant, scope: Scope) -> Callable[[Ask[Any]], Any]:
        def answer_any(question: Ask[Any]) -> Any:
            if isinstance(question, AskTenants):
                names = [
                    name for name, each in self._tenants.items() if each.ids or each.records or each.jobs
                ]
                return sorted(names) if scope.user is None else []
            return answer(tenant, scope, question)

        return answer_any

    def _setting(self, scope: Scope, *, fresh: bool) -> Setting:
        return Setting(
            scope=scope,
            now=self._clock(),
            random=self._random,
            new_key=self._new_key,
            known=self._heads.of(scope.tenant),
            fresh=fresh,
        )

    def _new_key(self) -> int:
        self._keys += 1
        return self._keys
