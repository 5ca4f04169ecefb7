"""One database, several tenants and users: each sees its own and nothing else."""

import asyncio
import tempfile

import clew


async def thread_ids(db: clew.Database) -> list[str]:
    """The threads that a scope sees, by id."""
    return sorted(thread.id for thread in (await db.threads()).threads)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with clew.open(f"sqlite:///{folder}/agent.db") as db:
            acme, globex = db.scope(tenant="acme"), db.scope(tenant="globex")
            alice, bob = db.scope(tenant="acme", user="alice"), db.scope(tenant="acme", user="bob")

            await alice.create("notes")
            await bob.create("ideas")
            await globex.create("notes")  # the same id in another tenant is another thread

            print("acme sees", await thread_ids(acme))
            print("alice sees", await thread_ids(alice))
            print("globex sees", await thread_ids(globex))

            try:
                await bob.thread("notes").append(items=[clew.user("Let me in.")])
            except clew.ClewError as error:
                print("bob gets:", error)


asyncio.run(main())
