"""What a turn knows of the person: loaded at its beginning, beside the crisis gate."""

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from clew.companion.state import Companion
from clew.core.values import HISTORY
from clew.runtime.context import Context
from clew.runtime.memory import (
    EpisodicEntry,
    Memory,
    Retriever,
    SemanticEntry,
    Source,
    memory_of,
    said_by_user,
)
from clew.runtime.respond.respond import Stage
from clew.runtime.turn.draft import Delta

Entry: TypeAlias = SemanticEntry | EpisodicEntry | str
RECENT = 8


def memory_in(ctx: Context) -> Memory | None:
    """The memory of whoever a turn runs for; None if the turn keeps nothing."""
    db = ctx.turn.db
    return None if db is None else memory_of(db, ctx.turn.thread, ctx.turn.user)


def is_first(ctx: Context) -> bool:
    """Whether an episode begins with this turn."""
    return ctx.turn.episode is not None and ctx.turn.episode.turns == 1


async def source_in(ctx: Context) -> Source | None:
    """Where the message of a turn stands; None if the turn keeps nothing."""
    if ctx.turn.stored is None:
        return None
    items = await ctx.turn.stored.items(last=RECENT, log=HISTORY)
    said = said_by_user([item for item in items if item.run == ctx.turn.id], ctx.turn.thread)
    return said[-1].source if said else None


def loading(known: Sequence[Any] = ()) -> Stage:
    """A stage that finds what bears on the message, and how the person wants to be answered.

    A turn that keeps nothing has no memory of its own: it knows what is ``known`` to its caller.
    """

    async def load_memory(state: Companion, ctx: Context) -> Delta:
        began, memory = time.perf_counter(), memory_in(ctx)
        found: dict[str, Any] = {"working_memory": list(known)}
        if memory is not None:
            found = await _found(memory, state, ctx)
        took = round((time.perf_counter() - began) * 1000, 3)
        return {**found, "diagnostics": {**found.get("diagnostics", {}), "load_memory_ms": took}}

    return load_memory


async def _found(memory: Memory, state: Companion, ctx: Context) -> dict[str, Any]:
    retriever = Retriever(memory, ctx.embedding_provider)
    with ctx.turn.step("retrieval", "memory"):
        found = await retriever.working_memory(state.message, first_turn=is_first(ctx))
    return {
        "working_memory": [msgspec.to_builtins(entry) for entry in found.recalled.entries],
        "procedural_profile": {
            "procedural_rules": [rule.text for rule in found.profile.rules],
            "proactive_recall_enabled": found.profile.recall,
        },
        "diagnostics": found.recalled.diagnostics,
    }


def entries_of(state: Companion) -> Sequence[Entry]:
    """The working memory of a turn, structured. Plain strings, as old checkpoints hold them, pass through."""
    return [msgspec.convert(entry, Entry) for entry in state.working_memory]
