"""Jobs at the command line: those given up are in sight, and can be tried again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import clew
from clew.cli.app import run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a job that waits, one that is held, and one that was given up."""
    file = tmp_path / "agent.db"
    asyncio.run(_fill(f"sqlite:///{file}"))
    return file


async def _fill(url: str) -> None:
    async with clew.open(url) as db:
        await db.jobs.enqueue(clew.Job(id="lost", kind="end episode", body={"episode": "e"}, limit=1))
        (job,) = await db.jobs.claim(["end episode"])
        await db.jobs.fail(job, "the model \x1b[31mis down")
        await db.jobs.enqueue(clew.Job(id="held", kind="mail"))
        await db.jobs.claim(["mail"], lease_ms=3_600_000)
        await db.jobs.enqueue(clew.Job(id="next", kind="later", due=4_000_000_000_000))


def run_command(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> tuple[int, str, str]:
    code = run([*words, "--db", str(file)])
    out, err = capsys.readouterr()
    return code, out, err


def test_jobs_are_listed_with_what_went_wrong(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = run_command(capsys, file, "jobs", "list")

    assert code == 0
    assert [word for word in ("held", "next", "dead", "never", "1 of 1") if word not in out] == []
    assert "\x1b" not in out


def test_only_jobs_of_a_status_are_listed(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = run_command(capsys, file, "jobs", "list", "--status", "dead", "--json")

    (job,) = json.loads(out)["jobs"]
    assert (code, job["status"], job["problem"]) == (0, "dead", "the model \x1b[31mis down")


def test_nobody_is_shown_the_token_of_a_claim(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, out, _ = run_command(capsys, file, "jobs", "show", "held", "--json")

    assert (json.loads(out)["status"], "token" in out) == ("running", False)


def test_a_job_is_shown_with_what_it_is_about(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = run_command(capsys, file, "jobs", "show", "lost")

    assert code == 0
    assert [word for word in ("is down", '"episode": "e"', "never") if word not in out] == []


def test_a_dead_job_is_retried(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = run_command(capsys, file, "jobs", "retry", "lost", "--json")
    _, output, _ = run_command(capsys, file, "jobs", "list", "--status", "dead")

    assert (code, json.loads(out)["status"], json.loads(out)["attempts"]) == (0, "waiting", 0)
    assert output.strip() == "There are no jobs here."


def test_the_doctor_names_what_was_given_up(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    sick, out, _ = run_command(capsys, file, "doctor", "--json")
    run_command(capsys, file, "jobs", "retry", "lost")
    well, _, _ = run_command(capsys, file, "doctor", "--json")

    assert (sick, well) == (1, 0)
    assert [problem for problem in json.loads(out)["problems"] if "1 job(s) were given up" in problem]


@pytest.mark.parametrize(
    ("job", "code"), [("held", "invalid_argument"), ("never", "record_not_found")], ids=["held", "absent"]
)
def test_what_cannot_be_retried_is_an_error(
    capsys: pytest.CaptureFixture[str], file: Path, job: str, code: str
) -> None:
    exit_code, _, err = run_command(capsys, file, "jobs", "retry", job, "--json")

    assert (exit_code, json.loads(err)["error"]["code"]) == (1, code)
