"""The example of the README: one turn on a thread that is there again when the program is run again."""

import asyncio

import clew


async def main() -> None:
    async with clew.open("sqlite:///agent.db") as db:
        thread = await db.create("alice-1", owner="alice", exist_ok=True)
        turn = [clew.user("Hi, I am Alice."), clew.assistant("Hello, Alice!")]
        commit = await thread.append(items=turn, patches=[clew.increment(["turns"])])
        print("now:", commit.version, await thread.state())
        print("before:", commit.version - 1, await thread.state(at=commit.version - 1))


asyncio.run(main())
