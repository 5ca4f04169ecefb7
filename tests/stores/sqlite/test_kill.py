"""A writer killed with -9: what it was answered is there, what it repeats is there once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from clew.stores.sqlite.writer import CommitWay
from tests.stores.killed_writer import POINTS, Answer, numbers_at, write_all
from tests.support.child_process import ChildProcess, pipe, run_in_child

pytestmark = [pytest.mark.crash, pytest.mark.slow]

WAYS: tuple[CommitWay, ...] = ("loop", "thread")
TOTAL = 120
MANY = 6000
KILLS = 4
RANDOM_KILLS = 40
REPEATS = 4


class Rounds:
    """A writer on one file, started again and again until everything is written."""

    def __init__(self, path: Path, total: int, way: CommitWay) -> None:
        self.answers: dict[int, Answer] = {}
        self._path = path
        self._total = total
        self._way = way

    def start(self, point: str | None = None, nth: int = 0) -> tuple[ChildProcess[None], Connection]:
        """A writer for what was not answered, and for the last answers once more."""
        ours, theirs = pipe()
        writer = ChildProcess(write_all, str(self._path), self._remaining(), point, nth, self._way, theirs)
        theirs.close()
        return writer, ours

    def gather(self, answers: Connection) -> None:
        """Take every answer that came out before the writer's end."""
        with answers:
            try:
                while True:
                    answer: Answer = answers.recv()
                    first = self.answers.setdefault(answer[0], answer)
                    assert answer == first, "repeated, and answered differently"
            except (EOFError, ConnectionResetError):
                return

    def finish(self) -> None:
        """Let a last writer write all that is left, and compare."""
        writer, answers = self.start()
        self.gather(answers)
        writer.result()
        by_thread = run_in_child(numbers_at, f"sqlite:///{self._path}")
        rows = sorted(answer for thread in by_thread.values() for answer in thread)

        assert rows == sorted(self.answers.values())
        assert [number for number, *_ in rows] == list(range(1, self._total + 1))

    def _remaining(self) -> Sequence[int]:
        again = sorted(self.answers)[-REPEATS:]
        return again + [number for number in range(1, self._total + 1) if number not in self.answers]


class TestKill:
    store_name = "sqlite"

    @pytest.mark.promise("T-02", "S-02", "S-04", "B-02")
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("point", POINTS)
    def test_a_writer_killed_at_a_point_loses_and_doubles_nothing(
        self, tmp_path: Path, point: str, way: CommitWay
    ) -> None:
        rounds = Rounds(tmp_path / "agent.db", TOTAL, way)
        chance = random.Random(point)
        for _ in range(KILLS):
            writer, answers = rounds.start(point, chance.randint(1, 3 if "checkpoint" in point else 12))
            rounds.gather(answers)
            writer.process.join(60)
            writer.end()
            assert writer.process.exitcode == -signal.SIGKILL, "the writer never came past the point"

        rounds.finish()

    @pytest.mark.promise("T-02", "S-02", "S-04", "B-02")
    @pytest.mark.parametrize("way", WAYS)
    def test_a_writer_killed_at_any_moment_loses_and_doubles_nothing(
        self, tmp_path: Path, way: CommitWay
    ) -> None:
        rounds = Rounds(tmp_path / "agent.db", MANY, way)
        chance = random.Random(7)
        for _ in range(RANDOM_KILLS):
            writer, answers = rounds.start()
            answers.poll(30)
            time.sleep(chance.uniform(0, 0.08))
            writer.kill()
            rounds.gather(answers)
            writer.end()

        assert 0 < len(rounds.answers) < MANY
        rounds.finish()
