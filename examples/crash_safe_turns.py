"""A turn that is repeated until it is done, and is there once: idempotency keys and retries."""

import asyncio
import tempfile

import clew
from clew.core.errors import OutcomeUnknown, StoreUnavailable
from clew.testing import FailingStore


async def keep_turn(thread: clew.Thread, request: str, items: list[clew.Item]) -> int:
    """Append a turn under the id of its request, however often that takes; the version it made."""
    for attempt in range(1, 6):
        try:
            commit = await thread.append(items=items, patches=[clew.increment(["turns"])], key=request)
        except (OutcomeUnknown, StoreUnavailable) as error:
            print(f"  attempt {attempt}: {error.code}")
            await asyncio.sleep(0.01 * attempt)
        else:
            print(f"  attempt {attempt}: version {commit.version}, repeated: {commit.repeated}")
            return commit.version
    raise TimeoutError(request)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with clew.open(f"sqlite:///{folder}/agent.db") as db:
            await db.create("support-7")
            turn = [clew.user("Where is my parcel?"), clew.assistant("It left the depot this morning.")]

            print("The answer to the commit is lost, as when a connection breaks:")
            unreliable = clew.Database(FailingStore(db.store, fail_at=1, how="after"))
            await keep_turn(unreliable.thread("support-7"), "request-1", turn)

            print("The same request comes in again, an hour later:")
            await keep_turn(db.thread("support-7"), "request-1", turn)

            head = await db.thread("support-7").head()
            print(f"The thread is at version {head.version} with {head.length()} items and {head.state}.")


asyncio.run(main())
