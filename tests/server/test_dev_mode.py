"""A server on one's own machine: no page of another site reaches it, by whatever name it calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
import pytest_asyncio

import clew
from clew.api.route import API_PREFIX
from clew.server.app import create_app
from clew.server.identity.authentication import authentication_for
from clew.server.identity.directory import Directory
from clew.server.identity.identity import AuthSettings
from tests.server.attacked_server import running

pytestmark = [pytest.mark.security, pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("F-09")]

SITE = "https://site.example"
OTHER_PORT = "http://127.0.0.1:8101"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def here() -> AsyncIterator[httpx.AsyncClient]:
    """A server in dev mode, as it is started without any settings."""
    async with clew.open("memory://") as db:
        app = create_app(db=db, authenticate=authentication_for(AuthSettings(), Directory(db)))
        transport = httpx.ASGITransport(app=app)
        async with (
            running(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            yield client


async def test_whoever_is_here_is_served(here: httpx.AsyncClient) -> None:
    assert (await here.get(f"{API_PREFIX}/threads")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "rebound.example"},
        {"host": "127.0.0.1", "origin": SITE},
        {"host": "127.0.0.1", "origin": "null"},
        {"host": "127.0.0.1:8100", "origin": OTHER_PORT},
        {"host": "127.0.0.1", "x-forwarded-for": "10.1.2.3"},
    ],
    ids=["a name that leads here", "another site", "a page without an origin", "another port", "a proxy"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_may_come_from_elsewhere_is_refused(
    here: httpx.AsyncClient, method: str, headers: Mapping[str, str]
) -> None:
    content = b'{"id": "planted"}' if method == "POST" else None
    all_headers = {**headers, "content-type": "text/plain"}
    answer = await here.request(method, f"{API_PREFIX}/threads", content=content, headers=all_headers)
    page = (await here.get(f"{API_PREFIX}/threads")).json()

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert page["threads"] == []


async def test_a_form_that_is_json_inside_makes_nothing(here: httpx.AsyncClient) -> None:
    headers = {"content-type": "text/plain"}  # as an old browser sends it, which says no origin
    answer = await here.post(f"{API_PREFIX}/threads", content=b'{"id": "planted"}', headers=headers)
    page = (await here.get(f"{API_PREFIX}/threads")).json()

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert page["threads"] == []


async def test_no_other_site_may_read_an_answer(here: httpx.AsyncClient) -> None:
    all_headers = {"origin": SITE, "access-control-request-method": "POST"}
    answer = await here.options(f"{API_PREFIX}/threads", headers=all_headers)

    assert "access-control-allow-origin" not in answer.headers


async def test_one_user_here_does_not_see_another_either(here: httpx.AsyncClient) -> None:
    await here.post(f"{API_PREFIX}/threads", json={"id": "mine"}, headers={"x-clew-user": "alice"})
    hers = await here.get(f"{API_PREFIX}/threads/mine", headers={"x-clew-user": "alice"})
    his = await here.get(f"{API_PREFIX}/threads/mine", headers={"x-clew-user": "bob"})

    assert (hers.status_code, his.status_code) == (200, 404)


async def test_the_servers_own_tenant_is_not_open_here_either(here: httpx.AsyncClient) -> None:
    answer = await here.get(f"{API_PREFIX}/threads", headers={"x-clew-tenant": "$server"})

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
