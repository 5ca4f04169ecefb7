"""The faulty disk: what a power loss takes, what it leaves, and the errors in between."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from clew.testing.disk import NO_END, POWER_LOST, Fault, FaultyDisk, PowerLossMode, write_image

# From Python 3.12 on, forking beside a thread of the test runner warns.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

COMMITS = 50


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    device = FaultyDisk("faulty")
    yield device
    device.unregister()


def connect(disk: FaultyDisk, directory: Path, synchronous: str = "full") -> apsw.Connection:
    connection = apsw.Connection(str(directory / "a.db"), vfs=disk.name)
    connection.pragma("synchronous", synchronous)
    assert connection.pragma("journal_mode", "wal") == "wal"
    connection.pragma("wal_autocheckpoint", 15)
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY, body BLOB)")
    return connection


def commit(connection: apsw.Connection, n: int) -> None:
    connection.execute("INSERT INTO numbers VALUES (?, ?)", (n, bytes([n]) * 900))


def workload(disk: FaultyDisk, directory: Path, synchronous: str, acknowledge: Callable[[], object]) -> None:
    connection = connect(disk, directory, synchronous)
    for n in range(COMMITS):
        commit(connection, n)
        acknowledge()
    connection.close()


def numbers(directory: Path) -> list[int]:
    """What a new process finds in the files, once they are known to be whole."""
    connection = apsw.Connection(str(directory / "a.db"))
    try:
        assert connection.pragma("integrity_check") == "ok"
        if not connection.table_exists(None, "numbers"):
            return []
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]
    finally:
        connection.close()


def exit_code(work: Callable[[], object]) -> int:
    """How a child process that does this work ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_until_fault(fault: Fault, directory: Path, synchronous: str = "full") -> int:
    """Run the workload in a child process until the fault stops it."""
    reading, writing = os.pipe()

    def work() -> None:
        disk = FaultyDisk("stopped")
        disk.arm(fault)
        workload(disk, directory, synchronous, lambda: os.write(writing, b"!"))

    code = exit_code(work)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        count = len(pipe.read())
    assert code == POWER_LOST
    return count


def is_kept(directory: Path, count: int) -> bool:
    """Whether a new process finds every acknowledged commit, and none out of order."""

    def check() -> None:
        rows = numbers(directory)
        assert rows == list(range(len(rows)))
        os._exit(0 if len(rows) >= count else 2)

    code = exit_code(check)
    assert code in {0, 2}
    return code == 0


def points(directory: Path, synchronous: str) -> int:
    disk = FaultyDisk("counting")
    directory.mkdir()
    workload(disk, directory, synchronous, lambda: None)
    return disk.points


def last_point(disk: FaultyDisk, operation: str, suffix: str) -> int:
    return max(s.point for s in disk.steps if (s.operation, s.suffix) == (operation, suffix))


class TestPowerLoss:
    def test_writes_that_were_not_synced_are_lost(self, disk: FaultyDisk, tmp_path: Path) -> None:
        connection = connect(disk, tmp_path)
        commit(connection, 1)
        connection.pragma("synchronous", "off")
        commit(connection, 2)
        image = disk.trace().image_at(disk.points + 1, "lose")
        connection.close()
        (tmp_path / "after").mkdir()
        write_image(image, tmp_path / "after")

        assert numbers(tmp_path / "after") == [1]

    def test_a_process_kill_loses_nothing(self, disk: FaultyDisk, tmp_path: Path) -> None:
        connection = connect(disk, tmp_path, "off")
        commit(connection, 1)
        image = disk.trace().image_at(disk.points + 1, "keep")
        connection.close()
        (tmp_path / "after").mkdir()
        write_image(image, tmp_path / "after")

        assert numbers(tmp_path / "after") == [1]

    def test_a_commit_is_lost_at_its_sync_and_kept_after_it(self, disk: FaultyDisk, tmp_path: Path) -> None:
        connection = connect(disk, tmp_path)
        commit(connection, 1)
        trace, sync = disk.trace(), last_point(disk, "sync", "-wal")
        connection.close()
        for name, point in (("during", sync), ("after", sync + 1)):
            (tmp_path / name).mkdir()
            write_image(trace.image_at(point), tmp_path / name)

        assert numbers(tmp_path / "during") == []
        assert numbers(tmp_path / "after") == [1]

    def test_a_deleted_file_comes_back_until_its_directory_is_synced(
        self, disk: FaultyDisk, tmp_path: Path
    ) -> None:
        connection = connect(disk, tmp_path)
        commit(connection, 1)
        connection.close()
        wal = str(tmp_path / "a.db-wal")
        trace = disk.trace()

        assert not Path(wal).exists()
        assert len(trace.image_at(disk.points + 1, "lose")[wal]) > 0
        assert wal not in trace.image_at(disk.points + 1, "keep")

    def test_a_torn_write_leaves_some_of_its_sectors(self, disk: FaultyDisk, tmp_path: Path) -> None:
        connection = connect(disk, tmp_path)
        commit(connection, 1)
        sync = last_point(disk, "sync", "-wal")
        trace, wal = disk.trace(), str(tmp_path / "a.db-wal")
        connection.close()
        images = {mode: trace.image_at(sync, mode, seed=3)[wal] for mode in ("lose", "torn", "keep")}

        assert len(set(images.values())) == 3
        assert images["torn"] == trace.image_at(sync, "torn", seed=3)[wal]
        assert images["torn"] != trace.image_at(sync, "torn", seed=4)[wal]

    @pytest.mark.crash
    @pytest.mark.parametrize("mode", ["lose", "torn", "keep"])
    def test_a_stopped_process_leaves_what_the_trace_says(
        self, disk: FaultyDisk, tmp_path: Path, mode: PowerLossMode
    ) -> None:
        workload(disk, tmp_path, "full", lambda: None)
        trace = disk.trace()
        for point in range(1, trace.points, 41):
            directory = tmp_path / str(point)
            directory.mkdir()
            run_until_fault(Fault("stop", at=point, mode=mode, seed=7), directory)
            image = trace.image_at(point, mode, seed=7)

            assert {p.name for p in directory.iterdir()} - {"a.db-shm"} == {Path(p).name for p in image}
            # The salts of a WAL are random, so only sizes can be compared from run to run.
            assert {Path(p).name: len(b) for p, b in image.items()} == {
                Path(p).name: (directory / Path(p).name).stat().st_size for p in image
            }


@pytest.mark.crash
class TestDurability:
    @pytest.mark.parametrize("mode", ["lose", "torn", "keep"])
    def test_acknowledged_commits_survive_a_stop_at_any_point(
        self, tmp_path: Path, mode: PowerLossMode
    ) -> None:
        gaps = []
        for point in range(1, points(tmp_path / "counted", "full") + 1, 9):
            directory = tmp_path / str(point)
            directory.mkdir()
            count = run_until_fault(Fault("stop", at=point, mode=mode, seed=point), directory)
            if not is_kept(directory, count):
                gaps.append(point)

        assert gaps == []

    def test_without_syncs_acknowledged_commits_are_lost(self, tmp_path: Path) -> None:
        point = points(tmp_path / "counted", "off")
        directory = tmp_path / "stopped"
        directory.mkdir()
        count = run_until_fault(Fault("stop", at=point), directory, "off")

        assert count == COMMITS
        assert not is_kept(directory, count)

    def test_acknowledged_commits_are_in_every_later_image(self, disk: FaultyDisk, tmp_path: Path) -> None:
        marks: list[int] = []
        workload(disk, tmp_path, "full", lambda: marks.append(disk.points))
        trace, gaps = disk.trace(), []
        for point in range(1, trace.points + 2, 3):
            directory = tmp_path / str(point)
            directory.mkdir()
            write_image(trace.image_at(point, "torn", seed=point), directory)
            if len(numbers(directory)) < sum(mark < point for mark in marks):
                gaps.append(point)

        assert gaps == []


class TestErrors:
    @pytest.mark.parametrize(
        ("kind", "operation", "error", "code"),
        [
            ("eio", "write", apsw.IOError, apsw.SQLITE_IOERR_WRITE),
            ("eio", "sync", apsw.IOError, apsw.SQLITE_IOERR_FSYNC),
            ("enospc", "write", apsw.FullError, apsw.SQLITE_FULL),
            ("enospc", "sync", apsw.FullError, apsw.SQLITE_FULL),
        ],
    )
    def test_a_fault_fails_its_commit_and_no_other(
        self, disk: FaultyDisk, tmp_path: Path, kind: str, operation: str, error: type[apsw.Error], code: int
    ) -> None:
        connection = connect(disk, tmp_path)
        before = disk.points
        commit(connection, 1)
        width = last_point(disk, operation, "-wal") - before
        disk.arm(Fault("eio" if kind == "eio" else "enospc", at=disk.points + width))
        with pytest.raises(error) as failure:
            commit(connection, 2)
        commit(connection, 3)
        connection.close()

        assert str(failure.value).endswith(f"failed {code}")
        assert numbers(tmp_path) == [1, 3]

    def test_a_full_disk_stays_full_until_there_is_room(self, disk: FaultyDisk, tmp_path: Path) -> None:
        connection = connect(disk, tmp_path)
        disk.arm(Fault("enospc", at=disk.points + 1, until=NO_END))
        for n in (1, 2):
            with pytest.raises(apsw.FullError):
                commit(connection, n)
        disk.arm()
        commit(connection, 3)
        connection.close()

        assert numbers(tmp_path) == [3]

    def test_what_a_failed_sync_dropped_is_not_saved_by_the_next(
        self, disk: FaultyDisk, tmp_path: Path
    ) -> None:
        connection = connect(disk, tmp_path, "off")
        commit(connection, 1)
        connection.pragma("synchronous", "full")
        file = connection.filename_wal
        size = Path(file).stat().st_size
        disk.arm(Fault("eio", at=disk.points + 3))
        with pytest.raises(apsw.IOError):
            commit(connection, 2)
        commit(connection, 3)
        image = disk.trace().image_at(disk.points + 1)
        connection.close()

        assert image[file][:size] == bytes(size)
        assert len(image[file]) > size

    def test_a_failed_step_says_so_in_the_log(self, disk: FaultyDisk, tmp_path: Path) -> None:
        connection = connect(disk, tmp_path)
        point = disk.points + 1
        disk.arm(Fault("enospc", at=point))
        with pytest.raises(apsw.FullError):
            commit(connection, 1)
        connection.close()
        step = next(step for step in disk.steps if step.point == point)

        assert (step.operation, step.suffix, step.offset, len(step.data)) == ("write", "-wal", 8272, 12)
        assert str(step) == f"{point} write -wal 8272+12 failed {apsw.SQLITE_FULL}"


class TestConnections:
    def test_a_commit_is_seen_in_another_thread_before_it_is_synced(
        self, disk: FaultyDisk, tmp_path: Path
    ) -> None:
        writer = connect(disk, tmp_path, "off")
        rows: list[int] = []

        def read() -> None:
            reader = apsw.Connection(str(tmp_path / "a.db"), vfs=disk.name)
            rows.extend(n for (n,) in reader.execute("SELECT n FROM numbers"))
            reader.close()

        commit(writer, 1)
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        writer.close()

        assert rows == [1]

    def test_points_are_counted_one_by_one_over_all_files_and_threads(
        self, disk: FaultyDisk, tmp_path: Path
    ) -> None:
        directories = [tmp_path / name for name in ("one", "two", "three")]

        def write(directory: Path) -> None:
            directory.mkdir()
            workload(disk, directory, "full", lambda: None)

        threads = [threading.Thread(target=write, args=(directory,)) for directory in directories]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        points = [step.point for step in disk.steps if step.operation not in {"open", "create"}]

        assert points == list(range(1, disk.points + 1))
        assert [len(numbers(directory)) for directory in directories] == [COMMITS] * 3

    def test_a_file_that_was_there_before_keeps_its_content(self, disk: FaultyDisk, tmp_path: Path) -> None:
        first = connect(disk, tmp_path)
        commit(first, 1)
        first.close()
        later = FaultyDisk("later")
        connection = connect(later, tmp_path, "off")
        commit(connection, 2)
        image = later.trace().image_at(later.points + 1, "lose")
        connection.close()
        (tmp_path / "after").mkdir()
        write_image(image, tmp_path / "after")

        assert numbers(tmp_path) == [1, 2]
        assert numbers(tmp_path / "after") == [1]
