"""Feedback over HTTP: users give it, also incognito; operators list and export it, which is audited."""

from __future__ import annotations

import msgspec
import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import Forbidden, KeyReused, ThreadNotFound
from clew.core.values import RecordQuery
from clew.runtime.records.feedback import FEEDBACK
from tests.server.conftest import Users, clients_of, in_memory
from tests.server.routes.test_operators import Roles

pytestmark = pytest.mark.promise("R-23")


async def test_a_user_says_what_they_think_and_the_session_goes_on(alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    feedback = await alice.record_session_feedback("t", "positive")
    status = await alice.session_status("t")

    assert (feedback.label, feedback.source, feedback.turns, feedback.user) == (
        "positive",
        "http",
        1,
        "alice",
    )
    assert (status.status, status.feedback) == ("active", "positive")


@pytest.mark.promise("R-08")
async def test_feedback_and_then_an_end_make_one_row(alice: AsyncClient, db: clew.Database) -> None:
    await alice.run_turn("t", "hi")
    first = await alice.record_session_feedback("t", "positive")
    end = await alice.end_session("t", feedback="negative")
    records = await db.records.find(RecordQuery(kind=FEEDBACK))

    assert [(record.id, record.body["label"]) for record in records] == [(end.episode, "negative")]
    assert first.id == end.episode


@pytest.mark.promise("B-02")
async def test_one_key_records_once_and_stands_for_one_label(alice: AsyncClient, db: clew.Database) -> None:
    await alice.run_turn("t", "hi")
    first = await alice.record_session_feedback("t", "positive", key="k")
    again = await alice.record_session_feedback("t", "positive", key="k")
    with pytest.raises(KeyReused):
        await alice.record_session_feedback("t", "negative", key="k")

    assert again == first
    assert len(await db.records.find(RecordQuery(kind=FEEDBACK))) == 1


@pytest.mark.parametrize("label", ["it was all right", "skip", "", None])
async def test_what_is_no_label_is_refused(users: Users, db: clew.Database, label: str | None) -> None:
    await users("alice").run_turn("t", "hi")
    answer = await users.http.post(
        "/api/v1/sessions/t/feedback", headers=users.headers(), json={"label": label}
    )

    assert answer.status_code == 422
    assert await db.records.find(RecordQuery(kind=FEEDBACK)) == []


@pytest.mark.promise("R-14")
async def test_feedback_on_an_incognito_session_works_and_stays_in_memory() -> None:
    async with in_memory() as users:
        alice, db = users("alice"), users.app.state.resources.db
        await alice.run_turn("chat", "hi", mode="incognito")
        feedback = await alice.record_session_feedback("chat", "positive", key="k")
        again = await alice.record_session_feedback("chat", "positive", key="k")
        status = await alice.session_status("chat")
        with pytest.raises(ThreadNotFound):
            await users("bob").record_session_feedback("chat", "negative")
        listing = await users("alice").operator.feedback()
        kinds = [await db.records.find(RecordQuery(kind=kind)) for kind in (FEEDBACK, "request")]

    assert (feedback.label, feedback.user, status.feedback) == ("positive", None, "positive")
    assert again == feedback
    assert (listing.feedback, kinds) == ([], [[], []])


async def test_operators_list_feedback_of_the_whole_tenant(users: Users) -> None:
    for user in ("alice", "bob"):
        await users(user).run_turn(f"of-{user}", "hi")
        await users(user).record_session_feedback(f"of-{user}", "positive")
    await users(None).run_turn("nobodys", "hi")
    await users(None).record_session_feedback("nobodys", "negative")
    operator = users("olga").operator
    first = await operator.feedback(limit=2)
    second = await operator.feedback(limit=2, cursor=first.next)
    of_bob = await operator.feedback(owner="bob")
    of_thread = await operator.feedback(thread="nobodys")

    assert {row.thread for row in first.feedback + second.feedback} == {"of-alice", "of-bob", "nobodys"}
    assert (len(first.feedback), second.next) == (2, None)
    assert [row.thread for row in of_bob.feedback] == ["of-bob"]
    assert [(row.label, row.user) for row in of_thread.feedback] == [("negative", None)]


async def test_operators_export_feedback_as_lines_without_text_or_keys(users: Users) -> None:
    await users("alice").run_turn("t", "a lantern in the harbour")
    await users("alice").record_session_feedback("t", "positive", key="k")
    lines = (await users("olga").operator.export_feedback()).splitlines()

    (row,) = map(msgspec.json.decode, lines)
    assert set(row) == {"id", "thread", "user", "label", "source", "modality", "turns", "recorded"}


async def test_each_look_of_an_operator_is_in_the_audit(users: Users) -> None:
    operator = users("olga").operator
    await operator.feedback(owner="alice")
    await operator.export_feedback(thread="t")
    about_alice = await operator.audit(owner="alice")
    about_thread = await operator.audit(thread="t")

    assert [(entry.action, entry.user) for entry in about_alice.entries] == [("read feedback", "olga")]
    assert [(entry.action, entry.user) for entry in about_thread.entries] == [("export feedback", "olga")]


async def test_only_operators_look(db: clew.Database) -> None:
    async with clients_of(db, authenticate=Roles(db.tenant)) as users:  # type: ignore[arg-type]  # headers are a dict here
        mallory = users("mallory").operator
        for call in (mallory.feedback(), mallory.export_feedback()):
            with pytest.raises(Forbidden):
                await call

        headers = {"X-Clew-User": "olga", "X-Roles": "admin"}
        olga = AsyncClient("http://127.0.0.1", headers=headers, http=users.http)
        assert (await olga.operator.feedback()).feedback == []
