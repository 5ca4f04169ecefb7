"""Turns that survive: a schema, stages, a model, and checkpoints at exact moments."""

from holdfast.runtime.asking import Patience
from holdfast.runtime.context import Context, MemoryMode
from holdfast.runtime.draft import Delta
from holdfast.runtime.engine import Runtime
from holdfast.runtime.events import (
    Event,
    Failed,
    MessageAdded,
    RunFinished,
    RunStarted,
    StageStarted,
    StateChanged,
    TextDelta,
)
from holdfast.runtime.logs import Log
from holdfast.runtime.loop import Stage, respond
from holdfast.runtime.messages import Message
from holdfast.runtime.models import Model, Reply, Request, Text, ToolCall, ToolSpec, Usage
from holdfast.runtime.outputs import Done
from holdfast.runtime.runs import Run
from holdfast.runtime.schema import Conversation, State, input, kept, loaded, per_call, per_run
from holdfast.runtime.stateless import run_agent
from holdfast.runtime.suspension import Decision, PassOn, Replay, UseResult, Waiting
from holdfast.runtime.tools import UNFINISHED, Effect, Outcome, Suspend, Tool, ToolContext, tool

__all__ = [
    "UNFINISHED",
    "Context",
    "Conversation",
    "Decision",
    "Delta",
    "Done",
    "Effect",
    "Event",
    "Failed",
    "Log",
    "MemoryMode",
    "Message",
    "MessageAdded",
    "Model",
    "Outcome",
    "PassOn",
    "Patience",
    "Replay",
    "Reply",
    "Request",
    "Run",
    "RunFinished",
    "RunStarted",
    "Runtime",
    "Stage",
    "StageStarted",
    "State",
    "StateChanged",
    "Suspend",
    "Text",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolSpec",
    "Usage",
    "UseResult",
    "Waiting",
    "input",
    "kept",
    "loaded",
    "per_call",
    "per_run",
    "respond",
    "run_agent",
    "tool",
]
