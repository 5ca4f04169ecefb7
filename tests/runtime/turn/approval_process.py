"""What another process does with a thread that waits: it knows the store's address, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import clew
from clew.core.clock import now_ms
from clew.core.errors import ClewError
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Decision
from clew.runtime.tools.tool import Suspend, Tool, ToolContext, tool
from clew.testing.scripted_model import ScriptedModel, calls

DAY = 86_400_000


def post_tool(letters: Path) -> Tool:
    """A tool that needs approval, and whose effect is a line in a file."""

    @tool(name="post", approval=True)
    async def post(to: str) -> str:
        with letters.open("a", encoding="utf-8") as file:
            file.write(f"{to}\n")
        return f"posted to {to}"

    return post


def ask_tool(letters: Path) -> Tool:
    """A tool that asks for a street before it has its effect."""

    @tool(name="ask")
    async def ask(to: str, context: ToolContext) -> str:
        if context.decision is None:
            raise Suspend({"street of": to})
        with letters.open("a", encoding="utf-8") as file:
            file.write(f"{to}, {context.decision}\n")
        return f"posted to {to}, {context.decision}"

    return ask


def letters_in(letters: Path) -> list[str]:
    """What was posted."""
    return letters.read_text(encoding="utf-8").splitlines() if letters.exists() else []


async def suspend(url: str, letters: Path, *requests: tuple[str, str, Any]) -> list[str]:
    """A turn of thread a that stops at its calls; those that wait."""
    tools = [post_tool(letters), ask_tool(letters)]
    async with (
        clew.open(url) as db,
        Runtime(db, model=ScriptedModel(calls(*requests)), tools=tools) as runtime,
    ):
        return [waiting.call for waiting in (await runtime.run_turn("a", "Post it")).waiting]


async def decide(url: str, letters: Path, decisions: Mapping[str, Decision], days: int) -> str:
    """What a resume comes to some days later: the reply, or the code of the error."""
    tools = [post_tool(letters), ask_tool(letters)]
    clock = lambda: now_ms() + days * DAY  # noqa: E731
    async with (
        clew.open(url) as db,
        Runtime(db, model=ScriptedModel("Done."), tools=tools, config=RuntimeConfig(clock=clock)) as runtime,
    ):
        try:
            result = await runtime.resume("a", decisions)
        except ClewError as error:
            return error.code
        return f"{result.termination}: {result.text}"


def suspend_here(url: str, letters: Path, *requests: tuple[str, str, Any]) -> list[str]:
    """The same, for a process of its own."""
    return asyncio.run(suspend(url, letters, *requests))


def decide_here(url: str, letters: Path, decisions: Mapping[str, Decision], days: int = 0) -> str:
    """The same, for a process of its own."""
    return asyncio.run(decide(url, letters, decisions, days))
