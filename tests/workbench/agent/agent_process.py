"""A program that works on a task at a workbench and hangs at a given point, so that a test kills it there."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import clew
from clew.runtime.model.protocol import ModelRequest
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.agent.agent import WorkbenchAgent
from clew.workbench.interpreter.port import Interpreters
from clew.workbench.session.session import Workbench
from clew.workbench.volume.volume import Volume
from tests.workbench.in_process_interpreters import InProcesses

HOUR = 3600


def script_of(point: str, began: Path) -> list[Any]:
    """What the model says until it, or the code, hangs."""

    def hang(request: ModelRequest) -> str:
        began.write_text("here", encoding="utf-8")
        time.sleep(HOUR)
        return "never said"

    code = f"open({str(began)!r}, 'a').write('x')\nimport time\ntime.sleep({HOUR})"
    keep = calls(("c1", "run_python", {"code": "piece = 'abc'"}))
    ask = calls(("c2", "ask", {"question": "What?", "expression": "piece"}))
    scripts: dict[str, list[Any]] = {
        "code": [calls(("c1", "run_python", {"code": code}))],
        "thinking": [calls(("c1", "run_python", {"code": "x = 41"})), hang],
        "question": [keep, ask, hang],
        "answered": [keep, ask, "Letters.", hang],
    }
    return scripts[point]


async def main(url: str, tenant: str, folder: Path, point: str, kind: str) -> None:
    """Work on one task, as far as it goes."""
    interpreters: Interpreters = InProcesses()
    if kind == "local":
        from clew.workbench.interpreter.local import LocalInterpreters

        interpreters = LocalInterpreters()
    async with clew.open(url) as database:
        db = database.scope(tenant=tenant)
        volume = Volume(folder / "volume", tenant, "alice")
        bench = Workbench(db, volume, interpreters, user="alice", scratch=folder / "scratch")
        await bench.open("s")
        model = ScriptedModel(*script_of(point, folder / "began"))
        await WorkbenchAgent(bench, model).work("Do it.")


if __name__ == "__main__":
    address, whose, where, when, which = sys.argv[1:]
    asyncio.run(main(address, whose, Path(where), when, which))
