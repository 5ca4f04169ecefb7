"""The process that the demo kills: it runs turns, and says over its output which ones are committed."""

import asyncio
import sys
from pathlib import Path

import clew
from clew.cli.command import database_url
from clew.core.values import Changeset

THREAD = "trip-to-lisbon"
QUESTIONS = (
    "Which train gets us to Lisbon before noon?",
    "Is there a quiet hotel near the river?",
    "What should we see on the first day?",
    "Can we afford the boat to Cacilhas?",
    "Where do people eat when it rains?",
)
ANSWERS = (
    "The 06:30 arrives at 10:12, with one change in Entroncamento.",
    "Two are free that week; the smaller one has a garden at the back.",
    "Start on the hill, while it is cool, and walk down to the water.",
    "Yes: the ferry is a few euros, and the budget holds.",
    "Under the arches of the market, and it is never empty.",
)


def turn_changeset(number: int) -> Changeset:
    """The n-th turn. It is the same whenever it is asked for, so that it can be repeated."""
    index = number % len(QUESTIONS)
    return Changeset(
        items=(
            clew.user(QUESTIONS[index], id=f"ask-{number}"),
            clew.assistant(ANSWERS[index], id=f"answer-{number}"),
        ),
        patches=(
            clew.increment(["turns"]),
            clew.set(["topic"], QUESTIONS[index]),
            clew.set(["budget"], 900 - number % 300),
        ),
        reason="Turn",
        author="demo",
        run_id=f"run-{number}",
        key=f"turn-{number}",
    )


async def run_turns(file: Path, number: int) -> None:
    """Run turns from a number on, forever. A line goes out only after its commit has returned."""
    async with clew.open(database_url(str(file))) as db:
        thread = db.thread(THREAD)
        while True:
            commit = await thread.append(turn_changeset(number), expect=clew.Exact(number - 1))
            sys.stdout.write(f"{number} {commit.version} {commit.hash.hex()} {int(commit.repeated)}\n")
            sys.stdout.flush()
            number += 1


if __name__ == "__main__":
    try:
        asyncio.run(run_turns(Path(sys.argv[1]), int(sys.argv[2])))
    except BrokenPipeError:
        sys.stderr.close()  # the demo is gone, and with it the reason to go on
