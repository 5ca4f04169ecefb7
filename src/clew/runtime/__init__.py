"""Turns that survive: a schema, stages, a model, and checkpoints at exact moments."""

from clew.runtime.context import (
    Context,
    CrisisLog,
    EmbeddingProvider,
    MemoryMode,
    MemoryStore,
    SessionMemoryBuffer,
)
from clew.runtime.crises import Assessment, Crisis
from clew.runtime.execution.safe_reply import gate
from clew.runtime.execution.stateless import run_agent
from clew.runtime.maintenance.rewind import Rewound
from clew.runtime.model.call import Patience
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, Reply, Request, Text, ToolCall, ToolSpec, Usage
from clew.runtime.placement import user_in
from clew.runtime.records.episodes import Episode
from clew.runtime.records.events import (
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
from clew.runtime.records.runs import Run
from clew.runtime.records.steps import Price, Step, run_steps
from clew.runtime.respond.compaction import Compacted, Compaction
from clew.runtime.respond.guardrails import Guardrail, guardrail
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import SessionStatus
from clew.runtime.sessions.utterances import Heard, Hearing, Utterance
from clew.runtime.sessions.voice import VoiceCall
from clew.runtime.state.inputs import Given
from clew.runtime.state.log import Log
from clew.runtime.state.schema import (
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
from clew.runtime.state.upgrades import Upgrade
from clew.runtime.tools.effects import ExternalEffect
from clew.runtime.tools.tool import UNFINISHED, Effect, Outcome, Suspend, Tool, ToolContext, tool
from clew.runtime.turn.approvals import Decision, PassOn, Replay, UseResult, Waiting
from clew.runtime.turn.draft import Delta
from clew.runtime.turn.result import Done

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
