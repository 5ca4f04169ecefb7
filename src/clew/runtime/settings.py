"""What a runtime is made of."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.core.arguments import check_async
from clew.core.clock import RandomBytes
from clew.core.errors import InvalidArgument
from clew.core.log.checks import check_lease
from clew.runtime.context import (
    CrisisLog,
    EmbeddingProvider,
    MemoryBackend,
    MemoryMode,
    SessionMemoryBuffer,
)
from clew.runtime.crises import KEEP_DAYS, PendingCrises
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.protocol import Model
from clew.runtime.records.episodes import Finalize, finalize_nothing
from clew.runtime.records.refusals import Refusals
from clew.runtime.records.steps import Prices
from clew.runtime.respond.respond import Stage
from clew.runtime.stages import check_stages
from clew.runtime.state.schema import Schema
from clew.runtime.state.upgrades import Upgrade, check_upgrades
from clew.runtime.turn.result import check_output


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class RunIds:
    """Names that no other run has. Chance comes in blocks: each system call lets another thread run first."""

    def __init__(self) -> None:
        self._chance = RandomBytes()

    def __call__(self) -> str:
        """The next one."""
        return f"run-{self._chance(10).hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How turns are run."""

    schema: Schema
    stages: Sequence[Stage]
    model: Model | None
    memory_store: MemoryBackend
    crisis_log_backend: CrisisLog
    response_model: Model | None = None
    output: type[Any] | None = None
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    prices: Prices = field(default_factory=dict)
    lease_seconds: float = 15.0
    idle_seconds: float = 20 * 60.0
    concurrent_ends: int = 4
    finalize: Finalize = finalize_nothing
    crisis_days: float = KEEP_DAYS
    pending_crises: PendingCrises = field(default_factory=PendingCrises)
    refusals: Refusals = field(default_factory=Refusals)
    memory_mode: MemoryMode = MemoryMode.LOCAL
    embedding_provider: EmbeddingProvider | None = None
    session_memory_buffer: SessionMemoryBuffer | None = None
    clock: Callable[[], int] = now_ms
    new_id: Callable[[], str] = field(default_factory=RunIds)

    def __post_init__(self) -> None:
        check_output(self.schema, self.output)
        check_upgrades(self.schema, self.upgrades)
        check_stages(self.stages)
        check_async(self.finalize, "finalize")
        check_lease(int(self.lease_seconds * 1000))
        if self.concurrent_ends < 1:
            raise InvalidArgument(problem="At least one episode must be ended at a time.")
