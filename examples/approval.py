"""A tool that waits for a person: the question outlives the process, and another goes on with the answer."""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import clew
from clew.runtime import Replay
from clew.testing import ScriptedModel
from clew.testing.scripted_model import calls


@clew.tool(approval=True)
async def transfer(to: str, euros: int) -> str:
    """Send money."""
    print(f"[{os.getpid()}] transferring {euros} € to {to} …")
    return f"{euros} € are on their way to {to}"


def model(*, has_asked: bool) -> ScriptedModel:
    """A model with its lines: what it says before the question, and what it says after."""
    wants = calls(("call-1", "transfer", {"to": "Grace", "euros": 40}), text="I would send it like this.")
    return ScriptedModel("Done. Grace has her money.") if has_asked else ScriptedModel(wants)


async def ask(url: str) -> None:
    """The first process: it asks, and ends."""
    async with (
        clew.open(url) as db,
        clew.Runtime(db, model=model(has_asked=False), tools=[transfer]) as runtime,
    ):
        result = await runtime.run_turn("bank", "Please pay Grace back.")
        for waiting in result.waiting:
            print(f"[{os.getpid()}] {waiting.tool}{waiting.arguments} waits for a person. I go home now.")


async def decide(url: str) -> None:
    """Another process, perhaps a day later: it brings the decision."""
    async with (
        clew.open(url) as db,
        clew.Runtime(db, model=model(has_asked=True), tools=[transfer]) as runtime,
    ):
        print(f"[{os.getpid()}] a person says: go ahead")
        result = await runtime.resume("bank", {"call-1": Replay()})
        print(f"[{os.getpid()}] agent: {result.text}")
        for item in await runtime.history("bank"):
            print(f"    {item.role:9} {item.kind:8} {item.body}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bank.db'}"
        for part in ("ask", "decide"):
            subprocess.run([sys.executable, __file__, part, url], check=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        asyncio.run({"ask": ask, "decide": decide}[sys.argv[1]](sys.argv[2]))
