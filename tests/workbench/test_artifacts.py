"""Artifacts: kept with type and checksum, with the thread's own commit, and read back whole or not at all."""

from __future__ import annotations

import asyncio
import base64
from hashlib import sha256
from pathlib import Path

import pytest

import clew
from clew.core.errors import (
    ArtifactDamaged,
    InvalidArgument,
    KeyReused,
    LegalHold,
    RecordNotFound,
    ThreadNotFound,
    VolumeFull,
)
from clew.runtime.tools.tool import ToolContext
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.artifacts import Artifacts, artifact_tools
from clew.workbench.interpreter.port import DisplayOutput
from clew.workbench.volume.volume import Volume
from tests.workbench.documents.sample_files import PNG


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """The volume of one user."""
    return Volume(tmp_path / "volume", "acme", "alice")


@pytest.fixture
async def artifacts(db: clew.Database, volume: Volume) -> Artifacts:
    """The artifacts of a new thread."""
    await db.create("t", owner="alice")
    return Artifacts(db, "t", volume, author="alice")


@pytest.mark.promise("F-05")
async def test_what_is_saved_is_read_back_from_the_volume(
    artifacts: Artifacts, db: clew.Database, tmp_path: Path
) -> None:
    artifact = await artifacts.save("plot.png", PNG, run="r-1", item="m-1", now=7)
    again = Artifacts(db, "t", Volume(tmp_path / "volume", "acme", "alice"))
    copy, content = await again.read(artifact.id)

    assert (copy, content) == (artifact, PNG)
    assert (copy.type, copy.size, copy.sha256) == ("image/png", len(PNG), sha256(PNG).hexdigest())
    assert (copy.run, copy.item, copy.time) == ("r-1", "m-1", 7)
    assert copy.path == f"artifacts/{artifact.id}/plot.png"


async def test_its_record_commits_with_a_change_of_the_thread(
    artifacts: Artifacts, db: clew.Database
) -> None:
    artifact = await artifacts.save("plot.png", PNG, run="r-1")
    change = (await db.thread("t").changesets())[0]
    record = await db.records.get("artifact", artifact.id)

    assert (change.reason, change.run_id, change.author) == ("ArtifactSaved", "r-1", "alice")
    assert change.state_actions[0]["sha256"] == artifact.sha256
    assert (record.owner, record.tags) == ("alice", ("t",))


async def test_without_its_thread_nothing_is_kept(db: clew.Database, volume: Volume) -> None:
    with pytest.raises(ThreadNotFound):
        await Artifacts(db, "none", volume).save("plot.png", PNG)

    assert volume.list().files == ()


async def test_without_room_there_is_no_record(db: clew.Database, tmp_path: Path) -> None:
    await db.create("t")
    small = Artifacts(db, "t", Volume(tmp_path / "volume", "acme", None, capacity=10))
    with pytest.raises(VolumeFull):
        await small.save("plot.png", PNG)

    assert (await small.list()).artifacts == ()
    assert (await db.thread("t").head()).version == 0


async def test_two_of_one_name_are_two(artifacts: Artifacts) -> None:
    first = await artifacts.save("plot.png", PNG)
    second = await artifacts.save("plot.png", PNG)

    assert first.path != second.path
    assert {each.id for each in (await artifacts.list()).artifacts} == {first.id, second.id}


async def test_with_a_key_it_is_kept_once(artifacts: Artifacts, db: clew.Database) -> None:
    copies = await asyncio.gather(*(artifacts.save("plot.png", PNG, key="k") for _ in range(4)))

    assert len({each.id for each in copies}) == 1
    assert (await db.thread("t").head()).version == 1


async def test_a_key_that_was_used_for_other_bytes_is_refused(artifacts: Artifacts) -> None:
    artifact = await artifacts.save("plot.png", PNG, key="k")
    with pytest.raises(KeyReused):
        await artifacts.save("plot.png", b"other", key="k")

    assert (await artifacts.read(artifact.id))[1] == PNG


async def test_a_list_comes_in_pages_the_newest_first(artifacts: Artifacts) -> None:
    for time in (1, 2, 3):
        await artifacts.save(f"{time}.txt", b"x", now=time)
    first = await artifacts.list(limit=2)
    second = await artifacts.list(limit=2, after=first.next)

    assert [each.name for each in (*first.artifacts, *second.artifacts)] == ["3.txt", "2.txt", "1.txt"]
    assert second.next is None


async def test_another_thread_has_no_such_artifact(
    artifacts: Artifacts, db: clew.Database, volume: Volume
) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    await db.create("u", owner="alice")
    other = Artifacts(db, "u", volume)
    with pytest.raises(RecordNotFound):
        await other.read(artifact.id)

    assert (await other.list()).artifacts == ()


@pytest.mark.promise("F-10")
async def test_another_user_has_no_such_artifact(
    artifacts: Artifacts, db: clew.Database, volume: Volume
) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    theirs = Artifacts(db.scope(tenant=db.tenant, user="bob"), "t", volume)
    with pytest.raises(RecordNotFound):
        await theirs.read(artifact.id)

    assert (await theirs.list()).artifacts == ()


# Damage.


async def test_a_file_that_was_altered_is_named(artifacts: Artifacts, volume: Volume) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    volume.write(artifact.path, PNG[:-1])
    with pytest.raises(ArtifactDamaged) as error:
        await artifacts.read(artifact.id)

    assert (error.value.code, error.value.artifact) == ("artifact_damaged", artifact.id)
    assert "checksum" in error.value.problem


async def test_a_file_that_is_gone_is_named(artifacts: Artifacts, volume: Volume) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    volume.delete(artifact.path)
    with pytest.raises(ArtifactDamaged) as error:
        await artifacts.read(artifact.id)

    assert "gone" in error.value.problem


# Letting go.


async def test_a_deleted_artifact_is_gone_from_record_and_volume(
    artifacts: Artifacts, db: clew.Database, volume: Volume
) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    await artifacts.delete(artifact.id)
    with pytest.raises(RecordNotFound):
        await artifacts.get(artifact.id)

    assert volume.list().files == ()
    assert [change.reason for change in await db.thread("t").changesets()][-1] == "ArtifactDeleted"


async def test_a_damaged_artifact_can_be_deleted(artifacts: Artifacts, volume: Volume) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    volume.delete(artifact.path)
    await artifacts.delete(artifact.id)

    assert (await artifacts.list()).artifacts == ()


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("what", ["thread", "owner"])
async def test_what_is_on_legal_hold_stays(
    artifacts: Artifacts, db: clew.Database, volume: Volume, what: str
) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    scope = {"thread": "t"} if what == "thread" else {"owner": "alice"}
    await db.retention.hold(**scope, reason="a case")
    mine = Artifacts(db.scope(tenant=db.tenant, user="alice"), "t", volume)
    with pytest.raises(LegalHold):
        await mine.delete(artifact.id)

    assert (await artifacts.read(artifact.id))[1] == PNG


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("what", ["thread", "owner"])
async def test_its_record_is_erased_with_thread_or_owner(
    artifacts: Artifacts, db: clew.Database, what: str
) -> None:
    artifact = await artifacts.save("plot.png", PNG)
    await (db.erase(thread="t") if what == "thread" else db.erase(owner="alice"))
    with pytest.raises(RecordNotFound):
        await db.records.get("artifact", artifact.id)


# Pictures and tools.


async def test_a_picture_that_was_shown_is_kept(artifacts: Artifacts) -> None:
    picture = DisplayOutput(
        forms={"text/plain": "<Figure>", "image/png": f"{base64.b64encode(PNG).decode()}\n"}
    )
    artifact = await artifacts.save_picture(picture, name="tides", run="r-1")

    assert (artifact.name, artifact.type) == ("tides.png", "image/png")
    assert (await artifacts.read(artifact.id))[1] == PNG


async def test_what_is_no_picture_is_refused(artifacts: Artifacts) -> None:
    with pytest.raises(InvalidArgument):
        await artifacts.save_picture(DisplayOutput(forms={"text/plain": "7"}))


async def test_a_model_keeps_files_once_each(artifacts: Artifacts, db: clew.Database, volume: Volume) -> None:
    volume.write("buffers/plot.png", PNG)
    model = ScriptedModel(
        calls(
            ("c1", "artifact_write", {"name": "report.md", "text": "# Tides"}),
            ("c2", "artifact_keep", {"path": "buffers/plot.png"}),
        ),
        "Kept.",
    )

    def of(context: ToolContext) -> Artifacts:
        return Artifacts(db, context.thread, volume)

    async with clew.Runtime(db, model=model, tools=artifact_tools(of)) as runtime:
        result = await runtime.run_turn("t", "Keep it", user="alice")
    by_name = {each.name: each for each in (await artifacts.list()).artifacts}

    assert result.text == "Kept."
    assert {name: each.type for name, each in by_name.items()} == {
        "report.md": "text/markdown",
        "plot.png": "image/png",
    }
    assert all(each.run == result.run for each in by_name.values())
