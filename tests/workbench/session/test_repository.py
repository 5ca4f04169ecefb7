"""Repositories of sessions: a session that is opened has what its manifest says, or says why it has not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import clew
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.manifest.document import encode_manifest, manifest_from, read_manifest
from clew.testing.scripted_model import ScriptedModel
from clew.workbench.agent.agent import WorkbenchAgent
from clew.workbench.interpreter.local import LocalInterpreters
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import RepositorySource
from clew.workbench.session.manifests import export_manifest, import_manifest
from clew.workbench.session.session import Workbench
from clew.workbench.volume.volume import Volume
from tests.support.git_server import GitServer, commit_files, git, git_server, make_repository
from tests.workbench.in_process_interpreters import InProcesses
from tests.workbench.session.workbenches import run, workbench_on


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    async with clew.open("memory://") as database:
        yield database


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    async with git_server(tmp_path) as server:
        make_repository(server.root, "tea", {"README.md": "Tea.", "docs/guide.md": "Pour."})
        yield server


@pytest.fixture
def settings(server: GitServer) -> RepositorySettings:
    return RepositorySettings(hosts=(server.host,), ca_file=str(server.certificate))


@pytest.fixture
def source(server: GitServer) -> RepositorySource:
    return RepositorySource(url=server.url("tea"), ref="main", context_paths=("docs/guide.md",))


@pytest.fixture
async def bench(db: clew.Database, tmp_path: Path, settings: RepositorySettings) -> AsyncIterator[Workbench]:
    async with workbench_on(db, tmp_path, InProcesses(), repositories=settings) as bench:
        yield bench


def folder_of(bench: Workbench) -> Path:
    """The checkout in the working directory of the session that is open."""
    folder = bench.attachment._folder
    assert folder is not None
    return folder / "repository"


@pytest.mark.promise("F-02", "F-05")
async def test_code_of_a_session_reads_its_repository_and_has_no_network(
    db: clew.Database, tmp_path: Path, settings: RepositorySettings, source: RepositorySource
) -> None:
    interpreters = LocalInterpreters()
    volume = Volume(tmp_path / "volume", db.tenant, "alice")
    async with Workbench(db, volume, interpreters, user="alice", repositories=settings) as bench:
        opening = await bench.open("s", repository=source)
        text = await run(bench, "open('repository/docs/guide.md').read()")
        connection = await run(
            bench, f"import socket; socket.create_connection({tuple(settings.hosts[0].split(':'))!r})"
        )
    await interpreters.close()

    assert opening.repository is not None
    assert opening.repository.context_paths == ("docs/guide.md",)
    assert "Pour." in text
    assert "Error" in connection


@pytest.mark.promise("F-02", "F-03")
async def test_a_session_that_was_imported_has_the_repository_of_its_manifest(
    db: clew.Database, bench: Workbench, source: RepositorySource
) -> None:
    await bench.open("s", repository=source)
    await bench.close()
    manifest = encode_manifest(await export_manifest(db, "s"))
    await import_manifest(db, "copy", read_manifest(manifest), now=0, owner="alice")
    opening = await bench.open("copy")

    assert opening.repository is not None
    assert (opening.repository.url, opening.repository.ref) == (source.url, "main")
    assert (folder_of(bench) / "README.md").read_text() == "Tea."


@pytest.mark.promise("F-05")
async def test_a_checkout_goes_with_its_interpreter_and_comes_again_with_the_next(
    server: GitServer, bench: Workbench, source: RepositorySource
) -> None:
    await bench.open("s", repository=source)
    first = folder_of(bench)
    (first / "new.txt").write_text("not durable")
    commit_files(server.root / "tea", {"README.md": "Green tea."})
    await bench.open("other")
    switched = first.exists()
    await bench.open("s")

    assert not switched
    assert (folder_of(bench) / "README.md").read_text() == "Green tea."
    assert not (folder_of(bench) / "new.txt").exists()


async def test_a_live_interpreter_keeps_its_checkout_until_the_session_names_another(
    server: GitServer, bench: Workbench, source: RepositorySource
) -> None:
    commit_files(make_branch(server), {"README.md": "Black tea."})
    await bench.open("s", repository=source)
    (folder_of(bench) / "new.txt").write_text("kept")
    requests = len(server.paths)
    again = await bench.open("s")
    kept = ((folder_of(bench) / "new.txt").exists(), len(server.paths))
    other = await bench.open("s", repository=RepositorySource(url=source.url, ref="black"))

    assert [change.transition.value for change in (*again.changes, *other.changes)] == ["reused", "reused"]
    assert kept == (True, requests)
    assert (folder_of(bench) / "README.md").read_text() == "Black tea."
    assert not (folder_of(bench) / "new.txt").exists()


def make_branch(server: GitServer) -> Path:
    """The folder of the repository, with a branch beside main."""
    folder = server.root / "tea"
    git(folder, "checkout", "--quiet", "-b", "black")
    return folder


@pytest.mark.promise("F-02")
async def test_a_repository_that_cannot_be_had_is_said_and_the_session_works_without_it(
    db: clew.Database, tmp_path: Path, server: GitServer, source: RepositorySource
) -> None:
    async with workbench_on(db, tmp_path, InProcesses()) as bench:
        opening = await bench.open("s", repository=source)
        output = await run(bench, "1 + 1")

    assert opening.repository is not None
    assert (opening.repository.reason, server.paths) == ("repositories_off", [])
    assert "2" in output


@pytest.mark.security
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"repository_url": "file:///etc"}, "invalid_url"),
        ({"repository_url": "https://169.254.169.254/latest"}, "host_not_listed"),
        ({"repository_url": "{url}", "repository_ref": "--exec=x"}, "invalid_ref"),
    ],
)
async def test_a_manifest_that_is_a_trick_is_imported_unchanged_and_fetches_nothing(
    db: clew.Database, bench: Workbench, server: GitServer, state: dict[str, str], reason: str
) -> None:
    state = {name: value.format(url=server.url("tea")) for name, value in state.items()}
    document = {"session": "s", "state": {"interpreter_state": state}}
    manifest = manifest_from({"format": "clew.session", "version": 1, **document})
    await import_manifest(db, "s", manifest, now=0, owner="alice")
    exported = await export_manifest(db, "s")
    opening = await bench.open("s")

    assert state.items() <= exported.state.interpreter_state.items()
    assert opening.repository is not None
    assert (opening.repository.reason, server.paths) == (reason, [])


async def test_a_repository_that_cannot_be_used_is_refused_before_a_session_is_made(
    db: clew.Database, bench: Workbench
) -> None:
    with pytest.raises(InvalidArgument, match="https"):
        await bench.open("s", repository=RepositorySource(url="ssh://git.example.org/tea"))

    with pytest.raises(ThreadNotFound):
        await db.thread("s").head()


async def test_the_agent_is_told_about_the_repository_in_its_history(
    db: clew.Database, bench: Workbench, source: RepositorySource
) -> None:
    await bench.open("s", repository=source)
    async with WorkbenchAgent(bench, ScriptedModel("done")) as agent:
        await agent.work("Read the guide.")
    texts = [str(item.body.get("content")) for item in await db.thread("s").items() if item.role == "system"]

    assert len(texts) == 1
    assert "`repository/docs/guide.md`" in texts[0]
    assert "variables" not in texts[0]
