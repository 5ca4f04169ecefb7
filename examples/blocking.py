"""The same API without an event loop: clew.sync, here called from several threads."""

import tempfile
from concurrent.futures import ThreadPoolExecutor

import clew
import clew.sync


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, clew.sync.open(f"sqlite:///{folder}/agent.db") as db:
        thread = db.create("counter", owner="alice")

        def vote(number: int) -> int:
            return thread.append(
                items=[clew.user(f"vote {number}")], patches=[clew.increment(["votes"])]
            ).version

        with ThreadPoolExecutor(4) as pool:
            versions = sorted(pool.map(vote, range(20)))

        head = thread.head()
        print("versions:", versions[0], "to", versions[-1], "without gaps:", versions == list(range(1, 21)))
        print("state:", head.state, "items:", head.length())
        print("whole and unaltered:", thread.verify().ok)


main()
