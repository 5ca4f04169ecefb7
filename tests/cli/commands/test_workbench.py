"""Core memory, documents and artifacts at the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import clew
from clew.cli.render.workbench import byte_size, new_file_name
from tests.support.command_line import CommandLine

MARKDOWN = "# Sea\n\nTwice a day the \x1b[31mwater comes.\n\n## Waves\n\nHigh.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one thread, and a document beside it."""
    file = tmp_path / "agent.db"
    asyncio.run(_fill(f"sqlite:///{file}"))
    (tmp_path / "sea.md").write_text(MARKDOWN)
    return file


async def _fill(url: str) -> None:
    async with clew.open(url) as db:
        await db.create("t", owner="alice")


@pytest.fixture
def command(file: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(file, capsys)


def test_documents_are_added_listed_read_and_found(command: CommandLine, file: Path) -> None:
    code, out, _ = command("documents", "add", "t", str(file.parent / "sea.md"))
    assert (code, "text/markdown" in out, "2 sections" in " ".join(out.split())) == (0, True, True)
    shelf = command.json("documents", "list", "t")
    path = shelf["documents"][0]["path"]
    assert (shelf["active"], shelf["conditions"]) == (path, {path: "ok"})
    _, out, _ = command("documents", "read", "t", "--length", "5")
    assert out.splitlines()[0] == "# Sea"
    assert "--start 5" in out
    _, out, _ = command("documents", "find", "t", "waters", "day")

    assert "\x1b[31m" not in out
    assert "--start 7" in out


def test_a_changed_file_is_said_and_the_exit_code_too(command: CommandLine, file: Path) -> None:
    command("documents", "add", "t", str(file.parent / "sea.md"))
    path = command.json("documents", "list", "t")["documents"][0]["path"]
    [copy] = (file.parent / "agent.db.volume").rglob("sea.md")
    copy.write_text("other")
    code, out, _ = command("documents", "list", "t")
    assert (code, "changed since" in out) == (1, True)
    code, _, err = command("documents", "read", "t")
    assert (code, "volume_file_changed" in err) == (1, True)
    command("documents", "load", "t", path)

    assert command.json("documents", "read", "t")["text"] == "other"


def test_a_document_is_switched_to_and_unloaded(command: CommandLine, file: Path) -> None:
    (file.parent / "b.txt").write_text("b")
    command("documents", "add", "t", str(file.parent / "sea.md"), str(file.parent / "b.txt"))
    shelf = command.json("documents", "list", "t")
    other = next(each["path"] for each in shelf["documents"] if each["path"] != shelf["active"])
    command("documents", "switch", "t", other)
    assert command.json("documents", "list", "t")["active"] == other
    command("documents", "unload", "t", other)

    assert [each["name"] for each in command.json("documents", "list", "t")["documents"]] == ["b.txt"]


def test_artifacts_are_kept_listed_written_and_deleted(
    command: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    artifact = command.json("artifacts", "add", "t", "sea.md")
    assert command.json("artifacts", "list", "t")["artifacts"] == [artifact]
    assert command.json("artifacts", "get", "t", artifact["id"])["file"] == "sea-2.md"
    assert (file.parent / "sea-2.md").read_text() == MARKDOWN
    assert command("artifacts", "delete", "t", artifact["id"])[0] == 1
    assert command("artifacts", "delete", "t", artifact["id"], "--yes")[0] == 0

    assert command.json("artifacts", "list", "t")["artifacts"] == []


def test_a_damaged_artifact_is_not_written(command: CommandLine, file: Path) -> None:
    artifact = command.json("artifacts", "add", "t", str(file.parent / "sea.md"))
    [on_volume] = (file.parent / "agent.db.volume").rglob("sea.md")
    on_volume.write_text("other")
    code, _, err = command("artifacts", "get", "t", artifact["id"], "-o", str(file.parent / "out.md"))

    assert (code, "artifact_damaged" in err) == (1, True)
    assert not (file.parent / "out.md").exists()


def test_core_memory_is_shown_and_changed(command: CommandLine) -> None:
    command("core-memory", "put", "t", "human", "Ada, 36")
    command("core-memory", "append", "t", "human", "She reads.")
    command("core-memory", "replace", "t", "human", ", 36", "")
    code, out, _ = command("core-memory", "show", "t")

    assert code == 0
    assert out.splitlines()[:3] == ["human  14 of 2,000 characters", "  Ada", "  She reads."]
    assert command.json("core-memory", "show", "t")["blocks"]["human"] == "Ada\nShe reads."
    assert command.json("core-memory", "show", "t", "--at", "1")["blocks"]["human"] == "Ada, 36"


def test_what_does_not_fit_is_an_error_with_its_code(command: CommandLine) -> None:
    assert "block_full" in command("core-memory", "put", "t", "human", "x" * 2001)[2]
    assert "block_not_found" in command("core-memory", "put", "t", "humans", "x")[2]
    assert "thread_not_found" in command("documents", "list", "nobody")[2]
    assert "There is no volume" in command("documents", "list", "t", "--volume", "/nowhere")[2]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1200, "1.2 kB"), (25_000_000, "25 MB")]
)
def test_a_size_is_said_in_a_few_letters(number: int, text: str) -> None:
    assert byte_size(number) == text


def test_a_new_file_takes_no_name_that_is_there() -> None:
    assert new_file_name("a.b.png", exists=lambda name: name in ("a.b.png", "a.b-2.png")) == "a.b-3.png"
