"""Checkpoints: the manifest on a volume follows the database, and what that does not know is never lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.errors import (
    ClewError,
    InvalidArgument,
    ManifestConflict,
    ManifestUnreadable,
    ManifestWriteFailed,
    VolumeFull,
)
from clew.core.manifest.document import encode_manifest, read_manifest
from clew.core.manifest.files import ManifestAddress
from clew.core.manifest.stamps import read_stamped_manifest
from clew.testing import Clock
from clew.workbench.session.checkpoints import ManifestCheckpoints, RestoreKind
from clew.workbench.session.manifests import export_manifest, load_manifest
from clew.workbench.volume.volume import Volume

PLACE = ManifestAddress(workspace="default", user="alice", session="s")


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path / "volume", "acme", "alice")


def checkpoints_of(db: clew.Database, volume: Volume, **options: Any) -> ManifestCheckpoints:
    return ManifestCheckpoints(db, volume, PLACE, clock=options.pop("clock", Clock()), **options)


async def thread_with(db: clew.Database, *texts: str) -> clew.Thread:
    """The session, with some more said in it."""
    thread = await db.create("s", owner="alice", exist_ok=True)
    for text in texts:
        await thread.append(items=[clew.user(text)])
    return thread


def on_volume(volume: Volume, checkpoints: ManifestCheckpoints) -> tuple[int | None, list[str]]:
    """The version that the file stands for, and what was said in it."""
    document = read_stamped_manifest(volume.read(checkpoints.path), "s")
    texts = [entry.body["content"] for entry in document.manifest.state.history]
    return document.stamp.version if document.stamp else None, texts


def files(volume: Volume) -> Sequence[str]:
    return sorted(path.name for path in volume.folder.parents[1].glob("meta/**/*") if path.is_file())


def edit_manifest(volume: Volume, checkpoints: ManifestCheckpoints, **changes: Any) -> None:
    """Change the file by hand."""
    document = {**json.loads(volume.read(checkpoints.path)), **changes}
    volume.write(checkpoints.path, json.dumps(document).encode())


# Written with the version that it stands for.


@pytest.mark.promise("F-01")
async def test_a_checkpoint_names_the_version_that_it_stands_for(db: clew.Database, volume: Volume) -> None:
    thread = await thread_with(db, "one", "two")
    checkpoints = checkpoints_of(db, volume)

    result = await checkpoints.save()

    assert (result.status, result.version) == ("written", 2)
    stamp = read_stamped_manifest(volume.read(checkpoints.path), "s").stamp
    assert stamp is not None
    assert (stamp.version, stamp.hash) == (2, (await thread.head()).hash.hex())


@pytest.mark.promise("F-02")
async def test_the_version_is_no_part_of_the_manifest(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()

    on_disk = read_manifest(volume.read(checkpoints.path))

    assert encode_manifest(on_disk) == encode_manifest(await export_manifest(db, "s"))
    assert load_manifest(volume, PLACE) == on_disk


async def test_what_is_there_already_is_not_written_again(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()

    again = await checkpoints.save()

    assert again.status == "unchanged"


@pytest.mark.promise("F-01")
async def test_a_manifest_behind_the_head_is_folded_forward(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()
    await thread_with(db, "two", "three")

    restoration = await checkpoints.restore()

    assert (restoration.how, restoration.folded, restoration.version) == (RestoreKind.FORWARD, 2, 3)
    assert on_volume(volume, checkpoints) == (3, ["one", "two", "three"])


async def test_a_manifest_at_the_head_is_current(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()

    restoration = await checkpoints.restore()

    assert (restoration.how, restoration.folded) == (RestoreKind.CURRENT, 0)


async def test_a_manifest_that_is_gone_is_rebuilt(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)

    restoration = await checkpoints.restore()

    assert restoration.how is RestoreKind.REBUILT
    assert on_volume(volume, checkpoints) == (1, ["one"])


async def test_what_nobody_knows_is_fresh(db: clew.Database, volume: Volume) -> None:
    restoration = await checkpoints_of(db, volume).restore()

    assert restoration.how is RestoreKind.FRESH
    assert files(volume) == []


# What the database does not know is never written over.


async def ahead(db: clew.Database, volume: Volume, tmp_path: Path) -> ManifestCheckpoints:
    """Checkpoints on a database that was set back: it has version 1, and the manifest stands for 3."""
    async with clew.open(f"sqlite:///{tmp_path / 'newer.db'}") as newer:
        await thread_with(newer, "one", "two", "three")
        await checkpoints_of(newer, volume).save()
    await thread_with(db, "one")
    return checkpoints_of(db, volume)


@pytest.mark.promise("F-01")
async def test_a_manifest_ahead_of_the_head_is_a_conflict(
    db: clew.Database, volume: Volume, tmp_path: Path
) -> None:
    checkpoints = await ahead(db, volume, tmp_path)

    with pytest.raises(ManifestConflict) as error:
        await checkpoints.restore()
    assert (error.value.found, error.value.head) == (3, 1)
    assert on_volume(volume, checkpoints) == (3, ["one", "two", "three"])


@pytest.mark.promise("F-01")
async def test_a_manifest_of_a_lost_database_is_a_conflict(
    db: clew.Database, volume: Volume, tmp_path: Path
) -> None:
    await ahead(db, volume, tmp_path)
    await db.thread("s").delete()

    with pytest.raises(ManifestConflict) as error:
        await checkpoints_of(db, volume).restore()
    assert (error.value.found, error.value.head) == (3, None)
    assert "lost" in str(error.value)


@pytest.mark.promise("F-01")
@pytest.mark.parametrize("turns", [3, 5])
async def test_a_manifest_of_another_history_is_a_conflict(
    db: clew.Database, volume: Volume, tmp_path: Path, turns: int
) -> None:
    checkpoints = await ahead(db, volume, tmp_path)
    await thread_with(db, *("another" for _ in range(turns - 1)))

    with pytest.raises(ManifestConflict, match="another history"):
        await checkpoints.save()
    assert on_volume(volume, checkpoints) == (3, ["one", "two", "three"])


async def test_a_manifest_that_was_changed_by_hand_is_a_conflict(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()
    edit_manifest(volume, checkpoints, about={"title": "By hand"})

    with pytest.raises(ManifestConflict, match="was changed since"):
        await checkpoints.save()


async def test_a_manifest_without_a_version_is_taken_up_if_it_says_the_same(
    db: clew.Database, volume: Volume
) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    volume.write(checkpoints.path, encode_manifest(await export_manifest(db, "s")))

    result = await checkpoints.save()

    assert (result.status, on_volume(volume, checkpoints)) == ("written", (1, ["one"]))


async def test_a_manifest_without_a_version_that_says_something_else_is_a_conflict(
    db: clew.Database, volume: Volume
) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    volume.write(checkpoints.path, encode_manifest(await export_manifest(db, "s")))
    await thread_with(db, "two")

    with pytest.raises(ManifestConflict, match="names no version"):
        await checkpoints.save()


@pytest.mark.race
async def test_two_writers_of_one_session_end_with_the_newest(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "begin")
    both = [checkpoints_of(db, volume, clock=Clock()) for _ in range(2)]

    async def write(checkpoints: ManifestCheckpoints, name: str) -> None:
        for number in range(8):
            await thread_with(db, f"{name}{number}")
            await checkpoints.save()

    await asyncio.gather(*(write(each, name) for each, name in zip(both, "ab", strict=True)))

    version, texts = on_volume(volume, both[0])
    assert (version, len(texts)) == (17, 17)


class RacingVolume(Volume):
    """A volume on which somebody else writes just before we do, once."""

    theirs: bytes | None = None

    def write(self, path: str, content: bytes, **options: Any) -> None:
        if self.theirs is not None:
            theirs, self.theirs = self.theirs, None
            super().write(path, theirs)
        super().write(path, content, **options)


@pytest.mark.race
@pytest.mark.promise("F-01")
async def test_a_manifest_that_comes_between_looking_and_writing_is_not_overwritten(
    db: clew.Database, tmp_path: Path
) -> None:
    volume = RacingVolume(tmp_path / "volume", "acme", "alice")
    checkpoints = await ahead(db, volume, tmp_path)
    volume.theirs = volume.read(checkpoints.path)
    volume.delete(checkpoints.path)

    with pytest.raises(ManifestConflict):
        await checkpoints.save()
    assert on_volume(volume, checkpoints) == (3, ["one", "two", "three"])


@pytest.mark.promise("B-07")
async def test_what_was_erased_is_gone_from_the_manifest_at_the_next_checkpoint(
    db: clew.Database, volume: Volume
) -> None:
    thread = await thread_with(db, "one")
    await thread.append(items=[clew.user("a secret", id="m-2")])
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()
    before = b"a secret" in volume.read(checkpoints.path)

    await thread.erase(["m-2"])
    await checkpoints.save()

    assert before
    assert b"a secret" not in volume.read(checkpoints.path)


# Saying which one holds.


@pytest.mark.promise("F-01")
async def test_taking_the_manifest_makes_the_session_what_it_says(
    db: clew.Database, volume: Volume, tmp_path: Path
) -> None:
    checkpoints = await ahead(db, volume, tmp_path)

    restoration = await checkpoints.take("manifest")

    assert (restoration.how, restoration.version) == (RestoreKind.TAKEN, 2)
    assert [item.body["content"] for item in await db.thread("s").items()] == ["one", "two", "three"]
    assert on_volume(volume, checkpoints) == (2, ["one", "two", "three"])
    assert (await checkpoints.save()).status == "unchanged"


@pytest.mark.promise("F-01")
async def test_a_lost_database_gets_the_session_back_from_its_manifest(
    db: clew.Database, volume: Volume, tmp_path: Path
) -> None:
    await ahead(db, volume, tmp_path)
    await db.thread("s").delete()

    await checkpoints_of(db, volume).take("manifest")

    head = await db.thread("s").head()
    assert (head.version, head.owner, head.length()) == (1, "alice", 3)


async def test_taking_the_database_keeps_the_manifest_aside(
    db: clew.Database, volume: Volume, tmp_path: Path
) -> None:
    checkpoints = await ahead(db, volume, tmp_path)
    before = volume.read(checkpoints.path)

    await checkpoints.take("database")

    assert on_volume(volume, checkpoints) == (1, ["one"])
    aside = f"{checkpoints.path}.set-aside-{Clock().now}"
    assert volume.read(aside) == before


async def test_what_is_not_there_cannot_be_taken(db: clew.Database, volume: Volume) -> None:
    with pytest.raises(InvalidArgument, match="no manifest"):
        await checkpoints_of(db, volume).take("manifest")
    with pytest.raises(InvalidArgument, match="no session"):
        await checkpoints_of(db, volume).take("database")


# Unreadable.

UNREADABLE = [b"", b"{", b"[]", b"\xff\xfe", b"{}", b'{"format":"clew.session","version":99}']


@pytest.mark.promise("F-01")
@pytest.mark.parametrize("content", UNREADABLE)
async def test_an_unreadable_manifest_is_kept_aside_and_named(
    db: clew.Database, volume: Volume, content: bytes
) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    volume.write(checkpoints.path, content)

    with pytest.raises(ManifestUnreadable) as error:
        await checkpoints.restore()
    assert volume.read(error.value.kept) == content
    assert ".unreadable-" in error.value.kept
    assert (await checkpoints.restore()).how is RestoreKind.REBUILT


async def test_the_manifest_of_another_session_is_not_ours(db: clew.Database, volume: Volume) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume)
    await checkpoints.save()
    edit_manifest(volume, checkpoints, session="another")

    with pytest.raises(ManifestUnreadable, match="another"):
        await checkpoints.save()


async def test_an_unreadable_manifest_of_an_unknown_session_is_never_taken_for_an_empty_one(
    db: clew.Database, volume: Volume
) -> None:
    checkpoints = checkpoints_of(db, volume, persistence="best effort")
    volume.write(checkpoints.path, b"{")

    for _ in range(2):
        with pytest.raises(ManifestUnreadable):
            await checkpoints.restore()
    assert volume.read(checkpoints.path) == b"{"


# Strict and best effort.


class FullVolume(Volume):
    """A volume on which nothing more fits, until there is room."""

    full = True

    def write(self, path: str, content: bytes, **options: Any) -> None:
        if self.full:
            raise VolumeFull(path=path, size=len(content), left=0)
        super().write(path, content, **options)


@pytest.fixture
def full(tmp_path: Path) -> FullVolume:
    return FullVolume(tmp_path / "volume", "acme", "alice")


async def test_strict_persistence_raises_what_could_not_be_written(
    db: clew.Database, full: FullVolume
) -> None:
    await thread_with(db, "one")

    with pytest.raises(ManifestWriteFailed, match="room for 0"):
        await checkpoints_of(db, full).save()


async def test_best_effort_says_what_could_not_be_written_and_tries_again(
    db: clew.Database, full: FullVolume
) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, full, persistence="best effort")

    first = await checkpoints.save()
    full.full = False
    second = await checkpoints.save()

    assert (first.status, first.code) == ("failed", "manifest_write_failed")
    assert (second.status, second.version) == ("written", 1)


@pytest.mark.promise("F-01")
async def test_a_checkpoint_that_was_skipped_never_makes_the_next_one_overwrite(
    db: clew.Database, volume: Volume, tmp_path: Path
) -> None:
    checkpoints = await ahead(db, volume, tmp_path)
    best = checkpoints_of(db, volume, persistence="best effort")

    restoration = await best.restore()
    results = []
    for text in ("two of ours", "three of ours", "four of ours"):
        await thread_with(db, text)
        results.append(await best.save())

    assert (restoration.how, restoration.code) == (RestoreKind.DATABASE, "manifest_conflict")
    assert [each.code for each in results] == ["manifest_conflict"] * 3
    assert on_volume(volume, checkpoints) == (3, ["one", "two", "three"])


async def test_best_effort_writes_an_unreadable_manifest_anew_and_says_so(
    db: clew.Database, volume: Volume
) -> None:
    await thread_with(db, "one")
    checkpoints = checkpoints_of(db, volume, persistence="best effort")
    volume.write(checkpoints.path, b"{")

    result = await checkpoints.save()

    assert (result.status, result.code) == ("written", "manifest_unreadable")
    assert len(files(volume)) == 2


@pytest.mark.parametrize("kind", [ManifestConflict, ManifestUnreadable, ManifestWriteFailed])
def test_every_problem_of_a_manifest_has_a_code_of_its_own(kind: type[ClewError]) -> None:
    assert kind.code.startswith("manifest_")
