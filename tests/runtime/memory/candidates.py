"""Candidates that the tests of the memory learn from."""

from __future__ import annotations

from typing import Any

from clew.runtime.memory.values import Candidate, MemorySource

SOURCE = MemorySource(thread="chat", run="run-1", item="message-1", version=3, place=256)


def sister(name: str, **more: Any) -> Candidate:
    """My sister is called …"""
    quote = f"my sister is called {name}"
    return Candidate(
        category="relationship",
        subject="sister",
        predicate="IS_CALLED",
        object=name,
        single=True,
        quote=quote,
        source=SOURCE,
        **more,
    )


def allergic(to: str, *, negated: bool = False) -> Candidate:
    """I'm allergic to …"""
    return Candidate(
        category="health",
        predicate="IS_ALLERGIC_TO",
        object=to,
        negated=negated,
        quote=f"I'm allergic to {to}",
        source=SOURCE,
    )


def rule(about: str, text: str) -> Candidate:
    """A rule of style."""
    return Candidate(
        kind="rule", category="preference", subject=about, object=text, quote=text, source=SOURCE
    )
