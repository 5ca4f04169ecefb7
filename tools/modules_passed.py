"""Count the modules of Clew that one append and one turn enter, on SQLite.

Run it with the development environment: ``.venv/bin/python tools/modules_passed.py``; ``--calls`` lists the
functions. The page docs/explanation/architecture.md states the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import clew
from clew.runtime.model.protocol import Reply, ToolCall
from clew.testing import ScriptedModel

SOURCE = Path(clew.__file__).parent
NOT_PASSED = "testing/"
"""Modules of the scripted model: a real model is outside of Clew."""


def note_length(note: str) -> int:
    """Return how long a note is."""
    return len(note)


class Recorder:
    """Records the functions of Clew that any thread enters, each once, in order of their first call."""

    def __init__(self) -> None:
        self._functions: dict[str, None] | None = None

    def start(self) -> None:
        """Watch this thread and those that start from now on: a store starts its writer when it opens."""
        threading.setprofile(self._record)
        sys.setprofile(self._record)

    @contextmanager
    def recording(self) -> Iterator[dict[str, None]]:
        """Record into the dictionary that this gives."""
        self._functions = {}
        try:
            yield self._functions
        finally:
            self._functions = None

    def _record(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if self._functions is None or event != "call" or not code.co_filename.startswith(str(SOURCE)):
            return
        module = str(Path(code.co_filename).relative_to(SOURCE))
        if not module.startswith(NOT_PASSED):
            self._functions[f"{module} {code.co_qualname}"] = None


async def measure(url: str) -> dict[str, dict[str, None]]:
    """Run an append, a plain turn and a turn with a tool call, and give the functions that each entered.

    Each has run on its thread before, so that nothing is done for the first time.
    """
    measured = {}
    recorder = Recorder()
    recorder.start()
    call = Reply(calls=(ToolCall(id="call-1", name="note_length", arguments={"note": "abc"}),))
    model = ScriptedModel("Hello.", "Hello again.", call, "Three letters.")
    async with clew.open(url) as db:
        thread = await db.create("append", owner="ada")
        await thread.append(items=[clew.user("Hello.")])
        with recorder.recording() as measured["an append"]:
            await thread.append(items=[clew.user("Hello again.")])
        runtime = clew.Runtime(db, model=model, tools=[note_length])  # not entered: it does not sweep
        await runtime.run_turn("turn", "Hello.", user="ada")
        with recorder.recording() as measured["a plain turn"]:
            await runtime.run_turn("turn", "Hello again.", user="ada")
        with recorder.recording() as measured["a turn with a tool call"]:
            await runtime.run_turn("turn", "How long is abc?", user="ada")
        await runtime.close()
    return measured


def main() -> None:
    """Print the figures, and the functions if they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", action="store_true", help="list the functions in order of first call")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        measured = asyncio.run(measure(f"sqlite:///{folder}/passed.db"))
    for name, functions in measured.items():
        modules = {function.split()[0] for function in functions}
        packages = {module.rpartition("/")[0] for module in modules}
        print(f"{name}: {len(modules)} modules of {len(packages)} packages, {len(functions)} functions")
        if arguments.calls:
            print(*(f"    {function}" for function in functions), sep="\n")


if __name__ == "__main__":
    main()
