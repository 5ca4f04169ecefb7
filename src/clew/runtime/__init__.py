"""Turns that survive: a schema, stages, a model, and checkpoints at exact moments."""

from clew.runtime.context import (
    Context,
    EmbeddingProvider,
    MemoryBackend,
    MemoryMode,
    RecordBackend,
    SessionMemoryBuffer,
)
from clew.runtime.execution.rollback import RewindResult
from clew.runtime.execution.safe_reply import gate
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.call import Deadlines, RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, ModelRequest, Reply, TextChunk, ToolCall, ToolSpec, Usage
from clew.runtime.placement import user_for_mode
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.records.episodes import Episode
from clew.runtime.records.events import (
    ErrorEvent,
    Event,
    HistoryRewritten,
    MessageAdded,
    RunFinished,
    RunStarted,
    StageStarted,
    StateChanged,
    TextDelta,
)
from clew.runtime.records.runs import Run
from clew.runtime.records.steps import Price, Step, run_steps
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.respond.compaction import Compaction, CompactionResult
from clew.runtime.respond.guardrails import Guardrail, guardrail
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import SessionStatus
from clew.runtime.sessions.utterances import GateSettings, GateVerdict, Utterance
from clew.runtime.sessions.voice import VoiceCall
from clew.runtime.settings import LeaseConfig, MemoryConfig, RuntimeConfig, SessionConfig, StateConfig
from clew.runtime.state.call_state import Approval, Decision, PassOn, Replay, UseResult
from clew.runtime.state.inputs import TurnInput
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import (
    Conversation,
    State,
    input,
    loaded,
    per_call,
    per_run,
    per_turn,
    persistent,
    whole_of,
)
from clew.runtime.state.upgrades import Upgrade
from clew.runtime.telemetry.observer import CommitEnd, JobEnd, RuntimeObserver, StepEnd, TurnEnd
from clew.runtime.telemetry.telemetry import TelemetryConfig
from clew.runtime.tools.tool import NOT_HAPPENED, Effect, Suspend, Tool, ToolContext, ToolOutcome, tool
from clew.runtime.turn.draft import Delta
from clew.runtime.turn.result import TurnResult

__all__ = [
    "NOT_HAPPENED",
    "Approval",
    "CommitEnd",
    "Compaction",
    "CompactionResult",
    "Context",
    "Conversation",
    "Deadlines",
    "Decision",
    "Delta",
    "Effect",
    "EmbeddingProvider",
    "Episode",
    "ErrorEvent",
    "Event",
    "ExternalEffect",
    "GateSettings",
    "GateVerdict",
    "Guardrail",
    "HistoryRewritten",
    "JobEnd",
    "LeaseConfig",
    "MemoryBackend",
    "MemoryConfig",
    "MemoryMode",
    "Message",
    "MessageAdded",
    "Model",
    "ModelRequest",
    "PassOn",
    "Price",
    "RecordBackend",
    "Replay",
    "Reply",
    "RetryPolicy",
    "RewindResult",
    "Run",
    "RunFinished",
    "RunStarted",
    "Runtime",
    "RuntimeConfig",
    "RuntimeObserver",
    "SessionConfig",
    "SessionMemoryBuffer",
    "SessionStatus",
    "Stage",
    "StageStarted",
    "State",
    "StateChanged",
    "StateConfig",
    "StateLog",
    "Step",
    "StepEnd",
    "Suspend",
    "TelemetryConfig",
    "TextChunk",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolOutcome",
    "ToolSpec",
    "TurnEnd",
    "TurnInput",
    "TurnRecord",
    "TurnResult",
    "Upgrade",
    "Usage",
    "UseResult",
    "Utterance",
    "VoiceCall",
    "gate",
    "guardrail",
    "input",
    "loaded",
    "per_call",
    "per_run",
    "per_turn",
    "persistent",
    "respond",
    "run_agent",
    "run_steps",
    "tool",
    "user_for_mode",
    "whole_of",
]
