"""What a new process finds in a database, and what it should have found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import apsw
import msgspec

import clew
from clew.core.values import RecordQuery
from clew.stores.sqlite.store import SqliteStore
from tests.stores.workload import RECORD_KIND, Fact, facts_about, text

if TYPE_CHECKING:
    from clew.database.thread import Thread

MANY = 100_000


class Contents(msgspec.Struct, kw_only=True):
    """A database as it was found: each thread's hashes by version, records, jobs, and what is wrong."""

    threads: dict[str, list[str]] = {}
    records: dict[str, int] = {}
    jobs: list[str] = []
    problems: list[str] = []


def read_contents(path: str) -> Contents:
    """What is in a file, after a look at every page and every thread, and one more append."""
    contents = asyncio.run(_look(path))
    connection = apsw.Connection(path)
    try:
        if (answer := connection.pragma("integrity_check")) != "ok":
            contents.problems.append(f"integrity_check: {answer}")
    finally:
        connection.close()
    return contents


async def _look(path: str) -> Contents:
    contents = Contents()
    store = SqliteStore(path, synchronous="OFF")  # what is looked at is a copy
    await store.start()
    try:
        db = clew.Database(store)
        contents.records = {r.id: r.revision for r in await db.records.find(_all_records())}
        contents.jobs = [job.id for job in await db.jobs.list(limit=MANY)]
        with_records: set[str] = set()
        for summary in (await db.threads(limit=MANY)).threads:
            with_records |= await _look_at(db.thread(summary.id), contents)
        if not with_records == contents.records.keys() == set(contents.jobs):
            contents.problems.append("a commit of a changeset, a record and a job is there in part")
        await _go_on(db, contents)
    finally:
        await store.close()
    return contents


def _all_records() -> RecordQuery:
    return RecordQuery(kind=RECORD_KIND, limit=MANY)


async def _look_at(thread: Thread, contents: Contents) -> set[str]:
    """Take one thread into account; the records that its changesets say were committed with them."""
    verdict = await thread.verify()
    changes = await thread.changesets(limit=MANY)
    contents.problems += [f"{thread.id}: {problem}" for problem in verdict.problems]
    contents.threads[thread.id] = [change.hash.hex() for change in changes]
    if [change.version for change in changes] != list(range(1, verdict.version + 1)):
        contents.problems.append(f"{thread.id}: versions are not dense")
    numbers = [change.run_meta["number"] for change in changes if change.run_meta]
    if len(set(map(str, numbers))) != len(numbers):
        contents.problems.append(f"{thread.id}: an append is there twice")
    if (await thread.state()).get("count", 0) != len(numbers):
        contents.problems.append(f"{thread.id}: the state does not count every append")
    partial = [change.version for change in changes if _is_partial(change)]
    contents.problems += [f"{thread.id}: version {version} is there in part" for version in partial]
    metas = [change.run_meta for change in changes if change.run_meta]
    return {str(meta["record"]) for meta in metas if "record" in meta}


def _is_partial(change: clew.Changeset) -> bool:
    if change.run_meta is None:
        return False
    number, count = change.run_meta["number"], change.run_meta["items"]
    assert isinstance(number, int)
    assert isinstance(count, int)
    bodies = [{"content": text(number, index, count)} for index in range(count)]
    return [item.body for item in change.items] != bodies


async def _go_on(db: clew.Database, contents: Contents) -> None:
    """Append once more, which must give the next version."""
    for id, hashes in list(contents.threads.items())[:1]:
        commit = await db.thread(id).append(items=[clew.user("and on")], expect=clew.Exact(len(hashes)))
        if commit.version != len(hashes) + 1 or not (await db.thread(id).verify()).ok:
            contents.problems.append(f"{id} cannot be continued")


def missing(facts: Sequence[Fact], contents: Contents) -> list[str]:
    """What was acknowledged and is not there, or is there and should not be."""
    targets = {str(name) for (name,) in facts_about(facts, "deleting")}
    deletions = {str(name) for (name,) in facts_about(facts, "deleted")}
    threads = contents.threads
    losses = [f"{name} is there, though deleted" for name in deletions & threads.keys()]
    for name, version in facts_about(facts, "thread"):
        if str(name) not in targets and len(threads.get(str(name), [])) < int(version):
            losses.append(f"version {version} of {name} was lost")
        if str(name) not in targets | threads.keys():
            losses.append(f"thread {name} was lost")
    for name, version, hash in facts_about(facts, "changeset"):
        if str(name) in targets and str(name) not in threads:
            continue
        if hash not in threads.get(str(name), [])[int(version) - 1 : int(version)]:
            losses.append(f"version {version} of {name} was lost")
    for name, revision in facts_about(facts, "record"):
        if contents.records.get(str(name)) != revision:
            losses.append(f"record {name} was lost")
    losses += [f"job {name} was lost" for (name,) in facts_about(facts, "job") if name not in contents.jobs]
    return losses
