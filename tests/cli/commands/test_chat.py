"""The chat without a terminal: lines in, answers or JSON out. The same commands as for a person."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

import clew
from clew.agents import Agent
from clew.cli.app import run
from clew.cli.commands import chat as chat_command
from clew.core.values import Record, RecordQuery
from clew.database.database import Database
from clew.runtime.memory import memory_of
from clew.runtime.records.episodes import ACTIVE_EPISODE, EPISODE, episode_of
from clew.runtime.records.feedback import FEEDBACK
from tests.support.embedders import SPELLING

COMMAND = Path(sys.executable).with_name("clew")
T = TypeVar("T")
Lines: TypeAlias = list[dict[str, Any]]
Chat: TypeAlias = Callable[..., Lines]
ANN = "My sister is called Ann. I'm allergic to nuts."
ALICE = ("--user-id", "alice", "--thread-id", "s1")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'chat.db'}"


@pytest.fixture
def chat(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Chat:
    """A chat of some lines, and the objects that it answers with, but for how it opened."""

    def run_chat(*arguments: str, lines: list[str], code: int = 0) -> Lines:
        stdin = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        exit_code = run(["chat", url, "--json", *arguments])
        out, err = capsys.readouterr()
        assert exit_code == code, err
        return [json.loads(line) for line in out.splitlines()]

    return run_chat


def kinds(lines: Lines) -> list[str]:
    return [each["type"] for each in lines]


def only(lines: Lines, kind: str) -> dict[str, Any]:
    (line,) = [each for each in lines if each["type"] == kind]
    return line


def query_database(url: str, look: Callable[[Database], Awaitable[T]]) -> T:
    """What is to be seen in a database."""

    async def read() -> T:
        async with clew.open(url) as db:
            return await look(db)

    return asyncio.run(read())


def objects(url: str, thread: str, user: str | None = None) -> list[str]:
    """What is known, of a user or of a thread."""

    async def read_objects(db: Database) -> list[str]:
        return sorted(fact.object for fact in (await memory_of(db, thread, user).page()).facts)

    return query_database(url, read_objects)


def records(url: str, kind: str) -> list[Record]:
    async def read_records(db: Database) -> list[Record]:
        return list(await db.records.find(RecordQuery(kind=kind)))

    return query_database(url, read_records)


@pytest.mark.promise("T-08")
def test_the_log_of_a_chat_shows_each_reply_as_an_assistant_turn(
    chat: Chat, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chat(*ALICE, lines=["I had a long day", "Let's do box breathing"])
    run(["log", "s1", "--db", url, "--json"])
    changes = json.loads(capsys.readouterr().out)["changesets"]
    reasons = [change["reason"] for change in changes if change["run_id"] is not None]

    assert reasons == ["UserMessage", "AssistantTurnCommitted", "RunFinished"] * 2


def diagnostics(url: str, thread: str) -> dict[str, Any]:
    """The diagnostics that a thread's state keeps of its last turn."""

    async def read_diagnostics(db: Database) -> dict[str, Any]:
        return dict((await db.thread(thread).state())["diagnostics"])

    return query_database(url, read_diagnostics)


@pytest.mark.promise("A-09")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("I live in Sydney and I want to kill myself", "found"),
        ("I'm from Croatia and I want to kill myself", "no_verified_results"),
        ("I want to kill myself and I won't tell you where I am", "location_refused"),
        ("I want to kill myself", "no_location"),
        ("I had a long day", "not_attempted"),
    ],
)
def test_the_state_of_a_chat_says_whether_lines_were_found(
    chat: Chat, url: str, line: str, status: str
) -> None:
    chat(*ALICE, lines=[line])

    assert diagnostics(url, "s1")["resource_lookup_status"] == status


@pytest.mark.promise("A-10")
def test_a_chat_says_what_its_turns_and_its_end_wrote(chat: Chat, url: str) -> None:
    ended = only(chat(*ALICE, lines=[ANN, "/end y"]), "ended")["ended"]

    assert diagnostics(url, "s1")["write_counts"] == {"candidates": 2, "facts": 0, "rules": 0, "arcs": 0}
    assert {name: ended["write_counts"][name] for name in ("facts", "rules", "arcs")} == {
        "facts": 2,
        "rules": 0,
        "arcs": 1,
    }


@pytest.mark.promise("A-07")
def test_an_exercise_of_a_chat_is_over_with_its_session(chat: Chat) -> None:
    lines = chat(*ALICE, lines=["Let's do box breathing", "/end y", "ok"])
    answers = [each["text"] for each in lines if each["type"] == "answer"]

    assert "box breathing" in answers[0].lower()
    assert "breath" not in answers[1].lower()


# Who talks.


@pytest.mark.promise("A-03")
@pytest.mark.parametrize(("arguments", "user"), [(ALICE, "alice"), (("--thread-id", "s1"), None)], ids=str)
def test_stages_see_who_talks_and_on_which_thread(
    chat: Chat, url: str, arguments: tuple[str, ...], user: str | None
) -> None:
    chat(*arguments, lines=["I had a long day"])

    async def read_inputs(db: Database) -> dict[str, Any]:
        return dict((await db.thread("s1").state(at=1))["$run"]["inputs"])

    inputs = query_database(url, read_inputs)
    assert (inputs["session_id"], inputs["user_id"], inputs["channel"]) == ("s1", user, "terminal")


@pytest.mark.promise("R-17")
def test_a_thread_that_is_not_named_gets_an_id_of_its_own(chat: Chat) -> None:
    ids = [only(chat("--user-id", "alice", lines=[]), "opened")["thread"] for _ in range(2)]

    assert ids[0] != ids[1]
    assert all(re.fullmatch(r"local-[0-9a-f]{12}", id) for id in ids)


@pytest.mark.promise("R-17", "R-14")
def test_a_guest_has_no_user_and_leaves_nothing_on_disk(chat: Chat, tmp_path: Path) -> None:
    lines = chat("--mode", "guest", "--user-id", "alice", lines=[ANN, "/status", "/end y"])

    assert (only(lines, "opened")["user"], only(lines, "status")["status"]) == (None, "active")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("R-14")
def test_of_a_guest_nothing_is_remembered_or_listed(chat: Chat) -> None:
    lines = chat("--mode", "guest", lines=[ANN, "/memory", "/search ann", "/threads"], code=1)

    assert kinds(lines) == ["opened", "answer", "error", "error", "threads"]
    assert lines[-1]["threads"] == []


@pytest.mark.promise("R-16", "R-17")
def test_without_a_user_the_memory_belongs_to_the_thread(chat: Chat, url: str) -> None:
    chat("--thread-id", "a", lines=[ANN, "/end"])
    chat("--thread-id", "b", lines=["Hello", "/end"])

    assert (objects(url, "a"), objects(url, "b")) == (["Ann", "nuts"], [])


def test_the_thread_of_somebody_else_is_refused(chat: Chat) -> None:
    chat(*ALICE, lines=["Hello"])

    assert chat("--thread-id", "s1", "--user-id", "bob", lines=["Hello"], code=1) == []
    assert chat("--thread-id", "s1", lines=["Hello"], code=1) == []


def test_only_threads_of_ones_own_are_listed_and_found(chat: Chat) -> None:
    chat(*ALICE, lines=["The harbour was grey"])
    lines = chat("--thread-id", "mine", lines=["Hello", "/threads", "/search harbour", "/resume s1"], code=1)

    assert [thread["id"] for thread in only(lines, "threads")["threads"]] == ["mine"]
    assert only(lines, "search")["found"] == []
    assert "no thread of yours" in only(lines, "error")["error"]["message"]


# A session, and what it leaves.


@pytest.mark.promise("R-18")
def test_another_thread_of_a_known_user_opens_with_the_last_session(chat: Chat) -> None:
    chat(*ALICE, lines=["I've been so anxious about my exam", "/end"])
    lines = chat("--user-id", "alice", lines=["Hey"])

    assert only(lines, "opened")["catch_up"] == [
        "Last session (anxiety, work): talked about anxiety and work."
    ]
    assert "Last time it was about anxiety" in only(lines, "answer")["text"]


@pytest.mark.promise("R-18", "A-05")
def test_whoever_wants_nothing_brought_up_is_greeted_without_it(chat: Chat) -> None:
    chat(*ALICE, lines=["I've been so anxious about my exam", "/end", "/memory recall off"])

    assert only(chat("--user-id", "alice", lines=[]), "opened")["catch_up"] == []


@pytest.mark.promise("R-11")
def test_leaving_ends_the_session(chat: Chat, url: str) -> None:
    chat(*ALICE, lines=[ANN])
    (episode,) = [episode_of(record) for record in records(url, EPISODE)]

    assert records(url, ACTIVE_EPISODE) == []
    assert (episode.status, episode.ended_by, objects(url, "s1", "alice")) == (
        "ended",
        "shutdown",
        ["Ann", "nuts"],
    )


@pytest.mark.promise("R-11")
def test_leaving_ends_every_session_that_was_begun(chat: Chat, url: str) -> None:
    chat(*ALICE, lines=[ANN, "/new", "I like green tea.", "/new", "I live in Oslo.", "/exit"])

    assert [episode_of(record).status for record in records(url, EPISODE)] == ["ended"] * 3
    assert sorted(objects(url, "s1", "alice")) == ["Ann", "Oslo", "green tea", "nuts"]


@pytest.mark.promise("R-23", "R-08")
@pytest.mark.parametrize(("word", "label"), [("y", "positive"), ("n", "negative"), ("s", "skip")])
def test_feedback_is_a_label_and_numbers(chat: Chat, url: str, word: str, label: str) -> None:
    chat(*ALICE, lines=["Hello", "Me again", f"/end {word}"])
    (record,) = records(url, FEEDBACK)

    assert {key: record.body[key] for key in ("label", "source", "modality", "turns")} == {
        "label": label,
        "source": "cli",
        "modality": "text",
        "turns": 2,
    }


@pytest.mark.promise("R-23", "R-08")
def test_feedback_and_then_an_end_make_one_row_and_the_end_asks_nothing(chat: Chat, url: str) -> None:
    lines = chat(*ALICE, lines=["Hello", "/feedback y", "/end", "/exit"])
    (record,) = records(url, FEEDBACK)

    assert [each["feedback"] for each in lines if each["type"] in ("feedback", "ended")] == ["positive"] * 2
    assert (record.body["label"], record.body["source"]) == ("positive", "cli")


@pytest.mark.promise("R-23")
def test_feedback_need_not_be_given(chat: Chat, url: str) -> None:
    lines = chat(*ALICE, lines=["Hello", "/feedback", "/feedback n", "/exit"])
    labels = [each["feedback"] for each in lines if each["type"] == "feedback" and "feedback" in each]

    assert labels == [None, "negative"]
    assert [record.body["label"] for record in records(url, FEEDBACK)] == ["negative"]


@pytest.mark.promise("R-14", "R-23")
def test_feedback_of_a_guest_is_not_kept(chat: Chat, url: str) -> None:
    lines = chat("--mode", "guest", lines=["Hello", "/feedback y", "/exit"])

    assert only(lines, "feedback")["feedback"] == "positive"
    assert records(url, FEEDBACK) == []


@pytest.mark.promise("R-08", "R-23")
def test_an_end_tells_what_was_learned(chat: Chat) -> None:
    lines = chat(*ALICE, lines=[ANN, "Please keep your answers short.", "/end y"])
    end = only(lines, "ended")

    assert [fact["says"] for fact in end["facts"]] == [
        "You are allergic to nuts. You said: “I'm allergic to nuts.”",
        "Your sister is called Ann. You said: “My sister is called Ann.”",
    ]
    assert [rule["text"] for rule in end["rules"]] == ["Keep answers short."]
    assert (end["summary"], end["themes"]) == ("talked about somebody close", ["somebody close"])


def test_an_end_tells_only_what_its_own_session_taught(chat: Chat) -> None:
    lines = chat(*ALICE, lines=[ANN, "/end", "I live in Oslo.", "/end"])
    first, second = [[fact["object"] for fact in each["facts"]] for each in lines if each["type"] == "ended"]

    assert (sorted(first), second) == (["Ann", "nuts"], ["Oslo"])


def test_what_an_end_tells_can_be_forgotten_by_its_id(chat: Chat, url: str) -> None:
    lines = chat(*ALICE, lines=[ANN, "/end"])
    (ann,) = [fact["id"] for fact in only(lines, "ended")["facts"] if fact["object"] == "Ann"]
    chat(*ALICE, lines=[f"/forget {ann}", "yes"])

    assert objects(url, "s1", "alice") == ["nuts"]


def test_an_end_of_a_guest_tells_nothing(chat: Chat) -> None:
    lines = chat("--mode", "guest", lines=[ANN, "/end"])

    assert "facts" not in only(lines, "ended")


def test_without_a_person_no_feedback_is_asked_for_and_the_session_ends(chat: Chat, url: str) -> None:
    lines = chat(*ALICE, lines=["Hello", "/end", "y", "/end"])

    assert kinds(lines) == ["opened", "answer", "ended", "answer", "ended"]
    assert records(url, FEEDBACK) == []


@pytest.mark.promise("R-13")
def test_the_thread_goes_on_after_its_session_has_ended(chat: Chat) -> None:
    chat(*ALICE, lines=["Hello", "/end"])
    lines = chat(*ALICE, lines=["Me again", "/history", "/status"])

    assert only(lines, "opened")["status"] == "ended"
    assert [each["text"] for each in only(lines, "history")["messages"][::2]] == ["Hello", "Me again"]
    assert only(lines, "status")["episode"]["turns"] == 1


# Memory.


@pytest.mark.promise("A-06")
def test_something_is_forgotten_after_a_yes_and_comes_back_by_undo(chat: Chat, url: str) -> None:
    chat(*ALICE, lines=[ANN, "/end", "/forget Ann", "yes"])
    objects_between = objects(url, "s1", "alice")
    chat(*ALICE, lines=["/undo"])

    assert (objects_between, objects(url, "s1", "alice")) == (["nuts"], ["Ann", "nuts"])


@pytest.mark.promise("A-06")
@pytest.mark.parametrize("reply", ["no", "hmm, what was that?", "forget it", ""])
def test_anything_but_a_yes_forgets_nothing(chat: Chat, url: str, reply: str) -> None:
    lines = chat(*ALICE, lines=[ANN, "/end", "/forget Ann", reply])

    assert only(lines, "forgotten")["ids"] == []
    assert objects(url, "s1", "alice") == ["Ann", "nuts"]


@pytest.mark.promise("A-06")
def test_what_is_forgotten_is_named_by_the_beginning_of_its_id(chat: Chat, url: str) -> None:
    chat(*ALICE, lines=[ANN, "/end"])
    facts = only(chat(*ALICE, lines=["/memory"]), "memory")["facts"]
    (nuts,) = [fact["id"] for fact in facts if fact["object"] == "nuts"]
    chat(*ALICE, lines=[f"/forget {nuts[:11]}", "yes"])

    assert objects(url, "s1", "alice") == ["Ann"]


def test_what_is_not_known_cannot_be_forgotten(chat: Chat) -> None:
    lines = chat(*ALICE, lines=["/forget the moon", "/undo"], code=1)

    assert kinds(lines) == ["opened", "error", "error"]


# Going back, and taking it along.


def test_the_last_turn_can_be_taken_back(chat: Chat) -> None:
    lines = chat(*ALICE, lines=["Hello", "Nonsense", "/undo turn", "/history"])

    assert only(lines, "undo")["messages"] == 2
    assert [each["text"] for each in only(lines, "history")["messages"] if each["role"] == "user"] == [
        "Hello"
    ]


def test_an_exercise_stands_where_it_stood_before_a_turn_that_is_taken_back(chat: Chat) -> None:
    lines = ["Let's do box breathing", "yes", "/undo turn", "yes"]
    first, again = [each["text"] for each in chat(*ALICE, lines=lines) if each["type"] == "answer"][1:]

    assert first == again


def test_danger_is_not_taken_back_with_its_turn(chat: Chat) -> None:
    lines = chat(*ALICE, lines=["Hello", "I want to kill myself", "/undo turn", "We had soup"])

    assert only(lines, "undo")["messages"] == 2
    assert "Before we go on: are thoughts of dying" in lines[-1]["text"]


def test_what_was_told_and_is_not_kept_yet_shows_in_the_memory(chat: Chat) -> None:
    lines = chat(
        *ALICE,
        lines=["My sister is called Ann.", "I live in Oslo, but please don't remember that.", "/memory"],
    )

    assert only(lines, "memory")["noted"] == [
        "Your sister is called Ann. You said: “My sister is called Ann.”"
    ]


def test_a_guest_is_told_how_to_see_what_is_remembered(chat: Chat) -> None:
    lines = chat("--mode", "guest", lines=["Remember that I like jazz", "/memory"], code=1)

    assert "I remember it until this conversation ends" in only(lines, "answer")["text"]
    assert "What do you remember about me?" in only(lines, "error")["error"]["problem"]


def test_a_conversation_is_written_to_a_new_file_of_its_owner_alone(chat: Chat, tmp_path: Path) -> None:
    file = tmp_path / "talk.md"
    lines = chat(*ALICE, lines=["Hello", f"/export {file}", f"/export {file}"], code=1)

    assert kinds(lines) == ["opened", "answer", "export", "error"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text("utf-8").startswith("# s1\n\n**You:** Hello\n\n**Answer:** ")


def test_a_conversation_is_written_as_json_if_the_file_says_so(chat: Chat, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    chat(*ALICE, lines=["Hello", f"/export {file}"])

    assert json.loads(file.read_text("utf-8"))["messages"][0] == {"role": "user", "text": "Hello"}


def test_what_cannot_be_written_is_told_in_a_sentence(chat: Chat, tmp_path: Path) -> None:
    file, nowhere = tmp_path / "said.md", tmp_path / "no" / "said.md"
    lines = [f"/export {file}", "Hello", f"/export {file}", f"/export {file}", f"/export {nowhere}"]
    replies = chat(lines=lines, code=1)
    first, again, unmade = [str(each) for each in replies if each["type"] == "error"]

    assert "Nothing has been said yet" in first
    assert "There is a file" in again
    assert "cannot be made: No such file or directory" in unmade


def test_a_model_without_its_key_is_told_in_a_sentence(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code = run(["chat", url, "--model", "openai:gpt-5"])

    assert code == 1
    assert "openai:gpt-5 needs a key. Set OPENAI_API_KEY." in capsys.readouterr().err


def test_one_chat_moves_between_threads(chat: Chat) -> None:
    lines = ["One", "/new s2", "Two", "/resume s1", "/history", "/new s2"]
    replies = chat(*ALICE, lines=lines, code=1)

    assert [each["thread"] for each in replies if each["type"] == "opened"] == ["s1", "s2", "s1"]
    assert only(replies, "history")["messages"][0]["text"] == "One"
    assert "/resume goes on" in only(replies, "error")["error"]["message"]


def test_what_was_said_and_what_is_known_is_found(chat: Chat) -> None:
    lines = chat(*ALICE, lines=[ANN, "/end", "/search sister"])

    assert {hit["kind"] for hit in only(lines, "search")["found"]} >= {"items", "facts"}


# Lines.


def test_each_line_is_answered_by_one(chat: Chat) -> None:
    lines = chat(*ALICE, lines=["Hello", "", "/help", "/stauts", "/exit", "Not read"], code=1)

    assert kinds(lines) == ["opened", "answer", "help", "error", "leaving"]
    assert lines[3]["error"]["message"] == "/stauts? Did you mean /status?"


def test_a_turn_that_fails_is_told_and_the_next_line_is_answered(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(name="silent", make_runtime=lambda db, settings: clew.Runtime(db, agent="silent"))
    monkeypatch.setattr(chat_command, "find_agent", lambda reference: agent)
    lines = chat(*ALICE, lines=["Hello", "/status"], code=1)

    assert kinds(lines) == ["opened", "error", "status"]


def test_answers_alone_are_printed_for_a_pipe(url: str) -> None:
    process = subprocess.run(
        [COMMAND, "chat", url, "--thread-id", "s1"],
        input=b"What are you?\n\xff\n",
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert process.returncode == 0
    assert process.stdout.startswith(b"I am a program, not a person")
    assert process.stderr.decode().startswith("Goodbye. To go on:\n  clew chat --thread-id s1 \\\n    --db ")


def test_a_reader_that_leaves_ends_the_chat(url: str) -> None:
    chat = shlex.join([str(COMMAND), "chat", url])
    line = f"yes hello | timeout 60 {chat} | head -n 1; echo ${{PIPESTATUS[1]}}"
    process = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=90, check=False)

    assert (process.stdout.splitlines()[-1], process.stderr) == ("141", "")


# What the agent is given.


@pytest.fixture
def skills(tmp_path: Path) -> str:
    """A folder of skills."""
    folder = tmp_path / "skills"
    folder.mkdir()
    (folder / "brief.md").write_text("# Brief\nAnswer in two sentences.", encoding="utf-8")
    (folder / "sailing.txt").write_text("Speak of the sea.", encoding="utf-8")
    return str(folder)


@pytest.mark.promise("A-03", "A-10")
def test_a_chat_is_given_an_embedder_a_search_provider_and_skills(chat: Chat, skills: str) -> None:
    options = (
        "--embedder",
        SPELLING,
        "--search-provider",
        "searxng:https://search.example.org",
    )
    lines = chat(*ALICE, *options, "--skills", skills, lines=["Hello", "/status", "/skills", "/context"])
    status = only(lines, "status")

    assert (status["embedder"], status["search_provider"]) == ("spelling-512", "searxng:search.example.org")
    assert status["skills"] == only(lines, "skills")["skills"] == ["brief", "sailing"]
    assert only(lines, "context")["context"]["retrieval"] == ["hybrid_rrf"]
    assert only(lines, "context")["context"]["skills"] == ["brief, sailing"]


@pytest.mark.parametrize("name", ["EMBEDDER", "SEARCH_PROVIDER", "SKILLS"])
def test_the_environment_names_what_no_option_does(
    chat: Chat, skills: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "EMBEDDER": SPELLING,
        "SEARCH_PROVIDER": "searxng:https://s.example",
        "SKILLS": skills,
    }
    monkeypatch.setenv(f"CLEW_{name}", values[name])

    assert only(chat(lines=["/status"]), "status")[name.lower()]


def test_the_messages_of_a_chat_install_its_skills_and_come_from_a_terminal(
    chat: Chat, url: str, skills: str
) -> None:
    chat(*ALICE, "--skills", skills, lines=["Hello"])

    async def read_inputs(db: Database) -> Any:
        return (await db.thread("s1").state(at=1))["$run"]["inputs"]

    inputs = query_database(url, read_inputs)
    assert (inputs["channel"], inputs["installed_skills"]) == ("terminal", ["brief", "sailing"])


def test_an_agent_that_uses_no_skills_is_sent_none(chat: Chat, skills: str) -> None:
    lines = chat("--agent", "plain", "--skills", skills, lines=["Hello", "/skills"])

    assert kinds(lines) == ["opened", "answer", "skills"]
    assert only(lines, "skills")["skills"] == []


@pytest.mark.promise("A-04")
def test_with_the_option_every_answer_is_followed_by_what_it_was_made_with(chat: Chat) -> None:
    lines = chat(
        *ALICE, "--context", lines=["Hello", "How many people live in Norway?", "/context off", "Hi"]
    )

    assert kinds(lines)[1:] == ["answer", "context", "answer", "context", "context", "answer"]
    assert lines[4]["context"]["route"] == ["grounded_lookup"]
    assert lines[4]["context"]["lookup"] == ["not_attempted: How many people live in Norway?"]


@pytest.mark.parametrize(
    ("arguments", "lines", "problem"),
    [
        ((), ["/context"], "There is no answer yet in this chat"),
        ((), ["/context maybe"], "Say /context, or /context on, or /context off."),
        (("--agent", "plain"), ["Hello", "/context"], "The agent 'plain' does not tell its context."),
    ],
    ids=["too early", "other words", "other agent"],
)
def test_a_context_that_there_is_not_is_told_so(
    chat: Chat, arguments: tuple[str, ...], lines: list[str], problem: str
) -> None:
    assert problem in only(chat(*arguments, lines=lines, code=1), "error")["error"]["message"]


def test_the_context_of_one_thread_is_not_shown_on_another(chat: Chat) -> None:
    lines = chat(*ALICE, lines=["Hello", "/new s2", "/context"], code=1)

    assert "There is no answer yet" in only(lines, "error")["error"]["message"]


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--embedder", "word2vec", "There is no embedder 'word2vec'"),
        ("--search-provider", "searxng:http://search.example.org", "must be asked over https"),
        ("--skills", "nowhere", "The skills at 'nowhere' cannot be read"),
    ],
)
def test_an_option_that_names_nothing_is_told_and_no_chat_begins(
    url: str, capsys: pytest.CaptureFixture[str], option: str, value: str, problem: str
) -> None:
    assert run(["chat", url, option, value]) == 1
    assert problem in " ".join(capsys.readouterr().err.split())
