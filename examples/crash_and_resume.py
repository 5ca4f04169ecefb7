"""Kill -9 in the middle of a turn; another process goes on without asking the model again."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import clew
from clew.runtime import Effect, ToolContext
from clew.testing import ScriptedModel
from clew.testing.scripted_model import calls


@clew.tool(effect=Effect.IDEMPOTENT)
def order(what: str, ctx: ToolContext) -> str:
    """Order something. The shop knows the key, so ordering twice with it is ordering once."""
    book = Path(os.environ["SHOP"])
    keys = book.read_text().splitlines() if book.exists() else []
    if ctx.key not in keys:
        book.write_text("\n".join([*keys, ctx.key]))
    print(f"[{os.getpid()}] the shop has {len(book.read_text().splitlines())} order for {what}")
    if os.environ["CRASH"] == "yes":
        print(f"[{os.getpid()}] … and now the power goes", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return "ordered"


async def begin(url: str) -> None:
    """The process that is killed: after the order, before anything of it is written down."""
    model = ScriptedModel(calls(("call-1", "order", {"what": "a lamp"})), "never said")
    async with clew.open(url) as db, clew.Runtime(db, model=model, tools=[order]) as runtime:
        await runtime.run_turn("home", "It is dark. Get me a lamp.")


async def go_on(url: str) -> None:
    """The process that finds what is left, and finishes it."""
    model = ScriptedModel("Your lamp is on its way.")
    async with clew.open(url) as db, clew.Runtime(db, model=model, tools=[order]) as runtime:
        result = await runtime.resume("home")
        print(f"[{os.getpid()}] agent: {result.text}")
        print(f"[{os.getpid()}] asked the model {len(model.requests)} time since; the first answer was kept")
        for change in await db.thread("home").changesets():
            print(f"    {change.version}  {change.reason:24} {[item.kind for item in change.items]}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'home.db'}"
        for part, crash in (("begin", "yes"), ("go_on", "no")):
            shop = {**os.environ, "SHOP": str(Path(folder) / "orders.txt"), "CRASH": crash}
            subprocess.run([sys.executable, __file__, part, url], check=False, env=shop)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        asyncio.run({"begin": begin, "go_on": go_on}[sys.argv[1]](sys.argv[2]))
