"""Go back in time: read an old version, fork it, and compare the two ways."""

import asyncio
import tempfile

import clew


async def plan_trip(thread: clew.Thread, wish: str, city: str, nights: int) -> None:
    """One turn: what was asked, what was answered, and what it changed."""
    await thread.append(
        items=[clew.user(wish), clew.assistant(f"{city} for {nights} nights. Shall I book it?")],
        patches=[clew.set(["trip", "city"], city), clew.set(["trip", "nights"], nights)],
    )


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with clew.open(f"sqlite:///{folder}/agent.db") as db:
            trip = await db.create("trip")
            await plan_trip(trip, "A few days by the sea, please.", "Lisbon", 4)
            await plan_trip(trip, "Longer, if we can.", "Lisbon", 7)
            await plan_trip(trip, "Or somewhere cooler?", "Bergen", 7)

            for version in range(4):
                print(f"version {version}: {await trip.state(at=version)}")
            print("from version 1 to 3:", *await trip.diff(1, 3), sep="\n  ")

            other = await trip.fork("trip-by-the-sea", at=2)
            await plan_trip(other, "What about the coast further north?", "Porto", 7)
            for thread in (trip, other):
                head = await thread.head()
                last = (await thread.items(last=1))[0].body["content"]
                print(f"{thread.id} at version {head.version}: {last}")

            await trip.delete()
            print("after the parent is deleted:", (await other.verify()).ok, await other.state(at=1))


asyncio.run(main())
