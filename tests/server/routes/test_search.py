"""Search over HTTP: what was said and what is known, page by page, with the searched words marked."""

from __future__ import annotations

import pytest

import clew
from clew.api.threads import NewItem
from clew.client import AsyncClient
from clew.core.errors import Forbidden, InvalidArgument, NotFound
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.values import Candidate
from tests.server.conftest import Users

pytestmark = pytest.mark.promise("B-12")


async def _say(client: AsyncClient, thread: str, *texts: str, role: str = "user") -> None:
    await client.create_thread(thread)
    for text in texts:
        await client.append(thread, items=[NewItem(body={"role": role, "content": text}, role=role)])


async def test_the_searched_words_are_marked(alice: AsyncClient) -> None:
    await _say(alice, "t", "A heron stood in the reeds.")
    [hit] = (await alice.search("heron")).found

    assert (hit.kind, hit.thread, hit.role) == ("items", "t", "user")
    assert [hit.text[start:end] for start, end in hit.marks] == ["heron"]


async def test_pages_repeat_nothing_and_leave_nothing_out(alice: AsyncClient) -> None:
    await _say(alice, "t", *(f"heron number {number}" for number in range(7)))
    places, cursor = [], None
    while True:
        page = await alice.search("heron", limit=3, cursor=cursor)
        places += [hit.place for hit in page.found]
        cursor = page.next
        if cursor is None:
            break

    assert len(places) == 7
    assert len(set(places)) == 7


async def test_what_is_known_is_found_too(alice: AsyncClient, db: clew.Database) -> None:
    candidate = Candidate(predicate="LIKES", object="herons", quote="herons", plain=True, confidence=0.9)
    await Memory(db.scope(tenant=db.tenant, user="alice"), "alice").learn([candidate])
    await _say(alice, "t", "A heron.")
    both = await alice.search("heron")
    facts = await alice.search("heron", kind="facts")

    assert sorted(hit.kind for hit in both.found) == ["facts", "items"]
    assert [hit.kind for hit in facts.found] == ["facts"]


async def test_it_is_narrowed_by_thread_role_and_time(alice: AsyncClient) -> None:
    await _say(alice, "one", "first heron")
    await _say(alice, "two", "second heron", role="assistant")
    times = {hit.thread: hit.time for hit in (await alice.search("heron")).found}
    by_thread = await alice.search("heron", thread="one")
    by_role = await alice.search("heron", role="assistant")
    by_time = await alice.search("heron", until=min(times.values()) - 1)

    assert [hit.thread for hit in by_thread.found] == ["one"]
    assert [hit.thread for hit in by_role.found] == ["two"]
    assert by_time.found == []


async def test_nobody_finds_what_is_anothers(users: Users, alice: AsyncClient) -> None:
    await _say(alice, "t", "A heron.")
    with pytest.raises(Forbidden):
        await users("bob").search("heron", user="alice")

    assert (await users("bob").search("heron")).found == []
    assert len((await users("*").search("heron", user="alice")).found) == 1


async def test_a_cursor_of_another_search_is_refused(alice: AsyncClient) -> None:
    await _say(alice, "t", *(f"heron and lantern {number}" for number in range(3)))
    page = await alice.search("heron", limit=1)
    with pytest.raises(InvalidArgument):
        await alice.search("lantern", limit=1, cursor=page.next)
    with pytest.raises(NotFound):
        await alice.search("heron", thread="clew/audit")

    assert page.next is not None
