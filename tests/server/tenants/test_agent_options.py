"""What a served agent is given: an embedder, a search provider and skills, by settings and by requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import websockets

import clew
from clew.agents import Agent, AgentSettings, UserMessage
from clew.core.errors import InvalidArgument, InvalidInput
from clew.server.app import create_app
from clew.server.process import check_prerequisites
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from clew_companion.entry_point import agent as companion_agent
from clew_companion.lookup import NO_SEARCH, NOT_FOUND
from clew_companion.state import CompanionState
from tests.companion.scripted_companion import ScriptedControlModel
from tests.server.conftest import over_http
from tests.server.local_server import listening
from tests.support.openai_server import ChatServer, EmbeddingReply, chat_server
from tests.support.searxng_server import SearchAnswer, results_answer, searxng_server

ANN = "My sister is called Ann."
QUESTION = "How many people live in Norway?"
SKILLS = {"brief": "Answer in two sentences.", "sailing": "Speak of the sea."}
ENOUGH = 200


@pytest.fixture
async def embeddings(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatServer]:
    """A server of vectors, at the address that the environment names."""
    async with chat_server(*[EmbeddingReply(size=32)] * ENOUGH) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-vectors")
        yield server


@pytest.fixture
def skills(tmp_path: Path) -> str:
    """A folder of skills."""
    folder = tmp_path / "skills"
    folder.mkdir()
    for name, text in SKILLS.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return str(folder)


def quiet(**names: str) -> ServerSettings:
    """Settings of a server that sweeps at its start alone."""
    return msgspec.structs.replace(ServerSettings(sweep_seconds=3600), **names)


def watched(states: list[CompanionState]) -> Agent:
    """The companion, with the state of each turn when its stages have ended."""

    def make_runtime(db: clew.Database, settings: AgentSettings) -> clew.Runtime[Any, Any]:
        config = replace(settings.config, on_turn_end=lambda thread, state: states.append(state))
        return companion_agent.make_runtime(db, msgspec.structs.replace(settings, config=config))

    return msgspec.structs.replace(companion_agent, make_runtime=make_runtime)


@pytest.mark.promise("A-10", "B-12")
async def test_with_an_embedder_a_served_turn_and_a_search_go_by_meaning_too(
    db: clew.Database, embeddings: ChatServer
) -> None:
    app = create_app(quiet(embedder="openai:text-embedding-3-small"), db=db)
    async with over_http(app, db) as users:
        alice = users("alice")
        await alice.run_turn("one", ANN)
        await alice.end_session("one")
        turn = await alice.run_turn("two", "Hey, about my sister")
        page = await alice.search("sister")

    assert turn.output["diagnostics"]["retrieval_path"] == "hybrid_rrf"
    assert page.path == "hybrid_rrf"
    assert "Hey, about my sister" in [text for request in embeddings.requests for text in request["input"]]
    assert embeddings.headers[0]["authorization"] == "Bearer sk-vectors"


@pytest.mark.promise("A-10")
async def test_without_an_embedder_words_are_what_it_goes_by(db: clew.Database) -> None:
    async with over_http(create_app(quiet(), db=db), db) as users:
        turn = await users("alice").run_turn("one", "Hey")

    assert turn.output["diagnostics"]["retrieval_path"] == "token_recall"


@pytest.mark.promise("A-10")
async def test_an_embedder_that_fails_leaves_words_and_is_reported(
    db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with over_http(create_app(quiet(embedder="openai:small"), db=db), db) as users:
            turn = await users("alice").run_turn("one", "Hey")
            page = await users("alice").search("hey")

    assert turn.termination == "natural"
    assert turn.output["diagnostics"]["retrieval_path"] == "token_recall_after_embed_error"
    assert "it answered 400" in turn.output["diagnostics"]["retrieval_problem"]
    assert page.path == "token_recall_after_embed_error"


@pytest.mark.promise("A-09")
async def test_with_a_search_provider_a_question_of_fact_is_answered_from_its_source(
    db: clew.Database,
) -> None:
    states: list[CompanionState] = []
    async with searxng_server() as server:
        app = create_app(quiet(search_provider=f"searxng:{server.url}"), db=db, agent=watched(states))
        async with over_http(app, db) as users:
            turn = await users("alice").run_turn("one", QUESTION)

    assert states[0].grounded_lookup.status == "answered"
    assert turn.text == (
        "“About 5.6 million people live in Norway.”\n\nSources:\n- Norway: https://example.org/norway"
    )
    assert server.queries == [{"q": QUESTION, "format": "json"}]


@pytest.mark.promise("A-09")
@pytest.mark.parametrize(
    "answer",
    [results_answer(), SearchAnswer(status=403), SearchAnswer(body=b"<html>")],
    ids=["nothing", "refused", "no JSON"],
)
async def test_a_search_that_gives_nothing_is_told_and_nothing_is_made_up(answer: SearchAnswer) -> None:
    states: list[CompanionState] = []
    async with clew.open("memory://") as db, searxng_server(answer) as server:
        app = create_app(quiet(search_provider=f"searxng:{server.url}"), db=db, agent=watched(states))
        async with over_http(app, db) as users:
            turn = await users("alice").run_turn("one", QUESTION)

    assert (states[0].grounded_lookup.status, turn.text) == ("no_verified_answer", NOT_FOUND)


@pytest.mark.promise("A-09")
async def test_without_a_search_provider_it_is_not_attempted() -> None:
    states: list[CompanionState] = []
    async with (
        clew.open("memory://") as db,
        over_http(create_app(quiet(), db=db, agent=watched(states)), db) as users,
    ):
        turn = await users("alice").run_turn("one", QUESTION)

    assert (states[0].grounded_lookup.status, turn.text) == ("not_attempted", NO_SEARCH)


@pytest.mark.promise("A-03")
async def test_the_skills_that_a_turn_installs_are_in_its_prompt_and_no_others(
    db: clew.Database, skills: str
) -> None:
    model = ScriptedControlModel("One.", "Two.")
    async with over_http(create_app(quiet(skills=skills), db=db, model=model), db) as users:
        alice = users("alice")
        await alice.run_turn("one", "I had a long day", installed_skills=["brief", "brief"])
        await alice.run_turn("one", "I like my new garden")
        agent = await alice.agent()

    first, second = [request.instructions or "" for request in model.requests]
    assert first.count(SKILLS["brief"]) == 1
    assert SKILLS["sailing"] not in first
    assert SKILLS["brief"] not in second
    assert agent.skills == ["brief", "sailing"]


def telling(**more: Any) -> Agent:
    """An agent that answers with what it was told of a message."""

    def make_input(message: UserMessage) -> str:
        if "unknown" in message.installed_skills:
            raise InvalidArgument(problem="There is no skill 'unknown'.")
        return f"{message.channel} {','.join(message.installed_skills)}"

    return Agent(
        name="telling",
        make_runtime=lambda db, settings: clew.Runtime(db, agent="telling", model=settings.model),
        make_input=make_input,
        **more,
    )


@pytest.mark.promise("A-03")
@pytest.mark.parametrize("channel", ["test", "web", "voice", "terminal"])
async def test_a_turn_names_its_channel_and_skills(channel: Any) -> None:
    async with clew.open("memory://") as db:
        app = create_app(quiet(), db=db, agent=telling(), model=ScriptedModel("Yes.", "Yes.", "Yes."))
        async with over_http(app, db) as users:
            alice, options = users("alice"), {"channel": channel, "installed_skills": ["a", "b"]}
            await alice.run_turn("t", "hi", channel=channel, installed_skills=["a", "b"])
            [
                each
                async for each in alice.stream_turn("t", "hi", channel=channel, installed_skills=["a", "b"])
            ]
            body = {"thread": "t", "message": "hi", **options}
            await users.http.post("/api/v1/turns", json=body, headers=users.headers())
            messages = (await alice.messages("t")).messages

    assert [each.text for each in messages if each.role == "user"] == [f"{channel} a,b"] * 3


async def test_a_turn_over_a_websocket_names_its_channel_and_skills() -> None:
    async with clew.open("memory://") as db:
        app = create_app(quiet(), db=db, agent=telling(), model=ScriptedModel("Yes."))
        async with listening(app) as address:
            url = f"{address.replace('http', 'ws')}/api/v1/ws"
            async with websockets.connect(url) as socket:
                request = {"type": "turn", "thread": "t", "message": "hi", "channel": "voice"}
                await socket.send(json.dumps({**request, "installed_skills": ["a"]}))
                events = await events_of(socket)
                await socket.send(json.dumps({**request, "channel": "fax"}))
                refusal = (await events_of(socket))[0]
                await socket.send(json.dumps({**request, "installed_skills": ["unknown"]}))
                unknown = (await events_of(socket))[0]

    contents = [each["data"]["message"]["content"] for each in events if each["type"] == "message"]
    assert contents[0] == "voice a"
    assert (refusal["type"], refusal["data"]["status"]) == ("problem", 422)
    assert refusal["data"]["detail"].endswith("at `$.channel`. Use one of: test, web, voice, terminal.")
    assert (unknown["data"]["status"], unknown["data"]["detail"]) == (422, "There is no skill 'unknown'.")


async def events_of(socket: websockets.ClientConnection) -> list[dict[str, Any]]:
    """The events of a request, to their end."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != "end":
        events.append(json.loads(await socket.recv()))
    return events


@pytest.mark.parametrize(
    ("body", "code", "problem"),
    [
        (
            {"channel": "fax"},
            "invalid_input",
            "channel: Invalid enum value 'fax'. Use one of: test, web, voice, terminal.",
        ),
        ({"channel": None}, "invalid_input", "channel"),
        ({"installed_skills": "brief"}, "invalid_input", "installed_skills"),
        ({"installed_skills": [1]}, "invalid_input", "installed_skills"),
        ({"installed_skills": ["s"] * 101}, "invalid_input", "installed_skills"),
        ({"installed_skills": ["s" * 65]}, "invalid_input", "installed_skills"),
        ({"installed_skills": ["unknown"]}, "invalid_argument", "There is no skill 'unknown'."),
    ],
    ids=["channel", "no channel", "no list", "no name", "many", "long", "unknown"],
)
async def test_a_channel_or_skill_that_there_is_not_is_refused(
    body: dict[str, Any], code: str, problem: str
) -> None:
    async with clew.open("memory://") as db, over_http(create_app(db=db, agent=telling()), db) as users:
        answer = await users.http.post(
            "/api/v1/threads/t/turns", json={"message": "hi", **body}, headers=users.headers()
        )
        threads = (await users("alice").threads()).threads

    refusal = answer.json()
    assert (answer.status_code, refusal["code"], threads) == (422, code, [])
    assert problem in json.dumps(refusal, ensure_ascii=False)


async def test_an_agent_that_takes_no_skills_refuses_them_and_lists_none(skills: str) -> None:
    app_settings = quiet(skills=skills, agent="plain")
    async with clew.open("memory://") as db, over_http(create_app(app_settings, db=db), db) as users:
        agent = await users("alice").agent()
        with pytest.raises(InvalidInput) as caught:
            await users("alice").run_turn("t", "hi", installed_skills=["brief"])

    assert str(caught.value) == "This agent takes no skills. Leave out installed_skills."
    assert agent.skills == []


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({"embedder": "word2vec"}, "There is no embedder 'word2vec'"),
        ({"search_provider": "searxng:http://search.example.org"}, "must be asked over https"),
        ({"skills": "nowhere"}, "The skills at 'nowhere' cannot be read"),
    ],
    ids=["embedder", "search provider", "skills"],
)
async def test_a_name_that_leads_nowhere_is_told_before_anything_is_served(
    names: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        await check_prerequisites(quiet(**names))
