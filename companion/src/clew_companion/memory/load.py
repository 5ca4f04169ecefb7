"""The memory of a turn: loaded at its beginning, beside the crisis gate."""

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core.values import HISTORY
from clew.runtime.context import Context
from clew.runtime.memory import (
    CurrentWindow,
    EpisodicEntry,
    Memory,
    MemorySource,
    PassageEntry,
    Retriever,
    SemanticEntry,
    memory_of,
    user_turns,
)
from clew.runtime.memory.recall.render import working_entry
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import MemoryConfig
from clew.runtime.turn.draft import Delta
from clew_companion.language.replies import asks_about_last_session
from clew_companion.state import HISTORY_WINDOW, CompanionState

WorkingMemoryEntry: TypeAlias = SemanticEntry | EpisodicEntry | PassageEntry | str
RECENT_ITEMS = 8
NO_WRITES = {"candidates": 0, "facts": 0, "rules": 0, "arcs": 0}
"""The write counts of a turn that wrote nothing to a memory."""


def memory_of_turn(context: Context) -> Memory | None:
    """The memory of the user of a turn; None if the turn stores nothing."""
    db = context.turn.db
    return None if db is None else memory_of(db, context.turn.thread, context.turn.user)


def is_first_turn(context: Context) -> bool:
    """Return whether an episode begins with this turn."""
    return context.turn.episode is not None and context.turn.episode.turns == 1


def episode_id(context: Context) -> str:
    """The id of the episode that a turn belongs to; empty if the turn stores nothing."""
    return context.turn.episode.id if context.turn.episode is not None else ""


async def message_source(context: Context) -> MemorySource | None:
    """The source of a turn's message; None if the turn stores nothing."""
    if context.turn.store_thread is None:
        return None
    items = await context.turn.store_thread.items(last=RECENT_ITEMS, log=HISTORY)
    turns = user_turns([item for item in items if item.run == context.turn.id], context.turn.thread)
    return turns[-1].source if turns else None


def make_load_stage(config: MemoryConfig | None = None) -> Stage:
    """Make the stage that loads the memory of a turn."""

    async def load_memory(state: CompanionState, context: Context) -> Delta:
        """Find what bears on the message, and how the person wants to be answered.

        What the caller knows comes first. A turn that keeps nothing has no memory of its own beside it.
        """
        start, memory = time.perf_counter(), memory_of_turn(context)
        delta: dict[str, Any] = {"working_memory": list(state.caller_memory)}
        if memory is not None:
            delta = await _memory_delta(memory, state, context, config)
        milliseconds = round((time.perf_counter() - start) * 1000, 3)
        return {**delta, "diagnostics": {**delta.get("diagnostics", {}), "load_memory_ms": milliseconds}}

    return load_memory


async def _memory_delta(
    memory: Memory, state: CompanionState, context: Context, config: MemoryConfig | None
) -> dict[str, Any]:
    retriever = Retriever(memory, context.embedding_provider)
    window = CurrentWindow(thread=context.turn.thread, length=HISTORY_WINDOW)
    with context.turn.step("retrieval", "memory"):
        working_memory = await retriever.working_memory(
            state.message, first_turn=is_first_turn(context), window=window, config=config
        )
    entries = [msgspec.to_builtins(entry) for entry in working_memory.result.entries]
    if asks_about_last_session(state.message):
        entries = [*await _last_arc(memory), *entries]
    return {
        "working_memory": [
            *state.caller_memory,
            *(entry for entry in entries if entry not in state.caller_memory),
        ],
        "procedural_profile": {
            "procedural_rules": [rule.text for rule in working_memory.profile.rules],
            "proactive_recall_enabled": working_memory.profile.recall,
        },
        "diagnostics": working_memory.result.diagnostics,
    }


async def _last_arc(memory: Memory) -> list[Any]:
    """The arc of the last session, for who asks about it; none if there is none."""
    arcs = (await memory.page("arcs", limit=1)).arcs
    return [msgspec.to_builtins(working_entry(arc, is_catch_up=True)) for arc in arcs]


def entries_of(state: CompanionState) -> Sequence[WorkingMemoryEntry]:
    """The working memory of a turn, structured. Plain strings, as old checkpoints hold them, pass through."""
    return [msgspec.convert(entry, WorkingMemoryEntry) for entry in state.working_memory]
