"""Two people with all that a database can hold of them, and where their words are to be found."""

from __future__ import annotations

from pathlib import Path

import clew
from clew.core.values import Enqueue, Job, Put, Record
from clew.testing import ScriptedModel

WORDS = {"alice": "zanzibarquartz", "bob": "kilimanjarobasalt"}
"""A word that only one of them ever used."""


async def live(db: clew.Database, who: str, *, items: int = 60) -> None:
    """Threads with items, state, a title, a fork, a memory, records, jobs and turns."""
    word = WORDS[who]
    thread = await db.create(f"{who}-1", owner=who)
    for number in range(items):
        text = " ".join(f"{word}{number * 7 + n}" for n in range(7))
        await thread.append(
            items=[clew.user(f"I am {who}, {text}", id=f"{who}-item-{number}")],
            patches=[clew.set(["note", str(number % 5)], f"{word} in the state" * 20)],
            key=f"{who}-key-{number}",
            author=who,
        )
    about = {"title": f"{word} as a title", "labels": [f"{word}-label"]}
    await thread.append(patches=[clew.set(["$thread"], about)], state_actions=[{"said": word}])
    await (await thread.fork(f"{who}-2", at=3)).append(items=[clew.user(f"{word} in a fork")])
    await thread.log().pop()
    await db.index()
    await thread.append(items=[clew.user(f"{word} in the tail")])
    await beside(db, who)
    async with clew.Runtime(db, model=ScriptedModel(f"{word} said the model")) as runtime:
        await runtime.run_turn(f"{who}-talk", f"{word} in a turn", user=who)


async def beside(db: clew.Database, who: str) -> None:
    """Records and jobs of a person, dead ones too."""
    word = WORDS[who]
    await (await db.create(f"memory/{who}", owner=who)).append(items=[clew.user(f"{word} in memory")])
    dead = Job(id=f"{who}-dead", kind="doomed", owner=who, body={"text": word}, limit=1)
    await db.commit(
        [
            Put(record=Record(kind="fact", id=f"{who}-fact", owner=who, tags=(f"{word}-tag",), body=word)),
            Put(record=Record(kind="memory.vector", id=f"{who}-vector", owner=who, body={"vector": word})),
            Put(record=Record(kind="note", id=f"{who}-note", owner=who, body={"message": word})),
            Enqueue(job=Job(id=f"{who}-job", kind="later", owner=who, body={"text": word})),
            Enqueue(job=dead),
        ]
    )
    (job,) = await db.jobs.claim(["doomed"])
    await db.jobs.fail(job, f"{word} went wrong")


def raw(path: Path) -> bytes:
    """All bytes of a database: its file and its write-ahead log."""
    wal = Path(f"{path}-wal")
    return path.read_bytes() + (wal.read_bytes() if wal.exists() else b"")


def traces(data: bytes, who: str) -> list[str]:
    """Pieces of a person's words, name and ids that are in some bytes, in any way of writing them."""
    scope = f"x{who.encode().hex()}"  # how the index names an owner
    pieces = [WORDS[who], WORDS[who][:6], WORDS[who][-6:], who, scope]
    return [piece for piece in pieces if piece.encode() in data.lower()]
