"""The configuration of a runtime, and the settings that its turns run with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.core.arguments import Count, Seconds, check_async, check_methods
from clew.core.clock import RandomBytes, now_ms
from clew.core.errors import InvalidArgument
from clew.core.log.checks import check_lease
from clew.runtime.context import (
    EmbeddingProvider,
    MakeContext,
    MemoryBackend,
    MemoryMode,
    RecordBackend,
    SessionMemoryBuffer,
    plain_context,
)
from clew.runtime.model.call import Deadlines, RetryPolicy
from clew.runtime.model.protocol import Model
from clew.runtime.records.episodes import Finalize, finalize_nothing
from clew.runtime.records.refusals import Refusals
from clew.runtime.records.runs import DEFAULT_AGENT
from clew.runtime.records.steps import Price
from clew.runtime.records.turn_records import PendingRecords
from clew.runtime.respond.compaction import Compaction
from clew.runtime.respond.respond import Stage
from clew.runtime.stages import check_stages
from clew.runtime.state.schema import Schema
from clew.runtime.state.upgrades import Upgrade, check_upgrades
from clew.runtime.telemetry.scope import TelemetryScope
from clew.runtime.telemetry.telemetry import Telemetry, TelemetryConfig
from clew.runtime.turn.live_text import LONGEST_TEXT, LiveTexts
from clew.runtime.turn.result import check_output


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class StateConfig:
    """The version of the schema, and the steps that bring stored states up to it.

    ``upgrades`` has one step from each earlier version, by the version that it starts from.
    """

    version: Count = 1
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """The end of sessions.

    A session ends after ``idle_seconds`` without a turn; ``concurrent_ends`` of them are ended at a time.
    With ``finalize_active_sessions_on_close``, closing the runtime ends those that had turns here, within
    ``close_seconds``; what is not done by then is left to the next sweep.
    """

    idle_seconds: Seconds = 20 * 60.0
    concurrent_ends: Count = 4
    close_seconds: Seconds = 10.0
    finalize_active_sessions_on_close: bool = True

    def __post_init__(self) -> None:
        if self.concurrent_ends < 1:
            raise InvalidArgument(problem="concurrent_ends must be 1 or more.")

    @property
    def idle_ms(self) -> int:
        """The idle time of a session that ends it, in milliseconds."""
        return int(self.idle_seconds * 1000)


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfig:
    """The leases of runs, and the sweep that takes over what is left of them.

    A thread stays held for ``seconds`` after its process died on another machine, an hour at most. Every
    ``sweep_seconds`` an open runtime closes runs whose process died, begins queued turns and ends idle
    sessions.
    """

    seconds: Seconds = 15.0
    sweep_seconds: Seconds = 30.0

    def __post_init__(self) -> None:
        check_lease(self.ms)

    @property
    def ms(self) -> int:
        """The length of a lease in milliseconds."""
        return int(self.seconds * 1000)


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """The recall of a turn, beside facts and arcs.

    At most ``passages`` earlier stretches of the user's threads that bear on the message are recalled, which
    together take no more than about ``passage_tokens`` tokens. With 0 none are.
    """

    passages: Count = 3
    passage_tokens: Count = 400


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """The configuration of a runtime: its limits, deadlines and clock.

    With ``memory``, the instructions of a turn say what is remembered: rules, facts, arcs and what was said
    earlier. It is off unless it is given; an agent that recalls by itself takes its settings from there.
    ``prices`` are those of models by name, for the cost of runs. ``pinned`` says that every request for a
    thread reaches this process, without which no thread can be incognito. ``provisional_bytes`` is how much
    of the text of a running answer is kept until it is committed, for who reconnects meanwhile; 0 keeps none.
    ``clock`` gives the time in milliseconds, the store's unless another is given; ``new_id`` gives ids of
    runs. ``on_turn_end`` is called with the thread and the state of every turn whose stages have ended, while
    that still has the fields that are gone with the turn; what it raises ends the run as an error of a stage
    does. ``telemetry`` says what spans may hold, where the program has set up OpenTelemetry.
    """

    state: StateConfig = StateConfig()
    sessions: SessionConfig = SessionConfig()
    leases: LeaseConfig = LeaseConfig()
    deadlines: Deadlines = Deadlines()
    retry_policy: RetryPolicy = RetryPolicy()
    compaction: Compaction | None = None
    memory: MemoryConfig | None = None
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    prices: Mapping[str, Price] = field(default_factory=dict)
    pinned: bool = True
    provisional_bytes: Count = LONGEST_TEXT
    clock: Callable[[], int] | None = None
    new_id: Callable[[], str] | None = None
    on_turn_end: Callable[[str, Any], None] | None = None


def run_id_source() -> Callable[[], str]:
    """Return a function that gives ids of runs, each of them new.

    Random bytes are read in blocks: each system call lets another thread run first.
    """
    random_bytes = RandomBytes()
    return lambda: f"run-{random_bytes(10).hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of turns: the agent, its configuration, and the stores of what it learns."""

    agent: str = DEFAULT_AGENT
    schema: Schema
    stages: Sequence[Stage]
    model: Model | None
    response_model: Model | None = None
    output: type[Any] | None = None
    finalize: Finalize = finalize_nothing
    memory_mode: MemoryMode = MemoryMode.LOCAL
    embedding_provider: EmbeddingProvider | None = None
    session_memory_buffer: SessionMemoryBuffer | None = None
    config: RuntimeConfig = RuntimeConfig()
    memory_store: MemoryBackend
    record_backend: RecordBackend
    make_context: MakeContext = plain_context
    pending_records: PendingRecords = field(default_factory=PendingRecords)
    refusals: Refusals = field(default_factory=Refusals)
    live_texts: LiveTexts = field(default_factory=LiveTexts)
    clock: Callable[[], int] = now_ms
    new_id: Callable[[], str] = field(default_factory=run_id_source)
    telemetry: Telemetry = field(default_factory=Telemetry)

    def __post_init__(self) -> None:
        check_output(self.schema, self.output)
        check_upgrades(self.schema, self.config.state.upgrades)
        check_stages(self.stages)
        check_async(self.finalize, "finalize")

    def turn_scope(self, thread: str, user: str | None, *, parent: str | None = None) -> TelemetryScope:
        """Return the telemetry of a turn. ``parent`` is the span that asked for it, if not the current."""
        model = self.response_model or self.model
        return self.telemetry.turn(
            self.agent,
            thread,
            model=None if model is None else model.name,
            user=user,
            is_incognito=self.memory_mode is MemoryMode.INCOGNITO,
            parent=parent,
        )
