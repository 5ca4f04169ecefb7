"""Calls with the companion: what is said is judged, and tools are called once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

import clew
from clew.agents import VoiceAgent
from clew.api.voice import NewToolCall, NewUtterance, NewVoiceTurn
from clew.client import AsyncClient
from clew.core.errors import StoreUnavailable
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.execution.safe_reply import gate
from clew.runtime.memory import Candidate
from clew.runtime.memory.memory import Memory
from clew.runtime.model.protocol import ToolCall
from clew.runtime.sessions.utterances import GateSettings, Utterance
from clew.runtime.sessions.voice_tools import (
    IN_DOUBT,
    NEEDS_A_PERSON,
    VOICE_CALL,
    call_tool,
)
from clew.runtime.state.run_state import RunState
from clew.runtime.tools.tool import Effect, ToolContext, tool
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from clew_companion.api import CrisisView
from clew_companion.client import AsyncCrisisClient
from clew_companion.crisis.judgement import Judgement
from clew_companion.entry_point import agent as companion_agent
from clew_companion.state import CompanionState
from clew_companion.values import Channel
from tests.server.conftest import Users, over_http

pytestmark = pytest.mark.promise("R-21")
DANGER = "I want to kill myself tonight"


@pytest.fixture
async def users(db: clew.Database) -> AsyncIterator[Users]:
    """The users of a server with the companion."""
    app = create_app(ServerSettings(sweep_seconds=3600), db=db)
    async with over_http(app, db) as clients:
        yield clients


@pytest.fixture
async def alice(users: Users) -> AsyncClient:
    """One of them."""
    return users("alice")


async def crisis_rows(users: Users) -> list[CrisisView]:
    """The crisis log, as an operator reads it."""
    return (await AsyncCrisisClient(users("ada")).crises(owner="alice")).rows


async def know(db: clew.Database, what: str) -> Memory:
    """Alice's memory, with something in it."""
    memory = Memory(db.scope(tenant=db.tenant, user="alice"), "alice")
    candidate = Candidate(predicate="LIKES", object=what, quote=f"I like {what}", plain=True, confidence=0.9)
    await memory.learn([candidate])
    return memory


# What is said.


@pytest.mark.promise("R-22", "A-08")
async def test_danger_is_answered_in_fixed_words_and_logged_at_once(users: Users, alice: AsyncClient) -> None:
    verdict = await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER))
    rows = await crisis_rows(users)

    assert (verdict.level, verdict.release) == (3, False)
    assert "988" in verdict.say
    assert [(row.thread, row.level, row.late) for row in rows] == [("call", 3, False)]


async def test_what_is_harmless_may_be_answered(users: Users, alice: AsyncClient) -> None:
    verdict = await alice.judge_utterance("call", NewUtterance(id="u1", said="I had a long day at work"))

    assert (verdict.level, verdict.release, verdict.say) == (0, True, "")
    assert await crisis_rows(users) == []


async def test_a_recorded_turn_adds_no_second_row(users: Users, alice: AsyncClient) -> None:
    verdict = await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER))
    await alice.record_voice_turn(
        "call", NewVoiceTurn(said=DANGER, replied=verdict.say, heard=True), key="u1"
    )
    rows = await crisis_rows(users)

    assert [(row.level, row.late) for row in rows] == [(3, False)]
    assert rows[0].episode is not None


async def test_an_answer_that_was_under_way_is_logged_as_late(users: Users, alice: AsyncClient) -> None:
    await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER, late=True))

    assert [row.late for row in await crisis_rows(users)] == [True]


@pytest.mark.parametrize("claims", [False, True])
async def test_what_nobody_judged_is_judged_when_it_is_recorded_and_logged_as_late(
    users: Users, alice: AsyncClient, claims: object
) -> None:
    await alice.record_voice_turn("call", NewVoiceTurn(said=DANGER, replied="Oh.", heard=bool(claims)))

    assert [(row.level, row.late) for row in await crisis_rows(users)] == [(3, True)]


async def test_slow_risk_is_seen_in_what_was_said_before(alice: AsyncClient) -> None:
    words = "How many ibuprofen?"
    alone = await alice.judge_utterance("other", NewUtterance(id="u1", said=words))
    turn = NewVoiceTurn(said="I do not want to live any more", replied="Mm.", heard=True)
    await alice.record_voice_turn("call", turn, key="u1")
    verdict = await alice.judge_utterance("call", NewUtterance(id="u2", said=words))

    assert verdict.level > alone.level


async def test_a_later_text_turn_asks_about_what_was_said_in_the_call(alice: AsyncClient) -> None:
    await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER))
    await alice.record_voice_turn("call", NewVoiceTurn(said=DANGER, replied="…", heard=True), key="u1")
    turn = await alice.run_turn("call", "What is the weather like?")

    assert turn.output["response_style"] == "safety_check"


async def test_somebody_who_is_safe_again_is_asked_once_in_the_call(alice: AsyncClient) -> None:
    await alice.record_voice_turn("call", NewVoiceTurn(said=DANGER, replied="…"), key="u1")
    outcomes = []
    for number, words in enumerate(("The weather is nice", "Yes, I am safe.", "The weather is nice")):
        verdict = await alice.judge_utterance("call", NewUtterance(id=f"v{number}", said=words))
        turn = NewVoiceTurn(said=words, replied=verdict.say or "Mm.", heard=True)
        await alice.record_voice_turn("call", turn, key=f"v{number}")
        outcomes.append((verdict.level, verdict.release))

    assert outcomes == [(0, False), (0, True), (0, True)]


async def test_a_model_raises_what_the_rules_did_not_see(db: clew.Database) -> None:
    model = ScriptedModel(lambda request: Judgement(level=2, confidence=0.9))
    app = create_app(db=db, model=model)
    async with over_http(app, db) as users:
        verdict = await users("alice").judge_utterance(
            "call", NewUtterance(id="u1", said="I saw the boats come in today")
        )

    assert (verdict.level, verdict.release) == (2, False)


@pytest.mark.promise("R-14")
async def test_incognito_danger_is_answered_and_nothing_is_on_record(
    users: Users, alice: AsyncClient
) -> None:
    verdict = await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER, mode="incognito"))

    assert not verdict.release
    assert await crisis_rows(users) == []
    assert (await alice.threads()).threads == []


async def test_a_store_that_fails_withholds_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(self: Database, *args: object, **options: object) -> None:
        raise StoreUnavailable(problem="it is down")

    async with clew.open("memory://") as db:
        app = create_app(db=db)
        async with over_http(app, db), app.state.resources.runtimes.runtime_for(db.tenant) as runtime:
            gates = app.state.resources.agent.voice.gates
            with monkeypatch.context() as patches:
                patches.setattr(Database, "commit", fails)
                verdict = await runtime.judge_utterance(
                    Utterance(thread="t", id="u", text=DANGER), gates=gates
                )
            count = len(runtime._settings.pending_records)

    assert "988" in verdict.say
    assert count == 1


async def test_what_is_said_comes_by_the_channel_of_voice(db: clew.Database, alice: AsyncClient) -> None:
    await alice.record_voice_turn("call", NewVoiceTurn(said="Hello", replied="Hi."), key="u1")
    head = await db.thread("call").head()

    assert RunState.of(head.state).inputs == {
        "channel": "voice",
        "user_id": "alice",
        "session_id": "call",
        "installed_skills": [],
    }


async def test_gates_see_the_channel_the_user_and_the_thread_of_what_is_said(db: clew.Database) -> None:
    states: list[tuple[Channel, str | None, str | None]] = []

    @gate
    async def note_input(state: CompanionState, context: clew.Context) -> None:
        states.append((state.channel, state.user_id, state.session_id))

    voice = VoiceAgent(gates=GateSettings(stages=(note_input,)))
    app = create_app(db=db, agent=msgspec.structs.replace(companion_agent, voice=voice))
    async with over_http(app, db) as users:
        await users("alice").judge_utterance("call", NewUtterance(id="u1", said="Hello"))
        await users("alice").record_voice_turn("call", NewVoiceTurn(said="And then?"), key="u2")

    assert states == [(Channel.VOICE, "alice", "call"), (Channel.VOICE, "alice", "call")]


async def test_a_reply_in_the_fixed_words_is_marked_and_another_is_not(alice: AsyncClient) -> None:
    verdict = await alice.judge_utterance("call", NewUtterance(id="u1", said=DANGER))
    for key, reply in (("u1", verdict.say), ("u2", "Mm.")):
        await alice.record_voice_turn("call", NewVoiceTurn(said=DANGER, replied=reply, heard=True), key=key)
    messages = (await alice.messages("call")).messages

    assert [message.meta for message in messages if message.role == "assistant"] == [
        {"modality": "voice", "fixed": True},
        {"modality": "voice"},
    ]


# Tools.


async def test_a_tool_gives_what_is_remembered(db: clew.Database, alice: AsyncClient) -> None:
    await know(db, "long walks")
    result = await alice.call_voice_tool(
        "call", NewToolCall(id="c1", name="recall", arguments={"about": "walks"})
    )

    assert "long walks" in str(result.output)


async def test_what_is_to_be_remembered_is_kept_once(db: clew.Database, alice: AsyncClient) -> None:
    call = NewToolCall(id="c1", name="remember", arguments={"what": "My sister is called Ann."})
    first = await alice.call_voice_tool("call", call)
    again = await alice.call_voice_tool("call", call)
    memory = Memory(db.scope(tenant=db.tenant, user="alice"), "alice")

    assert first.output == again.output
    assert [(fact.object, fact.times) for fact in (await memory.page()).facts] == [("Ann", 1)]


async def test_an_exercise_comes_with_its_steps(alice: AsyncClient) -> None:
    result = await alice.call_voice_tool(
        "call", NewToolCall(id="c1", name="exercise", arguments={"name": "box breathing"})
    )
    listing = await alice.call_voice_tool("call", NewToolCall(id="c2", name="exercise"))

    assert result.output["name"] == "Box breathing"
    assert len(listing.output["exercises"]) >= 10


async def test_a_tool_that_is_not_there_is_told_and_nothing_breaks(alice: AsyncClient) -> None:
    unknown = await alice.call_voice_tool("call", NewToolCall(id="c1", name="launch"))
    wrong = await alice.call_voice_tool("call", NewToolCall(id="c2", name="recall", arguments={"what": 1}))

    assert "There is no tool 'launch'" in unknown.output["error"]
    assert "do not fit" in wrong.output["error"]


@pytest.mark.promise("B-04")
@pytest.mark.parametrize(("effect", "times"), [(Effect.NONE, 2), (Effect.IDEMPOTENT, 2), (Effect.UNKNOWN, 1)])
async def test_a_call_that_may_have_had_its_effect_is_made_again_only_where_that_is_allowed(
    db: clew.Database, effect: Effect, times: int
) -> None:
    keys: list[str] = []
    crash = asyncio.Event()

    @tool(effect=effect)
    async def pay(call: ToolContext) -> str:
        """Pay."""
        keys.append(call.key)
        crash.set()
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "paid"

    async with clew.Runtime(db) as runtime:
        call = ToolCall(id="c1", name="pay", arguments={})
        first = asyncio.create_task(call_tool(db, [pay], runtime.schema, "call", call))
        await crash.wait()
        first.cancel()  # as a process that ends in the middle of it
        await asyncio.gather(first, return_exceptions=True)
        output = await call_tool(db, [pay], runtime.schema, "call", call)

    assert (len(keys), len(set(keys))) == (times, 1)
    assert output == ("paid" if times == 2 else {"error": IN_DOUBT})


async def test_a_call_that_needs_a_person_is_not_made(db: clew.Database) -> None:
    payments: list[int] = []

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        payments.append(1)
        return "paid"

    async with clew.Runtime(db) as runtime:
        call = ToolCall(id="c1", name="pay", arguments={})
        output = await call_tool(db, [pay], runtime.schema, "call", call)
        rows = await db.records.find(RecordQuery(kind=VOICE_CALL))

    assert output == {"error": NEEDS_A_PERSON}
    assert (payments, list(rows)) == ([], [])


async def test_what_a_tool_failed_with_is_its_answer(db: clew.Database) -> None:
    @tool(effect=Effect.NONE)
    async def look() -> str:
        """Look."""
        raise ValueError("too dark")

    async with clew.Runtime(db) as runtime:
        call = ToolCall(id="c1", name="look", arguments={})
        output = await call_tool(db, [look], runtime.schema, "call", call)

    assert output == {"error": "ValueError: too dark"}
