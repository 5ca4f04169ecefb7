"""Repeating a request with its key: the first answer comes again, and nothing is done twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import KeyReused, OutcomeUnknown, RequestPending, StoreUnavailable, ThreadExists
from clew.core.values import RecordQuery
from clew.runtime.records.feedback import FEEDBACK
from clew.server.http import idempotency
from clew.server.http.idempotency import IdempotencyRecord
from clew.server.identity.identity import Identity
from tests.server.conftest import Users, in_memory


@pytest.mark.promise("B-02")
async def test_the_first_answer_comes_again(users: Users) -> None:
    headers = {**users.headers(), "Idempotency-Key": "k"}
    first = await users.http.post("/api/v1/threads", json={"id": "t"}, headers=headers)
    await users().append("t", patches=[["set", ["n"], 1]])
    again = await users.http.post("/api/v1/threads", json={"id": "t"}, headers=headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"]


@pytest.mark.promise("B-02")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/threads", {"id": "new"}),
        ("/threads", {"id": "new", "title": "My plans", "labels": ["work"]}),
        ("/threads/t/fork", {"id": "new"}),
        ("/threads/t/fork", {"id": "new", "at": 1}),
    ],
    ids=["a thread", "a thread with a title", "a fork", "a fork of an earlier version"],
)
async def test_what_was_made_by_a_request_that_died_is_told_to_who_repeats_it(
    users: Users, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    async def die(record: IdempotencyRecord, status: int, headers: object, body: bytes) -> None: ...

    headers = {**users.headers(), "Idempotency-Key": "k"}
    await users().create_thread("t", title="Before", labels=["old"])
    await users().append("t", patches=[["set", ["n"], 1]])
    with monkeypatch.context() as dying:
        dying.setattr(IdempotencyRecord, "store_answer", die)
        first = await users.http.post(f"/api/v1{path}", json=body, headers=headers)
    await users().append("new", patches=[["set", ["n"], 2]])
    again = await users.http.post(f"/api/v1{path}", json=body, headers=headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    assert [again.headers[name] for name in ("etag", "content-type")] == [
        first.headers[name] for name in ("etag", "content-type")
    ]


async def test_what_was_made_though_the_connection_broke_is_told_to_who_repeats_it(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def break_off(record: IdempotencyRecord) -> AsyncIterator[None]:
        yield
        raise OutcomeUnknown(problem="it broke")

    with monkeypatch.context() as breaking:
        breaking.setattr(IdempotencyRecord, "answer_commit", break_off)
        with pytest.raises(OutcomeUnknown):
            await users().create_thread("t", key="k")

    assert (await users().create_thread("t", key="k")).id == "t"


async def test_what_another_request_made_is_not_told_to_who_repeats_one_that_died(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(record: IdempotencyRecord) -> None:
        raise StoreUnavailable(problem="it is away")

    async def die(record: IdempotencyRecord, status: int, headers: object, body: bytes) -> None: ...

    with monkeypatch.context() as dying:
        dying.setattr(idempotency, "LEASE_MS", 0)
        dying.setattr(IdempotencyRecord, "answer_commit", dies)
        dying.setattr(IdempotencyRecord, "store_answer", die)
        with pytest.raises(StoreUnavailable):
            await users().create_thread("t", key="k")
    await users().create_thread("t")

    with pytest.raises(ThreadExists):
        await users().create_thread("t", key="k")


@pytest.mark.parametrize("thread", ["%0c", "x" * 600])
async def test_a_refusal_of_a_name_that_names_nothing_comes_again_too(thread: str) -> None:
    async with in_memory() as users:
        path, headers = f"/api/v1/sessions/{thread}/import", {**users.headers(), "Idempotency-Key": "k"}
        first, again = [await users.http.post(path, json={}, headers=headers) for _ in range(2)]

    assert (first.status_code, again.status_code) == (422, 422)
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.promise("B-02")
async def test_a_key_is_good_for_one_request(alice: AsyncClient) -> None:
    await alice.create_thread("t", key="k")

    with pytest.raises(KeyReused):
        await alice.create_thread("other", key="k")
    with pytest.raises(KeyReused):
        await alice.fork("t", "other", key="k")


async def test_a_key_is_one_user_s_own(users: Users) -> None:
    await users("alice").create_thread("a", key="k")
    thread = await users("bob").create_thread("b", key="k")

    assert thread.owner == "bob"


async def test_a_refusal_that_may_pass_is_not_kept(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    with pytest.raises(ThreadExists):
        await alice.create_thread("t", key="k")
    await alice.delete_thread("t")

    assert (await alice.create_thread("t", key="k")).version == 0


@pytest.mark.promise("F-09")
async def test_a_body_of_the_wrong_type_may_be_sent_again_with_the_right_one(users: Users) -> None:
    headers = {**users.headers(), "Idempotency-Key": "k"}
    body = b'{"id": "t"}'
    types = ["text/plain", "application/json; charset=utf-8"]
    answers = [
        await users.http.post("/api/v1/threads", content=body, headers={**headers, "Content-Type": each})
        for each in types
    ]

    assert [answer.status_code for answer in answers] == [415, 201]


async def test_of_many_at_once_one_is_done(alice: AsyncClient) -> None:
    async def fork() -> str:
        try:
            return (await alice.fork("t", "f", key="k")).id
        except RequestPending:
            return "pending"

    await alice.create_thread("t")
    answers = await asyncio.gather(*(fork() for _ in range(8)))

    assert set(answers) <= {"f", "pending"}
    assert "f" in answers
    assert (await alice.fork("t", "f", key="k")).id == "f"


async def test_a_request_that_died_is_taken_up_when_its_time_is_over(
    db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = Identity(tenant=db.tenant, user="alice", workspace="default")

    def new_record() -> IdempotencyRecord:
        return IdempotencyRecord(db, identity, "k", "/threads", "the same body")

    monkeypatch.setattr(idempotency, "LEASE_MS", 0)
    await new_record().claim_key()
    second = await new_record().claim_key()
    monkeypatch.setattr(idempotency, "LEASE_MS", 60_000)
    await new_record().claim_key()

    assert second is None
    with pytest.raises(RequestPending):
        await new_record().claim_key()


async def test_a_request_that_takes_long_keeps_its_key(
    db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = Identity(tenant=db.tenant, user="alice", workspace="default")
    monkeypatch.setattr(idempotency, "LEASE_MS", 300)
    first, second = (IdempotencyRecord(db, identity, "k", "/threads", "the same body") for _ in range(2))
    await first.claim_key()
    async with first.renewal():
        await asyncio.sleep(0.6)
        with pytest.raises(RequestPending):
            await second.claim_key()
        await first.store_answer(200, (), b"done")

    assert await second.claim_key() is not None


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("asking", ["alice", "*"], ids=["the user", "the whole tenant"])
@pytest.mark.parametrize(("owner", "thread"), [(None, "t"), ("alice", None)], ids=["a thread", "a person"])
async def test_what_is_kept_of_an_answer_is_erased_with_whom_it_is_about(
    db: clew.Database, users: Users, asking: str, owner: str | None, thread: str | None
) -> None:
    client = users(asking)
    await users("alice").create_thread("t", title="My secret", key="one")
    await users("alice").run_turn("t", "I told nobody else")
    headers = {**users.headers(asking), "Idempotency-Key": "two"}
    await users.http.post("/api/v1/sessions/t/export", headers=headers)
    await client.fork("t", "f", key="three")
    before = await db.records.find(RecordQuery(kind=idempotency.KIND))
    await db.erase(owner=owner, thread=thread)
    after = await db.records.find(RecordQuery(kind=idempotency.KIND))

    assert len(before) == 3
    assert after == []


async def test_old_answers_are_forgotten(db: clew.Database, alice: AsyncClient) -> None:
    await alice.create_thread("t", key="k")
    now = time.time_ns() // 1_000_000
    early_count = await idempotency.drop_old_answers(db, before=now - 60_000)
    late_count = await idempotency.drop_old_answers(db, before=now + 60_000)

    assert (early_count, late_count) == (0, 1)


@pytest.mark.promise("B-02", "R-23")
async def test_feedback_with_a_key_is_recorded_once_and_holds_no_text(
    db: clew.Database, alice: AsyncClient
) -> None:
    await alice.run_turn("t", "hi")
    first = await alice.record_session_feedback("t", "positive", key="k")
    again = await alice.record_session_feedback("t", "positive", key="k")
    (record,) = await db.records.find(RecordQuery(kind=FEEDBACK))

    assert again == first
    assert {name: record.body[name] for name in ("label", "source", "modality", "turns")} == {
        "label": "positive",
        "source": "http",
        "modality": "text",
        "turns": 1,
    }
