"""Turns that survive: a schema, stages, a model, and checkpoints at exact moments."""

from clew.runtime.asking import Patience
from clew.runtime.compaction import Compacted, Compaction
from clew.runtime.context import (
    Context,
    CrisisLog,
    EmbeddingProvider,
    MemoryMode,
    MemoryStore,
    SessionMemoryBuffer,
)
from clew.runtime.crises import Assessment, Crisis
from clew.runtime.draft import Delta
from clew.runtime.effects import ExternalEffect
from clew.runtime.engine import Runtime
from clew.runtime.episodes import Episode
from clew.runtime.events import (
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
from clew.runtime.guardrails import Guardrail, guardrail
from clew.runtime.hearing import Heard, Hearing, Utterance
from clew.runtime.inputs import Given
from clew.runtime.logs import Log
from clew.runtime.loop import Stage, respond
from clew.runtime.messages import Message
from clew.runtime.models import Model, Reply, Request, Text, ToolCall, ToolSpec, Usage
from clew.runtime.modes import user_in
from clew.runtime.outputs import Done
from clew.runtime.rewinding import Rewound
from clew.runtime.runs import Run
from clew.runtime.safety import gate
from clew.runtime.schema import (
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
from clew.runtime.stateless import run_agent
from clew.runtime.statuses import SessionStatus
from clew.runtime.steps import Price, Step, run_steps
from clew.runtime.suspension import Decision, PassOn, Replay, UseResult, Waiting
from clew.runtime.tools import UNFINISHED, Effect, Outcome, Suspend, Tool, ToolContext, tool
from clew.runtime.upgrades import Upgrade
from clew.runtime.voice import VoiceCall

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
