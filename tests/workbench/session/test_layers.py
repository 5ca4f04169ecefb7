"""Each layer destroyed in turn: what is found afterwards is what the page says, row by row."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import clew
from clew.core.errors import ClewError, ThreadNotFound, VersionNotFound, VolumeFileNotFound
from clew.core.values import Scope
from clew.database.archive import export_threads, import_threads
from clew.workbench.core_memory import CoreMemory, blocks_of
from clew.workbench.interpreter.local import LocalInterpreters
from clew.workbench.interpreter.port import Interpreters, StreamOutput
from clew.workbench.session.session import OpenResult, Workbench
from clew.workbench.volume.volume import Volume
from tests.workbench.in_process_interpreters import InProcesses

PAGE = Path(__file__).parents[3] / "docs/explanation/three-layers.md"
DOCUMENT = "A long document. " * 100
COLUMNS = [
    *("conversation", "past versions", "core memory", "documents", "files", "variables"),
    *("named", "opened as", "interpreter"),
]


def rows() -> dict[str, dict[str, str]]:
    """The table of the page: what is found after each thing is destroyed."""
    table = PAGE.read_text(encoding="utf-8").partition("\n| destroyed |")[2]
    lines = [line for line in table.split("\n\n")[0].splitlines()[2:] if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    return {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in cells}


class World:
    """A session that has something in every layer, and what can be done to it."""

    def __init__(self, db: clew.Database, folder: Path, interpreters: Interpreters) -> None:
        self.db = db
        self.root = folder / "volume"
        self.name = "main"
        self.scratch = folder / "scratch"
        self.interpreters = interpreters
        self.error_code = "–"
        self.take: Any = None
        self.bench = self.workbench()
        self.backup: list[bytes] = []
        self.first = 0

    def workbench(self) -> Workbench:
        """A workbench that knows nothing yet."""
        volume = Volume(self.root, self.db.tenant, "alice")
        return Workbench(
            self.db, volume, self.interpreters, user="alice", scratch=self.scratch, volume_name=self.name
        )

    async def live(self) -> None:
        """Fill every layer; the backup is from between the two turns."""
        await self.bench.open("s")
        thread = self.db.thread("s")
        await self.bench.attachment.documents.add("long.txt", DOCUMENT.encode())
        self.bench.volume.write("memory/note.md", b"North is up.")
        await CoreMemory(thread).append("human", "Likes maps.")
        await self.run("x = 41")
        self.first = (await thread.append(items=[clew.user("one"), clew.assistant("yes")])).version
        scope = Scope(tenant=self.db.tenant)
        self.backup = [line async for line in export_threads(self.db.store, scope, ["s"])]
        await thread.append(items=[clew.user("two")])
        await self.bench.checkpoint()

    async def run(self, code: str) -> str:
        """What code prints."""
        outputs = [output async for output in self.bench.interpreter.run(code)]
        return "".join(output.text for output in outputs if isinstance(output, StreamOutput))

    async def set_back(self) -> None:
        """Restore the database from the backup, in a new process."""
        self.bench = self.workbench()
        self.interpreters = self.bench._resources.interpreters
        await self.db.thread("s").delete()

        async def lines() -> AsyncIterator[bytes]:
            for line in self.backup:
                yield line

        await import_threads(self.db.store, Scope(tenant=self.db.tenant), lines())

    async def open(self) -> OpenResult:
        """Open the session again; if that is refused, as the caller would go on."""
        try:
            return await self.bench.open("s")
        except ClewError as error:
            self.error_code = error.code
            return await self.bench.open("s", take=self.take)

    async def what_survives(self) -> dict[str, str]:
        """What there is after the session was opened again, as the page puts it."""
        opening = await self.open()
        state = await self.db.thread("s").state()
        change = opening.changes[-1]
        reason = f": {change.reason.value}" if change.reason is not None else ""
        return {
            "conversation": await self._conversation(),
            "past versions": await self._past(),
            "core memory": _yes(blocks_of(state)["human"] == "Likes maps."),
            "documents": _yes(await self.run("print(len(documents.get('long.txt', '')))") == "1700\n"),
            "files": _yes(self._file() == b"North is up."),
            "variables": _yes(await self.run("print(globals().get('x'))") == "41\n"),
            "named": self.error_code,
            "opened as": opening.restored.how.value,
            "interpreter": f"{change.transition.value}{reason}",
        }

    async def _conversation(self) -> str:
        texts = [item.body["content"] for item in await self.db.thread("s").items() if item.role == "user"]
        return {("one", "two"): "yes", ("one",): "to the backup", (): "no"}[tuple(texts)]

    async def _past(self) -> str:
        try:
            past = await self.db.thread("s").items(at=self.first)
        except (ThreadNotFound, VersionNotFound):
            return "no"
        return _yes([item.body.get("content") for item in past] == ["one", "yes"])

    def _file(self) -> bytes:
        try:
            return self.bench.volume.read("memory/note.md")
        except VolumeFileNotFound:
            return b""


def _yes(is_so: bool) -> str:  # noqa: FBT001  # the page says it like this
    return "yes" if is_so else "no"


# Destroying.


async def nothing(world: World) -> None:
    """A warm turn."""


async def the_interpreter(world: World) -> None:
    await world.bench.interpreter.close()


async def the_scratch(world: World) -> None:
    for folder in world.scratch.iterdir():
        shutil.rmtree(folder)


async def the_process(world: World) -> None:
    await world.interpreters.close()
    world.bench = world.workbench()


async def the_manifest(world: World) -> None:
    manifest_of(world).unlink()


async def tear_manifest(world: World) -> None:
    whole = manifest_of(world).read_bytes()
    manifest_of(world).write_bytes(whole[: len(whole) // 2])


async def the_last_checkpoint(world: World) -> None:
    await world.db.thread("s").append(patches=[clew.set(["mood"], "calm")])


async def move_volume(world: World) -> None:
    world.root = world.root.rename(world.root.with_name("elsewhere"))
    world.bench = world.workbench()


async def mount_another(world: World) -> None:
    world.root, world.name = world.root.with_name("another"), "another"
    world.bench = world.workbench()


async def the_volume(world: World) -> None:
    shutil.rmtree(world.root)


async def set_back_manifest(world: World) -> None:
    await the_process(world)
    await world.set_back()
    world.take = "manifest"


async def set_back_database(world: World) -> None:
    await the_process(world)
    await world.set_back()
    world.take = "database"


async def lose_database(world: World) -> None:
    await the_process(world)
    await world.db.thread("s").delete()
    world.take = "manifest"


async def all_of_it(world: World) -> None:
    await the_process(world)
    await world.db.thread("s").delete()
    shutil.rmtree(world.root)


LOSSES: dict[str, Callable[[World], Awaitable[None]]] = {
    "nothing": nothing,
    "the interpreter": the_interpreter,
    "the scratch folder": the_scratch,
    "the process": the_process,
    "the manifest": the_manifest,
    "the manifest: torn": tear_manifest,
    "the last checkpoint": the_last_checkpoint,
    "the volume: moved": move_volume,
    "the volume: another mounted": mount_another,
    "the volume": the_volume,
    "the database: set back, manifest taken": set_back_manifest,
    "the database: set back, database taken": set_back_database,
    "the database: lost, manifest taken": lose_database,
    "the database and the volume": all_of_it,
}


def manifest_of(world: World) -> Path:
    return next(world.root.glob("**/react-session-s.json"))


@asynccontextmanager
async def a_world(db: clew.Database, folder: Path, interpreters: Interpreters) -> AsyncIterator[World]:
    world = World(db, folder, interpreters)
    await world.live()
    try:
        yield world
    finally:
        await interpreters.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def database_on_disk(
    request: pytest.FixtureRequest, tmp_path: Path, tenant: str
) -> AsyncIterator[clew.Database]:
    """A database that outlives processes."""
    url = f"sqlite:///{tmp_path}/agent.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    async with clew.open(url) as db:
        yield db.scope(tenant=tenant)


def test_the_page_has_a_row_for_everything_that_is_destroyed() -> None:
    assert list(rows()) == list(LOSSES)


@pytest.mark.promise("F-01", "F-05")
@pytest.mark.parametrize("what", LOSSES)
async def test_what_survives_is_what_the_page_says(
    database_on_disk: clew.Database, tmp_path: Path, what: str
) -> None:
    async with a_world(database_on_disk, tmp_path, InProcesses()) as world:
        await LOSSES[what](world)
        survivors = await world.what_survives()

    assert survivors == rows()[what]


REAL = ["nothing", "the interpreter", "the scratch folder", "the process", "the volume"]


@pytest.mark.slow
@pytest.mark.promise("F-01", "F-06")
@pytest.mark.parametrize("what", REAL)
async def test_the_same_with_a_real_interpreter(tmp_path: Path, what: str) -> None:
    async with (
        clew.open(f"sqlite:///{tmp_path}/agent.db") as db,
        a_world(db, tmp_path, LocalInterpreters()) as world,
    ):
        await LOSSES[what](world)
        if what == "the process":
            world.interpreters = LocalInterpreters()
            world.bench = world.workbench()
        survivors = await world.what_survives()
        await world.interpreters.close()

    assert survivors == rows()[what]


@pytest.mark.slow
@pytest.mark.promise("F-03", "F-06")
async def test_a_real_interpreter_is_gone_before_another_session_attaches(tmp_path: Path) -> None:
    async with (
        clew.open(f"sqlite:///{tmp_path}/agent.db") as db,
        a_world(db, tmp_path, LocalInterpreters()) as world,
    ):
        first = at_work_in(world.scratch)
        await world.run("secret = 'of the first'")

        await world.bench.open("another")

        assert first
        assert [process for process in first if process.is_running()] == []
        assert (
            await world.run("print('secret' in globals(), 'x' in globals(), documents)") == "False False {}\n"
        )
        await world.bench.close()
        assert at_work_in(world.scratch) == []


def at_work_in(folder: Path) -> list[psutil.Process]:
    """The processes whose working directory is below a folder."""
    processes = []
    for process in psutil.process_iter():
        try:
            if re.match(re.escape(f"{folder}/"), process.cwd()):
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


# A backup as a person makes it.


@pytest.mark.promise("F-01")
async def test_a_database_restored_from_a_backup_names_the_manifest_that_is_ahead(tmp_path: Path) -> None:
    file, copy = tmp_path / "agent.db", tmp_path / "kept.db"
    interpreters = InProcesses()

    async def turn(text: str, *, take: Any = None) -> OpenResult:
        async with (
            clew.open(f"sqlite:///{file}") as db,
            World(db, tmp_path, interpreters).bench as bench,
        ):
            opening = await bench.open("s", take=take)
            await db.thread("s").append(items=[clew.user(text)])
            await bench.checkpoint()
        return opening

    await turn("one")
    await asyncio.to_thread(shutil.copy, file, copy)
    await turn("two")
    await asyncio.to_thread(shutil.copy, copy, file)

    with pytest.raises(ClewError) as error:
        await turn("three")
    assert error.value.code == "manifest_conflict"
    assert (await turn("three", take="manifest")).restored.how.value == "taken"
    async with clew.open(f"sqlite:///{file}") as db:
        texts = [item.body["content"] for item in await db.thread("s").items()]
    assert texts == ["one", "two", "three"]
