"""``clew memory``: a person sees, corrects, forgets, brings back and carries away what is remembered."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.cli.app import run
from clew.core.encoding import JSON
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.testing.scripted_model import ScriptedModel

COMMAND = Path(sys.executable).with_name("clew")
MESSAGES = ("Please no bullet points.", "My sister is called Ann.", "I'm allergic to nuts.")


async def tell_facts(
    url: str, tenant: str = "default", user: str | None = "alice", thread: str = "s1"
) -> None:
    """A session in which somebody says a few things about themselves."""
    async with (
        clew.open(url) as db,
        clew.Runtime(
            db.scope(tenant=tenant), model=ScriptedModel(*["I see."] * len(MESSAGES)), finalize=Finalizer()
        ) as runtime,
    ):
        for text in MESSAGES:
            await runtime.run_turn(thread, text, user=user)
        await runtime.end_session(thread, user=user)


async def delete_thread(url: str, tenant: str) -> None:
    """Delete the session that things were said in."""
    async with clew.open(url) as db:
        await db.scope(tenant=tenant).thread("s1").delete()


Place = tuple[str, str]
"""A database's URL and a tenant of it."""


class Commands:
    """``clew memory`` on one database, for one owner."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str], *whose: str) -> None:
        self._end = ["--db", place[0], "--tenant", place[1], *whose]
        self._capsys = capsys

    def code(self, *arguments: str) -> int:
        self._capsys.readouterr()
        return run(["memory", *arguments, *self._end])

    def text(self, *arguments: str, code: int = 0) -> str:
        assert self.code(*arguments) == code
        output = self._capsys.readouterr()
        return output.out or output.err

    def value(self, *arguments: str, code: int = 0) -> JSON:
        return json.loads(self.text(*arguments, "--json", code=code))

    def facts(self) -> dict[str, str]:
        """The id of every fact, by its object."""
        return {fact["object"]: fact["id"] for fact in self.value("list")["facts"]}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path, tenant: str) -> Place:
    """A tenant that nobody has used before, on each store that another process can open."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url")), tenant
    return f"sqlite:///{tmp_path / 'test.db'}", tenant


@pytest.fixture
def commands(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("COLUMNS", "80")
    asyncio.run(tell_facts(*place))
    return Commands(place, capsys, "--owner", "alice")


@pytest.mark.promise("B-11")
def test_everything_is_listed_with_its_words_and_its_source(commands: Commands) -> None:
    text = commands.text("list")

    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "sister is called Ann" in text
    assert "“My sister is called Ann.” · session s1 at version" in text
    assert "Answer without bullet points." in text
    assert "Earlier sessions" in text


@pytest.mark.promise("B-11")
def test_a_fact_is_shown_with_the_whole_message_that_it_comes_from(commands: Commands) -> None:
    entry = commands.value("show", commands.facts()["Ann"])
    source = entry["known"]["source"]

    assert (entry["kind"], entry["said"], source["thread"]) == ("fact", "My sister is called Ann.", "s1")
    assert source["run"].startswith("run-")


@pytest.mark.promise("B-11")
def test_a_correction_shows_before_and_after_and_can_be_undone(commands: Commands) -> None:
    id = commands.facts()["Ann"]
    result = commands.value("correct", id, "Anne")
    history = [fact["object"] for fact in commands.value("show", id)["history"]]
    commands.code("undo")

    assert (result["before"]["object"], result["after"]["object"], result["after"]["id"]) == (
        "Ann",
        "Anne",
        id,
    )
    assert history == ["Ann", "Anne"]
    assert "Ann" in commands.facts()


@pytest.mark.promise("B-11")
def test_what_was_so_once_is_listed_with_what_took_its_place(commands: Commands) -> None:
    commands.code("correct", commands.facts()["Ann"], "Anne", "--since", "2030-06")
    text = commands.text("list", "--all")
    page = commands.value("list", "--all")
    names = {fact["object"]: fact["id"] for fact in page["facts"]}

    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "Facts that held once" in text
    assert "until another took its place" in " ".join(text.split())
    assert page["lineage"][names["Ann"]]["replacement"]["object"] == "Anne"
    assert "replaced by: sister is called Anne" in " ".join(text.split())
    assert commands.value("show", names["Ann"])["lineage"]["replacement"]["id"] == names["Anne"]
    assert "Ann" not in commands.facts()


@pytest.mark.promise("B-11")
@pytest.mark.parametrize(
    ("at", "names"), [("2020-05", []), ("2030-05-15", ["Ann", "nuts"]), ("2030-07", ["Anne", "nuts"])]
)
def test_what_was_so_at_a_time_is_listed(commands: Commands, at: str, names: list[str]) -> None:
    commands.code("correct", commands.facts()["Ann"], "Anne", "--since", "2030-06")

    assert sorted(fact["object"] for fact in commands.value("list", "--at", at)["facts"]) == names


@pytest.mark.promise("B-11")
def test_an_undo_names_what_it_takes_back(commands: Commands) -> None:
    commands.code("correct", commands.facts()["Ann"], "Anne")

    assert commands.text("undo").startswith("- sister is called Anne\n+ sister is called Ann\n")


def test_a_time_that_is_none_is_refused(commands: Commands) -> None:
    assert "Give a year, a month, a day or a moment" in commands.text("list", "--at", "May", code=1)


@pytest.mark.promise("B-11")
def test_an_audit_that_finds_nothing_ends_with_0_and_says_what_it_counted(commands: Commands) -> None:
    result = commands.value("audit")

    assert (result["ok"], result["counts"]["facts"], result["counts"]["quote_found"]) == (True, 2, 2)
    assert "1 memory checked: nothing is wrong." in commands.text("audit")


@pytest.mark.promise("B-11")
def test_an_audit_that_finds_something_ends_with_1_and_names_it(commands: Commands, place: Place) -> None:
    asyncio.run(delete_thread(*place))
    result = commands.value("audit", code=1)

    assert {finding["kind"] for finding in result["memories"][0]["findings"]} == {"source_gone"}
    assert "The turn that it comes from is not there." in " ".join(commands.text("audit", code=1).split())


@pytest.mark.promise("B-11")
def test_without_an_owner_every_memory_is_audited(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(tell_facts(*place))
    asyncio.run(tell_facts(*place, user=None, thread="s2"))
    result = Commands(place, capsys).value("audit")

    assert sorted(audit["thread"] for audit in result["memories"]) == ["memory/@s2", "memory/alice"]
    assert result["counts"]["facts"] == 4


@pytest.mark.promise("A-06")
def test_nothing_is_forgotten_without_a_yes(commands: Commands) -> None:
    ids = commands.facts()
    text = commands.text("forget", ids["Ann"], ids["nuts"], code=1)

    assert "sister is called Ann" in text
    assert "Say --yes" in text
    assert commands.facts() == ids


@pytest.mark.promise("A-06", "B-11")
def test_what_is_named_is_forgotten_and_comes_back_under_its_id(commands: Commands) -> None:
    before = commands.facts()
    result = commands.value("forget", before["Ann"], "--yes")
    between = commands.facts()
    commands.code("undo", str(result["version"]))

    assert (result["forgotten"], list(between)) == ([before["Ann"]], ["nuts"])
    assert commands.facts() == before


def test_a_wrong_id_names_itself_and_forgets_nothing(commands: Commands) -> None:
    ids = commands.facts()
    error = commands.value("forget", ids["Ann"], "fact-nothing", "--yes", code=1)["error"]

    assert (error["code"], error["id"]) == ("record_not_found", "fact-nothing")
    assert commands.facts() == ids


@pytest.mark.promise("A-05")
def test_recall_is_switched_and_rules_stay(commands: Commands) -> None:
    before, after = commands.value("recall"), commands.value("recall", "off")
    memory = commands.value("list", "--kind", "rules")

    assert (before["recall"], after["recall"], memory["recall"]) == (True, False, False)
    assert [rule["text"] for rule in memory["rules"]] == ["Answer without bullet points."]
    assert memory["facts"] == []


def test_a_long_list_comes_in_pages(commands: Commands) -> None:
    first = commands.value("list", "--kind", "facts", "--limit", "1")
    place = str(first["next"]["facts"])
    second = commands.value("list", "--kind", "facts", "--limit", "1", "--before", place)

    assert [page["facts"][0]["object"] for page in (first, second)] == ["nuts", "Ann"]
    assert second["next"]["facts"] is None


@pytest.mark.promise("B-11")
def test_a_memory_is_carried_away_as_one_document(commands: Commands) -> None:
    everything = commands.value("export")

    assert sorted(fact["object"] for fact in everything["facts"]) == ["Ann", "nuts"]
    assert all(fact["source"]["thread"] == "s1" for fact in everything["facts"])


@pytest.mark.promise("R-16")
def test_nobody_elses_memory_is_shown(
    commands: Commands, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    bob = Commands(place, capsys, "--owner", "bob")
    peeking = Commands(place, capsys, "--owner", "alice", "--user", "bob")

    assert "Nothing is remembered here." in bob.text("list")
    assert peeking.facts() == {}


@pytest.mark.promise("R-16")
def test_the_memory_of_a_thread_without_a_user_is_reached_by_the_thread(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(tell_facts(*place, None, "guest"))

    assert sorted(Commands(place, capsys, "--thread", "guest").facts()) == ["Ann", "nuts"]


def test_whose_memory_it_is_must_be_said(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(tell_facts(*place))
    error = Commands(place, capsys).value("list", code=1)["error"]

    assert "--owner USER" in error["message"]


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(
    ("answer", "objects"), [("y", ["nuts"]), ("n", ["Ann", "nuts"]), ("", ["Ann", "nuts"])]
)
def test_at_a_terminal_a_person_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str, objects: list[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    asyncio.run(tell_facts(url))
    commands = Commands((url, "default"), capsys, "--owner", "alice")
    id = commands.facts()["Ann"]
    mine, theirs = pty.openpty()
    os.write(mine, f"{answer}\n".encode())
    subprocess.run(
        [COMMAND, "memory", "forget", id, "--owner", "alice", "--db", url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        timeout=60,
        check=False,
    )
    os.close(theirs)
    os.close(mine)

    assert sorted(commands.facts()) == objects
