"""Which interpreter a session gets, when a new one is forced, and that nothing of another session shows."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.errors import InterpreterFailed, InterpreterGone
from clew.core.manifest.document import InterpreterState, Manifest
from clew.workbench.interpreter.scratch import LocalScratch, RemoteScratch
from clew.workbench.session.attachment import NEWS_KEY
from clew.workbench.session.manifests import export_manifest, import_manifest
from clew.workbench.session.reset import (
    LiveInterpreter,
    Mount,
    ResetReason,
    ResumeInterpreter,
    ReuseInterpreter,
    StartInterpreter,
    Transition,
    choose_interpreter,
    interpreter_state_of,
)
from clew.workbench.session.session import Workbench
from tests.workbench.in_process_interpreters import InProcesses
from tests.workbench.session.workbenches import run, talk, transitions, workbench_on

HERE = Mount(name="main", subpath="acme/alice")
STATE = InterpreterState(sandbox_id="box-1", volume_name="main", volume_subpath="acme/alice")


def recreation(reason: ResetReason) -> StartInterpreter:
    return StartInterpreter(transition=Transition.RECREATED, reason=reason)


# The choice.


@pytest.mark.promise("F-07")
@pytest.mark.parametrize(
    ("state", "mount", "live", "force_new", "choice"),
    [
        (InterpreterState(), HERE, None, False, StartInterpreter(transition=Transition.CREATED)),
        (InterpreterState(), HERE, None, True, StartInterpreter(transition=Transition.CREATED)),
        (STATE, HERE, None, False, ResumeInterpreter("box-1")),
        (STATE, HERE, LiveInterpreter(id="box-1", alive=True), False, ReuseInterpreter()),
        (STATE, HERE, LiveInterpreter(id="box-1", alive=True), True, recreation(ResetReason.EXPLICIT)),
        (STATE, HERE, None, True, recreation(ResetReason.EXPLICIT)),
        (STATE, Mount(name="other", subpath="acme/alice"), None, False, recreation(ResetReason.VOLUME)),
        (STATE, Mount(name="main", subpath="acme/bob"), None, False, recreation(ResetReason.VOLUME)),
        (STATE, HERE, LiveInterpreter(id="box-1", alive=False), False, recreation(ResetReason.SANDBOX)),
        (STATE, HERE, LiveInterpreter(id="box-2", alive=True), False, recreation(ResetReason.SANDBOX)),
    ],
)
def test_an_interpreter_is_kept_only_where_it_is_surely_the_sessions(
    state: InterpreterState, mount: Mount, live: LiveInterpreter | None, *, force_new: bool, choice: object
) -> None:
    assert choose_interpreter(state, mount, live, force_new=force_new) == choice


@pytest.mark.promise("F-07")
def test_there_are_four_reasons_and_no_others() -> None:
    assert [reason.value for reason in ResetReason] == [
        "force_new_session",
        "incompatible_volume",
        "unrecoverable_sandbox",
        "failed_resume",
    ]


@pytest.mark.parametrize("value", [None, "box", {"sandbox_id": 7}, ["box"]])
def test_what_makes_no_sense_is_no_saved_interpreter(value: Any) -> None:
    assert interpreter_state_of({"interpreter_state": value}) == InterpreterState()


# At a workbench.


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    """A database in memory: the stores have no part in which interpreter a session gets."""
    async with clew.open("memory://") as database:
        yield database


@pytest.fixture
def interpreters() -> InProcesses:
    return InProcesses()


@pytest.fixture
async def bench(db: clew.Database, tmp_path: Path, interpreters: InProcesses) -> AsyncIterator[Workbench]:
    async with workbench_on(db, tmp_path, interpreters) as bench:
        yield bench


@pytest.mark.promise("F-07")
async def test_a_fresh_session_is_reset_first_and_then_gets_an_interpreter(bench: Workbench) -> None:
    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RESET, None), (Transition.CREATED, None)]


@pytest.mark.promise("F-07")
async def test_a_restored_session_without_saved_state_is_reset_first(
    db: clew.Database, bench: Workbench, interpreters: InProcesses
) -> None:
    thread = await db.create("s", owner="alice")
    await thread.append(items=[clew.user("x = 1")], patches=[clew.set(["sandbox_buffers"], {"out": "half"})])

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RESET, None), (Transition.CREATED, None)]
    state = await thread.state()
    assert "sandbox_buffers" not in state
    assert "is a new one" in state[NEWS_KEY]


@pytest.mark.promise("F-06")
async def test_variables_stay_over_warm_turns(bench: Workbench, interpreters: InProcesses) -> None:
    await bench.open("s")
    await run(bench, "x = 41")

    again = await bench.open("s")

    assert transitions(again.changes) == [(Transition.REUSED, None)]
    assert "42" in await run(bench, "x + 1")
    assert len(interpreters.interpreters) == 1


@pytest.mark.promise("F-07")
async def test_an_explicit_reset_forces_a_new_interpreter(
    bench: Workbench, interpreters: InProcesses
) -> None:
    await bench.open("s")
    await run(bench, "x = 41")

    changes = await bench.reset()

    assert transitions(changes) == [(Transition.RECREATED, ResetReason.EXPLICIT)]
    assert interpreters.alive == ["box-2"]
    assert "NameError" in await run(bench, "x + 1")


@pytest.mark.promise("F-07")
async def test_opening_with_force_new_session_ends_the_one_that_was_left_alive(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses, bench: Workbench
) -> None:
    await workbench_on(db, tmp_path, interpreters).open("s")

    opening = await bench.open("s", force_new_session=True)

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.EXPLICIT)]
    assert interpreters.alive == ["box-2"]


@pytest.mark.promise("F-07")
async def test_another_volume_forces_a_new_interpreter(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses
) -> None:
    await workbench_on(db, tmp_path, interpreters).open("s")

    async with workbench_on(db, tmp_path, interpreters, volume_name="another") as bench:
        opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.VOLUME)]


@pytest.mark.promise("F-07")
async def test_a_dead_interpreter_is_replaced(bench: Workbench, db: clew.Database) -> None:
    await bench.open("s")
    await talk(db)
    await run(bench, "die()")

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.SANDBOX)]
    assert "ended" in (await db.thread("s").state())[NEWS_KEY]


@pytest.mark.promise("F-07")
async def test_a_session_that_another_program_took_over_gets_a_new_interpreter(
    db: clew.Database, tmp_path: Path, bench: Workbench
) -> None:
    await bench.open("s")
    elsewhere = InProcesses()
    next(elsewhere._numbers)
    await workbench_on(db, tmp_path, elsewhere).open("s", force_new_session=True)

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.SANDBOX)]


@pytest.mark.promise("F-07")
async def test_an_interpreter_that_was_left_alive_is_resumed_with_its_variables(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses, bench: Workbench
) -> None:
    before = workbench_on(db, tmp_path, interpreters)
    await before.open("s")
    await run(before, "x = 41")

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RESUMED, None)]
    assert "42" in await run(bench, "x + 1")
    assert NEWS_KEY not in await db.thread("s").state()


@pytest.mark.promise("F-07")
async def test_a_failed_resume_is_named_and_told(db: clew.Database, tmp_path: Path, bench: Workbench) -> None:
    await workbench_on(db, tmp_path, InProcesses()).open("s")
    await talk(db)

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.RESUME)]
    assert opening.changes[0].detail is not None
    assert "there is none" in opening.changes[0].detail
    assert "could not be found" in (await db.thread("s").state())[NEWS_KEY]


@pytest.mark.promise("F-07")
async def test_an_interpreter_that_does_not_take_the_documents_is_replaced(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses, bench: Workbench
) -> None:
    await workbench_on(db, tmp_path, interpreters).open("s")
    interpreters.interpreters[0].refuses = "documents"

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.SANDBOX)]
    assert interpreters.alive == ["box-2"]


async def test_documents_that_came_since_are_put_into_the_interpreter_that_is_held(
    bench: Workbench, interpreters: InProcesses
) -> None:
    await bench.open("s")
    await run(bench, "x = 41")
    await bench.attachment.documents.add("a.txt", b"North is up.")

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.REUSED, None)]
    assert await run(bench, "(x, documents)") == "{'text/plain': \"(41, {'a.txt': 'North is up.'})\"}"


@pytest.mark.promise("F-07")
async def test_an_interpreter_that_cannot_be_brought_up_to_date_is_replaced(
    bench: Workbench, interpreters: InProcesses
) -> None:
    await bench.open("s")
    await bench.attachment.documents.add("a.txt", b"North is up.")
    interpreters.interpreters[0].refuses = "documents"

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.SANDBOX)]
    assert interpreters.alive == ["box-2"]


async def test_a_working_directory_that_is_gone_takes_its_interpreter_with_it(
    bench: Workbench, interpreters: InProcesses
) -> None:
    await bench.open("s")
    shutil.rmtree(interpreters.interpreters[0].sandbox.scratch)

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.SANDBOX)]


async def test_a_workbench_that_was_left_in_order_needs_no_reason(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses, bench: Workbench
) -> None:
    async with workbench_on(db, tmp_path, interpreters) as before:
        await before.open("s")

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RESET, None), (Transition.CREATED, None)]
    assert interpreters.alive == ["box-2"]


async def test_no_interpreter_and_no_folder_is_left_behind(
    db: clew.Database, tmp_path: Path, interpreters: InProcesses
) -> None:
    async with workbench_on(db, tmp_path, interpreters) as bench:
        await bench.open("a")
        await bench.reset()
        await bench.open("b")

    assert interpreters.alive == []
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_if_no_interpreter_comes_up_the_session_stays_closed(
    bench: Workbench, interpreters: InProcesses, tmp_path: Path
) -> None:
    interpreters.fails = True

    with pytest.raises(InterpreterFailed):
        await bench.open("s")
    assert bench.session is None
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_new_interpreter_that_does_not_take_the_documents_is_ended(
    bench: Workbench, interpreters: InProcesses
) -> None:
    interpreters.refuses = "documents"

    with pytest.raises(InterpreterGone, match="documents could not be put into it"):
        await bench.open("s")
    assert interpreters.alive == []


# Folders.


async def test_a_session_from_elsewhere_cannot_name_somebody_elses_folder(
    db: clew.Database, bench: Workbench, tmp_path: Path
) -> None:
    victim = tmp_path / "scratch" / "clew-scratch-of-somebody"
    victim.mkdir(parents=True)
    (victim / "work.txt").write_text("mine", encoding="utf-8")
    manifest = await _claim(db, str(victim))
    await import_manifest(db, "s", manifest, now=1, owner="alice")

    opening = await bench.open("s")

    assert transitions(opening.changes) == [(Transition.RECREATED, ResetReason.RESUME)]
    assert (victim / "work.txt").exists()


async def _claim(db: clew.Database, folder: str) -> Manifest:
    """A manifest that says that its interpreter works in some folder."""
    thread = await db.create("other", owner="alice")
    state = {
        "sandbox_id": "box-1",
        "workspace_path": folder,
        "volume_name": "default",
        "volume_subpath": f"{db.tenant}/users/alice",
    }
    await thread.append(patches=[clew.set(["interpreter_state"], state)])
    return await export_manifest(db, "other")


@pytest.mark.parametrize("path", [None, "/", "/etc", "relative", "a\0b", "/tmp/clew-scratch-x/.."])
@pytest.mark.parametrize("kind", [LocalScratch, RemoteScratch])
def test_only_a_folder_that_was_made_for_the_session_is_found(
    tmp_path: Path, path: str | None, kind: type[LocalScratch] | type[RemoteScratch]
) -> None:
    scratch = kind(tmp_path)
    ours = scratch.make("alice\0s")

    assert scratch.find(path, "alice\0s") is None
    assert scratch.find(str(ours), "bob\0s") is None
    assert scratch.find(str(ours), "alice\0s") == ours


def test_a_link_is_no_folder_of_ours(tmp_path: Path) -> None:
    scratch = LocalScratch(tmp_path)
    ours = scratch.make("alice\0s")
    link = ours.with_name(f"{ours.name}-link")
    link.symlink_to("/etc")

    assert scratch.find(str(link), "alice\0s") is None
