"""Calls with the companion, closer: whose rows and memories they are, what a claim counts, what lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import clew
from clew.api.voice import NewAssessment, NewToolCall, NewUtterance, NewVoiceTurn
from clew.client import AsyncClient
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.values import Record, RecordQuery
from clew.runtime.memory.memory import Memory
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from clew_companion.client import AsyncCrisisClient
from clew_companion.crisis.judgement import Judgement
from clew_companion.exercises.catalogue import catalogue
from clew_companion.voice import store_risk_level
from tests.server.conftest import Users, over_http

pytestmark = pytest.mark.promise("R-21")
DANGER = "I want to kill myself tonight"


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    """A database in memory: nothing here depends on the store."""
    async with clew.open("memory://") as database:
        yield database


@pytest.fixture
async def users(db: clew.Database) -> AsyncIterator[Users]:
    """The users of a server with the companion."""
    async with over_http(create_app(ServerSettings(sweep_seconds=3600), db=db), db) as clients:
        yield clients


@pytest.fixture
async def alice(users: Users) -> AsyncClient:
    """One of them."""
    return users("alice")


async def crisis_rows(users: Users, owner: str = "alice") -> list[tuple[str, int, bool]]:
    """The crisis log of somebody, as an operator reads it."""
    rows = (await AsyncCrisisClient(users("ada")).crises(owner=owner)).rows
    return [(row.thread, row.level, row.late) for row in rows]


def memory(db: clew.Database, user: str = "alice") -> Memory:
    """What is known of somebody."""
    return Memory(db.scope(tenant=db.tenant, user=user), user)


@pytest.mark.promise("R-22")
async def test_a_row_is_of_whoever_spoke_and_of_nobody_else(users: Users, alice: AsyncClient) -> None:
    await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER))

    assert await crisis_rows(users) == [("call", 3, False)]
    assert await crisis_rows(users, "bob") == []


@pytest.mark.promise("R-22")
async def test_a_client_that_asks_again_is_told_the_same(alice: AsyncClient) -> None:
    await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER))
    await alice.record_voice_turn("call", NewVoiceTurn(said=DANGER, replied="Please call."), key="u1")
    calm = NewUtterance(id="u2", said="I baked a cake for my sister")
    first, again = [await alice.judge_utterance("call", calm) for _ in range(2)]

    assert not first.release
    assert again == first


async def test_an_incognito_call_stays_incognito_when_it_is_judged_and_recorded(
    users: Users, alice: AsyncClient, db: clew.Database
) -> None:
    turn = NewVoiceTurn(said="My sister is called Ann.", replied="Mm.", mode="incognito")
    await alice.judge_utterance("call", NewUtterance(id="u1", said=turn.said, mode="incognito"))
    await alice.record_voice_turn("call", turn, key="u1")
    tool = NewToolCall(id="c1", name="remember", arguments={"what": "I like tea"}, mode="incognito")
    result = await alice.call_voice_tool("call", tool)
    await alice.end_session("call")

    assert "There is no tool 'remember'" in result.output["error"]
    assert (await memory(db).page()).facts == ()
    assert (await alice.threads()).threads == []


@pytest.mark.parametrize(("claim", "level"), [(0, 3), (1, 3), (None, 3)])
async def test_what_a_client_says_of_a_turn_lowers_nothing(
    users: Users, alice: AsyncClient, claim: int | None, level: int
) -> None:
    assessment = None if claim is None else NewAssessment(level=claim, path="client")
    await alice.record_voice_turn(
        "call", NewVoiceTurn(said=DANGER, replied="…", assessment=assessment), key="u1"
    )

    assert [row[1] for row in await crisis_rows(users)] == [level]


async def test_what_a_client_says_of_a_turn_counts_if_it_is_more(users: Users, alice: AsyncClient) -> None:
    turn = NewVoiceTurn(
        said="The weather is nice", replied="…", assessment=NewAssessment(level=2, path="client")
    )
    await alice.record_voice_turn("call", turn, key="u1")

    assert [row[1] for row in await crisis_rows(users)] == [2]


@pytest.mark.promise("R-22")
async def test_what_a_client_says_of_a_turn_is_in_the_log_in_names_only(
    users: Users, alice: AsyncClient
) -> None:
    assessment = NewAssessment(level=2, confidence=0.5, path="llm_primary")
    await alice.record_voice_turn("call", NewVoiceTurn(said="Hm", replied="…", assessment=assessment))
    with_words = NewAssessment(level=2, path="she said so")
    with pytest.raises(InvalidArgument):
        await alice.record_voice_turn("call", NewVoiceTurn(said="Hm", replied="…", assessment=with_words))
    rows = (await AsyncCrisisClient(users("ada")).crises(owner="alice")).rows

    assert [(row.thread, row.level, row.path) for row in rows] == [("call", 2, "llm_primary")]


async def test_a_turn_that_is_said_to_be_heard_asks_no_model_again(db: clew.Database) -> None:
    model = ScriptedModel(*[lambda request: Judgement(level=0, confidence=0.9)] * 4)
    async with over_http(create_app(db=db, model=model), db) as users:
        words = "I saw the boats come in today"
        await users("alice").record_voice_turn("a", NewVoiceTurn(said=words, heard=True), key="u1")
        count = len(model.requests)
        await users("alice").record_voice_turn("b", NewVoiceTurn(said=words, heard=False), key="u1")

    assert (count, len(model.requests)) == (0, 1)


async def test_what_was_unclear_in_a_call_is_asked_about_in_the_next_text_turn(
    alice: AsyncClient, db: clew.Database
) -> None:
    turn = NewVoiceTurn(said="Well.", replied="…", assessment=NewAssessment(level=1, path="client"))
    await alice.record_voice_turn("call", turn, key="u1")
    progress = (await db.thread("call").head()).state["session_progress"]

    assert (progress["risk_level"], progress["risk_asked"]) == (1, True)


async def test_a_level_that_an_episode_has_is_not_written_over(alice: AsyncClient, db: clew.Database) -> None:
    await alice.record_voice_turn("call", NewVoiceTurn(said=DANGER, replied="…"), key="u1")
    before = (await db.thread("call").head()).state["session_progress"]
    await store_risk_level(db, "call", 1)

    assert (await db.thread("call").head()).state["session_progress"] == before


async def test_what_is_to_be_remembered_need_not_be_a_plain_fact(
    alice: AsyncClient, db: clew.Database
) -> None:
    call = NewToolCall(id="c1", name="remember", arguments={"what": "the blue door squeaks at night"})
    await alice.call_voice_tool("call", call)

    assert [fact.object for fact in (await memory(db).page()).facts] == ["the blue door squeaks at night"]


async def test_what_one_remembers_in_a_call_nobody_else_recalls(users: Users, db: clew.Database) -> None:
    call = NewToolCall(id="c1", name="remember", arguments={"what": "I like tea"})
    await users("alice").call_voice_tool("call", call)
    recall = NewToolCall(id="c2", name="recall", arguments={"about": "tea"})
    own, others = [await users(name).call_voice_tool(f"{name}s", recall) for name in ("alice", "bob")]

    assert "tea" in str(own.output)
    assert others.output == {"remembered": []}
    assert (await memory(db, "bob").page()).facts == ()


@pytest.mark.promise("B-04")
async def test_a_call_whose_answer_was_lost_remembers_once(
    alice: AsyncClient, db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = NewToolCall(id="c1", name="remember", arguments={"what": "I like tea"})
    await alice.call_voice_tool("call", call)
    (row,) = await db.records.find(RecordQuery(kind="voice call"))
    doubtful = Record(
        kind=row.kind,
        id=row.id,
        owner=row.owner,
        tags=row.tags,
        body={"tool": "remember", "status": "intended"},
    )
    await db.records.put(doubtful)  # as if the process had ended before it could say that it was done
    await alice.call_voice_tool("call", call)

    assert [(fact.object, fact.times) for fact in (await memory(db).page()).facts] == [("tea", 1)]


async def test_an_exercise_has_all_of_its_steps_in_their_order(alice: AsyncClient) -> None:
    call = NewToolCall(id="c1", name="exercise", arguments={"name": "Kastenatmung"})
    result = await alice.call_voice_tool("call", call)

    assert result.output["steps"] == [step.say for step in catalogue()["box_breathing"].steps]


async def test_signs_of_life_and_losses_of_a_thread_that_is_not_there_are_refused(users: Users) -> None:
    await users("alice").record_voice_turn("call", NewVoiceTurn(said="Hi", replied="Hello."))
    for client, thread in ((users("alice"), "nothing"), (users("bob"), "call")):
        with pytest.raises(ThreadNotFound):
            await client.keep_voice_alive(thread)
        with pytest.raises(ThreadNotFound):
            await client.end_lost_voice(thread)

    assert (await users("alice").session_status("call")).status == "active"
