"""Texts of running answers beside an SQLite file: nothing of them stays, and nothing of them is copied."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.core.errors import StorageError
from clew.core.values import Scope
from clew.stores.sqlite.provisional_files import ProvisionalFiles
from clew.stores.sqlite.store import SqliteStore
from clew.testing.contracts.provisional import provisional_text

SCOPE = Scope()
SECRET = b"the secret word"
MANY = 100


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    sqlite = await SqliteStore.open(str(tmp_path / "test.db"))
    yield sqlite
    await sqlite.close()


@pytest.fixture
def texts(store: SqliteStore) -> ProvisionalFiles:
    return store.provisional


def only_file(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "test.db-provisional").iterdir()
    return file


@pytest.mark.promise("B-17")
async def test_no_byte_is_left_in_a_file_that_was_dropped(texts: ProvisionalFiles, tmp_path: Path) -> None:
    await texts.begin(SCOPE, provisional_text(SECRET), MANY)
    link = tmp_path / "link"
    os.link(only_file(tmp_path), link)
    before = link.read_bytes()
    await texts.drop(SCOPE, "thread")

    assert SECRET in before
    assert link.read_bytes() == b""
    assert list((tmp_path / "test.db-provisional").iterdir()) == []


@pytest.mark.promise("B-17")
async def test_no_byte_is_left_of_an_attempt_that_another_replaced(
    texts: ProvisionalFiles, tmp_path: Path
) -> None:
    await texts.begin(SCOPE, provisional_text(SECRET), MANY)
    link = tmp_path / "link"
    os.link(only_file(tmp_path), link)
    await texts.begin(SCOPE, provisional_text(b"more", attempt=2), MANY)

    assert link.read_bytes() == b""


@pytest.mark.promise("B-17", "F-14")
async def test_a_backup_holds_no_text_of_a_running_answer(store: SqliteStore, tmp_path: Path) -> None:
    await store.provisional.begin(SCOPE, provisional_text(SECRET), MANY)
    await store.backup(str(tmp_path / "backup.db"))

    assert not (tmp_path / "backup.db-provisional").exists()
    assert SECRET not in (tmp_path / "backup.db").read_bytes()


@pytest.mark.promise("B-17")
async def test_nothing_is_made_before_there_is_a_text(texts: ProvisionalFiles, tmp_path: Path) -> None:
    assert await texts.read(SCOPE, "thread") is None
    assert await texts.headers(SCOPE) == []
    assert not (tmp_path / "test.db-provisional").exists()


@pytest.mark.promise("B-17")
@pytest.mark.parametrize("length", range(1, 12))
async def test_a_part_that_was_cut_short_is_left_out(
    texts: ProvisionalFiles, tmp_path: Path, length: int
) -> None:
    text = provisional_text(b"whole")
    await texts.begin(SCOPE, text, MANY)
    size = only_file(tmp_path).stat().st_size
    await texts.extend(SCOPE, text, b"cut short")
    os.truncate(only_file(tmp_path), size + length)

    assert await texts.read(SCOPE, "thread") == text


async def test_a_file_that_is_about_to_be_written_is_no_text_yet(
    texts: ProvisionalFiles, tmp_path: Path
) -> None:
    await texts.begin(SCOPE, provisional_text(b"whole"), MANY)
    os.truncate(only_file(tmp_path), 20)

    assert await texts.read(SCOPE, "thread") is None
    assert await texts.headers(SCOPE) == []


@pytest.mark.security
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
async def test_who_may_not_read_the_database_may_not_read_its_texts(
    texts: ProvisionalFiles, tmp_path: Path, mode: int
) -> None:
    (tmp_path / "test.db").chmod(mode)
    await texts.begin(SCOPE, provisional_text(SECRET), MANY)
    directory = only_file(tmp_path).parent

    assert stat.S_IMODE(only_file(tmp_path).stat().st_mode) == mode
    assert stat.S_IMODE(directory.stat().st_mode) == mode | (mode & 0o444) >> 2


async def test_a_directory_that_cannot_be_made_is_an_error_of_ours(
    texts: ProvisionalFiles, tmp_path: Path
) -> None:
    (tmp_path / "test.db-provisional").write_bytes(b"a file")

    with pytest.raises(StorageError):
        await texts.begin(SCOPE, provisional_text(), MANY)
