"""The list of threads as it changes: told to whoever listens, from any process, and to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest

import clew
from clew.api.events import FOLLOW_THREADS, StreamEvent
from clew.client import AsyncClient, Client
from clew.client.call import api_call
from clew.core.errors import InvalidArgument, StoreUnavailable
from clew.core.values import Scope, SummaryPage, ThreadSummary
from clew.database.database import Database
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.server.tenants.thread_feed import REST_SECONDS, ThreadFeeds, page_difference
from clew.server.tenants.thread_list import ThreadTexts
from clew.testing.faults import FailingStore
from tests.server.conftest import Users
from tests.server.local_server import listening
from tests.support.echo import chatting
from tests.support.http_relay import relay_to
from tests.support.stores import shared_url

__all__ = ["shared_url"]


async def changes(client: AsyncClient, after: str | None = None) -> list[StreamEvent]:
    """What has changed since an event, without waiting for more."""
    return [event async for event in client.follow_threads(after=after, wait=False)]


def summary_of(events: list[StreamEvent]) -> list[tuple[str, Any, Any]]:
    """What events say in short: their type, whose they are, and the version."""
    return [
        (event.type, event.data["id"], event.data.get("version"))
        for event in events
        if event.type != "listening"
    ]


@asynccontextmanager
async def server_on(url: str, settings: ServerSettings | None = None) -> AsyncIterator[str]:
    """A server of its own on a store, at a real address."""
    async with clew.open(url) as db:
        app = create_app(settings, db=db, agent=chatting(None, settings))
        async with listening(app) as address:
            yield address


def client_at(address: str, user: str = "alice") -> AsyncClient:
    """The client of a user."""
    return AsyncClient(address, headers={"X-Clew-User": user})


@asynccontextmanager
async def feed(client: AsyncClient, after: str | None = None) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """A stream of changes that has begun; it fails rather than wait for ever."""
    stream = client.follow_threads(after=after)
    async with asyncio.timeout(30), aclosing(stream):  # type: ignore[type-var]  # it is a generator
        assert (await anext(stream)).type == "listening"
        yield stream


# What is told, on each store.


async def test_from_now_on_nothing_has_changed(users: Users) -> None:
    await users().create_thread("t")
    events = await changes(users())

    assert [(event.type, event.data) for event in events] == [("listening", {"threads": 1})]


async def test_a_thread_is_told_as_a_list_shows_it(users: Users) -> None:
    await users().create_thread("t", title="A talk", labels=["work"])
    await users().run_turn("t", "hello")
    [summary] = (await users().threads(last=True)).threads
    [_, event] = await changes(users(), after="0")

    assert event.type == "thread"
    assert (event.data["id"], event.data["title"], event.data["labels"]) == ("t", "A talk", ["work"])
    assert (event.data["version"], event.data["last"]) == (summary.version, summary.last)
    assert event.id == str(summary.updated)


async def test_what_was_changed_longest_ago_comes_first_and_ids_never_fall(users: Users) -> None:
    for name in ("one", "two", "three"):
        await users().create_thread(name)
        await asyncio.sleep(0.002)
    await users().append("one", patches=[["set", ["mood"], "calm"]])
    events = await changes(users(), after="0")
    ids = [int(event.id or 0) for event in events]

    assert summary_of(events) == [("thread", "two", 0), ("thread", "three", 0), ("thread", "one", 1)]
    assert ids == sorted(ids)


async def test_other_users_and_other_tenants_are_told_nothing(users: Users) -> None:
    await users("alice").run_turn("hers", "hello")
    bob = await changes(users("bob"), after="0")
    eve = await changes(users("alice", tenant="elsewhere"), after="0")

    assert [(event.type, event.data) for event in bob + eve] == [("listening", {"threads": 0})] * 2


async def test_the_whole_tenant_is_told_of_everybodys(users: Users) -> None:
    await users("alice").create_thread("hers")
    await users("bob").create_thread("his")

    assert {id for _, id, _ in summary_of(await changes(users("*"), after="0"))} == {"hers", "his"}


async def test_what_clew_keeps_for_itself_is_not_told(users: Users) -> None:
    await users().run_turn("t", "hello")
    await users().end_session("t")

    assert {id for _, id, _ in summary_of(await changes(users("*"), after="0"))} == {"t"}


@pytest.mark.parametrize("id", ["1.0", "-1", "now", "1" * 16, "٣"])
async def test_what_is_no_id_of_an_event_is_refused(id: str) -> None:
    async with (
        server_on("memory://") as address,
        client_at(address) as alice,
    ):
        with pytest.raises(InvalidArgument):
            await alice.send(api_call(FOLLOW_THREADS, after=id, wait=False))


# As it happens.


@pytest.mark.promise("B-09")
async def test_what_another_process_does_is_told_here(shared_url: str) -> None:
    async with (
        server_on(shared_url) as here,
        server_on(shared_url) as there,
        client_at(here) as alice,
        client_at(there) as same,
        feed(alice) as stream,
    ):
        await same.create_thread("t")
        first = await anext(stream)
        await same.append("t", patches=[["set", ["mood"], "calm"]])
        second = await anext(stream)
        await same.delete_thread("t")
        third = await anext(stream)

    assert summary_of([first, second, third]) == [("thread", "t", 0), ("thread", "t", 1), ("gone", "t", None)]


async def test_listeners_hear_of_their_own_threads_only() -> None:
    async with (
        server_on("memory://") as address,
        client_at(address, "alice") as alice,
        client_at(address, "bob") as bob,
        feed(alice) as hers,
        feed(bob) as his,
    ):
        await alice.create_thread("hers")
        await bob.create_thread("his")
        first = [await anext(hers), await anext(his)]
        await alice.delete_thread("hers")
        await bob.append("his", patches=[["set", ["mood"], "calm"]])
        second = [await anext(hers), await anext(his)]

    assert summary_of(first) == [("thread", "hers", 0), ("thread", "his", 0)]
    assert summary_of(second) == [("gone", "hers", None), ("thread", "his", 1)]


async def test_a_cut_stream_goes_on_and_what_was_made_meanwhile_is_told() -> None:
    async with server_on("memory://") as address, client_at(address) as alice:
        await alice.create_thread("before")
        async with relay_to(address) as relay, client_at(relay.address) as passing, feed(passing) as stream:
            await alice.create_thread("one")
            first = await anext(stream)
            await relay.cut()
            await alice.create_thread("two")
            rest: list[StreamEvent] = []
            while ("thread", "two", 0) not in summary_of(rest):
                rest.append(await anext(stream))

    assert summary_of([first]) == [("thread", "one", 0)]
    assert rest[0].type == "listening"
    assert rest[0].id == first.id


async def test_a_blocking_client_hears_it_too() -> None:
    async with server_on("memory://") as address, client_at(address) as alice:
        await alice.create_thread("t")

        def listen() -> list[StreamEvent]:
            with Client(address, headers={"X-Clew-User": "alice"}) as client:
                return list(client.follow_threads(after="0", wait=False))

        assert summary_of(await asyncio.to_thread(listen)) == [("thread", "t", 0)]


async def test_more_streams_than_allowed_are_refused_and_the_others_go_on() -> None:
    settings = ServerSettings(streams=1)
    async with (
        server_on("memory://", settings) as address,
        client_at(address) as alice,
        feed(alice) as stream,
        httpx.AsyncClient(headers={"X-Clew-User": "alice"}) as http,
    ):
        response = await http.get(f"{address}/api/v1/events")
        await alice.create_thread("t")
        event = await anext(stream)

    assert (response.status_code, response.json()["code"]) == (503, "server_full")
    assert summary_of([event]) == [("thread", "t", 0)]


# One look for all.


async def silent(db: Database, thread: ThreadSummary) -> ThreadTexts:
    """Nothing was ever said."""
    return ThreadTexts()


@contextmanager
def cancel_all(tasks: list[asyncio.Task[Any]]) -> Any:
    """Tasks that are cancelled in the end."""
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def test_one_look_serves_all_who_listen_and_without_a_commit_there_is_none() -> None:
    async with clew.open("memory://") as db:
        store = FailingStore(db.store, fail_at=0, only="read")
        lists = ThreadFeeds(Database(store), silent)

        async def listen(start: asyncio.Semaphore) -> SummaryPage:
            async with lists.subscription(Scope()) as newest:
                page = newest.page
                start.release()
                return await newest.next_page(page)

        start = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(listen(start)) for _ in range(20)]
        with cancel_all(tasks):
            for _ in tasks:
                await start.acquire()
            calls_before = store.calls
            await asyncio.sleep(REST_SECONDS * 2)
            idle = store.calls - calls_before
            await db.create("t")
            pages = await asyncio.gather(*tasks)

    assert (idle, store.calls - calls_before) == (0, 1)
    assert [[each.id for each in page.threads] for page in pages] == [["t"]] * 20


async def test_what_was_said_last_is_read_once_for_all_who_listen() -> None:
    threads: list[str] = []

    async def read_texts(db: Database, thread: ThreadSummary) -> ThreadTexts:
        threads.append(thread.id)
        return ThreadTexts(last=f"said in {thread.id}")

    async with clew.open("memory://") as db:
        thread = await db.create("t")
        lists = ThreadFeeds(db, read_texts)
        async with lists.subscription(Scope()) as newest, lists.subscription(Scope()) as same:
            [summary] = newest.page.threads
            texts = await asyncio.gather(*(each.texts(summary) for each in (newest, same) * 5))
            await thread.append(items=[clew.user("more")])
            page = await newest.next_page(newest.page)
            await same.texts(page.threads[0])

    assert [each.last for each in texts] == ["said in t"] * 10
    assert threads == ["t", "t"]


async def test_a_store_that_fails_is_told_to_whoever_listens_and_looked_at_again_later() -> None:
    async with clew.open("memory://") as db:
        lists = ThreadFeeds(Database(FailingStore(db.store, fail_at=2, only="read")), silent)
        async with lists.subscription(Scope()) as newest:
            await db.create("t")
            with pytest.raises(StoreUnavailable):
                await newest.next_page(newest.page)
            async with lists.subscription(Scope()) as again:
                before = again.page
                await db.create("u")
                page = await again.next_page(before)

    assert [each.id for each in page.threads if each not in before.threads] == ["u"]


async def test_when_nobody_listens_nobody_looks() -> None:
    async with clew.open("memory://") as db:
        lists = ThreadFeeds(db, silent)
        before = asyncio.all_tasks()
        async with lists.subscription(Scope()), lists.subscription(Scope(user="bob")):
            during = asyncio.all_tasks() - before

        assert (len(during), asyncio.all_tasks() - before) == (1, set())


# What differs between two looks.


def page(
    *threads: tuple[str, int, int], next: str | None = None, unreadable: tuple[str, ...] = ()
) -> SummaryPage:
    """Some threads: their ids, when they were made, and their versions."""
    summaries = tuple(
        ThreadSummary(id=id, owner=None, version=version, created=time, updated=time + version)
        for id, time, version in threads
    )
    return SummaryPage(threads=summaries, next=next, broken=dict.fromkeys(unreadable, "it is damaged"))


def different(before: SummaryPage, now: SummaryPage) -> tuple[list[str], list[str]]:
    """The ids of what has changed, and of what is gone."""
    changes, gone_ids = page_difference(before, now)
    return [each.id for each in changes], gone_ids


def test_new_and_changed_threads_differ_and_the_others_do_not() -> None:
    before = page(("b", 20, 1), ("a", 10, 1))
    now = page(("c", 30, 0), ("b", 20, 1), ("a", 10, 2))

    assert different(before, now) == (["a", "c"], [])


def test_a_thread_made_again_under_its_id_differs() -> None:
    assert different(page(("a", 10, 1)), page(("a", 20, 1))) == (["a"], [])


def test_what_is_missing_is_gone() -> None:
    assert different(page(("b", 20, 1), ("a", 10, 1)), page(("b", 20, 1))) == ([], ["a"])


def test_what_slides_out_of_view_is_not_gone() -> None:
    before = page(("b", 20, 1), ("a", 10, 1))
    now = page(("c", 30, 0), ("b", 20, 1), next="20:b")

    assert different(before, now) == (["c"], [])


def test_what_slides_into_view_is_not_new() -> None:
    before = page(("c", 30, 0), ("b", 20, 1), next="20:b")
    now = page(("b", 20, 1), ("a", 10, 1))

    assert different(before, now) == ([], ["c"])


def test_what_cannot_be_read_any_more_is_not_gone() -> None:
    assert different(page(("a", 10, 1)), page(unreadable=("a",))) == ([], [])
