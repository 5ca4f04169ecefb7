"""The same attacks on PostgreSQL, where the server is a role that no policy lets through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.server.attacked_server import SECRET, Ask, world
from tests.server.forged_archives import FORGERIES, Forger
from tests.server.routes.attacks import ATTACKS, MAKES_A_THREAD, MEMORY_OF_THREAD, SPEAKING
from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.security, pytest.mark.postgres, pytest.mark.promise("F-10")]


@pytest.fixture
def url(postgres_database: PostgresDatabase) -> Iterator[str]:
    """The address of a database for the server's role."""
    name = f"server_{uuid4().hex}"
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE clew_app").format(sql.Identifier(name)))
    yield postgres_database.url_for(name)
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


async def test_no_route_gives_anything_to_another_tenant_or_user(url: str) -> None:
    async with world(url) as server:
        victim = await server.victim()
        before = await server.belongings(victim)
        answers = {
            (who, *route): await server.as_(who, attack.ask(victim))
            for route, attack in sorted(ATTACKS.items(), key=lambda each: each[0] in MAKES_A_THREAD)
            for who in ("eve", "bob")
        }
        after = await server.belongings(victim)

    wrong = {
        route: answer.status_code
        for route, answer in answers.items()
        if answer.status_code not in ATTACKS[route[1], route[2]].others[route[0]]
    }
    assert wrong == {}
    assert [route for route, answer in answers.items() if SECRET in answer.text] == []
    assert after == before


async def test_no_person_reaches_what_is_nobodys(url: str) -> None:
    async with world(url) as server:
        victim = await server.victim("acme")
        before = await server.belongings(victim)
        on_his_own_behalf = replace(victim, user=await server.user("bob"))
        answers = {
            " ".join(route): await server.as_("bob", attack.ask(on_his_own_behalf))
            for route, attack in ATTACKS.items()
        }
        answers |= {name: await server.as_("bob", ask(victim)) for name, ask in MEMORY_OF_THREAD.items()}
        own = await server.as_("acme", MEMORY_OF_THREAD["list"](victim))
        after = await server.belongings(victim)

    assert [name for name, each in answers.items() if SECRET in each.text or each.status_code >= 500] == []
    assert SECRET in own.text
    assert after == before


async def test_nobody_and_a_person_go_on_with_nothing_of_each_other(url: str) -> None:
    async with world(url) as server:
        hers, nobodys = await server.victim(), await server.victim("acme")
        before = [await server.belongings(each) for each in (hers, nobodys)]
        on_hers = [await server.as_("acme", ask(hers)) for ask in SPEAKING.values()]
        on_nobodys = [await server.as_("bob", ask(nobodys)) for ask in SPEAKING.values()]
        after = [await server.belongings(each) for each in (hers, nobodys)]

    assert {answer.json()["code"] for answer in on_hers} == {"user_missing"}
    assert [answer for answer in on_hers + on_nobodys if SECRET in answer.text] == []
    assert after == before


async def test_nothing_forged_is_kept_or_reaches_another(url: str) -> None:
    async with world(url, remembers=True) as server, asyncio.timeout(60):
        victim = await server.victim()
        forger = Forger(user=await server.user("bob"), thread=await server.thread_of("bob"), victim=victim)
        before = await server.belongings(victim), await server.export("bob")
        answers = [
            await server.as_("bob", Ask(method="POST", path="/sessions/import", content=forge(forger)))
            for forge in FORGERIES.values()
        ]
        export = await server.export("bob")
        await server.sweep()
        end = await server.as_("bob", Ask(method="POST", path=f"/sessions/{forger.thread}/end", json={}))
        after, text = await server.belongings(victim), await server.export("bob")

    assert {answer.status_code for answer in answers} <= {201, 403, 409, 422}
    assert end.json()["status"] == "ended"
    assert SECRET not in text
    assert (after, export) == before


@pytest.mark.parametrize("who", ["alice", "bob"])
async def test_everything_works_for_the_owner_alone(url: str, who: str) -> None:
    reads = {route: attack for route, attack in ATTACKS.items() if route[0] == "GET"}
    async with world(url) as server:
        victim = await server.victim()
        answers = {route: await server.as_(who, attack.ask(victim)) for route, attack in reads.items()}
    routes_with_secret = [route for route, answer in answers.items() if SECRET in answer.text]

    assert bool(routes_with_secret) == (who == "alice")
