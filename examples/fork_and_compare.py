"""The same conversation, continued by two agents from the same point; then compared."""

import asyncio

import clew
from clew.runtime import respond
from clew.testing import ScriptedModel

POET = ScriptedModel("The harbour woke in gold.", "Gulls wrote their names on it.")
CLERK = ScriptedModel("It was 6:14 when the harbour opened.", "Three ships were due before noon.")
EDITOR = ScriptedModel("Let us write about a harbour at dawn.")


async def write(db: clew.Database, thread: str, model: ScriptedModel, *questions: str) -> None:
    """Some turns on a thread with one of the agents."""
    async with clew.Runtime(db, stages=[respond()], model=model) as runtime:
        for words in questions:
            await runtime.run_turn(thread, words)


async def main() -> None:
    async with clew.open("memory://") as db:
        await write(db, "draft", EDITOR, "I need a story.")
        here = (await db.thread("draft").head()).version
        branches = [("poem", POET), ("report", CLERK)]
        for name, model in branches:
            await db.thread("draft").fork(name, at=here)
            await write(db, name, model, "The first line, please.", "And the second?")

        items = await db.thread("draft").items()
        print("both begin with")
        for item in items:
            print(f"    {item.role:9} {item.body['content']}")
        for name, _ in branches:
            print(f"\nthen the {name} goes")
            for item in (await db.thread(name).items())[len(items) :]:
                if item.role == "assistant":
                    print(f"    {item.body['content']}")
        print(f"\nThe draft itself still ends at version {(await db.thread('draft').head()).version}.")


if __name__ == "__main__":
    asyncio.run(main())
