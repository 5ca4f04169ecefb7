"""Sessions at a workbench: one at a time, as their manifests say, and nothing of one shows in another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import clew
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import Manifest, ManifestState, encode_manifest, read_manifest
from clew.workbench.session.attachment import read_snapshots
from clew.workbench.session.manifests import export_manifest
from clew.workbench.session.reset import ResetReason, Transition
from clew.workbench.session.session import Workbench
from tests.workbench.in_process_interpreters import InProcesses
from tests.workbench.session.workbenches import run, transitions, workbench_on


@pytest.fixture
def interpreters() -> InProcesses:
    return InProcesses()


@pytest.fixture
async def bench(db: clew.Database, tmp_path: Path, interpreters: InProcesses) -> AsyncIterator[Workbench]:
    async with workbench_on(db, tmp_path, interpreters) as bench:
        yield bench


# Another session.


async def fill_session(db: clew.Database, id: str) -> None:
    """A session that has something of everything."""
    thread = await db.create(id, owner="alice")
    await thread.append(
        items=[clew.user(f"secret of {id}")],
        patches=[
            clew.set(["core_memory"], {"human": f"{id} likes maps"}),
            clew.set(["document_paths"], [f"{id}.md"]),
            clew.set(["sandbox_buffers"], {"out": id}),
            clew.set(["mood"], id),
        ],
    )


@pytest.mark.promise("F-03", "F-06")
async def test_switching_ends_the_interpreter_before_the_other_session_attaches(
    db: clew.Database, bench: Workbench, interpreters: InProcesses
) -> None:
    await bench.open("a")
    await run(bench, "secret = 'of a'")

    await bench.open("b")

    assert not interpreters.interpreters[0].is_alive
    assert "NameError" in await run(bench, "secret")
    assert interpreters.interpreters[0].sandbox.scratch != interpreters.interpreters[1].sandbox.scratch
    order = [(each.session, each.transition) for each in reversed(await read_snapshots(db))]
    assert order.index(("a", Transition.CLOSED)) < order.index(("b", Transition.CREATED))


@pytest.mark.promise("F-03")
async def test_nothing_of_the_earlier_session_shows_in_another(db: clew.Database, bench: Workbench) -> None:
    await fill_session(db, "a")
    await bench.open("a")

    await bench.open("b")

    after = await export_manifest(db, "b")
    assert after.state.history == []
    assert set(after.state.core_memory.values()) == {""}
    assert (after.state.document_paths, after.state.fields) == ([], {})


@pytest.mark.promise("F-03")
async def test_taking_a_manifest_replaces_the_session_and_its_interpreter(
    db: clew.Database, bench: Workbench, interpreters: InProcesses
) -> None:
    await fill_session(db, "s")
    await bench.open("s")
    await run(bench, "secret = 1")
    manifest = Manifest(session="s", state=ManifestState())
    bench.volume.write(bench._checkpoints("s").path, encode_manifest(manifest))

    await bench.open("s", take="manifest")

    after = await export_manifest(db, "s")
    assert (after.state.history, after.state.document_paths, after.state.fields) == ([], [], {})
    assert set(after.state.core_memory.values()) == {""}
    assert "NameError" in await run(bench, "secret")


@pytest.mark.promise("F-01")
async def test_a_restart_brings_back_all_that_the_manifest_says(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses, bench: Workbench
) -> None:
    await fill_session(db, "s")
    async with workbench_on(db, tmp_path, interpreters) as before:
        await before.open("s")
    original = await export_manifest(db, "s")

    await bench.open("s")

    on_disk = read_manifest(bench.volume.read(bench._checkpoints("s").path))
    for part in ("history", "core_memory", "document_paths"):
        assert getattr(on_disk.state, part) == getattr(original.state, part)
    assert on_disk.state.interpreter_state["sandbox_id"] == bench.interpreter.id


async def test_another_users_session_is_refused_before_anything_is_written(
    db: clew.Database, bench: Workbench
) -> None:
    thread = await db.create("s", owner="bob")
    await thread.append(items=[clew.user("bob's secret")])

    with pytest.raises(InvalidArgument, match="another user"):
        await bench.open("s")
    assert not bench.volume.folder.parent.parent.joinpath("meta").exists()


@pytest.mark.promise("B-07")
async def test_a_session_that_is_erased_while_it_is_open_leaves_nothing_behind(
    db: clew.Database, bench: Workbench, interpreters: InProcesses, tmp_path: Path
) -> None:
    await fill_session(db, "a")
    await bench.open("a")
    await db.erase(thread="a")
    bench.volume.delete(bench._checkpoints("a").path)

    await bench.close()

    assert interpreters.alive == []
    assert [path for path in (tmp_path / "volume").rglob("*") if path.is_file()] == []
    assert await read_snapshots(db) == []


# On record.


@pytest.mark.promise("F-12")
async def test_every_transition_is_on_record_with_its_reason(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses
) -> None:
    async with workbench_on(db, tmp_path, interpreters, provider="test") as bench:
        await bench.open("s")
        await bench.reset()

    snapshots = list(reversed(await read_snapshots(db, session="s")))
    assert transitions(snapshots) == [
        (Transition.RESET, None),
        (Transition.CREATED, None),
        (Transition.RECREATED, ResetReason.EXPLICIT),
        (Transition.CLOSED, None),
    ]
    assert {(each.provider, each.volume) for each in snapshots} == {("test", "default")}
    assert [each.sandbox for each in snapshots] == [None, "box-1", "box-2", "box-2"]


@pytest.mark.promise("F-12")
async def test_snapshots_belong_to_the_owner_of_the_session(db: clew.Database, bench: Workbench) -> None:
    await bench.open("s")

    assert await read_snapshots(db.scope(tenant=db.tenant, user="bob")) == []
    assert len(await read_snapshots(db.scope(tenant=db.tenant, user="alice"))) == 2
