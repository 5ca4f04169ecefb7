"""Paths on a volume: tricks with names, links, devices and races lead nowhere."""

from __future__ import annotations

import ctypes
import os
import socket
import tempfile
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clew.core.errors import ClewError, VolumePathRefused
from clew.workbench.volume.paths import collision_key, name_problem
from clew.workbench.volume.tree import NOT_PLAIN, TWO_NAMES, file_problem
from clew.workbench.volume.volume import Volume

HERE, EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE, as Linux has them."""
SECRET = b"not on the volume"


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    volume = Volume(tmp_path / "volume", "acme", "alice")
    volume.prepare()
    return volume


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is not the volume's, with a file in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_bytes(SECRET)
    return folder


def calls(volume: Volume, path: str) -> list[Callable[[], object]]:
    """Every way to a file by its path."""
    return [
        lambda: volume.read(path),
        lambda: volume.write(path, b"x"),
        lambda: volume.checksum(path),
        lambda: volume.delete(path),
        lambda: volume.move(path, f"{path}-2"),
    ]


# Names.

BAD_PATHS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x",
    "memory",
    "memory/",
    "memory//x",
    "memory/./x",
    "memory/../artifacts/x",
    "memory/../../bob/memory/x",
    "memory/..",
    "other/x",
    "users/bob/memory/x",
    "Memory/x",
    "memory /x",
    "memory/a\0b",
    "memory/a\nb",
    "memory/a\x7fb",
    "memory/a\u202eb",
    "memory/a\u200bb",
    "memory/a\u2028b",
    "memory/\ud800",
    "memory/a\\b",
    "memory/a:b",
    "memory/a?",
    "memory/a*",
    "memory/<a>",
    'memory/"a"',
    "memory/a|b",
    "memory/a ",
    "memory/ a",
    "memory/a\u00a0",
    "memory/a.",
    "memory/a. /b",
    "memory/.../b",
    "memory/con",
    "memory/NUL.txt",
    "memory/Com1.tar.gz",
    "memory/lpt¹",
    "memory/aux/b",
    "memory/.a.0123.part",
    "memory/" + "a" * 201,
    "memory/" + "é" * 101,
    "memory/" + "a/" * 40 + "b",
    "memory/" + "/".join(["a" * 190] * 6),
    "meta/x",
    "meta",
    "meta/workspaces/w/users/bob/react-session-s.json",
    "meta/workspaces/w/users/alice/other.json",
    "meta/workspaces/../users/alice/react-session-s.json",
    "meta/workspaces/w/users/alice/../bob/react-session-s.json",
    "meta/workspaces/w/users/alice/react-session-s.json\n",
    "meta/workspaces/W/users/alice/react-session-s.json",
    "meta/workspaces/w/users/alice/.react-session-s.json.0123.part",
]


@pytest.mark.promise("F-05")
@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_is_a_trick_is_refused_by_every_call(volume: Volume, path: str) -> None:
    codes = []
    for call in calls(volume, path):
        with pytest.raises(VolumePathRefused) as error:
            call()
        codes.append(error.value.code)
        str(error.value).encode()

    assert set(codes) == {"volume_path_refused"}


@pytest.mark.parametrize("path", ["", "..", "/", "meta", "memory/..", "users"])
def test_a_folder_elsewhere_is_not_listed(volume: Volume, path: str) -> None:
    volume.write("memory/a", b"")
    if path == "":
        assert [file.path for file in volume.list(path).files] == ["memory/a"]
        return

    with pytest.raises(VolumePathRefused):
        volume.list(path)


@pytest.mark.parametrize(
    "path",
    [
        "memory/a",
        "memory/.hidden",
        "memory/Ein Bild (2).png",
        "memory/日本語/ファイル.txt",
        "memory/e\u0301.txt",
        "memory/😀.txt",
        "memory/a..b",
        "memory/~a",
        "memory/console.txt",
        "memory/" + "a" * 200,
        "meta/workspaces/con/users/alice/react-session-nul.json",
        "meta/workspaces/w/users/alice/react-session-s=2f1.json.unreadable-1700000000000",
    ],
)
def test_a_plain_path_is_taken(volume: Volume, path: str) -> None:
    volume.write(path, b"x")

    assert volume.read(path) == b"x"


@pytest.mark.promise("F-05")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.txt", "A.txt"),
        ("é.txt", unicodedata.normalize("NFD", "é.txt")),
        ("straße", "STRASSE"),
        ("ﬁn", "fin"),
        ("Ａ", "a"),
        ("Å", "\u212b"),
        ("ς", "Σ"),
        ("a/x", "A/y"),
    ],
)
def test_a_name_that_is_anothers_on_some_file_system_is_refused(volume: Volume, one: str, other: str) -> None:
    volume.write(f"memory/{one}", b"first")
    with pytest.raises(VolumePathRefused, match="same name"):
        volume.write(f"memory/{other}", b"second")
    volume.write(f"memory/{one}", b"third")

    assert [file.path for file in volume.list().files] == [f"memory/{one}"]


NAMES = st.one_of(
    st.text(max_size=12),
    st.text("aAeé\u0301ıIſsKK ./\\\0~", max_size=8),
    st.sampled_from(["..", ".", "", "memory", "con", "..\\..", "%2e%2e", "a" * 300]),
)


@pytest.mark.promise("F-05")
@given(names=st.lists(NAMES, min_size=1, max_size=5), absolute=st.booleans())
@settings(max_examples=300, deadline=None)
def test_whatever_path_is_given_nothing_is_written_outside(names: list[str], absolute: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    path = ("/" if absolute else "") + "/".join(names)
    with tempfile.TemporaryDirectory() as folder:
        volume = Volume(Path(folder, "root"), "acme", "alice")
        for each in (path, f"memory/{path}"):
            try:
                volume.write(each, b"x")
            except VolumePathRefused:
                continue
            assert volume.read(each) == b"x"
        own = volume.folder
        files = [file for file in Path(folder).rglob("*") if not file.is_dir()]

        assert all(file.is_relative_to(own) for file in files)


def usable(name: str) -> bool:
    return name_problem(name) is None


SIMILAR = st.one_of(
    st.text("aAeéE\u0301ıİIiſsSßKk\u212aﬁfi.", min_size=1, max_size=3), st.text(min_size=1, max_size=3)
).filter(usable)


@pytest.mark.promise("F-05")
@given(one=SIMILAR, other=SIMILAR)
@settings(max_examples=500, deadline=None)
def test_two_files_of_a_folder_differ_on_every_file_system(one: str, other: str) -> None:
    forms: list[Callable[[str], str]] = [
        str.casefold,
        str.lower,
        str.upper,
        lambda name: unicodedata.normalize("NFC", name),
        lambda name: unicodedata.normalize("NFD", name).casefold(),
        lambda name: name.rstrip(". "),
    ]
    assume(collision_key(one) != collision_key(other))

    assert all(form(one) != form(other) for form in forms)


# Links, devices, second names.


@pytest.mark.promise("F-05")
def test_a_link_to_a_file_outside_is_neither_read_nor_written(volume: Volume, outside: Path) -> None:
    (volume.folder / "memory" / "a.txt").symlink_to(outside / "a.txt")
    for call in calls(volume, "memory/a.txt")[:3]:
        with pytest.raises(VolumePathRefused):
            call()

    assert (outside / "a.txt").read_bytes() == SECRET


@pytest.mark.promise("F-05")
@pytest.mark.parametrize("steps", ["memory/in", "memory", "."])
def test_a_link_to_a_folder_outside_is_followed_nowhere_on_the_way(
    volume: Volume, outside: Path, steps: str
) -> None:
    link = volume.folder / steps
    rest = Path("memory/in").relative_to(steps)
    (outside / rest).mkdir(parents=True, exist_ok=True)
    (outside / rest / "a.txt").write_bytes(SECRET)
    if link.exists():
        link.rename(volume.folder.parent / "before")
    link.symlink_to(outside)
    for call in calls(volume, "memory/in/a.txt"):
        with pytest.raises(VolumePathRefused):
            call()

    assert (outside / rest / "a.txt").read_bytes() == SECRET
    assert len([file for file in outside.rglob("*") if file.is_file()]) == len(
        {rest / "a.txt", Path("a.txt")}
    )


def test_a_link_within_the_volume_is_refused_too(volume: Volume) -> None:
    volume.write("memory/a.txt", b"x")
    (volume.folder / "artifacts" / "b").symlink_to(volume.folder / "memory")

    with pytest.raises(VolumePathRefused):
        volume.read("artifacts/b/a.txt")


def test_the_root_may_be_a_link_since_it_is_the_operators(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    volume = Volume(tmp_path / "root", "acme", "alice")
    volume.write("memory/a.txt", b"x")

    assert volume.read("memory/a.txt") == b"x"


def test_a_link_is_deleted_and_not_what_it_leads_to(volume: Volume, outside: Path) -> None:
    (volume.folder / "memory" / "a.txt").symlink_to(outside / "a.txt")
    volume.delete("memory/a.txt")

    assert list((volume.folder / "memory").iterdir()) == []
    assert (outside / "a.txt").read_bytes() == SECRET


@pytest.mark.promise("F-05")
def test_a_file_with_a_second_name_is_refused(volume: Volume, outside: Path) -> None:
    os.link(outside / "a.txt", volume.folder / "memory" / "a.txt")
    for call in calls(volume, "memory/a.txt")[:3]:
        with pytest.raises(VolumePathRefused, match="second name"):
            call()

    assert (outside / "a.txt").read_bytes() == SECRET


@pytest.mark.promise("F-05")
@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_nobody_waits_for_it(volume: Volume) -> None:
    os.mkfifo(volume.folder / "memory" / "a.txt")

    for call in calls(volume, "memory/a.txt")[:3]:
        with pytest.raises(VolumePathRefused):
            call()


@pytest.mark.promise("F-05")
def test_a_socket_is_refused(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(volume.folder / "memory")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.txt")
        for call in calls(volume, "memory/a.txt")[:3]:
            with pytest.raises(VolumePathRefused):
                call()


@pytest.mark.promise("F-05")
@pytest.mark.parametrize("path", ["/dev/null", "/dev", "/proc/self/fd/0"])
def test_a_device_is_no_file(path: str) -> None:
    assert file_problem(os.lstat(path)) == NOT_PLAIN


def test_what_cannot_be_used_is_listed_with_its_reason_and_hides_nothing(
    volume: Volume, outside: Path
) -> None:
    volume.write("memory/a", b"x")
    memory = volume.folder / "memory"
    (memory / "link").symlink_to(outside)
    (memory / "odd ").write_bytes(b"")
    os.mkfifo(memory / "pipe")
    os.link(outside / "a.txt", memory / "second")
    Path(os.fsdecode(bytes(memory) + b"/\xff")).write_bytes(b"")
    page = volume.list()

    assert [file.path for file in page.files] == ["memory/a"]
    assert sorted(page.refused) == [
        "memory/\\udcff",
        "memory/link",
        "memory/odd ",
        "memory/pipe",
        "memory/second",
    ]
    assert page.refused["memory/second"] == TWO_NAMES


# Races.


def swapper_thread(folder: Path, outside: Path, stop: threading.Event) -> threading.Thread:
    """Somebody who changes a folder for a link to another, and back, as fast as they can."""
    link = folder.with_name("link")
    link.symlink_to(outside)
    exchange = ctypes.CDLL(None, use_errno=True).renameat2

    def swap() -> None:
        while not stop.is_set():
            assert exchange(HERE, bytes(folder), HERE, bytes(link), EXCHANGE) == 0, ctypes.get_errno()

    return threading.Thread(target=swap)


@pytest.mark.promise("F-05")
@pytest.mark.race
def test_a_folder_that_becomes_a_link_at_any_moment_leads_nobody_out(volume: Volume, outside: Path) -> None:
    volume.write("memory/in/a.txt", b"inside")
    stop = threading.Event()
    swapper = swapper_thread(volume.folder / "memory" / "in", outside, stop)
    swapper.start()
    contents: list[bytes] = []
    refusals = 0
    for number in range(1500):
        try:
            contents.append(volume.read("memory/in/a.txt"))
            volume.write(f"memory/in/{number % 7}", b"mine")
            volume.delete(f"memory/in/{number % 7}")
        except ClewError:
            refusals += 1
    stop.set()
    swapper.join()

    assert set(contents) <= {b"inside"}
    assert [file.name for file in outside.iterdir()] == ["a.txt"]
    assert (outside / "a.txt").read_bytes() == SECRET
    assert contents
    assert refusals


@pytest.mark.promise("F-05")
@pytest.mark.race
def test_a_file_that_becomes_a_link_between_a_look_and_the_opening_is_not_read(
    volume: Volume, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume.write("memory/a.txt", b"inside")
    file = volume.folder / "memory" / "a.txt"
    look = os.stat

    def swap(path: str, *, dir_fd: int, follow_symlinks: bool) -> os.stat_result:
        status = look(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        file.unlink()
        file.symlink_to(outside / "a.txt")
        return status

    with monkeypatch.context() as patches:
        patches.setattr(os, "stat", swap)
        with pytest.raises(VolumePathRefused) as error:
            volume.read("memory/a.txt")

    assert file.is_symlink()
    assert error.value.path == "memory/a.txt"
