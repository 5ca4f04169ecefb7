"""Files that code writes: those in the folders of the volume last, and those beside them do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from daytona import DaytonaConfig

import clew
from clew.workbench.interpreter.daytona import RemoteInterpreters
from clew.workbench.interpreter.local import LocalInterpreters
from clew.workbench.session.session import Workbench
from clew.workbench.volume.volume import FOLDERS, Volume
from tests.workbench.interpreter.daytona_server import KEY, StandIn
from tests.workbench.session.workbenches import run

WRITE = """
import os
volume = os.environ["CLEW_VOLUME"]
os.makedirs(f"{volume}/loose/inner")
os.makedirs(f"{volume}/meta")
loose = ("root.txt", ".hidden", "loose/inner/file", "meta/forged.json")
for path in (*loose, "memory/a", "artifacts/b", "buffers/c"):
    with open(f"{volume}/{path}", "w") as file:
        file.write("written")
os.symlink("/etc", f"{volume}/link")
sorted(os.listdir(volume))
"""
LIST = """
import os
volume = os.environ["CLEW_VOLUME"]
files = [os.path.join(folder, name) for folder, _, names in os.walk(volume) for name in names]
sorted(os.path.relpath(file, volume) for file in files)
"""
LASTING = "['artifacts/b', 'buffers/c', 'memory/a']"


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    async with clew.open("memory://") as database:
        yield database


@pytest.fixture
async def bench(db: clew.Database, tmp_path: Path) -> AsyncIterator[Workbench]:
    """A workbench whose interpreters are processes of this machine."""
    volume, interpreters = Volume(tmp_path / "volume", db.tenant, "alice"), LocalInterpreters()
    async with Workbench(db, volume, interpreters, user="alice", scratch=tmp_path / "scratch") as bench:
        yield bench
    await interpreters.close()


@pytest.mark.promise("F-05")
async def test_only_the_folders_of_the_volume_survive_another_session(bench: Workbench) -> None:
    await bench.open("a")
    written = await run(bench, WRITE)
    await bench.open("b")

    assert "root.txt" in written
    assert LASTING in await run(bench, LIST)
    assert sorted(path.name for path in bench.volume.folder.iterdir()) == sorted(FOLDERS)


@pytest.mark.promise("F-05")
async def test_nothing_else_is_left_on_the_volume_of_a_session_that_was_closed(bench: Workbench) -> None:
    await bench.open("a")
    await run(bench, WRITE)
    await bench.close()

    assert sorted(path.name for path in bench.volume.folder.iterdir()) == sorted(FOLDERS)


@pytest.mark.promise("F-05")
async def test_only_the_folders_of_the_volume_survive_a_reset(bench: Workbench) -> None:
    await bench.open("a")
    await run(bench, WRITE)
    await bench.reset()

    assert LASTING in await run(bench, LIST)


@pytest.mark.promise("F-05")
async def test_what_a_killed_program_left_beside_the_folders_is_gone_at_the_next_opening(
    bench: Workbench,
) -> None:
    own = bench.volume.prepare()
    (own / "left.txt").write_text("by a program that was killed")
    (own / "memory/note.txt").write_text("lasts")
    await bench.open("a")

    assert "['memory/note.txt']" in await run(bench, LIST)


@pytest.mark.promise("F-05")
async def test_only_the_folders_of_a_providers_volume_survive_another_session(
    db: clew.Database, tmp_path: Path
) -> None:
    mount = tmp_path / "mounted"
    for name in FOLDERS:
        (mount / name).mkdir(parents=True)
    provider = StandIn()
    await provider.start()
    config = DaytonaConfig(api_key=KEY, api_url=provider.url, target="here")
    interpreters = RemoteInterpreters(config, mount=str(mount), grace=1.0)
    volume = Volume(tmp_path / "volume", db.tenant, "alice")
    scratch = tmp_path / "scratch"
    async with Workbench(db, volume, interpreters, user="alice", is_remote=True, scratch=scratch) as bench:
        await bench.open("a")
        await run(bench, WRITE)
        await bench.open("b")
        listing = await run(bench, LIST)
    await interpreters.close()
    await provider.stop()

    assert LASTING in listing
