"""Turns that survive: a schema, stages, a model, and checkpoints at exact moments."""

from holdfast.runtime.asking import Patience
from holdfast.runtime.compaction import Compacted, Compaction
from holdfast.runtime.context import (
    Context,
    CrisisLog,
    EmbeddingProvider,
    MemoryMode,
    MemoryStore,
    SessionMemoryBuffer,
)
from holdfast.runtime.crises import Assessment, Crisis
from holdfast.runtime.draft import Delta
from holdfast.runtime.effects import ExternalEffect
from holdfast.runtime.engine import Runtime
from holdfast.runtime.episodes import Episode
from holdfast.runtime.events import (
    Event,
    Failed,
    HistoryRewritten,
    MessageAdded,
    RunFinished,
    RunStarted,
    StageStarted,
    StateChanged,
    TextDelta,
)
from holdfast.runtime.guardrails import Guardrail, guardrail
from holdfast.runtime.hearing import Heard, Hearing, Utterance
from holdfast.runtime.inputs import Given
from holdfast.runtime.logs import Log
from holdfast.runtime.loop import Stage, respond
from holdfast.runtime.messages import Message
from holdfast.runtime.models import Model, Reply, Request, Text, ToolCall, ToolSpec, Usage
from holdfast.runtime.modes import user_in
from holdfast.runtime.outputs import Done
from holdfast.runtime.rewinding import Rewound
from holdfast.runtime.runs import Run
from holdfast.runtime.safety import gate
from holdfast.runtime.schema import (
    Conversation,
    State,
    input,
    kept,
    loaded,
    per_call,
    per_run,
    per_turn,
    whole_of,
)
from holdfast.runtime.stateless import run_agent
from holdfast.runtime.statuses import SessionStatus
from holdfast.runtime.steps import Price, Step, run_steps
from holdfast.runtime.suspension import Decision, PassOn, Replay, UseResult, Waiting
from holdfast.runtime.tools import UNFINISHED, Effect, Outcome, Suspend, Tool, ToolContext, tool
from holdfast.runtime.upgrades import Upgrade
from holdfast.runtime.voice import VoiceCall

__all__ = [
    "UNFINISHED",
    "Assessment",
    "Compacted",
    "Compaction",
    "Context",
    "Conversation",
    "Crisis",
    "CrisisLog",
    "Decision",
    "Delta",
    "Done",
    "Effect",
    "EmbeddingProvider",
    "Episode",
    "Event",
    "ExternalEffect",
    "Failed",
    "Given",
    "Guardrail",
    "Heard",
    "Hearing",
    "HistoryRewritten",
    "Log",
    "MemoryMode",
    "MemoryStore",
    "Message",
    "MessageAdded",
    "Model",
    "Outcome",
    "PassOn",
    "Patience",
    "Price",
    "Replay",
    "Reply",
    "Request",
    "Rewound",
    "Run",
    "RunFinished",
    "RunStarted",
    "Runtime",
    "SessionMemoryBuffer",
    "SessionStatus",
    "Stage",
    "StageStarted",
    "State",
    "StateChanged",
    "Step",
    "Suspend",
    "Text",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolSpec",
    "Upgrade",
    "Usage",
    "UseResult",
    "Utterance",
    "VoiceCall",
    "Waiting",
    "gate",
    "guardrail",
    "input",
    "kept",
    "loaded",
    "per_call",
    "per_run",
    "per_turn",
    "respond",
    "run_agent",
    "run_steps",
    "tool",
    "user_in",
    "whole_of",
]
