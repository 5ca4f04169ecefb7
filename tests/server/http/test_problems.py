"""Errors over the wire: each has its status, keeps its code and facts, and tells nothing of the store."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from litestar import Litestar, get

from clew.api.problems import error_from_problem, error_from_response
from clew.core import errors
from clew.core.errors import ClewError, StorageError, StoreFailed, StoreUnavailable
from clew.server.http.problems import STATUS_BY_CODE, STATUS_BY_GROUP, problem_of, status_of
from tests.server.conftest import Users, in_memory
from tests.support.echo import failing_runtime


def kinds() -> list[type[ClewError]]:
    """Every error there is."""
    return [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, ClewError)]


def example(kind: type[ClewError]) -> ClewError:
    """An error with some facts."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _some(str(hints[field.name])) for field in fields(kind)})


def _some(type: str) -> Any:
    plain = {"int": 7, "str": "words", "float": 1.5, "bool": True}
    for name, value in plain.items():
        if type.startswith((f"<class '{name}'", name)):
            return value
    return {} if type.startswith("dict") else []


@pytest.mark.promise("F-11")
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: str(kind.code))
def test_every_error_has_a_status_that_somebody_chose(kind: type[ClewError]) -> None:
    has_status = kind.code in STATUS_BY_CODE or any(issubclass(kind, group) for group in STATUS_BY_GROUP)

    assert has_status
    assert 400 <= status_of(kind) < 600


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("version_conflict", 409),
        ("thread_not_found", 404),
        ("record_not_found", 404),
        ("too_large", 413),
        ("invalid_id", 422),
        ("rate_limited", 429),
        ("unauthenticated", 401),
        ("forbidden", 403),
        ("store_unavailable", 503),
        ("model_failed", 502),
    ],
)
def test_the_statuses_that_clients_count_on(code: str, status: int) -> None:
    (kind,) = [kind for kind in kinds() if kind.code == code]

    assert status_of(kind) == status


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: str(kind.code))
def test_an_error_comes_back_as_itself(kind: type[ClewError]) -> None:
    error = example(kind)
    back = error_from_problem(problem_of(error))

    assert type(back) is kind
    if not issubclass(kind, StoreFailed):
        assert (back.facts(), str(back)) == (error.facts(), str(error))


def test_what_a_store_says_about_itself_stays_in_the_log() -> None:
    error = StorageError(store="postgresql://app@db.internal", problem="no such host db.internal")

    assert "db.internal" not in repr(problem_of(error))


def test_an_answer_that_is_no_problem_of_ours_is_told_as_it_is() -> None:
    error = error_from_response(502, b"<html>Bad gateway</html>")

    assert isinstance(error, StoreUnavailable)
    assert "502" in str(error)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("hunter2 did not open /srv/secrets"), "stage_failed"),
        (StoreUnavailable(problem="no route to app:hunter2@db.internal"), "store_unavailable"),
    ],
    ids=["nobody foresaw it", "a store says it"],
)
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_what_ends_a_run_tells_who_reads_the_thread_nothing_of_what_is_inside(
    error: Exception, code: str, accept: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory(make_runtime=failing_runtime(error)) as users:
        headers = {**users.headers(), "Accept": accept}
        response = await users.http.post("/api/v1/threads/t/turns", json={"message": "hi"}, headers=headers)
        run = (await users.http.get("/api/v1/runs", headers=headers)).json()["runs"][0]
        changes = await users.http.get("/api/v1/threads/t/changesets", headers=headers)
        steps = await users.http.get(f"/api/v1/runs/{run['id']}/steps", headers=headers)

    text = "".join([response.text, str(run), changes.text, steps.text])
    assert run["problem"].startswith(f"{code}: ")
    assert f"{code}: " in changes.text
    assert [word for word in ("hunter2", "secrets", "db.internal") if word in text] == []
    assert "hunter2" in caplog.text


async def test_a_failure_nobody_foresaw_tells_nothing(users: Users, caplog: pytest.LogCaptureFixture) -> None:
    @get("/broken", opt={"open to all": True})
    async def fail() -> None:
        raise RuntimeError("the password is hunter2")

    app: Litestar = users.app
    app.register(fail)
    answer = await users.http.get("/broken")

    assert (answer.status_code, answer.json()["code"]) == (500, "error")
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/v1/nowhere", 404, "not_found"),
        ("PATCH", "/api/v1/threads", 405, "invalid_input"),
        ("GET", "/api/v1/threads?limit=0", 422, "invalid_input"),
        ("GET", "/api/v1/threads?limit=many", 422, "invalid_input"),
        ("GET", "/api/v1/threads?cursor=made-up", 422, "invalid_argument"),
        ("GET", "/api/v1/threads/t/diff", 422, "invalid_input"),
        ("POST", "/api/v1/threads", 422, "invalid_input"),
    ],
)
async def test_a_request_that_makes_no_sense_is_answered_in_one_shape(
    method: str, path: str, status: int, code: str
) -> None:
    async with in_memory() as users:
        answer = await users.http.request(method, path, headers=users.headers())

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.json()) == {"type", "title", "status", "detail", "code", "facts"}


@pytest.mark.parametrize(
    ("method", "content", "words"),
    [
        ("POST", None, "body: it is missing"),
        ("POST", b"[]", "body: Expected `object`, got `array`"),
        ("POST", b'{"id": "t", "colour": "red"}', "body: Object contains unknown field `colour`"),
        ("POST", b"{id", "The request body cannot be read: JSON is malformed"),
        ("POST", b'{"id": "\xff"}', "The request body cannot be read: it is not UTF-8. Send valid JSON."),
        ("POST", b'{"id": "t"', "The request body cannot be read: Input data was truncated."),
        ("PATCH", None, "Method not allowed. Use one of: GET, OPTIONS, POST."),
    ],
)
async def test_a_sentence_says_what_is_wrong_in_the_words_of_whoever_asks(
    method: str, content: bytes | None, words: str
) -> None:
    async with in_memory() as users:
        headers = {**users.headers(), "Content-Type": "application/json"}
        answer = await users.http.request(method, "/api/v1/threads", content=content, headers=headers)

    assert words in answer.json()["detail"]


async def test_what_people_said_is_kept_in_no_cache_and_taken_for_nothing_else() -> None:
    async with in_memory() as users:
        await users().run_turn("t", "hi")
        answers = [
            await users.http.get(f"/api/v1/{path}", headers=users.headers())
            for path in ("threads/t", "threads/t/items", "threads/other", "nowhere")
        ]

    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    assert {answer.headers["x-content-type-options"] for answer in answers} == {"nosniff"}
