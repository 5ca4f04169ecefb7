"""The SDK's own wrappers around the session: compaction and encryption."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import function_tool
from agents.extensions.memory import EncryptedSession
from agents.items import TResponseInputItem
from agents.memory import OpenAIResponsesCompactionSession, SessionABC
from openai import AsyncOpenAI

import clew
from clew.adapters.openai_agents import Session
from tests.adapters.openai_agents.approval_agent import sender
from tests.adapters.openai_agents.samples import agent, calls, run, sample_items, says, texts, user

KEY = "a key of thirty-two letters, or so"
SUMMARY = {"type": "compaction", "id": "cmp_1", "encrypted_content": "all of it"}


class Client:
    """A client of the model's server that is not there: it answers or fails as told."""

    def __init__(self, meanwhile: Callable[[], Any] | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self._meanwhile = meanwhile
        self.responses = self

    async def compact(self, **request: Any) -> Any:
        """What would be asked of the server."""
        self.requests.append(request)
        if self._meanwhile is not None:
            await self._meanwhile()
        return SimpleNamespace(output=[SUMMARY], usage=None)


def compacting(session: Any, client: Client, *, from_items: int = 1) -> OpenAIResponsesCompactionSession:
    """The SDK's wrapper, which compacts as soon as there are so many items."""
    return OpenAIResponsesCompactionSession(
        "alice",
        session,
        client=cast(AsyncOpenAI, client),
        compaction_mode="input",
        should_trigger_compaction=lambda context: len(context["session_items"]) >= from_items,
    )


def encrypt_session(session: Any, key: str = KEY) -> EncryptedSession:
    """The SDK's other wrapper."""
    return EncryptedSession("alice", cast(SessionABC, session), key, ttl=600)


@function_tool
def look() -> str:
    """Look for the parcel."""
    return "found it"


@pytest.mark.promise("S-14")
@pytest.mark.parametrize("way", ["whole", "streamed"])
async def test_compaction_after_a_run_is_one_changeset(session: Session, db: clew.Database, way: str) -> None:
    await run(agent(says("Hello.")), "Hi.", compacting(session, Client()), way=way)
    changes = await db.thread("alice").changesets()

    assert await session.get_items() == [SUMMARY]
    assert [change.reason for change in changes] == ["append", "append", "Compact"]
    assert texts(await session.items_at(2)) == ["Hi.", "Hello."]


@pytest.mark.promise("S-14")
async def test_compaction_by_hand_is_one_changeset(session: Session, db: clew.Database) -> None:
    wrapper = compacting(session, Client())
    await wrapper.add_items(sample_items(3))
    await wrapper.run_compaction({"force": True})

    assert await session.get_items() == [SUMMARY]
    assert (await db.thread("alice").head()).version == 2


@pytest.mark.promise("S-14")
async def test_a_run_goes_on_after_compaction(session: Session) -> None:
    wrapper = compacting(session, Client(), from_items=4)
    helper = agent(says("One."), says("Two."), says("Three."))
    for text in ("1?", "2?", "3?"):
        await run(helper, text, wrapper)

    assert texts(await session.get_items()) == ["compaction", "3?", "Three."]


async def fail() -> None:
    """What happens when the server is gone."""
    raise RuntimeError("the server is gone")


@pytest.mark.promise("S-14")
async def test_a_compaction_by_hand_that_fails_leaves_history_as_it_was(session: Session) -> None:
    wrapper = compacting(session, Client(fail))
    await wrapper.add_items([user("Hi.")])

    with pytest.raises(RuntimeError, match="the server is gone"):
        await wrapper.run_compaction({"force": True})
    assert texts(await session.get_items()) == ["Hi."]


@pytest.mark.promise("S-14")
async def test_a_compaction_after_a_run_that_fails_leaves_history_as_it_was(session: Session) -> None:
    with pytest.raises(RuntimeError, match="the server is gone"):
        await run(agent(says("Hello.")), "Hi.", compacting(session, Client(fail)))
    assert texts(await session.get_items()) == ["Hi.", "Hello."]


@pytest.mark.promise("S-14")
async def test_a_writer_meanwhile_makes_compaction_step_back(session: Session, db: clew.Database) -> None:
    async def writes() -> None:
        await Session("alice", db).add_items([user("me too")])

    await run(agent(says("Hello.")), "Hi.", compacting(session, Client(writes)))

    assert texts(await session.get_items()) == ["Hi.", "Hello.", "me too"]


@pytest.mark.promise("S-14")
async def test_compaction_waits_for_the_answer_to_a_call(session: Session) -> None:
    client = Client()
    await run(sender(), "Send it.", compacting(session, client))

    assert client.requests == []


@pytest.mark.promise("S-14")
async def test_compaction_waits_until_tool_outputs_are_answered(session: Session) -> None:
    client = Client()
    helper = agent(calls("look"), says("Found."), tools=[look])
    await run(helper, "Look.", compacting(session, client))

    assert [len(request["input"]) for request in client.requests] == [4]


@pytest.mark.promise("S-05", "S-14")
async def test_a_limit_compacts_what_it_shows_and_keeps_what_is_older(db: clew.Database) -> None:
    session = Session("alice", db, session_settings={"limit": 2})
    await session.add_items(sample_items(4))
    await run(agent(says("Hello.")), "Hi.", compacting(session, Client()))

    assert texts(await session.get_items(99)) == ["message 0", "message 1", "compaction"]


async def test_a_session_of_one_s_own_is_not_bypassed(db: clew.Database) -> None:
    class Shouting(Session):
        async def add_items(self, items: Any, **more: Any) -> None:
            await super().add_items([cast(Any, {**part, "loud": True}) for part in items], **more)

    session = Shouting("alice", db)
    wrapper = compacting(session, Client())
    await wrapper.add_items(sample_items(2))
    await wrapper.run_compaction({"force": True})

    assert await session.get_items() == [{**SUMMARY, "loud": True}]


@pytest.mark.promise("S-05", "S-09")
@pytest.mark.parametrize("way", ["whole", "streamed"])
async def test_an_encrypted_conversation_goes_on(session: Session, db: clew.Database, way: str) -> None:
    helper = agent(calls("look"), says("Found."), says("Bye."), tools=[look])
    await run(helper, "Look.", encrypt_session(session), way=way)
    await run(helper, "Thanks.", encrypt_session(session), way=way)

    assert texts(await encrypt_session(session).get_items())[-3:] == ["Found.", "Thanks.", "Bye."]
    assert all(entry.body["__enc__"] == 1 for entry in await db.thread("alice").items())


@pytest.mark.promise("S-05")
async def test_a_limit_counts_under_encryption_too(db: clew.Database) -> None:
    session = encrypt_session(Session("alice", db, session_settings={"limit": 2}))
    await session.add_items(sample_items(5))

    assert texts(await session.get_items()) == ["message 3", "message 4"]
    assert texts(await session.get_items(3)) == ["message 2", "message 3", "message 4"]


async def test_what_was_used_is_kept_under_encryption_too(session: Session) -> None:
    await run(agent(says("Hello.")), "Hi.", encrypt_session(session))

    assert (await session.usage()).requests == 1


async def test_a_pop_with_the_wrong_key_loses_nothing(session: Session) -> None:
    await encrypt_session(session).add_items(sample_items(2))
    await encrypt_session(session, "quite another key than that one was").pop_item()

    branch = await session.fork("saved", at=1)
    again = EncryptedSession("alice", cast(SessionABC, branch), KEY, ttl=600)
    assert texts(await again.get_items()) == ["message 0", "message 1"]


@pytest.mark.promise("S-14")
async def test_compaction_under_encryption_ends_what_has_expired_in_one_changeset(
    session: Session, db: clew.Database
) -> None:
    await encrypt_session(session).add_items(sample_items(600))
    late = EncryptedSession("alice", cast(SessionABC, session), KEY, ttl=-60)
    snapshot = await late._get_compaction_snapshot(2)
    assert snapshot is not None
    result = await snapshot.replace_suffix(0, [cast(TResponseInputItem, SUMMARY)])

    assert (result, len(await session.get_items())) == (True, 1)
    assert (await db.thread("alice").head()).version == 2
