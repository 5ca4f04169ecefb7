"""The installed command, as a person at a terminal meets it, on a file of SQLite's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

import clew
import clew.sync
from clew.cli.app import run

if TYPE_CHECKING:
    from clew.core.encoding import JSON

COMMAND = Path(sys.executable).with_name("clew")
TIME = 60


class CommandResult:
    """What one run of the command came to."""

    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.code, self.raw = process.returncode, process.stdout
        self.out, self.err = process.stdout.decode(errors="replace"), process.stderr.decode(errors="replace")

    @property
    def value(self) -> JSON:
        return json.loads(self.out)

    @property
    def error(self) -> JSON:
        return json.loads(self.err)["error"]


def clew_(*arguments: object, db: object = None, stdin: bytes = b"", **environment: str) -> CommandResult:
    database_option = [] if db is None else ["--db", str(db)]
    settings = {**os.environ, "COLUMNS": "100", "TERM": "dumb", **environment}
    settings.pop("CLEW_DB", None) if "CLEW_DB" not in environment else None
    return CommandResult(
        subprocess.run(
            [COMMAND, *map(str, arguments), *database_option],
            input=stdin,
            capture_output=True,
            timeout=TIME,
            check=False,
            env=settings,
        )
    )


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A file with a thread of four versions and a fork of it."""
    file = tmp_path / "agent db.sqlite"
    with clew.sync.open(f"sqlite:///{file}") as database:
        thread = database.create("trip", owner="alice")
        thread.append(items=[clew.user("Which train?"), clew.assistant("The early one.")], key="k1")
        thread.append(patches=[clew.set(["mood"], "calm"), clew.set(["$thread"], {"title": "Lisbon"})])
        thread.append(patches=[clew.set(["mood"], "happy")], author="bob", run_id="r1")
        thread.log().pop()
        thread.fork("trip-b", at=2).append(items=[clew.user("By boat?")])
    return file


# Looking.


def test_threads_are_listed(db: Path) -> None:
    process = clew_("threads", db=db)

    assert (process.code, process.err) == (0, "")
    assert "trip-b" in process.out
    assert "\x1b" not in process.out


def test_threads_are_listed_page_by_page(db: Path) -> None:
    first = clew_("threads", "--limit", 1, "--json", db=db).value
    second = clew_("threads", "--limit", 1, "--json", "--after", first["next"], db=db).value

    assert [page["threads"][0]["id"] for page in (first, second)] == ["trip-b", "trip"]
    assert second["next"] is None


def test_a_thread_is_shown_at_any_version(db: Path) -> None:
    now, then = clew_("show", "trip", db=db), clew_("show", "trip", "--at", 1, "--json", db=db)

    assert "Which train?" in now.out
    assert "“Lisbon”" in now.out
    assert (then.value["thread"]["state"], len(then.value["items"])) == ({}, 2)


def test_the_log_shows_who_did_what(db: Path) -> None:
    process, value = clew_("log", "trip", db=db), clew_("log", "trip", "--last", 2, "--json", db=db).value

    assert "bob" in process.out
    assert "mood = happy" in process.out
    assert [change["version"] for change in value["changesets"]] == [3, 4]
    assert len(value["changesets"][0]["hash"]) == 64


@pytest.mark.promise("B-03")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_two_versions_and_two_threads_are_compared(db: Path, store_name: str) -> None:
    versions = clew_("diff", "trip", 2, 3, db=db)
    branches = clew_("diff", "trip", "trip-b", "--json", db=db).value

    assert "- mood = calm\n+ mood = happy" in versions.out
    assert branches["ops"] == [["set", ["mood"], "calm"]]
    assert [item["body"]["content"] for item in branches["added"]] == ["The early one.", "By boat?"]


@pytest.mark.promise("B-03")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_a_thread_is_forked(db: Path, store_name: str) -> None:
    process = clew_("fork", "trip", "trip-c", "--at", 1, "--json", db=db)
    thread_value = clew_("show", "trip-c", "--json", db=db).value

    assert process.value == {"thread": "trip-c", "parent": "trip", "version": 1}
    assert thread_value["thread"]["parent"] == {"thread": "trip", "version": 1}


def test_words_are_found(db: Path) -> None:
    hits = clew_("search", "boat", "--json", db=db).value["found"]

    assert [hit["thread"] for hit in hits] == ["trip-b"]


def test_a_url_a_bare_path_and_the_environment_name_the_same_database(db: Path) -> None:
    by_url = clew_("threads", "--json", db=f"sqlite:///{db}")
    by_setting = clew_("threads", "--json", CLEW_DB=str(db))

    assert by_url.out == by_setting.out == clew_("threads", "--json", db=db).out


def test_a_user_sees_only_what_is_theirs(db: Path) -> None:
    assert clew_("threads", "--user", "mallory", "--json", db=db).value["threads"] == []
    assert clew_("show", "trip", "--user", "mallory", db=db).code == 1
    assert clew_("threads", "--tenant", "other", "--json", db=db).value["threads"] == []


# Checking.


@pytest.mark.promise("B-06", "T-13")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_verify_finds_all_well_and_prints_the_heads(db: Path, store_name: str) -> None:
    process, value = clew_("verify", db=db), clew_("verify", "--json", db=db).value
    head = clew_("show", "trip", "--json", db=db).value["thread"]["hash"]

    assert process.code == 0
    assert "all is well" in process.out
    assert {thread["thread"]: thread["hash"] for thread in value["threads"]}["trip"] == head


@pytest.mark.promise("B-06")
@pytest.mark.parametrize("store_name", ["sqlite"])
@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE changesets SET time = time + 1 WHERE at & 0xFFFFFFFF = 2",
        "UPDATE changesets SET content = x'7b7d' WHERE at & 0xFFFFFFFF = 2",
        "UPDATE changesets SET envelope = x'7b' WHERE at & 0xFFFFFFFF = 2",
        "DELETE FROM changesets WHERE at & 0xFFFFFFFF = 2",
        "UPDATE items SET body = x'2268692122'",
        "UPDATE items SET meta = x'ff'",
        "UPDATE items SET meta = CAST(replace(CAST(meta AS TEXT), 'user', 'tool') AS BLOB)",
        'UPDATE changesets SET envelope = CAST(\'{"author":"mallory"}\' AS BLOB) WHERE at & 0xFFFFFFFF = 2',
        "UPDATE changesets SET counters = x'7b7d'",
        "DELETE FROM items",
    ],
)
def test_verify_finds_whatever_was_altered(db: Path, store_name: str, harm: str) -> None:
    spoil(db, harm)

    process = clew_("verify", "--json", db=db)

    assert process.code == 1
    assert any(thread["problems"] for thread in process.value["threads"])


@pytest.mark.promise("T-13", "B-06")
@pytest.mark.parametrize("store_name", ["sqlite"])
@pytest.mark.parametrize("which", ["max", "min"])
def test_verify_finds_a_cached_state_that_the_log_does_not_fold_to(
    db: Path, store_name: str, which: str
) -> None:
    with clew.sync.open(f"sqlite:///{db}") as database:
        for number in range(100):
            database.thread("trip").append(patches=[clew.set(["number"], "x" * 100 + str(number))])
    spoil(db, f"UPDATE anchors SET state = x'7b7d' WHERE at = (SELECT {which}(at) FROM anchors)")

    assert clew_("verify", "trip", db=db).code == 1


@pytest.mark.promise("T-13", "B-06")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_verify_finds_a_cut_that_ends_other_items(db: Path, store_name: str) -> None:
    with clew.sync.open(f"sqlite:///{db}") as database:
        thread = database.create("cut")
        thread.append(items=[clew.user(word) for word in ("one", "two", "three")])
        thread.log().pop()
    spoil(db, "UPDATE cuts SET first = 256, last = 256 WHERE log = (SELECT max(key) FROM logs)")

    assert clew_("verify", "cut", db=db).code == 1


@pytest.mark.promise("B-06")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_a_dropped_tail_is_found_by_the_heads_kept_outside(db: Path, tmp_path: Path, store_name: str) -> None:
    heads = tmp_path / "heads.json"
    heads.write_bytes(clew_("verify", "--json", db=db).raw)
    assert clew_("verify", "--heads", heads, db=db).code == 0
    spoil(db, "DELETE FROM changesets WHERE at = (SELECT max(at) FROM changesets)")

    process = clew_("verify", "--heads", heads, db=db)

    assert process.code == 1
    assert "kept outside" in process.out


def spoil(db: Path, sql: str) -> None:
    connection = apsw.Connection(str(db))
    connection.execute(sql)
    assert connection.changes()
    connection.close()


# Moving.


def test_export_import_export_is_the_same_to_the_byte(db: Path, tmp_path: Path) -> None:
    other, file = tmp_path / "other.db", tmp_path / "threads.jsonl"

    archive_info = clew_("export", "-o", file, "--json", db=db).value
    import_result = clew_("import", file, "--json", db=other)
    again = clew_("export", db=other)

    assert import_result.value["threads"] == archive_info["threads"]
    assert again.raw == file.read_bytes()
    assert clew_("verify", db=other).code == 0


def test_an_archive_goes_through_a_pipe(db: Path, tmp_path: Path) -> None:
    archive = clew_("export", "trip", db=db)
    import_result = clew_("import", "-", "--json", db=tmp_path / "other.db", stdin=archive.raw)

    assert [thread["thread"] for thread in import_result.value["threads"]] == ["trip"]
    assert "1 thread exported" in archive.err


def test_a_thread_that_is_there_is_refused_or_skipped(db: Path, tmp_path: Path) -> None:
    archive = clew_("export", db=db).raw

    refusal = clew_("import", "-", "--json", db=db, stdin=archive)
    skip_result = clew_("import", "-", "--skip-existing", "--json", db=db, stdin=archive)

    assert (refusal.code, refusal.error["code"]) == (1, "thread_exists")
    assert sorted(skip_result.value["skipped"]) == ["trip", "trip-b"]


def test_a_cut_archive_leaves_nothing_of_its_last_thread(db: Path, tmp_path: Path) -> None:
    archive = clew_("export", "trip", db=db).raw.splitlines(keepends=True)

    process = clew_("import", "-", "--json", db=tmp_path / "new.db", stdin=b"".join(archive[:3]))

    assert (process.code, process.error["code"]) == (1, "archive_invalid")
    assert clew_("threads", "--json", db=tmp_path / "new.db").value["threads"] == []


@pytest.mark.promise("B-06")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_a_backup_prints_heads_that_verify_takes(db: Path, tmp_path: Path, store_name: str) -> None:
    backup_result, heads = clew_("backup", tmp_path / "b.db", "--json", db=db), tmp_path / "heads.json"
    heads.write_bytes(backup_result.raw)
    ids = [thread["id"] for thread in clew_("threads", "--json", db=db).value["threads"]]

    assert sorted(head["thread"] for head in backup_result.value["threads"]) == sorted(ids)
    assert clew_("verify", "--heads", heads, db=db).code == 0


def test_a_backup_is_restored_elsewhere(db: Path, tmp_path: Path) -> None:
    backup, elsewhere = tmp_path / "backup.db", tmp_path / "elsewhere.db"

    backup_result = clew_("backup", backup, "--json", db=db)
    restore_result = clew_("restore", backup, "--json", db=elsewhere)

    assert (backup_result.code, restore_result.code) == (0, 0)
    heads = [(head["thread"], head["hash"]) for head in backup_result.value["threads"]]
    assert [(head["thread"], head["hash"]) for head in restore_result.value["threads"]] == heads
    assert clew_("export", db=elsewhere).raw == clew_("export", db=db).raw
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([db.name, backup.name, elsewhere.name])


def test_neither_backup_nor_restore_overwrites(db: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    clew_("backup", backup, db=db)

    assert clew_("backup", backup, "--json", db=db).error["code"] == "invalid_argument"
    assert clew_("restore", backup, "--json", db=db).error["code"] == "invalid_argument"
    assert clew_("restore", backup, "--force", db=db).code == 0


@pytest.mark.promise("B-13")
def test_neither_backup_nor_restore_deletes_a_log_whose_database_is_gone(db: Path, tmp_path: Path) -> None:
    backup, absent = tmp_path / "backup.db", tmp_path / "gone.db"
    clew_("backup", backup, db=db)
    log = Path(f"{absent}-wal")
    log.write_bytes(b"\x37\x7f\x06\x82" + bytes(12) + b"salt" * 2 + bytes(16) + b"salt" * 2 + bytes(4104))
    before = log.read_bytes()

    assert clew_("restore", backup, "--json", db=absent).error["code"] == "wal_orphaned"
    assert clew_("backup", absent, "--json", db=db).error["code"] == "wal_orphaned"
    assert log.read_bytes() == before


def test_a_damaged_backup_is_not_restored(db: Path, tmp_path: Path) -> None:
    backup, elsewhere = tmp_path / "backup.db", tmp_path / "elsewhere.db"
    clew_("backup", backup, db=db)
    spoil(backup, "UPDATE changesets SET time = time + 1 WHERE at & 0xFFFFFFFF = 2")

    process = clew_("restore", backup, db=elsewhere)

    assert (process.code, elsewhere.exists()) == (1, False)
    assert "was altered" in process.out


# Tending.


def test_migrate_makes_a_database_and_then_finds_it_up_to_date(tmp_path: Path) -> None:
    first = clew_("migrate", "--json", db=tmp_path / "new.db").value
    second = clew_("migrate", "--json", db=tmp_path / "new.db").value

    assert second["from"] == second["to"] == first["to"]


def test_the_doctor_finds_nothing_wrong(db: Path) -> None:
    process, value = clew_("doctor", db=db), clew_("doctor", "--json", db=db).value

    assert (process.code, value["healthy"], value["problems"]) == (0, True, [])
    assert "Nothing is wrong." in process.out


# What a person gets wrong.


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", "nobody"], "thread_not_found"),
        (["show", "trip", "--at", "99"], "version_not_found"),
        (["diff", "trip", "1", "99"], "version_not_found"),
        (["diff", "trip", "nobody"], "thread_not_found"),
        (["fork", "trip", "trip-b"], "thread_exists"),
        (["fork", "trip", ""], "invalid_id"),
        (["export", "nobody"], "thread_not_found"),
        (["import", "missing.jsonl"], "file_error"),
        (["export", "-o", "missing/folder/x.jsonl"], "file_error"),
        (["restore", "missing.db"], "invalid_argument"),
        (["threads", "--after", "nonsense"], "invalid_argument"),
        (["threads", "--tenant", ""], "invalid_id"),
        (["verify", "--heads", "missing.json"], "file_error"),
    ],
)
def test_a_mistake_gets_a_sentence_and_a_code(
    db: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str
) -> None:
    plain, (_, sentence) = run([*arguments, "--db", str(db)]), capsys.readouterr()
    in_json, (out, error) = run([*arguments, "--db", str(db), "--json"]), capsys.readouterr()

    assert (plain, in_json, out) == (1, 1, "")
    assert f"({code})" in " ".join(sentence.split())
    assert json.loads(error)["error"]["code"] == code


def test_a_missing_database_is_not_made_by_looking(tmp_path: Path) -> None:
    process = clew_("threads", db=tmp_path / "typo.db")

    assert (process.code, list(tmp_path.iterdir())) == (1, [])
    assert "There is no database at" in process.err


def test_what_is_not_a_database_is_said_to_be_none(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Sir, " * 1000)

    process = clew_("threads", "--json", db=file)

    assert (process.code, process.error["code"]) == (1, "store_damaged")
    assert file.read_text() == "Dear Sir, " * 1000


def test_a_url_that_no_store_answers_to_is_refused() -> None:
    assert clew_("threads", "--json", db="mysql://host/db").error["code"] == "unknown_url"


def test_a_database_of_a_newer_release_is_left_alone(db: Path) -> None:
    spoil_version(db)

    assert clew_("threads", "--json", db=db).error["code"] == "newer_format"


def spoil_version(db: Path) -> None:
    connection = apsw.Connection(str(db))
    connection.pragma("user_version", 999)
    connection.close()


def test_a_command_that_makes_no_sense_ends_with_2() -> None:
    assert clew_("dance").code == 2
    assert clew_("show").code == 2
    assert clew_("show", "t", "--last", "0").code == 2


def test_a_reader_that_goes_away_is_no_trouble(db: Path) -> None:
    process = subprocess.run(
        f"'{COMMAND}' export --db '{db}' | head -c 6",
        shell=True,
        capture_output=True,
        timeout=TIME,
        check=False,
    )

    assert process.stdout == b'{"clew'
    assert b"Traceback" not in process.stderr


def test_without_the_extra_there_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ImportError('none', name='typer')")
    process = subprocess.run(
        [sys.executable, "-m", "clew.cli", "threads"],
        capture_output=True,
        timeout=TIME,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )

    assert process.returncode == 1
    assert b"pip install '.[cli]'" in process.stderr


# The demo.


@pytest.mark.slow
@pytest.mark.promise("B-02")
@pytest.mark.parametrize("store_name", ["sqlite"])
def test_the_demo_loses_nothing(tmp_path: Path, store_name: str) -> None:
    process = clew_("demo", "--rounds", 4, "--json", "--keep", tmp_path / "demo.db")

    count = process.value["count"]
    assert process.code == 0
    assert (count["lost"], count["doubled"], process.value["verified"]) == (0, 0, True)
    assert count["acknowledged"] <= count["stored"] <= count["acknowledged"] + 1
    assert clew_("verify", db=tmp_path / "demo.db").code == 0


@pytest.mark.slow
def test_the_demo_shows_what_it_did_in_80_columns(tmp_path: Path) -> None:
    process = clew_("demo", "--rounds", 2, COLUMNS="80", TMPDIR=str(tmp_path))

    assert process.code == 0
    assert max(map(len, process.out.splitlines())) <= 80
    assert "\x1b" not in process.out
    for words in ("kill  2", "clew log", "clew diff", "clew fork", "all is well", "nothing lost"):
        assert words in process.out


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_stopped_in_the_middle_leaves_nothing_behind(tmp_path: Path, way: signal.Signals) -> None:
    running = subprocess.Popen(
        [COMMAND, "demo", "--rounds", "50"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )
    with running:
        wait_for(lambda: any(tmp_path.glob("*/demo.db")))
        time.sleep(1.0)
        children = children_of(running.pid)
        running.send_signal(way)
        _, output = running.communicate(timeout=TIME)

    assert (running.returncode, list(tmp_path.iterdir())) == (130, [])
    assert b"Traceback" not in output
    assert [pid for pid in children if is_running(pid)] == []


def wait_for(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + TIME
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def is_running(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
