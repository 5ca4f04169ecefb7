"""Every route, attacked by another tenant, by another user, and with credentials that do not hold."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from litestar.routes import HTTPRoute, WebSocketRoute

from clew.api.route import API_PREFIX
from clew.server.app import create_app
from tests.server.attacked_server import SECRET, Ask, Victim, World, world
from tests.server.routes.attacks import (
    ATTACKS,
    DESCRIPTIONS,
    MAKES_A_THREAD,
    MEMORY_OF_THREAD,
    OPEN,
    PAGES,
    PROTOCOLS,
    SOCKETS,
    SPEAKING,
)
from tests.support.ag_ui_client import AgUiClient, parse_stream

pytestmark = [pytest.mark.security, pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("F-10")]

ROUTES = list(ATTACKS)
BAD = (
    "no token",
    "an expired token",
    "a token for somebody else",
    "an unsigned token",
    "a token signed with the public key",
    "a revoked key",
)
every_route = pytest.mark.parametrize("route", ROUTES, ids=" ".join)
with_cursor = [route for route, attack in ATTACKS.items() if attack.cursor == "taken"]
posts = [route for route in ROUTES if route[0] == "POST"]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """A running server for all of these tests; each has a victim's things of its own."""
    file: Path = tmp_path_factory.mktemp("attacks") / "server.db"
    async with world(f"sqlite:///{file}") as new_world:
        yield new_world


@pytest_asyncio.fixture(loop_scope="module")
async def victim(server: World) -> Victim:
    return await server.victim()


def routes_of(app: Any) -> tuple[set[tuple[str, str]], set[str]]:
    """Every route that the application answers: methods and paths, and sockets."""
    routes: set[tuple[str, str]] = set()
    sockets: set[str] = set()
    for route in app.routes:
        path = route.path.removeprefix(API_PREFIX)
        if isinstance(route, HTTPRoute) and not path.startswith(DESCRIPTIONS):
            routes |= {(str(method), path) for method in route.methods if method != "OPTIONS"}
        elif isinstance(route, WebSocketRoute):
            sockets.add(path)
    return routes, sockets


def code_of(answer: httpx.Response) -> str:
    assert answer.headers["content-type"].startswith("application/problem+json"), answer.text
    return str(answer.json()["code"])


async def test_every_route_is_in_the_suite() -> None:
    routes, sockets = routes_of(create_app())

    assert routes == ATTACKS.keys() | OPEN.keys() | PAGES
    assert sockets == SOCKETS


async def test_everything_beside_the_api_is_the_studio_or_a_protocol() -> None:
    beside = {route.path for route in create_app().routes if not route.path.startswith(API_PREFIX)}

    assert beside == {path for _, path in PAGES} | PROTOCOLS


async def test_every_list_with_a_cursor_is_in_the_suite() -> None:
    lists = {
        (str(method), route.path.removeprefix(API_PREFIX))
        for route in create_app().routes
        if isinstance(route, HTTPRoute)
        for method, (handler, _) in route.route_handler_map.items()
        if "cursor" in handler.parsed_fn_signature.parameters
    }

    assert lists == set(with_cursor)


# Whoever asks about her own is served, so that a refusal of others means something.


def reads(route: tuple[str, str]) -> bool:
    """Whether a route changes nothing, whoever is served."""
    return route[0] == "GET"


def is_refused(route: tuple[str, str], who: str) -> bool:
    """Whether a route has nothing for another, so that nothing may come of asking."""
    return all(status >= 400 for status in ATTACKS[route].others[who])


@every_route
async def test_the_owner_is_served(server: World, route: tuple[str, str]) -> None:
    victim = await (server.victim_of("owners who read") if reads(route) else server.victim())
    answer = await server.as_(ATTACKS[route].owner, ATTACKS[route].ask(victim))

    assert answer.status_code < 300, answer.text


@pytest.mark.parametrize("who", ["eve", "bob"], ids=["another tenant", "another user"])
@every_route
async def test_others_get_nothing_and_change_nothing(server: World, route: tuple[str, str], who: str) -> None:
    harmless = reads(route) or is_refused(route, who)
    victim = await (server.victim_of("others") if harmless else server.victim())
    attack = ATTACKS[route]
    before = await server.belongings(victim)
    answer = await server.as_(who, attack.ask(victim))

    assert answer.status_code in attack.others[who], answer.text
    assert SECRET not in answer.text
    assert victim.user not in answer.text
    assert await server.belongings(victim) == before


NAMES = ("thread", "run", "waiting_run", "fact", "job", "dataset")
others_routes = [route for route, attack in ATTACKS.items() if attack.others["bob"] == {404}]


@pytest.mark.parametrize("route", others_routes, ids=" ".join)
async def test_what_is_anothers_looks_like_what_is_not_there(server: World, route: tuple[str, str]) -> None:
    victim = await (server.victim() if route in MAKES_A_THREAD else server.victim_of("those who compare"))
    names: dict[str, Any] = {name: f"{getattr(victim, name)}~" for name in NAMES}
    made_up = replace(victim, **names)
    hers = await server.as_("bob", ATTACKS[route].ask(victim))
    nobodys = await server.as_("bob", ATTACKS[route].ask(made_up))
    if route in MAKES_A_THREAD:
        assert (
            nobodys.status_code == 200
        )  # a turn makes the thread that it names, so an id that is taken shows
        return

    assert (nobodys.status_code, _without_names(nobodys)) == (hers.status_code, _without_names(hers))


def _without_names(answer: httpx.Response) -> str:
    return re.sub(r"(diary|run|fact|job|set)-[\w~]+(-w)?", "NAME", answer.text)


@pytest.mark.parametrize("credentials", BAD)
@every_route
async def test_nobody_gets_in_with(
    server: World, anyone: Victim, route: tuple[str, str], credentials: str
) -> None:
    answer = await server.send(ATTACKS[route].ask(anyone), server.bad[credentials])

    assert (answer.status_code, code_of(answer)) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert SECRET not in answer.text


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def anyone(server: World) -> AsyncIterator[Victim]:
    """One victim for all who do not even get in; at the end she has all that she had."""
    victim = await server.victim()
    before = await server.heads(victim)
    yield victim
    assert await server.heads(victim) == before


@pytest.mark.parametrize("route", OPEN, ids=" ".join)
async def test_an_open_route_says_nothing_of_anybody(
    server: World, anyone: Victim, route: tuple[str, str]
) -> None:
    answer = await server.send(Ask(method=route[0], path=route[1]), None)

    assert answer.status_code == 200
    assert answer.json().keys() <= {"ok", "store", "problems"}


async def test_the_description_of_the_api_needs_credentials(server: World) -> None:
    path = f"{DESCRIPTIONS}/openapi.json"

    assert (await server.send(Ask(method="GET", path=path), None)).status_code == 401
    assert (await server.as_("eve", Ask(method="GET", path=path))).status_code == 200


# Keys that reach less far, or as far as a whole tenant.


@pytest.mark.parametrize("route", [route for route in ROUTES if route[0] != "GET"], ids=" ".join)
async def test_a_key_that_may_only_read_changes_nothing(
    server: World, anyone: Victim, route: tuple[str, str]
) -> None:
    answer = await server.as_("alice reading", ATTACKS[route].ask(anyone))

    assert (answer.status_code, code_of(answer)) == (403, "forbidden")


@pytest.mark.parametrize("route", [("GET", "/metrics"), ("POST", "/jobs/{job:str}/retry")], ids=" ".join)
async def test_a_key_without_the_scope_is_no_administrators(
    server: World, anyone: Victim, route: tuple[str, str]
) -> None:
    answer = await server.as_("alice working", ATTACKS[route].ask(anyone))

    assert (answer.status_code, code_of(answer)) == (403, "forbidden")


@pytest.mark.parametrize("route", [route for route in ROUTES if route[1] != "/metrics"], ids=" ".join)
async def test_a_key_of_the_servers_operator_is_for_its_numbers_alone(
    server: World, anyone: Victim, route: tuple[str, str]
) -> None:
    answer = await server.as_("the server's operator", ATTACKS[route].ask(anyone))

    assert (answer.status_code, code_of(answer)) == (403, "forbidden")


# Whoever has an archive may keep a copy of it in a tenant that is all theirs, so an import is no attack.
@pytest.mark.parametrize("route", [route for route in ROUTES if route[1] != "/sessions/import"], ids=" ".join)
async def test_a_key_of_a_whole_tenant_reaches_no_other(server: World, route: tuple[str, str]) -> None:
    cases = "keys of another tenant that read" if reads(route) else "keys of another tenant that write"
    victim = await server.victim_of(cases)
    before = await server.belongings(victim)
    answer = await server.as_("globex", ATTACKS[route].ask(victim))

    assert answer.status_code < 500
    assert SECRET not in answer.text
    assert await server.belongings(victim) == before


# Threads that are nobody's. They are reached by credentials of their tenant that name nobody, and no others.


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def nobodys(server: World) -> AsyncIterator[Victim]:
    """Something of everything that is nobody's; at the end it is as it was."""
    victim = await server.victim("acme")
    before = await server.belongings(victim)
    yield victim
    assert await server.belongings(victim) == before


@pytest.mark.parametrize("route", [route for route in others_routes if reads(route)], ids=" ".join)
async def test_credentials_that_name_nobody_read_what_is_nobodys(
    server: World, nobodys: Victim, route: tuple[str, str]
) -> None:
    if route == ("GET", "/memory/entries/{entry:str}"):
        pytest.skip("it is about a user; see the memory of threads")
    answer = await server.as_("acme", ATTACKS[route].ask(nobodys))

    assert answer.status_code == 200, answer.text


@every_route
async def test_no_person_reaches_what_is_nobodys(
    server: World, nobodys: Victim, route: tuple[str, str]
) -> None:
    bob = await server.user("bob")
    own = await server.as_("bob", ATTACKS[route].ask(replace(nobodys, user=bob)))
    nameless = await server.as_("bob", ATTACKS[route].ask(nobodys))

    for answer in (own, nameless):
        assert answer.status_code < 500, answer.text
        assert SECRET not in answer.text
        assert is_about_caller(route) or answer.status_code >= 400, answer.text


def is_about_caller(route: tuple[str, str]) -> bool:
    """Whether a route answers about whoever asks; a call may begin on a thread that is yet to be made."""
    answers = ATTACKS[route].others["bob"] <= {200, 201, 204} or route[1].startswith(("/memory", "/person"))
    return answers or route[1].endswith(("/voice/session", "/voice/heard", "/voice/tools"))


@pytest.mark.parametrize("who", ["eve", "bob", "alice working"])
@pytest.mark.parametrize("case", MEMORY_OF_THREAD)
async def test_no_person_reaches_the_memory_of_a_thread(
    server: World, nobodys: Victim, who: str, case: str
) -> None:
    answer = await server.as_(who, MEMORY_OF_THREAD[case](nobodys))

    assert (answer.status_code, code_of(answer)) == (422, "invalid_argument")
    assert SECRET not in answer.text


@pytest.mark.parametrize("case", SPEAKING)
async def test_a_request_that_names_a_user_goes_on_with_nothing_of_nobodys(
    server: World, nobodys: Victim, case: str
) -> None:
    ask = SPEAKING[case](nobodys)
    name = {"user": await server.user("bob")}
    is_ag_ui = "threadId" in ask.json
    answer = await server.as_(
        "acme", replace(ask, json={**ask.json, **({"forwardedProps": {"clew": name}} if is_ag_ui else name)})
    )

    assert SECRET not in answer.text
    assert case not in ("a turn", "a turn, by its body", "a spoken turn") or answer.status_code == 404


@pytest.mark.parametrize("case", SPEAKING)
async def test_a_request_that_names_nobody_goes_on_with_nothing_of_a_persons(
    server: World, anyone: Victim, case: str
) -> None:
    answer = await server.as_("acme", SPEAKING[case](anyone))

    assert (answer.status_code, code_of(answer)) == (422, "user_missing")
    assert SECRET not in answer.text


@pytest.mark.parametrize("case", MEMORY_OF_THREAD)
async def test_what_is_known_of_a_person_is_no_memory_of_a_thread(
    server: World, anyone: Victim, case: str
) -> None:
    answer = await server.as_("acme", MEMORY_OF_THREAD[case](anyone))

    assert (answer.status_code, code_of(answer)) == (422, "user_missing")
    assert SECRET not in answer.text


async def test_what_is_nobodys_is_no_archive_for_a_person(server: World, nobodys: Victim) -> None:
    ask = Ask(method="POST", path="/sessions/import", content=nobodys.archive)
    answer = await server.as_("bob", ask)

    assert (answer.status_code, code_of(answer)) == (422, "archive_invalid")


# Cursors.


async def cursor_of(server: World, route: tuple[str, str], victim: Victim) -> tuple[Ask, str]:
    """A request of alice's that ends with a cursor, and the cursor."""
    ask = ATTACKS[route].ask(victim)
    first = Ask(method="GET", path=ask.path, params={**ask.params, "limit": "1"})
    answer = await server.as_("alice", first)
    cursor = answer.json()["next"]
    assert cursor, answer.text
    return first, str(cursor)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def reader(server: World) -> Victim:
    """One of two victims, so that every list has another page."""
    await server.victim_of("cursors, first")
    return await server.victim_of("cursors, second")


@pytest.mark.parametrize("route", with_cursor, ids=" ".join)
async def test_a_cursor_is_good_for_whom_it_was_made(
    server: World, reader: Victim, route: tuple[str, str]
) -> None:
    first, cursor = await cursor_of(server, route, reader)
    with_it = Ask(method="GET", path=first.path, params={**first.params, "cursor": cursor})
    hers = await server.as_("alice", with_it)
    theirs = [await server.as_(who, with_it) for who in ("bob", "eve")]

    assert hers.status_code == 200
    assert all(answer.status_code in (403, 404, 422) for answer in theirs)
    assert all(SECRET not in answer.text for answer in theirs)


@pytest.mark.parametrize("route", with_cursor, ids=" ".join)
async def test_a_cursor_that_was_changed_is_refused(
    server: World, reader: Victim, route: tuple[str, str]
) -> None:
    first, cursor = await cursor_of(server, route, reader)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    variants = [raw[:n] + bytes([raw[n] ^ 1]) + raw[n + 1 :] for n in range(len(raw))]
    texts = [base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in variants]
    for text in [*texts, cursor[:-4], "AAAA", "", "\xff", base64.urlsafe_b64encode(raw[16:]).decode()]:
        answer = await server.as_(
            "alice", Ask(method="GET", path=first.path, params={**first.params, "cursor": text})
        )

        assert (answer.status_code, code_of(answer)) == (422, "invalid_argument"), text


async def test_a_cursor_of_one_list_is_refused_by_every_other(server: World, reader: Victim) -> None:
    cursors = {route: await cursor_of(server, route, reader) for route in with_cursor}
    for route, (first, _) in cursors.items():
        for other, (_, cursor) in cursors.items():
            ask = Ask(method="GET", path=first.path, params={**first.params, "cursor": cursor})
            answer = await server.as_("alice", ask)

            assert answer.status_code == (200 if route == other else 422), (route, other)


# Idempotency keys.


def with_key(ask: Ask, key: str) -> Ask:
    """The same request with an idempotency key."""
    return replace(ask, headers={**ask.headers, "idempotency-key": key})


@pytest.mark.parametrize("who", ["eve", "bob"], ids=["another tenant", "another user"])
@pytest.mark.parametrize("route", posts, ids=" ".join)
async def test_anothers_key_brings_none_of_her_answers(
    server: World, victim: Victim, route: tuple[str, str], who: str
) -> None:
    attack = ATTACKS[route]
    ask = with_key(attack.ask(victim), f"key {victim.number}")
    hers = await server.as_("alice", ask)
    theirs = await server.as_(who, ask)

    assert hers.status_code < 300, hers.text
    assert theirs.status_code in attack.others[who] | {409}, theirs.text
    assert "idempotent-replayed" not in theirs.headers
    assert SECRET not in theirs.text


@pytest.mark.parametrize("route", posts, ids=" ".join)
async def test_the_same_key_of_the_same_user_does_nothing_twice(
    server: World, victim: Victim, route: tuple[str, str]
) -> None:
    ask = with_key(ATTACKS[route].ask(victim), f"key {victim.number}")
    first = await server.as_("alice", ask)
    again = await server.as_("alice", ask)

    assert first.status_code < 300, first.text
    assert (again.status_code, _text_of(again)) == (first.status_code, _text_of(first))


def _text_of(answer: httpx.Response) -> str:
    """What an answer says, but for whether it was said before, and for what is live alone."""
    if "RUN_FINISHED" in answer.text:
        messages = json.loads(answer.request.content)["messages"]
        client = AgUiClient(http=httpx.AsyncClient(), messages=messages)
        client.apply(parse_stream(answer.text))
        return json.dumps(client.messages, sort_keys=True)
    return re.sub(r'"repeated":(true|false)|data: .*"data-stage"}\n\n', "", answer.text)


OTHERWISE: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/threads/{id:str}/changesets"): {"patches": [["set", ["mood"], "wild"]]},
    ("POST", "/threads/{id:str}/turns"): {"message": "Something else"},
    ("POST", "/turns"): {"message": "Something else"},
    ("POST", "/ag-ui"): {"messages": [{"id": "other", "role": "user", "content": "Something else"}]},
    ("POST", "/sessions/{id:str}/voice"): {"said": "Something else"},
    ("POST", "/sessions/{id:str}/feedback"): {"label": "negative"},
    ("POST", "/ai-sdk/chat"): {
        "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Something else"}]}]
    },
}
"""Other bodies, where the key commits with the change and only the body counts."""


@pytest.mark.parametrize("route", posts, ids=" ".join)
async def test_a_key_that_was_used_for_something_else_is_refused(
    server: World, victim: Victim, route: tuple[str, str]
) -> None:
    ask = with_key(ATTACKS[route].ask(victim), f"key {victim.number}")
    if route in OTHERWISE:
        other = replace(ask, json={**ask.json, **OTHERWISE[route]})
    else:
        other = replace(ask, params={**ask.params, "other": "1"})
    first = await server.as_("alice", ask)
    answer = await server.as_("alice", other)

    assert first.status_code < 300, first.text
    assert (answer.status_code, code_of(answer)) == (409, "key_reused")


@pytest.mark.parametrize("key", ["", "x" * 600, "a\tb"], ids=["empty", "too long", "with a tab"])
@pytest.mark.parametrize("route", posts, ids=" ".join)
async def test_a_key_that_is_none_is_refused(
    server: World, anyone: Victim, route: tuple[str, str], key: str
) -> None:
    answer = await server.as_("alice", with_key(ATTACKS[route].ask(anyone), key))

    assert (answer.status_code, code_of(answer)) == (422, "invalid_id")


# Bodies that a page of another site could send without asking.


json_routes = sorted(
    (str(method), route.path.removeprefix(API_PREFIX))
    for route in create_app().routes
    if isinstance(route, HTTPRoute)
    for method, (handler, _) in route.route_handler_map.items()
    if "data" in handler.parsed_fn_signature.parameters
)
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]


@pytest.mark.parametrize("media_type", SIMPLE)
@pytest.mark.parametrize("route", json_routes, ids=" ".join)
async def test_json_that_is_not_said_to_be_json_is_refused(
    server: World, anyone: Victim, route: tuple[str, str], media_type: str | None
) -> None:
    ask = ATTACKS[route].ask(anyone)
    headers = {"content-type": media_type} if media_type is not None else {}
    disguise = replace(ask, json=None, content=msgspec.json.encode(ask.json), headers=headers)
    answer = await server.as_("alice", disguise)

    assert (answer.status_code, code_of(answer)) == (415, "unsupported_media_type")


# The socket.


async def talk(
    server: World, token: str | None, *messages: bytes, address: str = "127.0.0.1"
) -> list[dict[str, Any]]:
    """What the server sends on a socket, until it has answered every message or closed."""
    replies: list[dict[str, Any]] = []
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "websocket.connect"})
    answer_event = asyncio.Event()

    async def sending(message: dict[str, Any]) -> None:
        replies.append(message)
        if message["type"] == "websocket.accept":
            for each in messages:
                inbox.put_nowait({"type": "websocket.receive", "text": each.decode()})
        elif '"type":"problem"' in message.get("text", "") or message["type"] == "websocket.close":
            inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
            answer_event.set()

    headers = [(b"host", b"server"), *([(b"authorization", f"Bearer {token}".encode())] if token else [])]
    scope = {
        "type": "websocket",
        "path": f"{API_PREFIX}/ws",
        "raw_path": f"{API_PREFIX}/ws".encode(),
        "query_string": b"",
        "headers": headers,
        "subprotocols": [],
        "client": (address, 1),
        "server": ("server", 80),
        "scheme": "ws",
        "root_path": "",
        "asgi": {"version": "3.0"},
        "state": {},
    }
    async with asyncio.timeout(20):
        await server.app(scope, inbox.get, sending)
    return replies


@pytest.mark.parametrize("credentials", BAD)
async def test_no_socket_opens_with(server: World, anyone: Victim, credentials: str) -> None:
    messages = await talk(server, server.bad[credentials], b"{}")

    assert "websocket.accept" not in {message["type"] for message in messages}


@pytest.mark.parametrize("who", ["eve", "bob"], ids=["another tenant", "another user"])
@pytest.mark.parametrize("kind", ["follow", "cancel", "turn"])
async def test_others_hear_nothing_on_a_socket(server: World, victim: Victim, who: str, kind: str) -> None:
    before = await server.belongings(victim)
    text = f'{{"type": "{kind}", "thread": "{victim.thread}", "message": "?", "user": "{victim.user}"}}'
    messages = await talk(server, server.tokens[who], text.encode())
    replies = str(messages)

    assert "forbidden" in replies if kind == "turn" else "thread_not_found" in replies
    assert SECRET not in replies
    assert await server.belongings(victim) == before


@pytest.mark.parametrize("kind", ["follow", "cancel", "turn"])
async def test_no_person_hears_on_a_socket_what_is_nobodys(server: World, nobodys: Victim, kind: str) -> None:
    text = f'{{"type": "{kind}", "thread": "{nobodys.thread}", "message": "What did I say?"}}'
    replies = str(await talk(server, server.tokens["bob"], text.encode()))

    assert "thread_not_found" in replies
    assert SECRET not in replies


@pytest.mark.parametrize("whose", ["nobody's", "a person's"])
async def test_a_socket_goes_on_with_nothing_of_another(
    server: World, nobodys: Victim, anyone: Victim, whose: str
) -> None:
    bob = await server.user("bob")
    thread, user = (nobodys.thread, f'"{bob}"') if whose == "nobody's" else (anyone.thread, "null")
    text = f'{{"type": "turn", "thread": "{thread}", "message": "What did I say?", "user": {user}}}'
    replies = str(await talk(server, server.tokens["acme"], text.encode()))

    assert ("thread_not_found" if whose == "nobody's" else "user_missing") in replies
    assert SECRET not in replies
