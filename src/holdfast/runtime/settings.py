"""What a runtime is made of."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.runtime.asking import Patience
from holdfast.runtime.context import (
    CrisisLog,
    EmbeddingProvider,
    MemoryMode,
    MemoryStore,
    SessionMemoryBuffer,
)
from holdfast.runtime.ending import Finalize, nothing_left
from holdfast.runtime.loop import Stage
from holdfast.runtime.models import Model
from holdfast.runtime.outputs import check_output
from holdfast.runtime.schema import Schema
from holdfast.runtime.upgrades import Upgrade, check_upgrades


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_run_id() -> str:
    """A name that no other run has."""
    return f"run-{secrets.token_hex(10)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How turns are run."""

    schema: Schema
    stages: Sequence[Stage]
    model: Model | None
    memory_store: MemoryStore
    crisis_log_backend: CrisisLog
    response_model: Model | None = None
    output: type[Any] | None = None
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    lease_seconds: float = 15.0
    idle_seconds: float = 20 * 60.0
    finalize: Finalize = nothing_left
    memory_mode: MemoryMode = MemoryMode.LOCAL
    embedding_provider: EmbeddingProvider | None = None
    session_memory_buffer: SessionMemoryBuffer | None = None
    clock: Callable[[], int] = now_ms
    new_id: Callable[[], str] = new_run_id

    def __post_init__(self) -> None:
        check_output(self.schema, self.output)
        check_upgrades(self.schema, self.upgrades)
