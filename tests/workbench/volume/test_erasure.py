"""What stands on the volume goes with its owner or its thread, and is counted in the receipt exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import clew
from clew.core.erasure.receipts import COMPLETE, UNFINISHED, FileSelection, subject_of
from clew.core.erasure.retention import RetentionRule
from clew.core.erasure.subject import read_file_selection
from clew.core.errors import LegalHold, ThreadNotFound, VersionConflict
from clew.core.log.commit import Plan, Planner
from clew.core.manifest.files import ManifestAddress, file_name
from clew.core.values import Exact, Record, Scope
from clew.database.erasure import NO_VOLUME
from clew.workbench.session.manifests import export_manifest
from clew.workbench.volume.operators import Volumes
from clew.workbench.volume.volume import Volume
from tests.database.people import WORDS
from tests.support.manifests import save
from tests.support.tenants import db, postgres_url, tenant

pytestmark = pytest.mark.usefixtures("long_lock_wait")

__all__ = ["db", "postgres_url", "tenant"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "volume"


@pytest.fixture
async def filled_db(root: Path) -> AsyncIterator[clew.Database]:
    """A database with two people, each with a thread and a fork, and all that a volume can hold of them."""
    async with clew.open("memory://", files=Volumes(root)) as db:
        for who in WORDS:
            await live(db, root, who)
        yield db


@pytest.fixture
async def db_on_each_store(db: clew.Database, root: Path) -> clew.Database:
    """The same on each store."""
    db.files = Volumes(root)
    for who in WORDS:
        await live(db, root, who)
    return db


async def live(db: clew.Database, root: Path, who: str) -> None:
    word = WORDS[who]
    thread = await db.create(f"{who}-1", owner=who)
    await thread.append(items=[clew.user(f"{word} was said")])
    await thread.fork(f"{who}-2")
    await asyncio.to_thread(write_files, Volume(root, db.tenant, who), word)
    for id, workspace, user in ((f"{who}-1", "a", who), (f"{who}-2", "b", who), (f"{who}-1", "a", None)):
        place = ManifestAddress(workspace=workspace, user=user, session=id)
        save(Volume(root, db.tenant, user), place, await export_manifest(db, id))
    await asyncio.to_thread(leave_behind, root / file_name(db.tenant), who, word)


def write_files(volume: Volume, word: str) -> None:
    volume.write(f"memory/{word}.txt", f"{word} noted".encode())
    volume.write("artifacts/1/map.txt", f"{word} drawn".encode())
    volume.write("artifacts/2/map.txt", f"{word} drawn again".encode())
    volume.write("buffers/book.txt", f"{word} read".encode() * 1000)


def leave_behind(part: Path, who: str, word: str) -> None:
    """What a volume holds that no call wrote: unfinished, unreadable and old files, and what code made."""
    own, meta = part / "users" / who, part / "meta" / "workspaces" / "a" / "users" / who
    (own / "memory" / ".x.txt.0123456789abcdef.part").write_text(f"{word} half")
    (own / "elsewhere").mkdir()
    (own / "elsewhere" / f"{word} ").write_text(word)
    (meta / f"react-session-{who}-1.json.unreadable-17").write_text(f"{{ {word}")
    (meta / f".react-session-{who}-1.json.0123456789abcdef.part").write_text(f"{{ {word}")
    old = part / "workspaces" / "a" / "users" / who / "memory"
    old.mkdir(parents=True)
    (old / f"react-session-{who}-1.json").write_text(f"{word} of old")


def traces(root: Path, who: str) -> list[str]:
    """Every file and folder of a volume that has a person's word or name, in itself or in its own name."""
    needles = (WORDS[who].encode(), who.encode())
    paths = []
    for path in root.rglob("*"):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if any(each in content or each in bytes(Path(path.name)) for each in needles):
            paths.append(str(path.relative_to(root)))
    return sorted(paths)


COUNTS = {
    "files in memory": 2,
    "files in artifacts": 2,
    "files in buffers": 1,
    "files in other folders": 1,
    "files in manifests": 6,
}


def files_of(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name.startswith("files")}


# An owner.


@pytest.mark.promise("B-07", "F-04")
async def test_nothing_of_a_person_is_left_on_the_volume(db_on_each_store: clew.Database, root: Path) -> None:
    before, others = traces(root, "alice"), traces(root, "bob")
    preview = await db_on_each_store.erase(owner="alice", dry_run=True)
    receipt = await db_on_each_store.erase(owner="alice")

    assert len(before) == sum(COUNTS.values()) + 4  # folders have their owner's name
    assert traces(root, "alice") == []
    assert traces(root, "bob") == others
    assert (files_of(receipt.counts), receipt.counts) == (COUNTS, preview.counts)
    assert receipt.counts["bytes in buffers"] == len("zanzibarquartz read") * 1000
    assert receipt.status == COMPLETE


@pytest.mark.promise("B-07")
async def test_bytes_are_written_over_before_their_file_goes(
    filled_db: clew.Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents: list[bytes] = []
    unlink = os.unlink

    def look(path: str, *, dir_fd: int) -> None:
        with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=dir_fd), "rb") as file:
            contents.append(file.read())
        unlink(path, dir_fd=dir_fd)

    with monkeypatch.context() as patches:
        patches.setattr(os, "unlink", look)
        await filled_db.erase(owner="alice")

    assert len(contents) == sum(COUNTS.values())
    assert {content.strip(b"\0") for content in contents} == {b""}


@pytest.mark.promise("B-07")
async def test_a_hold_keeps_the_files_too(filled_db: clew.Database, root: Path) -> None:
    before = traces(root, "alice")
    await filled_db.retention.hold(thread="alice-2", reason="case 12")
    with pytest.raises(LegalHold):
        await filled_db.erase(owner="alice")
    with pytest.raises(LegalHold):
        await filled_db.thread("alice-2").delete()

    assert traces(root, "alice") == before


@pytest.mark.promise("B-07")
async def test_a_hold_that_comes_once_the_erasure_has_begun_keeps_the_files(
    filled_db: clew.Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = traces(root, "alice")
    change, holds = filled_db.store.change, iter(["case 12"])

    async def holding(scope: Scope, planning: Planner) -> Plan:
        plan = await change(scope, planning)
        if await filled_db.retention.receipts() and (reason := next(holds, None)):
            await filled_db.retention.hold(owner="alice", reason=reason)
        return plan

    monkeypatch.setattr(filled_db.store, "change", holding)
    with pytest.raises(LegalHold):
        await filled_db.erase(owner="alice")
    (receipt_before,) = await filled_db.retention.receipts()

    assert (receipt_before.status, receipt_before.counts) == (UNFINISHED, {})
    assert traces(root, "alice") == before


@pytest.mark.promise("B-07")
async def test_what_links_lead_to_is_left_alone(filled_db: clew.Database, root: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    for name in ("linked", "named-twice"):
        (outside / name).write_text("somebody else's")
    own = Volume(root, filled_db.tenant, "alice").folder
    (own / "memory" / "file").symlink_to(outside / "linked")
    (own / "memory" / "folder").symlink_to(outside)
    os.link(outside / "named-twice", own / "memory" / "twice")
    await filled_db.erase(owner="alice")

    assert {file.read_text() for file in outside.iterdir()} == {"somebody else's"}
    assert not own.exists()


@pytest.mark.promise("B-07")
async def test_without_a_volume_the_receipt_says_that_none_was_looked_at() -> None:
    async with clew.open("memory://") as db:
        await db.create("one", owner="alice")
        receipt = await db.erase(owner="alice")

    assert NO_VOLUME in receipt.beyond


async def test_a_person_who_has_nothing_on_the_volume_is_erased_all_the_same(root: Path) -> None:
    async with clew.open("memory://", files=Volumes(root)) as db:
        await db.create("one", owner="alice")
        receipt = await db.erase(owner="alice")

    assert (receipt.status, files_of(receipt.counts)) == (COMPLETE, {})


# A thread.


@pytest.mark.promise("B-07", "F-04")
async def test_a_thread_takes_its_manifests_along_and_those_of_its_forks(
    filled_db: clew.Database, root: Path
) -> None:
    receipt = await filled_db.erase(thread="alice-1")
    paths = [path for path in traces(root, "alice") if "react-session-alice" in path]

    assert paths == []
    assert files_of(receipt.counts) == {"files in manifests": 6}


@pytest.mark.promise("B-07")
async def test_a_thread_takes_the_files_along_that_it_has_made(filled_db: clew.Database, root: Path) -> None:
    body = {"path": "artifacts/1/map.txt"}
    await filled_db.records.put(Record(kind="artifact", id="1", owner="alice", tags=("alice-1",), body=body))
    receipt = await filled_db.erase(thread="alice-1")

    assert receipt.counts["files in artifacts"] == 1
    assert [file.path for file in Volume(root, filled_db.tenant, "alice").list("artifacts").files] == [
        "artifacts/2/map.txt"
    ]


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("path", ["../bob/artifacts/1/map.txt", "/etc/passwd", "artifacts/../../bob", ""])
async def test_a_record_cannot_lead_an_erasure_to_somebody_elses_files(
    filled_db: clew.Database, root: Path, path: str
) -> None:
    others = traces(root, "bob")
    record = Record(kind="artifact", id="1", owner="alice", tags=("alice-1",), body={"path": path})
    await filled_db.records.put(record)
    await filled_db.erase(thread="alice-1")

    assert traces(root, "bob") == others


@pytest.mark.promise("B-07")
async def test_a_manifest_whose_thread_is_gone_can_be_erased(filled_db: clew.Database, root: Path) -> None:
    without = filled_db.scope(tenant=filled_db.tenant)
    without.files = None
    await without.thread("bob-2").delete()
    receipt = await filled_db.erase(thread="bob-2")

    assert files_of(receipt.counts) == {"files in manifests": 1}
    with pytest.raises(ThreadNotFound):
        await filled_db.erase(thread="bob-2")


@pytest.mark.promise("F-04")
async def test_a_thread_that_is_deleted_takes_its_manifest_along(
    filled_db: clew.Database, root: Path
) -> None:
    with pytest.raises(VersionConflict):
        await filled_db.thread("alice-1").delete(expect=Exact(99))
    before = [path for path in traces(root, "alice") if "react-session-alice-1" in path]
    await filled_db.thread("alice-1").delete()

    assert len(before) == 5
    assert [path for path in traces(root, "alice") if "react-session-alice-1" in path] == []
    assert any("react-session-alice-2" in path for path in traces(root, "alice"))


@pytest.mark.promise("B-07")
async def test_a_rule_that_lets_threads_go_lets_their_manifests_go(
    filled_db: clew.Database, root: Path
) -> None:
    now = (await filled_db.thread("alice-1").head()).updated + 10 * 24 * 60 * 60 * 1000
    await filled_db.retention.apply([RetentionRule(name="once", days=5)], now=now)

    assert [path for path in traces(root, "alice") if "react-session" in path] == []


# A part of a thread.


@pytest.mark.promise("B-07")
async def test_a_part_takes_the_manifests_along_that_hold_it(filled_db: clew.Database, root: Path) -> None:
    thread = filled_db.thread("alice-2")
    await thread.append(items=[clew.user("zanzibarquartz once more", id="x")])
    receipt = await thread.erase(["x"])
    paths = traces(root, "alice")

    assert files_of(receipt.counts) == {"files in manifests": 6}
    assert [path for path in paths if "react-session" in path] == []
    assert any(path.endswith("artifacts/1/map.txt") for path in paths)


@pytest.mark.promise("B-07")
async def test_a_part_that_is_held_leaves_the_manifests(filled_db: clew.Database, root: Path) -> None:
    before = traces(root, "alice")
    (item,) = await filled_db.thread("alice-1").items()
    await filled_db.retention.hold(owner="alice", reason="case 12")
    with pytest.raises(LegalHold):
        await filled_db.thread("alice-1").erase(after=item.place - 1, before=item.place + 1)

    assert traces(root, "alice") == before


@pytest.mark.crash
@pytest.mark.promise("B-07")
async def test_a_part_that_was_broken_off_is_settled_with_its_manifests(
    filled_db: clew.Database, root: Path
) -> None:
    await filled_db.thread("alice-1").append(items=[clew.user("zanzibarquartz once more", id="x")])
    filled_db.files = DyingVolume(root, "put_aside", after=False)
    with pytest.raises(Death):
        await filled_db.thread("alice-1").erase(["x"])
    filled_db.files = Volumes(root)
    (receipt,) = await filled_db.retention.settle()

    assert (receipt.status, files_of(receipt.counts)) == (COMPLETE, {"files in manifests": 6})
    assert [path for path in traces(root, "alice") if "react-session" in path] == []


# Broken off.


class Death(Exception):
    """Stands for the end of the process."""


class DyingVolume(Volumes):
    """A volume whose process ends before one of the calls, or after it."""

    def __init__(self, root: Path, call: str, *, after: bool) -> None:
        super().__init__(root)
        self._call = call
        self._after = after

    async def put_aside(
        self, tenant: str, selection: FileSelection, receipt: str, number: int
    ) -> dict[str, int]:
        """As it is, or not at all."""
        self._die("put_aside", after=False)
        counts = await super().put_aside(tenant, selection, receipt, number)
        self._die("put_aside", after=True)
        return counts

    async def remove(self, tenant: str, receipt: str, number: int) -> None:
        """As it is, or not at all."""
        if number > 0:
            self._die("remove", after=False)
        await super().remove(tenant, receipt, number)
        if number > 0:
            self._die("remove", after=True)

    def _die(self, call: str, *, after: bool) -> None:
        if (call, after) == (self._call, self._after):
            raise Death


@pytest.mark.crash
@pytest.mark.promise("B-07")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["put_aside", "remove"])
async def test_broken_off_it_goes_on_and_counts_every_file_once(
    db_on_each_store: clew.Database, root: Path, call: str, *, after: bool
) -> None:
    db_on_each_store.files = DyingVolume(root, call, after=after)
    with pytest.raises(Death):
        await db_on_each_store.erase(owner="alice")
    (receipt_before,) = await db_on_each_store.retention.receipts()
    db_on_each_store.files = Volumes(root)
    receipt = await db_on_each_store.erase(owner="alice")

    assert receipt_before.status == UNFINISHED
    assert (receipt.id, receipt.status, files_of(receipt.counts)) == (receipt_before.id, COMPLETE, COUNTS)
    assert traces(root, "alice") == []
    assert list((root / file_name(db_on_each_store.tenant) / "erasing").iterdir()) == []


@pytest.mark.crash
@pytest.mark.promise("B-07")
async def test_what_was_written_after_it_was_broken_off_is_counted_too(
    filled_db: clew.Database, root: Path
) -> None:
    filled_db.files = DyingVolume(root, "remove", after=False)
    with pytest.raises(Death):
        await filled_db.erase(owner="alice")
    Volume(root, filled_db.tenant, "alice").write("memory/late.txt", b"zanzibarquartz again")
    filled_db.files = Volumes(root)
    receipt = await filled_db.erase(owner="alice")

    assert receipt.counts["files in memory"] == COUNTS["files in memory"] + 1
    assert traces(root, "alice") == []


DYING = """
import asyncio, os, signal, sys
from pathlib import Path
import clew
from clew.workbench.volume.operators import Volumes
left = iter(range(int(sys.argv[3])))
unlink = os.unlink
def dying(path, *, dir_fd=None):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    unlink(path, dir_fd=dir_fd)
async def main():
    async with clew.open(sys.argv[1], files=Volumes(Path(sys.argv[2]))) as db:
        os.unlink = dying
        await db.erase(owner="alice")
asyncio.run(main())
"""


@pytest.mark.crash
@pytest.mark.promise("B-07")
@pytest.mark.parametrize("count", [0, 5])
async def test_killed_while_files_are_removed_it_goes_on(tmp_path: Path, root: Path, count: int) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with clew.open(url, files=Volumes(root)) as db:
        await live(db, root, "alice")
    command = [sys.executable, "-c", DYING, url, str(root), str(count)]
    process = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True)
    between = traces(root, "alice")
    async with clew.open(url, files=Volumes(root)) as db:
        receipt = await db.erase(owner="alice")

    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert between != []
    assert files_of(receipt.counts) == COUNTS
    assert traces(root, "alice") == []


@pytest.mark.race
@pytest.mark.promise("B-07")
async def test_somebody_who_writes_meanwhile_leaves_whole_files_or_none(
    filled_db: clew.Database, root: Path
) -> None:
    volume = Volume(root, filled_db.tenant, "alice")
    stop = asyncio.Event()

    def write(number: int) -> None:
        volume.write(f"memory/{number % 5}.txt", b"zanzibarquartz" * 1000)

    async def writing() -> None:
        number = 0
        while not stop.is_set():
            await asyncio.to_thread(write, number := number + 1)

    writer = asyncio.create_task(writing())
    await filled_db.erase(owner="alice")
    stop.set()
    await asyncio.wait([writer])
    await filled_db.erase(owner="alice")

    assert traces(root, "alice") == []


async def test_what_is_sought_of_an_owner_names_their_threads(filled_db: clew.Database) -> None:
    subject = subject_of("alice", None)
    asking = read_file_selection(subject, ["alice-1"])
    selection = await filled_db.store.read(Scope(tenant=filled_db.tenant), asking)

    assert selection == FileSelection(owner="alice", threads=("alice-1",))
