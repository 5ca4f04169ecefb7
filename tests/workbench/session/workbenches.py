"""Workbenches whose interpreters are only dicts, and what is asked of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clew
from clew.workbench.session.attachment import InterpreterSnapshot
from clew.workbench.session.reset import ResetReason, Transition
from clew.workbench.session.session import Workbench
from clew.workbench.volume.volume import Volume
from tests.workbench.in_process_interpreters import InProcesses


def workbench_on(db: clew.Database, tmp_path: Path, interpreters: InProcesses, **options: Any) -> Workbench:
    volume = Volume(tmp_path / "volume", db.tenant, "alice")
    scratch = tmp_path / "scratch"
    clock = itertools.count(1_750_000_000_000).__next__
    return Workbench(db, volume, interpreters, user="alice", scratch=scratch, clock=clock, **options)


def transitions(changes: Sequence[InterpreterSnapshot]) -> list[tuple[Transition, ResetReason | None]]:
    return [(change.transition, change.reason) for change in changes]


async def run(bench: Workbench, code: str) -> str:
    """What the last line of some code gives, or how it failed."""
    outputs = [output async for output in bench.interpreter.run(code)]
    return " ".join(str(getattr(output, "forms", output)) for output in outputs)


async def talk(db: clew.Database, session: str = "s") -> None:
    await db.thread(session).append(items=[clew.user("hello")])
