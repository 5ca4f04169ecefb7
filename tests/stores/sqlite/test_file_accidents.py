"""What happens to a file that others touch: the next commit is an error, and nothing acknowledged is lost."""

from __future__ import annotations

import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.stores.killed_writer import Answer, answers_at
from tests.stores.sqlite.file_accidents import (
    ACCIDENTS,
    BEFORE,
    THREAD,
    FileSet,
    Refusal,
    write_and_wait,
    write_beside,
    write_beside_unlocked,
    write_on,
)
from tests.support.child_process import ChildProcess, pipe, run_in_child

pytestmark = pytest.mark.crash

RACING = [name for name in ACCIDENTS if name != "written over"]
"""A copy of the file for the test itself cannot be made while it is written."""


@pytest.fixture
def files(tmp_path: Path) -> FileSet:
    """Where the database, its backup and its original are."""
    path = tmp_path / "agent.db"
    return FileSet(path, tmp_path / "agent.db.backup", tmp_path / "original.db")


def wait_until_ready(line: Connection) -> list[Answer]:
    """The answers before the writer says that it is ready."""
    answers: list[Answer] = []
    while (word := line.recv()) != "ready":
        answers.append(word)
    return answers


def gather(line: Connection) -> tuple[list[Answer], Refusal | None]:
    """The answers after that, and what ended them."""
    answers: list[Answer] = []
    while isinstance(word := line.recv(), tuple) and not isinstance(word, Refusal):
        answers.append(word)
    return answers, word


def put_together(files: FileSet, log: str) -> Path:
    """The original with the log that was saved, as the documentation says."""
    if log:
        shutil.copyfile(log, f"{files.original}-wal")
    return files.original


def answers_in(path: Path) -> list[Answer]:
    """What a new process finds in a file."""
    return run_in_child(answers_at, f"sqlite:///{path}", [THREAD])[THREAD]


class TestFileAccidents:
    store_name = "sqlite"

    @pytest.mark.promise("B-13", "T-02")
    @pytest.mark.parametrize("accident", ACCIDENTS)
    def test_after_an_accident_nothing_is_acknowledged(self, files: FileSet, accident: str) -> None:
        line, theirs = pipe()
        writer: ChildProcess[None] = ChildProcess(write_and_wait, str(files.path), theirs)
        before = wait_until_ready(line)
        ACCIDENTS[accident](files)
        line.send("go on")
        after, refusal = gather(line)
        writer.end()

        assert after == []
        assert refusal is not None
        assert refusal.code == "store_file_lost"
        assert refusal.saved in refusal.words
        assert answers_in(put_together(files, refusal.saved))[: len(before)] == before

    @pytest.mark.promise("B-13", "T-02")
    @pytest.mark.parametrize("accident", RACING)
    def test_what_was_acknowledged_up_to_an_accident_is_kept(self, files: FileSet, accident: str) -> None:
        line, theirs = pipe()
        writer: ChildProcess[None] = ChildProcess(write_on, str(files.path), theirs)
        before = wait_until_ready(line)
        ACCIDENTS[accident](files)
        after, refusal = gather(line)
        writer.end()
        answers = before + after

        assert refusal is not None
        assert refusal.code == "store_file_lost"
        assert answers_in(put_together(files, refusal.saved))[: len(answers)] == answers

    @pytest.mark.promise("B-13", "T-02")
    def test_another_library_in_the_process_does_no_harm(self, files: FileSet) -> None:
        line, theirs = pipe()
        writer: ChildProcess[None] = ChildProcess(write_beside, str(files.path), theirs)
        answers, refusal = gather(line)
        writer.end()

        assert refusal is None
        assert len(answers) == 2 * BEFORE - 1
        assert answers_in(files.path) == answers

    @pytest.mark.promise("B-13", "T-02")
    def test_another_library_that_deletes_the_log_is_noticed(self, files: FileSet) -> None:
        line, theirs = pipe()
        writer: ChildProcess[None] = ChildProcess(write_beside_unlocked, str(files.path), theirs)
        answers, refusal = gather(line)
        writer.end()
        assert refusal is not None
        files.path.rename(files.original)

        assert refusal.code == "store_file_lost"
        assert len(answers) == BEFORE - 1
        assert answers_in(put_together(files, refusal.saved))[: len(answers)] == answers
