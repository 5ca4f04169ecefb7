"""The command that searches, as a person at a terminal meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from clew.runtime.memory.memory import Memory
from tests.runtime.memory.candidates import sister
from tests.support.embedders import SPELLING


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{path}") as db:
        for owner in ("alice", "bob"):
            thread = await db.create(f"{owner}s-trip", owner=owner)
            await thread.append(items=[clew.user("The train to Lisbon"), clew.assistant("Trains are slow")])
        await Memory(db, "alice").learn([sister("Ann")])
    return path


def search_output(
    capsys: pytest.CaptureFixture[str], file: Path, *arguments: object, code: int = 0
) -> tuple[str, str]:
    """What the command says, in its output and aside."""
    assert run(["search", *map(str, arguments), "--db", str(file)]) == code
    output = capsys.readouterr()
    return output.out, output.err


def value(capsys: pytest.CaptureFixture[str], file: Path, *arguments: object) -> Any:
    return json.loads(search_output(capsys, file, *arguments, "--json")[0])


@pytest.mark.promise("B-12")
def test_a_hit_is_shown_with_its_thread_and_time(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = search_output(capsys, file, "lisbon", "--owner", "alice")

    assert out.startswith("alices-trip · item · user · version 1 · 20")
    assert "The train to Lisbon" in out


@pytest.mark.promise("B-12")
def test_facts_are_found_too_and_only_those_of_the_user(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = value(capsys, file, "my", "sister", "--user", "alice", "--kind", "facts")["found"]
    theirs = value(capsys, file, "my", "sister", "--user", "bob")["found"]

    assert [hit["thread"] for hit in mine] == ["memory/alice"]
    assert [mine[0]["text"][a:b] for a, b in mine[0]["marks"]] == ["sister", "sister"]
    assert theirs == []


def test_a_cursor_goes_on_where_a_page_ended(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = value(capsys, file, "train", "--limit", 3)
    second = value(capsys, file, "train", "--limit", 3, "--cursor", first["next"])

    assert (len(first["found"]), len(second["found"]), second["next"]) == (3, 1, None)


def test_a_role_and_a_time_narrow_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hits = value(capsys, file, "train", "--role", "assistant", "--thread", "bobs-trip")["found"]
    early = value(capsys, file, "train", "--until", "2001-01-01")["found"]
    late = value(capsys, file, "train", "--since", "2001-01-01T10:30")["found"]

    assert ([hit["text"] for hit in hits], early, len(late)) == (["Trains are slow"], [], 4)


def test_an_embedder_can_be_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert value(capsys, file, "train", "--embedder", SPELLING)["path"] == "hybrid_rrf"
    assert value(capsys, file, "train")["path"] == "token_recall"
    assert "no embedder 'magic'" in search_output(capsys, file, "train", "--embedder", "magic", code=1)[1]


def test_nothing_found_says_what_may_help(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = search_output(capsys, file, "boat", "--owner", "alice")

    assert " ".join(out.split()) == (
        "Nothing found for 'boat'. Try fewer or other words, or leave out --owner."
    )


def test_nonsense_is_told_apart(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = search_output(capsys, file, "train", "--kind", "dreams", code=2)[1]
    cursor = search_output(capsys, file, "train", "--cursor", "x", code=1)[1]

    assert "items, facts, arcs, rules" in " ".join(kind.replace("│", " ").split())
    assert "Begin again without it" in " ".join(cursor.split())
