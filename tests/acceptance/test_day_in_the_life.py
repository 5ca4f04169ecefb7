"""A day in the life: the sessions and endpoints of the source documents, by the real command and client.

The lines that are typed, and what each of them is said to do, are those of the documents' own listings.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import ThreadNotFound
from clew.runtime.memory.memory import memory_of
from tests.cli.commands.test_serve import command, free_port
from tests.server.http.test_sse import up
from tests.support.terminal import Terminal, terminal

T = TypeVar("T")
COMMAND = str(Path(sys.executable).with_name("clew"))
MARK = "›"
MANIFEST = "default/meta/workspaces/default/users/alice/react-session-alice-s1.json"
OpenChat: TypeAlias = Callable[..., Terminal]

pytestmark = pytest.mark.slow


@pytest.fixture
def open_chat(tmp_path: Path) -> Iterator[OpenChat]:
    """Chats in terminals of their own, on one database, each once it waits for the first line."""
    with ExitStack() as stack:
        numbers = iter(range(10))

        def open_terminal(*arguments: str) -> Terminal:
            folder = tmp_path / f"terminal-{next(numbers)}"
            folder.mkdir()
            chat = stack.enter_context(terminal(folder, width=100, height=40))
            chat.start([COMMAND, "chat", "--db", str(tmp_path / "day.db"), *arguments])
            chat.wait_for(MARK)
            return chat

        yield open_terminal


def say(chat: Terminal, line: str) -> str:
    """Type a line, and return what is shown below it once the next one is waited for."""
    chat.type(line)
    screen = chat.wait_for(f"\n{MARK}", after=f"{MARK} {line}")
    return " ".join(screen.rpartition(f"{MARK} {line}")[2].split()).removesuffix(MARK).strip()


def leave(chat: Terminal) -> None:
    """Leave a chat, which ends its session."""
    chat.press("C-d")
    chat.wait_for("[ended with 0]")


def on_database(tmp_path: Path, read: Callable[[clew.Database], Coroutine[Any, Any, T]]) -> T:
    """What is read from the database of the chats, by a process that has nothing to do with them."""

    async def read_it() -> T:
        async with clew.open(f"sqlite:///{tmp_path / 'day.db'}") as db:
            return await read(db)

    return asyncio.run(read_it())


async def message_count(db: clew.Database) -> int:
    return len(await db.thread("alice-s1").items())


@pytest.mark.promise("R-03", "R-07", "R-08", "R-18", "A-07")
def test_three_turns_and_an_end_and_a_second_session_that_catches_up(
    open_chat: OpenChat, tmp_path: Path
) -> None:
    first = open_chat("--thread-id", "alice-s1", "--user-id", "alice")
    say(first, "Hi there")
    first_count = on_database(tmp_path, message_count)
    say(first, "I've been feeling anxious")
    second_count = on_database(tmp_path, message_count)
    exercise = say(first, "Can we do a grounding exercise?")
    state = on_database(tmp_path, lambda db: db.thread("alice-s1").state())
    first.type("/end")
    first.wait_for("Did this help?")
    first.type("y")
    first.wait_for("The session has ended after 3 turns.")
    arcs = on_database(tmp_path, lambda db: memory_of(db, "alice-s1", "alice").page("arcs")).arcs
    leave(first)
    second = open_chat("--thread-id", "alice-s2", "--user-id", "alice")
    greeting = say(second, "Hey")
    context = say(second, "/context")

    assert (first_count, second_count) == (2, 4)
    assert "five things you can see" in exercise
    assert state["exercise_state"]["exercise_type"] == "grounding_5_4_3_2_1"
    assert [arc.themes for arc in arcs] == [("anxiety",)]
    assert "Last time it was about anxiety" in greeting
    assert "Last session (anxiety): talked about anxiety." in context


@pytest.mark.promise("R-16", "R-18", "B-11")
def test_facts_and_rules_of_a_user_are_visible_in_the_next_thread_and_those_of_a_thread_in_none(
    open_chat: OpenChat,
) -> None:
    for thread, options in (("thread-a", ()), ("s1", ("--user-id", "alice"))):
        chat = open_chat("--thread-id", thread, *options)
        say(chat, "I like green tea.")
        say(chat, "Please keep your answers short.")
        leave(chat)
    other = say(open_chat("--thread-id", "thread-b"), "/memory")
    known = say(open_chat("--thread-id", "s2", "--user-id", "alice"), "/memory")

    assert "green tea" not in other
    assert "green tea" in known
    assert "short" in known


@pytest.mark.promise("F-02", "F-04", "F-11")
async def test_the_endpoints_of_a_session_from_its_first_turn_to_its_deletion(tmp_path: Path) -> None:
    port, volume = free_port(), tmp_path / "volume"
    volume.mkdir()
    with command("--db", f"{tmp_path}/a.db", "--port", str(port), "--volume", str(volume)):
        await up(f"http://127.0.0.1:{port}")
        async with AsyncClient(f"http://127.0.0.1:{port}", headers={"X-Clew-User": "alice"}) as client:
            await client.run_turn("alice-s1", "Hi there")
            active = await client.sessions_state()
            page = await client.sessions()
            detail = await client.session("alice-s1")
            turns = await client.turns("alice-s1")
            manifest = await client.export_manifest("alice-s1")
            on_volume = json.loads((volume / MANIFEST).read_bytes())
            await client.delete_session("alice-s1")
            with pytest.raises(ThreadNotFound):
                await client.session("alice-s1")
            await client.import_manifest("alice-s1", manifest)
            again = await client.export_manifest("alice-s1")

    assert [session.id for session in active.active] == ["alice-s1"]
    assert [session.id for session in page.sessions] == ["alice-s1"]
    assert detail.id == "alice-s1"
    assert len(turns.turns) == 1
    assert on_volume["state"] == json.loads(manifest)["state"]
    assert json.loads(again)["state"] == json.loads(manifest)["state"]
