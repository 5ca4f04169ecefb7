"""One request and its response: its id, and its line in the access log."""

from __future__ import annotations

import json
import logging

import pytest

import clew
from clew.api.route import API_PREFIX
from clew.server.identity.api_keys import KeyAuthentication, create_key
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant
from clew.server.metrics import JsonLogFormatter
from clew.server.process import uvicorn_config
from clew.server.settings import ServerSettings
from tests.server.conftest import Users, clients_of, in_memory

SECRET = "Rumpelstilzchen"


async def test_a_response_has_the_id_of_its_request(users: Users) -> None:
    answer = await users.http.get(f"{API_PREFIX}/threads", headers={"X-Request-Id": "proxy-17"})
    other = await users.http.get(f"{API_PREFIX}/nowhere")

    assert answer.headers["X-Request-Id"] == "proxy-17"
    assert len(other.headers["X-Request-Id"]) == 16


@pytest.mark.parametrize("bad_id", ["", "a b", "x" * 65, "é", '"}{'])
async def test_an_id_that_could_forge_a_line_is_replaced(bad_id: str) -> None:
    async with in_memory() as users:
        answer = await users.http.get(f"{API_PREFIX}/threads", headers={b"X-Request-Id": bad_id.encode()})

    assert answer.headers["X-Request-Id"] != bad_id
    assert len(answer.headers["X-Request-Id"]) == 16


async def test_a_request_is_one_line_without_ids_words_or_queries(
    users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "clew.access")
    await users(f"user-{SECRET}").run_turn(f"thread-{SECRET}", SECRET)
    await users.http.get(f"{API_PREFIX}/threads?q={SECRET}", headers={"X-Request-Id": "r1"})
    first, second = [record for record in caplog.records if record.name == "clew.access"]

    fields = json.loads(JsonLogFormatter().format(first))
    assert SECRET not in caplog.text
    assert fields["route"] == f"{API_PREFIX}/threads/{{id}}/turns"
    assert (fields["method"], fields["status"], fields["tenant"]) == ("POST", 200, users.tenant)
    assert fields["bytes"] > 0
    assert fields["ms"] > 0
    assert second.getMessage().startswith(f"GET {API_PREFIX}/threads 200 ")
    assert second.getMessage().endswith("request=r1")


async def test_the_line_names_the_key_and_not_its_secret(
    db: clew.Database, caplog: pytest.LogCaptureFixture
) -> None:
    directory = Directory(db)
    await directory.add(Tenant(id=db.tenant))
    key, text = await create_key(directory, tenant=db.tenant)
    caplog.set_level(logging.INFO, "clew.access")
    async with clients_of(db, authenticate=KeyAuthentication(directory)) as users:
        await users.http.get(f"{API_PREFIX}/threads", headers={"X-API-Key": text})
        await users.http.get(f"{API_PREFIX}/threads", headers={"X-API-Key": f"{text}x"})
    lines = [record.getMessage() for record in caplog.records if record.name == "clew.access"]

    assert f"tenant={db.tenant} key={key.id} " in lines[0]
    assert " 401 " in lines[1]
    assert "key=" not in lines[1]
    assert text.rpartition("_")[2] not in caplog.text


@pytest.mark.parametrize("json_logs", [True, False], ids=["json", "text"])
def test_the_access_log_can_be_switched_off(*, json_logs: bool) -> None:
    levels = [
        uvicorn_config(ServerSettings(json_logs=json_logs, access_log=access_log)).log_config
        for access_log in (True, False)
    ]

    assert [config["loggers"]["clew.access"]["level"] for config in levels if isinstance(config, dict)] == [
        "INFO",
        "WARNING",
    ]
