"""The volume: what is written lasts and is whole, what is listed can be read, and each is one user's."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import EllipsisType

import pytest

from clew.core.errors import (
    ClewError,
    InvalidArgument,
    StorageFull,
    StoreBusy,
    TooLarge,
    VolumeFileChanged,
    VolumeFileNotFound,
    VolumeFull,
    VolumePathRefused,
)
from clew.workbench.volume import tree
from clew.workbench.volume.volume import FOLDERS, Volume

NOBODY = 65534
"""The user that owns nothing."""


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path, "acme", "Alice")


def paths_of(volume: Volume, folder: str = "") -> list[str]:
    return [file.path for file in volume.list(folder).files]


# What is written.


@pytest.mark.promise("F-05")
@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_written_is_there_for_whoever_opens_the_volume_next(tmp_path: Path, folder: str) -> None:
    Volume(tmp_path, "acme", "Alice").write(f"{folder}/a/b.txt", b"hello")

    assert Volume(tmp_path, "acme", "Alice").read(f"{folder}/a/b.txt") == b"hello"


@pytest.mark.promise("F-05")
def test_a_users_files_stand_in_a_folder_of_their_own(tmp_path: Path, volume: Volume) -> None:
    volume.write("artifacts/map.png", b"map")

    assert (tmp_path / "acme" / "users" / "=41lice" / "artifacts" / "map.png").read_bytes() == b"map"
    assert volume.folder == tmp_path / "acme" / "users" / "=41lice"


@pytest.mark.promise("F-05")
@pytest.mark.parametrize(
    ("tenant", "user"), [("acme", "bob"), ("other", "Alice"), ("acme", None), ("acme", "alice")]
)
def test_another_user_has_another_volume(
    tmp_path: Path, volume: Volume, tenant: str, user: str | None
) -> None:
    volume.write("memory/a.txt", b"mine")
    other = Volume(tmp_path, tenant, user)

    assert paths_of(other) == []
    with pytest.raises(VolumeFileNotFound):
        other.read("memory/a.txt")


@pytest.mark.promise("F-05")
def test_the_folders_are_made_before_an_interpreter_looks_for_them(volume: Volume) -> None:
    folder = volume.prepare()

    assert sorted(each.name for each in folder.iterdir()) == sorted(FOLDERS)
    assert {each.stat().st_mode & 0o077 for each in folder.iterdir()} == {0}


@pytest.mark.promise("F-05")
def test_what_is_beside_the_folders_is_taken_away_however_it_was_made(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "root", "acme", "alice")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    own = volume.prepare()
    (own / "loose.txt").write_text("goes")
    (own / "link").symlink_to(outside)
    os.link(outside / "file", own / "second name")
    (own / "buffers").rmdir()
    (own / "buffers").symlink_to(outside)
    deepest = own / "deep"
    for _ in range(100):
        deepest.mkdir()
        (deepest / "file").write_text("goes")
        (deepest / "link").symlink_to(outside)
        deepest /= "deeper"
    (own / "deep").chmod(0)
    (own / "memory/note.txt").write_text("stays")
    volume.prepare()

    assert sorted(each.name for each in own.iterdir()) == sorted(FOLDERS)
    assert not (own / "buffers").is_symlink()
    assert ((own / "memory/note.txt").read_text(), (outside / "file").read_text()) == ("stays", "stays")


def test_folders_deeper_than_any_stack_are_taken_away(volume: Volume) -> None:
    own = volume.prepare()
    here = os.open(own, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    volume.remove_loose_files()

    assert sorted(each.name for each in own.iterdir()) == sorted(FOLDERS)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_folders_that_their_own_user_may_not_read_are_taken_away() -> None:
    with tempfile.TemporaryDirectory() as root:
        os.chown(root, NOBODY, NOBODY)
        child = os.fork()
        if child == 0:
            os._exit(remove_shut_folders(Path(root)))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert code == 0


def remove_shut_folders(root: Path) -> int:
    """Return the exit code of a process of another user that prepares a volume with shut folders twice."""
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with suppress(OSError, ClewError):
        own = Volume(root, "acme", "alice").prepare()
        (own / "shut/inner").mkdir(parents=True)
        (own / "shut/inner/file").write_text("goes")
        (own / "shut/inner").chmod(0)
        (own / "shut").chmod(0)
        Volume(root, "acme", "alice").prepare()
        return int((own / "shut").exists())
    return 2


def test_what_was_begun_long_ago_and_never_named_is_taken_away(volume: Volume) -> None:
    buffers = volume.prepare() / "buffers"
    (old := buffers / ".a.txt.0123456789abcdef.part").write_bytes(b"half")
    os.utime(old, (0, 0))
    (young := buffers / ".b.txt.0123456789abcdef.part").write_bytes(b"half")
    volume.prepare()

    assert [file.name for file in buffers.iterdir()] == [young.name]


def test_a_write_that_fails_leaves_what_was_there(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    volume.write("memory/a.txt", b"first")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        volume.write("memory/a.txt", b"second")

    assert volume.read("memory/a.txt") == b"first"
    assert [file.name for file in (volume.folder / "memory").iterdir()] == ["a.txt"]


def test_readers_see_whole_files_while_they_are_written(volume: Volume) -> None:
    contents = [bytes([number]) * 200_000 for number in range(30)]
    volume.write("memory/a.bin", contents[0])
    observations: list[bytes] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            observations.append(volume.read("memory/a.bin"))

    reader = threading.Thread(target=look)
    reader.start()
    for content in contents:
        volume.write("memory/a.bin", content)
    stop.set()
    reader.join()

    assert set(observations) <= set(contents)


# Only if it is what one has seen.


def test_a_file_is_written_only_if_it_is_what_the_caller_has_seen(volume: Volume) -> None:
    volume.write("memory/a.txt", b"one", expect=None)
    checksum = volume.checksum("memory/a.txt")
    volume.write("memory/a.txt", b"two", expect=checksum)
    with pytest.raises(VolumeFileChanged) as error:
        volume.write("memory/a.txt", b"three", expect=checksum)

    assert volume.read("memory/a.txt") == b"two"
    assert (error.value.expected, error.value.actual) == (checksum, volume.checksum("memory/a.txt"))


def test_a_file_that_should_be_absent_is_not_overwritten(volume: Volume) -> None:
    volume.write("memory/a.txt", b"one")

    with pytest.raises(VolumeFileChanged):
        volume.write("memory/a.txt", b"two", expect=None)


@pytest.mark.race
def test_of_two_who_saw_the_same_one_writes(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    volume.write("memory/a.txt", b"0")
    checksum = volume.checksum("memory/a.txt")
    both = threading.Barrier(2)
    check_expected = tree.check_expected
    winners: list[int] = []

    def check(folder: int, parts: tree.PathParts, expect: str | EllipsisType | None) -> None:
        """Look, and then let the other one look before anything is written, if that can be."""
        check_expected(folder, parts, expect)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.3)

    def compete(number: int) -> None:
        with suppress(VolumeFileChanged):
            volume.write("memory/a.txt", str(number).encode(), expect=checksum)
            winners.append(number)

    monkeypatch.setattr(tree, "check_expected", check)
    threads = [threading.Thread(target=compete, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(winners) == 1
    assert volume.read("memory/a.txt") == str(winners[0]).encode()


def test_a_folder_that_somebody_keeps_locked_is_not_waited_for_for_ever(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume.write("memory/a.txt", b"one")
    monkeypatch.setattr(tree, "WAIT_SECONDS", 0.05)
    descriptor = os.open(volume.folder / "memory", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy):
            volume.write("memory/a.txt", b"two")
    finally:
        os.close(descriptor)

    assert volume.read("memory/a.txt") == b"one"


# Reading back, listing, moving, deleting.


def test_a_checksum_is_the_sha_256_of_what_is_there(volume: Volume) -> None:
    volume.write("artifacts/a.bin", b"x" * 3_000_000)

    assert volume.checksum("artifacts/a.bin") == sha256(b"x" * 3_000_000).hexdigest()


def test_files_are_listed_by_path_with_size_and_time(volume: Volume) -> None:
    for path in ("memory/z", "artifacts/b/c", "artifacts/b-a", "artifacts/b/a/x", "buffers/y"):
        volume.write(path, b"12345")
    page = volume.list()

    assert [file.path for file in page.files] == [
        "artifacts/b/a/x",
        "artifacts/b/c",
        "artifacts/b-a",
        "buffers/y",
        "memory/z",
    ]
    assert {file.size for file in page.files} == {5}
    assert all(file.modified > 1_600_000_000_000 for file in page.files)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_hold_every_file_once(volume: Volume, limit: int) -> None:
    paths = {f"{folder}/{name}" for folder in FOLDERS for name in ("a", "b/c", "b/d/e", "b-f", "b.g")}
    for path in paths:
        volume.write(path, b"")
    listing: list[str] = []
    after = None
    while True:
        page = volume.list(after=after, limit=limit)
        listing += [file.path for file in page.files]
        if (after := page.next) is None:
            break

    assert len(listing) == len(paths)
    assert set(listing) == paths


def test_one_folder_is_listed_alone(volume: Volume) -> None:
    volume.write("artifacts/a/one", b"")
    volume.write("artifacts/b/two", b"")

    assert paths_of(volume, "artifacts/b") == ["artifacts/b/two"]
    assert paths_of(volume, "memory") == []


def test_a_page_without_files_makes_no_sense(volume: Volume) -> None:
    with pytest.raises(InvalidArgument):
        volume.list(limit=0)


def test_what_is_deleted_is_gone(volume: Volume) -> None:
    volume.write("artifacts/a", b"")
    volume.delete("artifacts/a")

    assert paths_of(volume) == []
    with pytest.raises(VolumeFileNotFound):
        volume.delete("artifacts/a")


def test_a_folder_is_not_deleted_as_a_file(volume: Volume) -> None:
    volume.write("artifacts/a/b", b"")

    with pytest.raises(VolumePathRefused):
        volume.delete("artifacts/a")


def test_a_file_is_put_aside_under_a_name_that_is_free(volume: Volume) -> None:
    volume.write("memory/a.json", b"broken")
    volume.write("memory/B.json", b"there")
    volume.move("memory/a.json", "memory/a.json.unreadable-1")
    with pytest.raises(VolumePathRefused, match="taken"):
        volume.move("memory/a.json.unreadable-1", "memory/b.json")

    assert paths_of(volume) == ["memory/B.json", "memory/a.json.unreadable-1"]


# How much.


def test_a_file_that_is_too_large_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    small = Volume(tmp_path, "acme", "Alice", largest=4)
    with pytest.raises(TooLarge):
        small.write("memory/a", b"12345")

    assert not small.folder.exists()


def test_a_file_that_grew_too_large_is_not_read(tmp_path: Path, volume: Volume) -> None:
    volume.write("memory/a", b"12345")

    with pytest.raises(TooLarge):
        Volume(tmp_path, "acme", "Alice", largest=4).read("memory/a")


def test_a_user_has_no_more_than_their_capacity(tmp_path: Path) -> None:
    volume = Volume(tmp_path, "acme", "Alice", capacity=10)
    volume.write("memory/a", b"123456")
    with pytest.raises(VolumeFull) as error:
        volume.write("artifacts/b", b"12345")
    volume.write("memory/a", b"1234567890")

    assert (error.value.size, error.value.left) == (5, 4)
    assert volume.usage() == 10
