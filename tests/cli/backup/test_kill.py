"""Backups and restores killed with -9 wherever they change the disk: what is there is whole."""

from __future__ import annotations

import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clew
import clew.sync
from clew.cli.app import run
from tests.cli.backup.killed_command import run_and_die, run_and_die_at
from tests.support.child_process import ChildFailed, ChildProcess
from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]

TENANTS = ("acme", "default", "other")
MOST = 80
AGAIN = 6
"""After how many kills the command is run once more, to its end."""


def fill(url: str, *texts: str) -> None:
    """What each tenant says."""
    with clew.sync.open(url) as db:
        for tenant in TENANTS:
            thread = db.scope(tenant=tenant).create("s-1", owner="alice", exist_ok=True)
            for text in texts:
                thread.append(items=[clew.user(text)])


def texts_at(url: str) -> list[list[str]]:
    """What each tenant has said, once all is found well."""
    with clew.sync.open(url) as db:
        threads = [db.scope(tenant=tenant).thread("s-1") for tenant in TENANTS]
        assert all(thread.verify().ok for thread in threads)
        return [[item.body["content"] for item in thread.items()] for thread in threads]


def kill_everywhere(
    work: Callable[..., int], words: list[str], prepare: Callable[[], None], check: Callable[[], None]
) -> int:
    """Run a command, killed one step later each time, until it comes to its end; how often it was killed."""
    for nth in range(1, MOST):
        prepare()
        child = ChildProcess(work, words, nth)
        try:
            code = child.result()
        except ChildFailed:
            assert child.process.exitcode == -signal.SIGKILL
            check()
            continue
        assert code == 0
        return nth - 1
    pytest.fail("The command never came to its end.")


def copy_with_log(source: Path, target: Path) -> None:
    """A database whose last commits are in the log beside it, as a crash leaves them."""
    fill(f"sqlite:///{source}", "Old.")
    with clew.sync.open(f"sqlite:///{source}") as db:
        for tenant in TENANTS:
            db.scope(tenant=tenant).thread("s-1").append(items=[clew.user("In the log.")])
        for side in ("", "-wal"):
            shutil.copyfile(f"{source}{side}", f"{target}{side}")
    assert Path(f"{target}-wal").stat().st_size


class Place:
    """Folders with a database to copy, one to replace, and a volume beside each."""

    def __init__(self, folder: Path) -> None:
        self._pristine = folder / "pristine"
        self._pristine.mkdir()
        self.here = folder / "here"
        new, old = self._pristine / "new.db", self._pristine / "old.db"
        fill(f"sqlite:///{new}", *(["New." * 2000] * 10))
        copy_with_log(folder / "scratch.db", old)
        for database, content in ((new, b"new"), (old, b"old")):
            for tenant in TENANTS[:2]:
                file = Path(f"{database}.volume") / tenant / "users" / "file"
                file.parent.mkdir(parents=True)
                file.write_bytes(content)
        self.renew()

    def renew(self) -> None:
        """Have everything as it was."""
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self._pristine, self.here)

    def keep(self) -> None:
        """Have everything as it is now, from now on."""
        shutil.rmtree(self._pristine)
        shutil.copytree(self.here, self._pristine)

    def url(self, name: str) -> str:
        return f"sqlite:///{self.here}/{name}"

    def files(self, name: str) -> set[bytes]:
        """What the files of a volume hold, wherever in it they are."""
        return {path.read_bytes() for path in (self.here / f"{name}.volume").rglob("file")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class TestFiles:
    store_name = "sqlite"

    @pytest.mark.promise("F-14")
    def test_a_killed_backup_looks_like_none(self, place: Place) -> None:
        backup = place.here / "b"
        words = ["backup", str(backup), "--db", place.url("new.db")]
        partial_count = 0

        def check() -> None:
            nonlocal partial_count
            if backup.exists():  # it was about to tidy up
                assert run(["restore", str(backup), "--db", place.url("again.db")]) == 0
                return
            partial_count += 1
            assert run(["restore", str(backup), "--db", place.url("again.db")]) == 1

        kill_everywhere(run_and_die, words, place.renew, check)

        assert partial_count > 10
        assert run(["restore", str(backup), "--db", place.url("again.db")]) == 0
        assert texts_at(place.url("again.db")) == texts_at(place.url("new.db"))
        assert place.files("again.db") == {b"new"}

    @pytest.mark.promise("F-14")
    def test_a_backup_after_a_killed_one_is_whole(self, place: Place) -> None:
        backup = place.here / "b"
        words = ["backup", str(backup), "--db", place.url("new.db")]
        with pytest.raises(ChildFailed):
            ChildProcess(run_and_die, words, 12).result()

        assert run(words) == 0
        assert run(["restore", str(backup), "--db", place.url("again.db")]) == 0
        assert [path.name for path in place.here.iterdir() if "part" in path.name] == []

    @pytest.mark.promise("F-14")
    def test_a_killed_restore_leaves_the_old_database_or_the_new_one(self, place: Place) -> None:
        backup = place.here / "b"
        assert run(["backup", str(backup), "--db", place.url("new.db")]) == 0
        place.keep()
        words = ["restore", str(backup), "--force", "--db", place.url("old.db")]
        old, new = [["Old.", "In the log."]] * 3, [["New." * 2000] * 10] * 3
        was_new = []

        def check() -> None:
            texts = texts_at(place.url("old.db"))
            assert texts in (old, new)
            was_new.append(texts == new)
            assert b"old" in place.files("old.db") or texts == new
            if len(was_new) % AGAIN == 0:
                assert run(words) == 0
                assert (texts_at(place.url("old.db")), place.files("old.db")) == (new, {b"new"})

        kills = kill_everywhere(run_and_die, words, place.renew, check)

        assert kills > 10
        assert was_new == sorted(was_new), "once the new one is there, it stays"
        assert (was_new[0], texts_at(place.url("old.db")), place.files("old.db")) == (False, new, {b"new"})


@pytest.mark.postgres
class TestServer:
    store_name = "postgres"

    @pytest.fixture
    def elsewhere(self, postgres_database: PostgresDatabase) -> Iterator[str]:
        """A database on the same server, with something to lose."""
        name = f"restored_{uuid.uuid4().hex}"
        postgres_database.server.create_database(name)
        url = postgres_database.server.url(name)
        fill(url, "Old.")
        yield url
        postgres_database.server.drop_database(name)

    @pytest.mark.promise("F-14")
    def test_a_killed_restore_leaves_the_old_schema(
        self, postgres_database: PostgresDatabase, elsewhere: str, tmp_path: Path
    ) -> None:
        fill(postgres_database.url, "New.")
        assert run(["backup", str(tmp_path / "b"), "--db", postgres_database.url]) == 0
        words = ["restore", str(tmp_path / "b"), "--force", "--db", elsewhere]

        for point, nth in (("_copy", 1), ("_copy", 9), ("commit", 1)):
            with pytest.raises(ChildFailed):
                ChildProcess(run_and_die_at, words, point, nth).result()
            assert texts_at(elsewhere) == [["Old."]] * 3

        assert run(words) == 0
        assert texts_at(elsewhere) == [["New."]] * 3
