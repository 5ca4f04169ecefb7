"""The crisis log on the command line, for operators."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import clew
from clew.cli.app import run
from clew.core.clock import now_ms
from clew.core.erasure.retention import DAY_MS
from clew_companion.crisis.log import Crisis, crises
from tests.support.crises import crisis_record

NOW = now_ms()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with three rows: one is due, one is ada's, one is of another thread."""
    url = f"sqlite:///{tmp_path}/agent.db"
    rows = [
        (
            Crisis(id="old", level=1, thread="a", run="r1", time=NOW - 91 * DAY_MS, keep_until=NOW - DAY_MS),
            None,
        ),
        (
            Crisis(
                id="new", level=3, path="llm_primary", thread="a", run="r2", time=NOW, keep_until=NOW + DAY_MS
            ),
            "ada",
        ),
        (Crisis(id="other", level=2, thread="b", run="r3", time=NOW - DAY_MS, keep_until=NOW + DAY_MS), None),
    ]

    async def write() -> None:
        async with clew.open(url) as db:
            for crisis, owner in rows:
                await db.records.put(crisis_record(crisis, owner))

    asyncio.run(write())
    return url


def retention_dates(url: str) -> dict[str, int]:
    """Until when each row is kept."""

    async def read_rows() -> dict[str, int]:
        async with clew.open(url) as db:
            return {row.id: row.keep_until async for row in crises(db)}

    return asyncio.run(read_rows())


def test_the_newest_rows_are_listed_first(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["crises", "list", "--db", url, "--json", "--limit", "2"])
    page = json.loads(capsys.readouterr().out)

    assert (code, page["total"], [row["id"] for row in page["rows"]]) == (0, 3, ["new", "other"])


def test_a_person_reads_them_in_a_table(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["crises", "list", "--db", url, "--thread", "a"])
    output = capsys.readouterr().out

    assert "llm_primary" in output
    assert "other" not in output


def test_rows_are_exported_a_line_each(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["crises", "export", "--db", url, "--json"])
    output = capsys.readouterr()
    rows = [json.loads(line) for line in output.out.splitlines()]

    assert (code, [row["id"] for row in rows]) == (0, ["old", "new", "other"])
    assert json.loads(output.err) == {"rows": 3}


@pytest.mark.promise("R-22")
def test_what_is_due_is_purged_and_only_that(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["crises", "purge", "--db", url, "--dry-run"])
    run(["crises", "purge", "--db", url])
    lines = capsys.readouterr().out.splitlines()

    assert (lines, sorted(retention_dates(url))) == (["1 row due.", "1 row purged."], ["new", "other"])


@pytest.mark.promise("R-22")
def test_a_row_is_kept_through_the_day_that_is_given(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["crises", "extend", "old", "--until", "2999-12-31", "--db", url])
    run(["crises", "purge", "--db", url])

    assert (code, retention_dates(url)["old"]) == (0, 32503680000000)
    assert "1 row kept through 2999-12-31." in capsys.readouterr().out


def test_rows_of_an_owner_are_kept_for_longer(url: str) -> None:
    run(["crises", "extend", "--owner", "ada", "--until", "2999-12-31", "--db", url])

    assert [id for id, until in retention_dates(url).items() if until > NOW + DAY_MS] == ["new"]


@pytest.mark.promise("R-22")
@pytest.mark.parametrize(
    "command", [["list"], ["export"], ["purge"], ["extend", "new", "--until", "2999-12-31"]]
)
def test_it_is_refused_on_behalf_of_a_person(
    url: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = retention_dates(url)
    code = run(["crises", *command, "--db", url, "--user", "ada"])
    output = capsys.readouterr()

    assert (code, output.out, "forbidden" in output.err) == (1, "", True)
    assert retention_dates(url) == before


def test_an_empty_log_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    run(["migrate", "--db", url])
    run(["crises", "list", "--db", url])

    assert "No rows." in capsys.readouterr().out
