"""Threads over HTTP, on every store, through our own client."""

from __future__ import annotations

import pytest

import clew
from clew.api.threads import NewItem
from clew.client import AsyncClient
from clew.core.errors import (
    InvalidArgument,
    InvalidId,
    InvalidInput,
    OpFailed,
    ThreadExists,
    ThreadNotFound,
    VersionConflict,
    VersionNotFound,
)
from clew.core.log.commit import Plan, Planner
from clew.core.ports import Store
from clew.core.values import Scope
from clew.server.routes.threads import DIFF_ITEMS
from tests.server.conftest import Users, in_memory


async def test_a_thread_is_made_and_read(alice: AsyncClient) -> None:
    thread = await alice.create_thread("t", title="A talk", labels=["work"])

    assert (thread.owner, thread.title, thread.labels, thread.version) == ("alice", "A talk", ["work"], 1)
    assert await alice.thread("t") == thread


async def test_a_thread_and_its_title_are_made_in_one_commit(
    db: clew.Database, alice: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, plans = type(db.store).change, []

    async def note(store: Store, scope: Scope, planning: Planner) -> Plan:
        plan = await change(store, scope, planning)
        if scope.user == "alice":
            plans.append(plan)
        return plan

    monkeypatch.setattr(type(db.store), "change", note)
    thread = await alice.create_thread("t", title="A talk")

    assert thread.title == "A talk"
    assert len(plans) == 1


@pytest.mark.parametrize(
    ("title", "labels"),
    [("x" * 1_001, None), (None, ["x" * 201]), (None, ["x"] * 101)],
    ids=["a long title", "a long label", "many labels"],
)
async def test_what_stands_in_every_list_is_short(title: str | None, labels: list[str] | None) -> None:
    async with in_memory() as users:
        with pytest.raises(InvalidInput, match="length <= "):
            await users().create_thread("t", title=title, labels=labels)


async def test_an_id_is_taken_once(alice: AsyncClient) -> None:
    await alice.create_thread("t")

    with pytest.raises(ThreadExists):
        await alice.create_thread("t")


async def test_an_id_may_hold_a_slash_and_any_letters(alice: AsyncClient) -> None:
    id = "a/b ü %2F?#"
    await alice.create_thread(id)
    await alice.append(id, patches=[["set", ["mood"], "calm"]])

    assert (await alice.state(id)).state == {"mood": "calm"}


async def test_an_id_that_cannot_name_anything_is_refused(alice: AsyncClient) -> None:
    with pytest.raises(InvalidId):
        await alice.create_thread("")
    with pytest.raises(InvalidId):
        await alice.create_thread("memory/alice")


@pytest.mark.promise("F-11")
async def test_pages_of_threads_hold_each_once_newest_first(alice: AsyncClient) -> None:
    for number in range(5):
        await alice.create_thread(f"t{number}")
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await alice.threads(limit=2, cursor=cursor)
        ids += [thread.id for thread in page.threads]
        cursor = page.next
        if cursor is None:
            break

    assert sorted(ids) == [f"t{number}" for number in range(5)]
    assert len(ids) == 5


async def test_pages_of_items_stay_at_the_version_of_the_first(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    for number in range(5):
        await alice.append("t", items=[NewItem(body=number, role="user")])
    first = await alice.items("t", limit=2)
    await alice.append("t", items=[NewItem(body="later", role="user")])
    second = await alice.items("t", limit=2, cursor=first.next)
    third = await alice.items("t", limit=2, cursor=second.next)

    assert [[item.body for item in page.items] for page in (first, second, third)] == [[3, 4], [1, 2], [0]]
    assert {page.version for page in (first, second, third)} == {5}
    assert third.next is None


@pytest.mark.promise("T-13")
async def test_state_and_items_are_read_at_any_version(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    for number in range(3):
        await alice.append("t", items=[NewItem(body=number, role="user")], patches=[["set", ["n"], number]])

    assert (await alice.state("t", at=2)).state == {"n": 1}
    assert [item.body for item in (await alice.items("t", at=1)).items] == [0]
    with pytest.raises(VersionNotFound):
        await alice.state("t", at=4)


async def test_changesets_come_in_order_and_in_pages(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    for number in range(3):
        await alice.append("t", patches=[["set", ["n"], number]], reason=f"r{number}")
    first = await alice.changesets("t", limit=2)
    second = await alice.changesets("t", limit=2, cursor=first.next)

    assert [change.reason for change in (*first.changesets, *second.changesets)] == ["r0", "r1", "r2"]
    assert first.changesets[0].patches == [["set", ["n"], 0]]
    assert first.changesets[0].author == "alice"


@pytest.mark.promise("F-11", "T-01")
async def test_a_stale_append_is_a_conflict(users: Users, alice: AsyncClient) -> None:
    await alice.create_thread("t")
    await alice.append("t", patches=[["set", ["n"], 1]], expect=0)

    with pytest.raises(VersionConflict) as error:
        await alice.append("t", patches=[["set", ["n"], 2]], expect=0)
    assert (error.value.expected, error.value.actual) == (0, 1)
    answer = await users.http.post(
        "/api/v1/threads/t/changesets",
        json={},
        headers={**users.headers(), "If-Match": '"0"'},
    )
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")


@pytest.mark.promise("B-02")
async def test_an_append_with_a_key_commits_once(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    first = await alice.append("t", patches=[["increment", ["n"], 1]], key="k")
    again = await alice.append("t", patches=[["increment", ["n"], 1]], key="k")

    assert (again.version, again.repeated) == (first.version, True)
    assert (await alice.state("t")).state == {"n": 1}


async def test_an_op_that_does_not_fit_is_refused(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    await alice.append("t", patches=[["set", ["n"], "text"]])

    with pytest.raises(OpFailed):
        await alice.append("t", patches=[["increment", ["n"], 1]])


async def test_the_runtime_s_own_keys_are_not_written_from_outside(alice: AsyncClient) -> None:
    await alice.create_thread("t")

    with pytest.raises(InvalidArgument):
        await alice.append("t", patches=[["set", ["$run"], {}]])
    with pytest.raises(InvalidArgument):
        await alice.append("t", patches=[["set", [], {}]])


@pytest.mark.promise("B-03")
async def test_versions_are_compared(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    await alice.append("t", patches=[["set", ["n"], 1]])
    await alice.append("t", items=[NewItem(body="hi", role="user")], patches=[["set", ["n"], 2]])
    difference = await alice.diff("t", 1)

    assert (difference.before, difference.after, difference.ops) == (1, 2, [["set", ["n"], 2]])
    assert [item.body for item in difference.added] == ["hi"]


async def test_what_slid_out_of_sight_between_two_versions_was_neither_added_nor_removed() -> None:
    async with in_memory() as users:
        alice = users("alice")
        await alice.create_thread("t")
        await alice.append("t", items=[NewItem(body=str(number)) for number in range(DIFF_ITEMS + 1)])
        await alice.append("t", items=[NewItem(body="one more")])
        forth, back = await alice.diff("t", 1, 2), await alice.diff("t", 2, 1)

    assert ([item.body for item in forth.added], forth.removed) == (["one more"], [])
    assert (back.added, [item.body for item in back.removed]) == ([], ["one more"])


@pytest.mark.promise("B-03")
async def test_a_fork_goes_its_own_way(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    await alice.append("t", patches=[["set", ["n"], 1]])
    await alice.append("t", patches=[["set", ["n"], 2]])
    fork = await alice.fork("t", "f", at=1)

    assert fork.parent is not None
    assert (fork.parent.thread, fork.parent.version, fork.owner) == ("t", 1, "alice")
    assert (await alice.state("f")).state == {"n": 1}


async def test_a_thread_is_rewound_to_a_version(alice: AsyncClient) -> None:
    await alice.run_turn("t", "one")
    result = await alice.run_turn("t", "two")
    rewound = await alice.rewind("t", to=3)

    assert rewound.ended == 2
    assert rewound.version == result.version + 1
    assert len((await alice.items("t")).items) == 2


async def test_a_thread_is_rewound_only_at_the_version_that_the_caller_has_seen(alice: AsyncClient) -> None:
    await alice.run_turn("t", "one")
    first = await alice.run_turn("t", "two")
    result = await alice.run_turn("t", "three, of another window")
    with pytest.raises(VersionConflict) as error:
        await alice.rewind("t", to=3, expect=first.version)
    with pytest.raises(VersionConflict):
        await alice.rewind("t", run=first.run, expect=first.version)
    count = len((await alice.items("t")).items)
    rewound = await alice.rewind("t", to=3, expect=result.version)

    assert (error.value.expected, error.value.actual) == (first.version, result.version)
    assert (count, rewound.ended) == (6, 4)


@pytest.mark.promise("B-06")
async def test_a_chain_is_verified(alice: AsyncClient) -> None:
    result = await alice.run_turn("t", "hello")
    verdict = await alice.verify("t")

    assert (verdict.ok, verdict.version) == (True, result.version)


async def test_a_thread_is_deleted_at_a_version(alice: AsyncClient) -> None:
    await alice.create_thread("t")
    await alice.append("t", patches=[["set", ["n"], 1]])
    with pytest.raises(VersionConflict):
        await alice.delete_thread("t", expect=0)
    await alice.delete_thread("t", expect=1)

    with pytest.raises(ThreadNotFound):
        await alice.thread("t")


async def test_a_thread_that_has_not_moved_is_not_sent_again(users: Users, alice: AsyncClient) -> None:
    await alice.create_thread("t")
    headers = users.headers()
    first = await users.http.get("/api/v1/threads/t", headers=headers)
    again = await users.http.get(
        "/api/v1/threads/t", headers={**headers, "If-None-Match": first.headers["etag"]}
    )

    assert (first.status_code, first.headers["etag"]) == (200, '"0"')
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.promise("F-11")
@pytest.mark.parametrize("stranger", [("bob", None), ("alice", "elsewhere")])
async def test_what_is_not_yours_is_not_there(users: Users, stranger: tuple[str, str | None]) -> None:
    await users("alice").create_thread("t")
    other = users(stranger[0], tenant=stranger[1] and f"{users.tenant}-{stranger[1]}")
    calls = [
        other.thread("t"),
        other.items("t"),
        other.changesets("t"),
        other.state("t"),
        other.diff("t", 0),
        other.verify("t"),
        other.fork("t", "mine"),
        other.rewind("t", to=0),
        other.delete_thread("t"),
        other.append("t", patches=[["set", ["n"], 1]]),
        other.session("t"),
        other.delete_session("t"),
        other.turns("t"),
        other.end_session("t"),
        other.export_archive("t"),
        other.record_session_feedback("t", "positive"),
    ]
    for call in calls:
        with pytest.raises(ThreadNotFound):
            await call

    assert (await other.threads()).threads == []
    assert (await users("alice").thread("t")).version == 0
