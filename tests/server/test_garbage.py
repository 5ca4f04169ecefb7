"""The process of a server leaves what it has at its start out of garbage collections."""

from __future__ import annotations

import gc
import subprocess
import sys

SCRIPT = """
import asyncio, gc
from clew.server.app import create_app
from clew.server.process import GARBAGE_THRESHOLD, collect_less_garbage

async def main():
    async with collect_less_garbage(create_app()):
        print(gc.get_freeze_count() > 10_000, gc.get_threshold()[0] == GARBAGE_THRESHOLD)

asyncio.run(main())
"""


def test_what_a_process_has_at_its_start_is_passed_over() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["True", "True"]


def test_an_application_that_somebody_else_runs_leaves_the_collector_alone() -> None:
    before = gc.get_freeze_count(), gc.get_threshold()
    from clew.server.app import create_app

    create_app()

    assert (gc.get_freeze_count(), gc.get_threshold()) == before
