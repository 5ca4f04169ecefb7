"""What a user may send: archives and ids that reach for another's, and what the sweep makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clew.core.log.owners import memory_thread_id
from tests.server.attacked_server import SECRET, Ask, Victim, World, world
from tests.server.forged_archives import FORGERIES, Forger, Forgery, archive, thread_lines

pytestmark = [pytest.mark.security, pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("F-10")]

WITH_KEY = {"Idempotency-Key": "once"}
SOON = 20.0
"""Seconds after which something that should happen at once will never happen."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """A running server that finalizes episodes, for all of these tests."""
    file: Path = tmp_path_factory.mktemp("sent") / "server.db"
    async with world(f"sqlite:///{file}", remembers=True) as new_world:
        yield new_world


@pytest_asyncio.fixture(loop_scope="module")
async def victim(server: World) -> Victim:
    """The victim of all of these tests: none of them may change anything of hers."""
    return await server.victim_of("what is sent")


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_nothing_forged_is_kept_or_reaches_another(
    server: World, victim: Victim, forgery: Forgery
) -> None:
    forger = Forger(user=await server.user("bob"), thread=await server.thread_of("bob"), victim=victim)
    before = await server.belongings(victim), await server.export("bob")
    async with asyncio.timeout(SOON):
        response = await server.as_(
            "bob", Ask(method="POST", path="/sessions/import", content=forgery(forger))
        )
        export = await server.export("bob")
        await server.sweep()
        end = await server.as_("bob", Ask(method="POST", path=f"/sessions/{forger.thread}/end", json={}))

    assert response.status_code in (201, 403, 409, 422), response.text
    assert end.json()["status"] == "ended"
    assert SECRET not in response.text + await server.export("bob")
    assert (await server.belongings(victim), export) == before


async def test_a_stranger_to_memory_gets_their_own_after_a_forgery(server: World, victim: Victim) -> None:
    carol = "user-to-come"
    archive_bytes = archive(thread_lines(memory_thread_id(carol), await server.user("bob")), threads=1)
    await server.as_("bob", Ask(method="POST", path="/sessions/import", content=archive_bytes))
    await server.remember(carol, SECRET)

    assert SECRET not in await server.export("bob")
    assert SECRET in await server.known_of(carol)


RESERVED_IDS = (
    "memory/{v.user}",
    "memory/user-to-come",
    "memory/@{v.thread}",
    "clew/audit",
    "adk/app",
    "adk/app/{v.user}",
    "adk/app/{v.user}/s1",
)
MAKING = {
    "create": lambda id, own: Ask(method="POST", path="/threads", json={"id": id}),
    "create with a title": lambda id, own: Ask(method="POST", path="/threads", json={"id": id, "title": "x"}),
    "fork": lambda id, own: Ask(method="POST", path=f"/threads/{own}/fork", json={"id": id}),
    "turn": lambda id, own: Ask(method="POST", path="/turns", json={"thread": id, "message": "Hi"}),
    "incognito turn": lambda id, own: Ask(
        method="POST", path="/turns", json={"thread": id, "message": "Hi", "mode": "incognito"}
    ),
    "voice": lambda id, own: Ask(method="POST", path=f"/sessions/{quote_id(id)}/voice", json={"said": "Hi"}),
    "heard": lambda id, own: Ask(
        method="POST", path=f"/sessions/{quote_id(id)}/voice/heard", json={"id": "u", "said": "Hi"}
    ),
    "append": lambda id, own: Ask(
        method="POST", path=f"/threads/{quote_id(id)}/changesets", json={"patches": [["set", ["x"], 1]]}
    ),
    "manifest": lambda id, own: Ask(
        method="POST",
        path=f"/sessions/{quote_id(id)}/import",
        json={"format": "clew.session", "version": 1, "session": id, "state": {}},
    ),
}


def quote_id(id: str) -> str:
    return id.replace("/", "%2F")


@pytest.mark.parametrize("id", RESERVED_IDS)
@pytest.mark.parametrize("way", MAKING)
async def test_no_route_makes_a_reserved_thread(server: World, victim: Victim, way: str, id: str) -> None:
    before = await server.belongings(victim)
    answer = await server.as_("bob", MAKING[way](id.format(v=victim), await server.thread_of("bob")))

    assert answer.status_code in (404, 422), answer.text
    assert await server.belongings(victim) == before


@pytest.mark.promise("R-16")
async def test_a_persons_own_archive_brings_back_threads_and_memory(server: World) -> None:
    dora = await server.add_user("dora")
    thread = await server.thread_of("dora")
    await server.as_("dora", Ask(method="POST", path=f"/sessions/{thread}/end", json={}))
    await server.as_("dora", Ask(method="POST", path="/threads", json={"id": "d"}, headers=WITH_KEY))
    whole, facts = await server.export("dora"), await server.known_of(dora)
    await server.forget_all_of(dora)
    ask = Ask(method="POST", path="/sessions/import", content=whole.encode())
    answer = (await server.as_("dora", ask)).json()

    assert await server.export("dora") == whole
    assert (await server.known_of(dora), answer["skipped_records"]) == (facts, 0)
    assert "tea" in facts
