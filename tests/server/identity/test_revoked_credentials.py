"""Credentials that hold no more: what was open with them tells nothing more, and does nothing more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import websockets

import clew
from clew.api.events import StreamEvent
from clew.api.problems import PROBLEM_MEDIA_TYPE
from clew.api.route import API_PREFIX
from clew.client import AsyncClient
from clew.core.errors import Forbidden, Unauthenticated
from clew.server.app import create_app
from clew.server.http import sse
from clew.server.identity.api_keys import KeyAuthentication, create_key, revoke_key
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Membership, Tenant, User
from tests.server.local_server import listening
from tests.support.echo import chatting

pytestmark = pytest.mark.promise("F-09")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A server that lets keys in, and a key of alice's."""

    address: str
    directory: Directory
    key: str

    async def revoke(self) -> None:
        """End her key, as the command does from another process."""
        await revoke_key(self.directory, self.key.split("_")[1])

    async def write(self, thread: str) -> None:
        """Let something come into a thread of hers."""
        item = clew.Item(body={"role": "user", "content": "secret"}, role="user")
        await self.directory.db.scope(tenant="acme", user="alice").thread(thread).append(items=[item])

    def line(self, key: str | None = None) -> websockets.connect:
        """A WebSocket with a key."""
        url = f"{self.address.replace('http', 'ws')}{API_PREFIX}/ws"
        return websockets.connect(url, additional_headers={"X-API-Key": key or self.key})

    def client(self) -> AsyncClient:
        """Alice."""
        return AsyncClient(self.address, token=self.key)


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    """Such a server, with a real address."""
    async with clew.open("memory://") as db:
        directory = Directory(db)
        await directory.add(Tenant(id="acme"))
        await directory.add(User(tenant="acme", id="alice"))
        await directory.add(Membership(tenant="acme", workspace="default", user="alice"))
        _, key = await create_key(directory, tenant="acme", user="alice")
        app = create_app(db=db, agent=chatting(), authenticate=KeyAuthentication(directory))
        async with listening(app) as address:
            yield Place(address=address, directory=directory, key=key)


def turn(thread: str) -> str:
    return json.dumps({"type": "turn", "thread": thread, "message": "hi"})


async def test_a_revoked_key_sends_nothing_more_over_a_line_that_is_open() -> None:
    async with place() as here, here.line() as line:
        await line.send(turn("before"))
        while json.loads(await line.recv())["type"] != "end":
            pass
        await here.revoke()
        await line.send(turn("after"))
        event = json.loads(await line.recv())
        with pytest.raises(websockets.ConnectionClosed) as closure:
            await line.recv()
        page = await here.directory.db.scope(tenant="acme").threads()

    assert (event["type"], event["data"]["code"]) == ("problem", "unauthenticated")
    assert closure.value.rcvd is not None
    assert closure.value.rcvd.code == 1008
    assert [thread.id for thread in page.threads] == ["before"]


async def test_a_revoked_key_hears_nothing_more_on_a_stream_that_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "RECHECK_SECONDS", 0.0)
    async with place() as here, here.client() as alice:
        await alice.run_turn("t", "hi")
        events = alice.follow("t", after="0.0")
        await anext(events)
        await here.revoke()
        await here.write("t")

        with pytest.raises(Unauthenticated):
            await _all(events)


async def _all(events: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [event async for event in events]


async def test_a_revoked_key_hears_nothing_more_on_a_line_that_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "RECHECK_SECONDS", 0.0)
    async with place() as here, here.client() as alice, here.line() as line:
        await alice.run_turn("t", "hi")
        await line.send(json.dumps({"type": "follow", "thread": "t", "after": "0.0"}))
        await line.recv()
        await here.revoke()
        await here.write("t")
        while (event := json.loads(await line.recv()))["type"] not in ("problem", "end"):
            pass

    assert event["data"]["code"] == "unauthenticated"


async def test_a_line_is_closed_to_one_whose_roles_have_changed() -> None:
    async with place() as here, here.line() as line:
        await here.directory.put(
            Membership(tenant="acme", workspace="default", user="alice", roles=("auditor",))
        )
        await line.send(turn("t"))
        event = json.loads(await line.recv())

    assert event["data"]["code"] == Forbidden.code


async def test_who_may_not_open_a_line_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    async with place() as here:
        _, reading = await create_key(here.directory, tenant="acme", user="alice", scopes=("read",))
        responses = {}
        for name, key in (("a stranger", "clew_0123456789abcdef_no"), ("a reader", reading)):
            with pytest.raises(websockets.InvalidStatus) as refusal:
                await here.line(key)
            responses[name] = refusal.value.response

    assert {name: answer.status_code for name, answer in responses.items()} == {
        "a stranger": 401,
        "a reader": 403,
    }
    assert all(answer.headers["content-type"] == PROBLEM_MEDIA_TYPE for answer in responses.values())
    assert responses["a stranger"].headers["www-authenticate"] == "Bearer"
    assert "handshake" not in caplog.text
    assert json.loads(responses["a reader"].body or b"{}")["detail"] == "This needs the scope 'write'."
