"""The same attacks on PostgreSQL, where the server is a role that no policy lets through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.server.attacked_server import SECRET, Ask, world
from tests.server.forged_archives import FORGERIES, Forger
from tests.server.routes.attacks import ATTACKS, MAKES_A_THREAD
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
