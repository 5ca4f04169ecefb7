"""The command that serves, as a process of its own: it starts, says so, shares its store, and stops well."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec
import pytest
import uvicorn
from typer.testing import CliRunner

from clew.api.events import StreamEvent
from clew.cli.app import build_app
from clew.client import AsyncClient, Client
from clew.core.errors import InvalidArgument
from clew.server.process import (
    RESTART_SECONDS,
    Workers,
    check_prerequisites,
    check_workers,
    open_listener,
    serve,
    uvicorn_config,
)
from clew.server.settings import ServerSettings, as_variables, from_variables
from tests.server.http.test_sse import up
from tests.support.embedders import SPELLING
from tests.support.openai_server import EmbeddingReply, chat_server
from tests.support.searxng_server import searxng_server

PORTS = range(10_240, 32_768)
"""Below those that the system gives to whoever asks for any, and would give again before a process has it."""


def free_port() -> int:
    """A port that nobody listens on."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


@contextmanager
def command(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A run of ``clew serve``."""
    child = subprocess.Popen(
        [sys.executable, "-m", "clew.cli", "serve", *arguments],
        # Nobody reads what it says before its end, so that a line for each request would fill the pipe.
        env={**os.environ, "CLEW_SERVER_ACCESS_LOG": "false", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=60)


async def test_an_answer_is_sent_at_once_and_not_when_the_reader_acknowledged_half_of_it() -> None:
    with open_listener(ServerSettings(port=0)) as listener:
        writers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        async with await asyncio.start_server(lambda _, writer: writers.put_nowait(writer), sock=listener):
            _, asking = await asyncio.open_connection(*listener.getsockname())
            answering = await writers.get()
            waits = answering.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
            for writer in (asking, answering):
                writer.close()
                await writer.wait_closed()

    assert not waits


async def test_it_says_where_it_serves_and_stops_when_told(tmp_path: Path) -> None:
    port = free_port()
    with command("--db", f"sqlite:///{tmp_path}/a.db", "--port", str(port)) as child:
        await up(f"http://127.0.0.1:{port}")
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            result = await client.run_turn("t", "hello")
            follow = asyncio.create_task(_first(client))
            await asyncio.sleep(0.2)
            child.send_signal(signal.SIGTERM)
            output = await asyncio.to_thread(child.communicate, timeout=15)
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)

    assert f"http://127.0.0.1:{port}" in output[1]
    assert "a.db" in output[1]
    assert "offline" in output[1]
    assert result.termination == "natural"


async def _first(client: AsyncClient) -> StreamEvent:
    """The first event of a stream that has none, so that it is open until it is closed."""
    return await anext(client.follow("t"))


@pytest.mark.slow
@pytest.mark.promise("A-09", "A-10")
async def test_options_give_the_agent_an_embedder_a_search_provider_and_skills(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "brief.md").write_text("Be brief.", encoding="utf-8")
    async with chat_server(*[EmbeddingReply()] * 100) as vectors, searxng_server() as searxng:
        options = ("--embedder", "openai:small", "--search-provider", f"searxng:{searxng.url}")
        with command(
            *("--db", f"sqlite:///{tmp_path}/a.db", "--port", str(port), *options),
            OPENAI_BASE_URL=vectors.url,
            CLEW_SKILLS=str(tmp_path / "skills"),
        ) as child:
            await up(f"http://127.0.0.1:{port}")
            async with AsyncClient(f"http://127.0.0.1:{port}") as client:
                turn = await client.run_turn(
                    "t", "How many people live in Norway?", installed_skills=["brief"]
                )
                agent = await client.agent()
            child.send_signal(signal.SIGTERM)
            _, banner = await asyncio.to_thread(child.communicate, timeout=60)

    assert turn.text.startswith("“About 5.6 million people live in Norway.”")
    assert turn.output["diagnostics"]["retrieval_path"] == "hybrid_rrf"
    assert agent.skills == ["brief"]
    assert "  embedder openai:small\n" in banner


@pytest.mark.promise("F-08")
def test_what_stands_against_a_start_is_said_and_it_does_not_start(tmp_path: Path) -> None:
    arguments = ("--db", f"sqlite:///{tmp_path}/a.db", "--host", "0.0.0.0", "--json")
    with command(*arguments, "--check", CLEW_ENV="production") as check:
        report = json.loads(check.communicate(timeout=60)[0])
    with command(*arguments, CLEW_ENV="production") as start:
        error = json.loads(start.communicate(timeout=60)[1])["error"]

    codes = {danger["code"] for danger in report["dangers"]}
    assert {"dev_auth_in_production", "database_required", "secret_missing"} <= codes
    assert (check.returncode, start.returncode) == (1, 1)
    assert error["code"] == "unsafe_settings"


def start_error(*arguments: str, **environment: str) -> tuple[int, dict[str, str]]:
    """How a start that fails ends, and what it says: one error, and nothing else."""
    with command(*arguments, "--json", **environment) as child:
        _, text = child.communicate(timeout=60)
    return child.returncode, json.loads(text)["error"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        code, error = start_error("--db", f"{tmp_path}/a.db", "--port", port, "--workers", workers)

    assert (code, error["code"]) == (1, "invalid_argument")
    assert f"port {port} " in error["message"]
    assert "--port" in error["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--db", "{folder}/none/a.db"), "storage_error", "directory does not exist"),
        (("--db", "{folder}/words.txt"), "store_damaged", "not a database"),
        (("--db", "{folder}/a.db", "--model", "nonsense:x"), "invalid_argument", "nonsense:x"),
        (("--db", "{folder}/a.db", "--host", "localhost."), "unsafe_settings", "AUTH_MODE=dev"),
        (("--db", "{folder}/a.db", "--agent", "nowhere:agent"), "invalid_argument", "no module 'nowhere'"),
        (("--db", "{folder}/a.db", "--volume", "{folder}/none"), "invalid_argument", "--volume"),
    ],
    ids=["no folder", "no database", "no model", "no loopback", "no agent", "no volume"],
)
def test_what_a_start_needs_and_cannot_have_is_told_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: str, words: str
) -> None:
    (tmp_path / "words.txt").write_text("no database at all")
    exit_code, error = start_error(
        *(each.format(folder=tmp_path) for each in arguments), "--port", str(free_port())
    )

    assert (exit_code, error["code"]) == (1, code)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ([], {}),
        (
            ["--db", "memory://", "--host", "127.0.0.1", "--port", "8300", "--workers", "1"],
            {"url": "memory://", "host": "127.0.0.1", "port": 8300, "workers": 1},
        ),
        (["--model", "a:b", "--cors", "https://b.example"], {"model": "a:b", "cors": ("https://b.example",)}),
        (["--agent", "plain"], {"agent": "plain"}),
        (["--agent", "plain", "--agent", "companion"], {"agent": "plain,companion"}),
        (
            ["--embedder", "none", "--search-provider", "searxng:https://b.example", "--skills", "b"],
            {"embedder": "none", "search_provider": "searxng:https://b.example", "skills": "b"},
        ),
        (["--volume", "elsewhere"], {"volume": "elsewhere"}),
    ],
    ids=["nothing", "the address", "the rest", "the agent", "agents", "what it may use", "the volume"],
)
def test_what_the_command_is_not_told_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], changes: dict[str, object]
) -> None:
    base = ServerSettings(
        url=f"sqlite:///{tmp_path}/a.db",
        host="127.0.0.2",
        port=8200,
        workers=2,
        agent="companion",
        model="c:d",
        embedder=SPELLING,
        search_provider="searxng:https://a.example",
        skills="a",
        cors=("https://a.example",),
        volume="mounted",
        json_logs=True,
    )
    starts: list[ServerSettings] = []

    async def start(settings: ServerSettings, *_: object, **__: object) -> None:
        starts.append(settings)

    for name in ("serve", "check_prerequisites"):
        monkeypatch.setattr(f"clew.server.process.{name}", start)
    monkeypatch.setattr("clew.server.process.open_listener", lambda settings: nullcontext())
    result = CliRunner().invoke(
        build_app(),
        ["serve", *arguments],
        env=as_variables(base)
        | {
            "CLEW_DB": "other.db",
            "CLEW_AGENT": "no_such_agent",
            "CLEW_SKILLS": "other",
            "CLEW_VOLUME": "other",
        },
    )

    assert (result.exit_code, starts) == (0, [msgspec.structs.replace(base, **changes)] * 2)


# The volume: each sentence of the documentation about it, on a server that was started with it.


@pytest.fixture
async def served_volume(tmp_path: Path) -> AsyncIterator[tuple[Path, AsyncClient]]:
    """A volume, and the client of a user of a server that was started with it."""
    volume, port = tmp_path / "volume", free_port()
    volume.mkdir()
    with command("--db", f"{tmp_path}/a.db", "--port", str(port), "--volume", str(volume)):
        await up(f"http://127.0.0.1:{port}")
        async with AsyncClient(f"http://127.0.0.1:{port}", headers={"X-Clew-User": "alice"}) as client:
            await client.run_turn("t", "Hello")
            yield volume, client


def paths_below(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


MANIFEST = "default/meta/workspaces/default/users/alice/react-session-t.json"


async def test_documents_and_files_are_on_the_volume_of_a_server(
    served_volume: tuple[Path, AsyncClient],
) -> None:
    volume, alice = served_volume
    document = await alice.workbench.add_document("t", "tea.txt", b"Tea at four.")
    own_folder = volume / "default/users/alice"
    (own_folder / "memory").mkdir()
    (own_folder / "memory/note.txt").write_bytes(b"Likes tea.")
    files = await alice.workbench.volume("t", folder="memory")
    loaded = await alice.workbench.load_document("t", "memory/note.txt")
    artifacts = await alice.workbench.artifacts("t")

    assert (own_folder / document.path).read_bytes() == b"Tea at four."
    assert [file.path for file in files.files] == ["memory/note.txt"]
    assert (loaded.characters, artifacts.artifacts) == (10, [])


async def test_a_manifest_that_is_exported_is_on_the_volume_until_its_session_is_deleted(
    served_volume: tuple[Path, AsyncClient],
) -> None:
    volume, alice = served_volume
    before = paths_below(volume)
    manifest = json.loads(await alice.export_manifest("t"))
    exported = paths_below(volume)
    on_volume = json.loads((volume / MANIFEST).read_bytes())
    await alice.delete_session("t")

    assert (before, exported, paths_below(volume)) == (set(), {MANIFEST}, set())
    assert on_volume.pop("checkpoint")["version"] == 3
    assert on_volume == manifest


async def test_the_files_of_a_person_are_exported_erased_and_imported_over_http(
    served_volume: tuple[Path, AsyncClient],
) -> None:
    volume, alice = served_volume
    await alice.workbench.add_document("t", "tea.txt", b"Tea at four.")
    before = paths_below(volume)
    archive = await alice.export_person()
    erasure = await alice.operator.erase(owner="alice")
    erased = paths_below(volume)
    await alice.import_sessions(archive)

    assert (erasure.receipt.counts["files in buffers"], erased) == (2, set())
    assert paths_below(volume) == before


async def test_one_variable_names_the_volume_of_every_command(tmp_path: Path) -> None:
    port = free_port()
    with command("--db", f"{tmp_path}/a.db", "--port", str(port), CLEW_VOLUME=str(tmp_path)) as child:
        await up(f"http://127.0.0.1:{port}")
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            await client.create_thread("t")
            documents = await client.workbench.documents("t")
        child.terminate()
        _, text = child.communicate(timeout=60)

    assert documents.documents == []
    assert f"volume   {tmp_path}" in text


async def test_ctrl_c_ends_several_workers_as_it_ends_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr("clew.server.process.raise_file_limit", lambda: None)
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.signal.signal", lambda *args: None)
    monkeypatch.setattr(Workers, "run", Workers.handle_int)
    with socket.socket() as listener, pytest.raises(KeyboardInterrupt) as error:
        await serve(ServerSettings(workers=2), listener)

    assert error.type is KeyboardInterrupt


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ServerSettings(prices="{folder}/none.json"), "none.json"),
        (ServerSettings(volume="{folder}/none"), "CLEW_SERVER_VOLUME"),
        (ServerSettings(voice_model="any", voice_url="nowhere"), "CLEW_SERVER_VOICE_URL"),
    ],
    ids=["no prices", "no volume", "no voice"],
)
async def test_a_setting_that_names_nothing_is_told_before_anything_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: ServerSettings, words: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    changes = {
        name: value.format(folder=tmp_path)
        for name in ("prices", "volume")
        if (value := getattr(settings, name)) is not None
    }
    with pytest.raises(InvalidArgument) as error:
        await check_prerequisites(msgspec.structs.replace(settings, **changes))

    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("STREAMS", "many"), ("STREAMS", "-1"), ("PING_SECONDS", "0"), ("TURNS", "0"), ("PORT", "70000")],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        from_variables({f"CLEW_SERVER_{name}": value})

    assert f"CLEW_SERVER_{name}={value!r} cannot be used" in str(error.value)


@pytest.mark.slow
async def test_ctrl_c_in_the_middle_of_a_stream_stops_it_well_and_it_starts_again(tmp_path: Path) -> None:
    port = free_port()
    arguments, address = ("--db", f"{tmp_path}/a.db", "--port", str(port)), f"http://127.0.0.1:{port}"
    with command(*arguments) as child:
        await up(address)
        async with AsyncClient(address) as client:
            await client.run_turn("t", "hello")
            follow = asyncio.create_task(_first(client))
            await asyncio.sleep(0.2)
            child.send_signal(signal.SIGINT)
            output = await asyncio.to_thread(child.communicate, timeout=20)
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)
    with command(*arguments):
        await up(address)
        async with AsyncClient(address) as client:
            again = await client.run_turn("t", "hello again")

    assert child.returncode == 130
    assert output[1].rstrip().endswith("Stopped.")
    assert "Traceback" not in output[1]
    assert again.termination == "natural"


@pytest.mark.slow
async def test_workers_share_one_file(tmp_path: Path) -> None:
    port = free_port()
    with command("--db", f"sqlite:///{tmp_path}/a.db", "--port", str(port), "--workers", "2"):
        await up(f"http://127.0.0.1:{port}")
        address = f"http://127.0.0.1:{port}"
        counts = await asyncio.gather(*(asyncio.to_thread(_turns, address, name) for name in ("a", "b", "c")))
        async with AsyncClient(address) as client:
            first = await client.threads(limit=1)
            pages = [await client.threads(limit=1, cursor=first.next) for _ in range(6)]

    assert counts == [5, 5, 5]
    assert len({page.threads[0].id for page in pages}) == 1


def _turns(address: str, thread: str) -> int:
    """Five turns, each over a connection of its own."""
    for number in range(5):
        with Client(address) as client:
            client.run_turn(thread, f"message {number}")
    with Client(address) as client:
        return len(client.turns(thread).turns)


class DeadWorker:
    """A worker with the exit code that it ended with; None while it serves."""

    def __init__(self, code: int | None) -> None:
        self.exitcode = code


class NewWorker(DeadWorker):
    """A worker that was begun just now."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(None)

    def start(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("codes", "later", "is_new", "is_over"),
    [
        ([-9, None], 0.0, [True, False], False),
        ([0, None], 0.0, [True, False], False),
        ([3, None], 0.0, [False, False], False),
        ([3, None], RESTART_SECONDS, [True, False], False),
        ([3, 1], RESTART_SECONDS, [False, False], True),
    ],
    ids=["killed", "stopped", "failed just now", "failed a while ago", "all failed"],
)
def test_a_worker_is_replaced_but_not_for_ever_if_none_can_start(
    monkeypatch: pytest.MonkeyPatch,
    codes: list[int | None],
    later: float,
    is_new: list[bool],
    *,
    is_over: bool,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("clew.server.process.time.monotonic", lambda: now[0])
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.signal.signal", lambda *args: None)
    monkeypatch.setattr("clew.server.process.Process", NewWorker)
    workers = Workers(uvicorn_config(ServerSettings(workers=2)), [])
    workers.processes = [DeadWorker(code) for code in codes]  # type: ignore[misc]  # as much of one as is looked at
    now[0] += later
    workers.keep_subprocess_alive()

    assert [isinstance(worker, NewWorker) for worker in workers.processes] == is_new
    assert (workers.have_failed, workers.should_exit.is_set()) == (is_over, is_over)


def test_workers_cannot_share_memory() -> None:
    with pytest.raises(InvalidArgument):
        check_workers(ServerSettings(url="memory://", workers=2))
