"""``clew work`` and ``clew sandboxes`` as one meets them, with a real interpreter and a crash."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

import clew
from clew.cli.app import run
from clew.cli.command import CommandCall
from clew.cli.commands import work_output
from clew.cli.commands.work_session import (
    OpenOptions,
    SessionLocation,
    WorkRequest,
    check_request,
    volume_root,
    work_at_bench,
    workbench_for,
)
from clew.core.errors import InvalidArgument
from clew.core.values import Scope
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.agent.agent import WorkResult
from clew.workbench.session.checkpoints import CheckpointResult
from tests.support.git_server import git_server, make_repository
from tests.support.openai_server import ChatReply, ChatServer, Line, chat_server
from tests.workbench.in_process_interpreters import InProcesses

COMMAND = Path(sys.executable).with_name("clew")
MODEL = ("--model", "openai-chat:test")


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


def environment(scratch: Path, server: ChatServer | None = None) -> dict[str, str]:
    scratch.mkdir(exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    url = server.url if server is not None else "http://127.0.0.1:9"
    provider = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": url}
    return {**variables, **provider, "TMPDIR": str(scratch), "TERM": "dumb", "COLUMNS": "200"}


async def start_process(
    tmp_path: Path, *arguments: str, server: ChatServer | None = None, **variables: str
) -> Any:
    return await asyncio.create_subprocess_exec(
        str(COMMAND),
        *arguments,
        "--db",
        str(tmp_path / "work.db"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**environment(tmp_path / "tmp", server), **variables},
        cwd=tmp_path,
    )


async def clew_(
    tmp_path: Path, *arguments: str, server: ChatServer | None = None, **variables: str
) -> CommandResult:
    process = await start_process(tmp_path, *arguments, server=server, **variables)
    out, err = await process.communicate()
    return CommandResult(process.returncode, out.decode(), err.decode())


def run_python(id: str, code: str) -> ChatReply:
    return ChatReply(calls=[(id, "run_python", json.dumps({"code": code}))])


def at_work_in(folder: Path) -> list[psutil.Process]:
    """The processes whose working directory is below a folder."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.cwd().startswith(f"{folder}/"):
                processes.append(process)
    return processes


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that gives no sign of itself."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  # it is another process
            await asyncio.sleep(0.05)


# With a real interpreter.


@pytest.mark.slow
@pytest.mark.promise("F-05", "F-06", "F-12")
async def test_a_task_is_done_over_a_document_and_leaves_a_manifest_and_a_record(tmp_path: Path) -> None:
    (tmp_path / "house.txt").write_text("Nothing here.\n" * 5_000 + "The key is red.", encoding="utf-8")
    script: list[Line | str] = [
        run_python(
            "c1", "line = documents['house.txt'].splitlines()[-1]\nprint(len(documents['house.txt']))"
        ),
        run_python("c2", "print(line)"),
        "The key is red.",
    ]
    async with chat_server(*script) as server:
        process = await clew_(
            tmp_path,
            *(
                "work",
                "What is the key like?",
                "--document",
                "house.txt",
                "--thread-id",
                "s",
                "--json",
                *MODEL,
            ),
            server=server,
        )
        prompts = json.dumps(server.requests)

    assert process.code == 0, process.err
    assert (process.value["text"], process.value["saved"]["status"]) == ("The key is red.", "written")
    assert prompts.count("Nothing here.") == 0
    assert "The key is red." in json.dumps(server.requests[-1])
    manifests = list((tmp_path / "work.db.volume").glob("**/react-session-s.json"))
    assert len(manifests) == 1
    sandboxes = await clew_(tmp_path, "sandboxes", "--session", "s")
    assert [word in sandboxes.out for word in ("reset", "created", "closed", "local")] == [True] * 4
    assert at_work_in(tmp_path / "tmp") == []


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.promise("F-06", "F-07")
async def test_a_killed_task_goes_on_with_resume_and_nothing_is_left_of_its_interpreter(
    tmp_path: Path,
) -> None:
    never = asyncio.Event()
    async with chat_server(run_python("c1", "x = 41"), ChatReply(text="never said", before=never)) as server:
        working = await start_process(tmp_path, "work", "Count.", "--thread-id", "s", *MODEL, server=server)
        await until(lambda: len(server.requests) == 2)
        before = at_work_in(tmp_path / "tmp")
        working.kill()
        await working.communicate()
        await until(lambda: not at_work_in(tmp_path / "tmp"))
    async with chat_server(run_python("c2", "x + 1"), "It is gone.") as server:
        process = await clew_(
            tmp_path, "work", "--resume", "--thread-id", "s", "--json", *MODEL, server=server
        )
        prompts = json.dumps(server.requests[0]["messages"])

    assert process.code == 0, process.err
    assert process.value["text"] == "It is gone."
    assert [change["reason"] for change in process.value["opened"]["changes"]] == ["failed_resume"]
    assert "The Python interpreter is a new one" in prompts
    assert "NameError" in json.dumps(server.requests[1]["messages"])
    assert before
    assert at_work_in(tmp_path / "tmp") == []
    assert list((tmp_path / "tmp").glob("clew-scratch-*")) == []


@pytest.mark.slow
@pytest.mark.promise("F-02", "F-05")
async def test_a_task_is_done_on_a_repository_and_a_later_one_has_it_again_or_says_why_not(
    tmp_path: Path,
) -> None:
    read = "print(open('repository/README.md').read())"
    async with git_server(tmp_path) as repositories, chat_server(run_python("c1", read), "Tea.") as server:
        commit = make_repository(repositories.root, "tea", {"README.md": "The tea is green."})
        listed = {
            "CLEW_REPOSITORY_HOSTS": repositories.host,
            "CLEW_REPOSITORY_CA_FILE": str(repositories.certificate),
        }
        url = repositories.url("tea")
        options = ("--repository", url, "--ref", "main", "--context", "README.md", "--json", *MODEL)
        first = await clew_(tmp_path, "work", "Read.", "--thread-id", "s", *options, server=server, **listed)
        prompts = json.dumps(server.requests)
    async with chat_server("Nothing to read.") as server:
        later = await clew_(tmp_path, "work", "Again.", "--thread-id", "s", "--json", *MODEL, server=server)
        told = await clew_(tmp_path, "work", "Again.", "--thread-id", "s", *MODEL, server=server)
        news = json.dumps(server.requests)

    assert first.code == 0, first.err
    assert first.value["opened"]["repository"] == {
        "url": url,
        "ref": "main",
        "commit": commit,
        "context_paths": ["README.md"],
    }
    assert "The tea is green." in prompts
    assert "Read first: `repository/README.md`" in prompts
    assert later.value["opened"]["repository"]["reason"] == "repositories_off"
    assert "(repositories_off)" in told.err
    assert "is not there (repositories_off)" in news


@pytest.mark.promise("F-02")
async def test_a_repository_that_is_named_and_not_to_be_had_ends_the_command(tmp_path: Path) -> None:
    options = ("--repository", "https://git.example.org/tea", "--json", *MODEL)
    refused = await clew_(tmp_path, "work", "Read.", *options)
    unusable = await clew_(
        tmp_path, "work", "Read.", "--repository", "ssh://git.example.org/tea", "--json", *MODEL
    )

    errors = [json.loads(each.err)["error"] for each in (refused, unusable)]
    assert [each["code"] for each in errors] == ["repository_failed", "invalid_argument"]
    assert errors[0]["reason"] == "repositories_off"


async def test_without_a_model_it_says_how_to_name_one(tmp_path: Path) -> None:
    process = await clew_(tmp_path, "work", "Do it.", "--json")

    assert process.code == 1
    assert json.loads(process.err)["error"]["code"] == "invalid_argument"
    assert "--model PROVIDER:NAME" in process.err
    assert not (tmp_path / "work.db").exists()


# What was asked for.


def call_on(
    tmp_path: Path, *, as_json: bool = False, terminal: bool = False, url: str | None = None
) -> CommandCall:
    def console() -> Console:
        return Console(file=io.StringIO(), force_terminal=terminal, width=100, highlight=False)

    where = url or f"sqlite:///{tmp_path / 'work.db'}"
    return CommandCall(url=where, scope=Scope(user="alice"), as_json=as_json, out=console(), err=console())


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("task_request", "problem"),
    [
        (WorkRequest(task="Do it."), "--model"),
        (WorkRequest(model="m"), "Say what to do"),
        (WorkRequest(model="m", task="  "), "Say what to do"),
        (WorkRequest(model="m", options=OpenOptions(resume=True)), "--thread-id"),
        (
            WorkRequest(
                model="m",
                task="More.",
                location=SessionLocation(session="s"),
                options=OpenOptions(resume=True),
            ),
            "no new task",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_opened(
    task_request: WorkRequest, problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        check_request(task_request)


def test_a_volume_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="There is no volume"):
        volume_root(call_on(tmp_path), tmp_path / "mistyped")


def test_a_database_without_a_file_needs_a_volume_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="CLEW_VOLUME"):
        volume_root(call_on(tmp_path, url="memory://"), None)
    assert volume_root(call_on(tmp_path, url="memory://"), tmp_path) == tmp_path.resolve()


# In a terminal.


async def run_work(
    call: CommandCall, tmp_path: Path, script: Sequence[Any], request: WorkRequest | None = None
) -> tuple[WorkResult, clew.Database]:
    """What a script does at a workbench whose interpreter is none."""
    request = request or WorkRequest(task="Do it.", location=SessionLocation(session="s"))
    async with clew.open(call.url) as db:
        async with workbench_for(call, request, db, volume_root(call, None), InProcesses()) as bench:
            _, result = await work_at_bench(bench, call, request, ScriptedModel(*script), [])
        return result, db


async def test_a_terminal_shows_code_and_output_as_they_come(tmp_path: Path) -> None:
    call = call_on(tmp_path, terminal=True)
    result, _ = await run_work(
        call, tmp_path, [calls(("c1", "run_python", {"code": "print(6 * 7)"})), "It is 42."]
    )

    text = text_of(call.out)
    assert text.index("· run_python") < text.index("print(6 * 7)") < text.index("42") < text.index("It is")
    assert work_output.outcome_text(result, was_streamed=True).plain == "To go on: clew work --thread-id s …"


@pytest.mark.promise("F-01")
async def test_an_export_to_the_volume_writes_over_nothing_that_the_database_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_work(call_on(tmp_path), tmp_path, ["Hello."])
    content = next((tmp_path / "work.db.volume").rglob("*.json")).read_bytes()
    (tmp_path / "new").mkdir()
    await run_work(call_on(tmp_path / "new"), tmp_path, ["Another history."])
    where = [
        "--volume",
        str(tmp_path / "work.db.volume"),
        "--db",
        str(tmp_path / "new" / "work.db"),
        "--json",
    ]

    code = await asyncio.to_thread(run, ["session", "export", "s", *where])

    assert (code, json.loads(capsys.readouterr().err)["error"]["code"]) == (1, "manifest_conflict")
    assert next((tmp_path / "work.db.volume").rglob("*.json")).read_bytes() == content


@pytest.mark.promise("B-07")
async def test_erasing_reaches_the_volume_beside_the_database_without_being_told(tmp_path: Path) -> None:
    call = call_on(tmp_path)
    await run_work(call, tmp_path, ["The word is xyzzy."])
    files = [file for file in (tmp_path / "work.db.volume").rglob("*.json") if b"xyzzy" in file.read_bytes()]

    code = await asyncio.to_thread(
        run, ["erase", "--owner", "alice", "--yes", "--db", str(tmp_path / "work.db")]
    )

    assert (len(files), code) == (1, 0)
    assert not files[0].exists()


async def test_elsewhere_only_the_answer_is_printed(tmp_path: Path) -> None:
    call = call_on(tmp_path)
    result, _ = await run_work(
        call, tmp_path, [calls(("c1", "run_python", {"code": "print(6 * 7)"})), "It is 42."]
    )

    assert text_of(call.out) == ""
    assert work_output.outcome_text(result, was_streamed=False).plain == "It is 42."
    assert "Interpreter created." in text_of(call.err)


@pytest.mark.promise("F-12")
async def test_interpreters_are_listed_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await run_work(call_on(tmp_path), tmp_path, ["Hello."])
    capsys.readouterr()

    code = await asyncio.to_thread(run, ["sandboxes", "--json", "--db", str(tmp_path / "work.db")])

    snapshots = json.loads(capsys.readouterr().out)["sandboxes"]
    assert code == 0
    assert [each["transition"] for each in snapshots] == ["closed", "created", "reset"]


def test_a_manifest_that_was_not_written_is_said_and_counts_as_trouble() -> None:
    checkpoint = CheckpointResult(status="failed", code="manifest_conflict", problem="They disagree.")
    result = WorkResult(session="s", text="Done.", saved=checkpoint)

    assert work_output.outcome_text(result, was_streamed=False).plain == "Done.\nThey disagree."
    assert not work_output.is_success(result)


def test_what_is_stored_cannot_steer_the_terminal() -> None:
    result = WorkResult(session="s", text="\x1b[31mred")

    assert "\x1b" not in work_output.outcome_text(result, was_streamed=False).plain
