"""What our session service promises beyond the contract, and what it refuses."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest
from google.adk.errors import StaleSessionError
from google.adk.sessions.base_session_service import GetSessionConfig

import clew
from clew.adapters.adk import SessionService, thread_id_of
from clew.core.errors import InvalidArgument, InvalidValue, KeyReused, ThreadNotFound
from tests.adapters.adk.contract import ALICE, APP, BOB, NOON, begin_session, load_session, text_event, texts

SESSION = thread_id_of(APP, ALICE, "s1")


async def version(db: clew.Database, id: str = SESSION) -> int:
    return (await db.thread(id).head()).version


# What it promises.


@pytest.mark.promise("S-01")
async def test_a_window_by_time_bears_with_clocks_that_differ(service: SessionService) -> None:
    session = await begin_session(service)
    for number, at in enumerate([1.0, 5.0, 4.0, 6.0, 4.5]):
        await service.append_event(session, text_event(str(number), at=NOON + at))
    window = await load_session(service, config=GetSessionConfig(after_timestamp=NOON + 4.5))

    assert texts(window) == ["1", "3", "4"]


@pytest.mark.promise("S-01")
async def test_a_window_by_time_reaches_over_many_pages(service: SessionService) -> None:
    session = await begin_session(service)
    for number in range(150):
        await service.append_event(session, text_event(str(number), at=NOON + number))
    window = await load_session(service, config=GetSessionConfig(after_timestamp=NOON + 20))

    assert texts(window) == [str(number) for number in range(20, 150)]


async def test_an_event_writes_only_what_it_changes(db: clew.Database, service: SessionService) -> None:
    session = await begin_session(service, notes="x" * 100_000)
    await service.append_event(session, text_event("Hi", mood="calm"))
    [change] = await db.thread(SESSION).changesets(after=1)

    assert change.patches == (clew.set(["adk", "mood"], "calm"),)
    assert [item.format for item in change.items] == ["adk"]
    assert (change.run_id, change.author) == ("turn-1", "user")


@pytest.mark.promise("S-02")
async def test_an_event_and_all_the_state_it_changes_are_one_commit(
    db: clew.Database, service: SessionService
) -> None:
    session = await begin_session(service, app__n=0, user__n=0)
    before = [await version(db, thread_id_of(*names)) for names in ((APP,), (APP, ALICE), (APP, ALICE, "s1"))]
    event = text_event("Hi", n=1, app__n=1, user__n=1)
    event.custom_metadata = {"odd": float("nan")}
    with pytest.raises(InvalidValue):
        await service.append_event(session, event)
    after = [await version(db, thread_id_of(*names)) for names in ((APP,), (APP, ALICE), (APP, ALICE, "s1"))]

    assert after == before
    assert (session.events, session.state) == ([], {"app:n": 0, "user:n": 0})


@pytest.mark.promise("S-02")
async def test_an_event_that_comes_again_leaves_newer_state_alone(service: SessionService) -> None:
    session = await begin_session(service)
    copy = session.model_copy(deep=True)
    event = text_event("Hi", app__n=1)
    await service.append_event(session, event.model_copy(deep=True))
    await service.append_event(await begin_session(service, "s2"), text_event("newer", app__n=2))
    await service.append_event(copy, event)

    assert texts(copy) == ["Hi"]
    assert (await load_session(service)).state == {"app:n": 2}
    await service.append_event(copy, text_event("and on"))


@pytest.mark.promise("S-04")
async def test_a_cancelled_append_stands_in_nobodys_way(service: SessionService) -> None:
    await begin_session(service)
    for number in range(10):
        task = asyncio.create_task(service.append_event(await load_session(service), text_event(str(number))))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    while True:
        try:
            await service.append_event(await load_session(service), text_event("last"))
            break
        except StaleSessionError:
            continue  # what was cancelled may still have been on its way to the disk
    lines = texts(await load_session(service))

    assert (lines[-1], len(lines)) == ("last", len(set(lines)))


@pytest.mark.promise("S-04")
async def test_of_several_that_begin_one_session_at_once_one_begins_it(service: SessionService) -> None:
    outcomes = await asyncio.gather(
        *(begin_session(service, n=n, app__n=n) for n in range(8)), return_exceptions=True
    )
    [winner] = [session for session in outcomes if not isinstance(session, BaseException)]

    assert (await load_session(service)).state == winner.state


@pytest.mark.promise("S-03")
async def test_the_past_of_a_session_stays_readable(db: clew.Database, service: SessionService) -> None:
    session = await begin_session(service, mood="calm")
    await service.append_event(session, text_event("one", mood="wild"))
    await service.append_event(session, text_event("two", mood="tired"))
    thread = db.thread(SESSION)

    assert (await thread.state(at=2))["adk"] == {"mood": "wild"}
    assert len(await thread.items(at=2)) == 1


async def test_a_fork_of_a_session_is_a_session(db: clew.Database, service: SessionService) -> None:
    session = await begin_session(service, mood="calm")
    await service.append_event(session, text_event("one", mood="wild"))
    await service.append_event(session, text_event("two"))
    await db.thread(SESSION).fork(thread_id_of(APP, ALICE, "s2"), at=2)
    fork = await load_session(service, "s2")
    await service.append_event(fork, text_event("other"))

    assert texts(await load_session(service, "s2")) == ["one", "other"]
    assert len((await service.list_sessions(app_name=APP, user_id=ALICE)).sessions) == 2


@pytest.mark.promise("S-06")
async def test_what_cannot_be_read_hides_nothing_else(
    db: clew.Database, service: SessionService, caplog: pytest.LogCaptureFixture
) -> None:
    session = await begin_session(service)
    await service.append_event(session, text_event("one"))
    await db.thread(SESSION).append(
        items=[clew.Item(body={"timestamp": "never"}, format="adk"), clew.user("a note")]
    )
    with caplog.at_level(logging.WARNING):
        session = await load_session(service)
    await service.append_event(session, text_event("two"))

    assert texts(await load_session(service)) == ["one", "two"]
    assert ["cannot be read" in caplog.text, "'clew'" in caplog.text] == [True, True]


@pytest.mark.promise("S-07")
async def test_a_thread_has_times_of_its_own_whatever_its_events_say(
    db: clew.Database, service: SessionService
) -> None:
    session = await begin_session(service)
    head = await db.thread(SESSION).head()
    await service.append_event(session, text_event("Hi", at=1.0))
    after = await db.thread(SESSION).head()

    assert session.last_update_time == 1.0
    assert (after.created, after.updated >= head.updated) == (head.created, True)


@pytest.mark.parametrize(("app", "user"), [("", ALICE), (" ", ALICE), (APP, ""), (APP, "\t")], ids=repr)
async def test_a_session_of_nobody_is_refused(service: SessionService, app: str, user: str) -> None:
    with pytest.raises(InvalidArgument, match="needs the name of its app and of its user"):
        await service.create_session(app_name=app, user_id=user)


@pytest.mark.promise("S-08")
async def test_the_database_stays_open(db: clew.Database) -> None:
    service = SessionService(db)
    await begin_session(service)
    await service.flush()
    del service

    assert await version(db) == 1


async def test_sessions_can_be_listed_page_by_page(db: clew.Database, service: SessionService) -> None:
    for number in range(5):
        await begin_session(service, f"s{number}")
        await db.create(f"something else {number}", owner=ALICE)
        await begin_session(service, f"b{number}", user=BOB)
    pages = [await service.page_sessions(app_name=APP, user_id=ALICE, limit=3)]
    while pages[-1].next is not None:
        pages.append(await service.page_sessions(app_name=APP, user_id=ALICE, limit=3, after=pages[-1].next))

    assert [session.id for page in pages for session in page.sessions] == ["s4", "s3", "s2", "s1", "s0"]
    assert all(0 < len(page.sessions) <= 3 for page in pages[:-1])


async def test_a_page_holds_at_least_one(service: SessionService) -> None:
    with pytest.raises(InvalidArgument):
        await service.page_sessions(app_name=APP, limit=0)


# What it refuses.


async def test_a_thread_of_another_kind_is_left_alone(db: clew.Database, service: SessionService) -> None:
    foreign = await db.create(SESSION, owner=ALICE)
    await foreign.append(items=[clew.user("Hi")])

    for call in (
        service.get_session(app_name=APP, user_id=ALICE, session_id="s1"),
        service.delete_session(app_name=APP, user_id=ALICE, session_id="s1"),
        service.list_sessions(app_name=APP, user_id=ALICE),
    ):
        with pytest.raises(InvalidArgument, match="was not written by the session service of ADK"):
            await call
    assert (await version(db), len(await foreign.items())) == (1, 1)


async def test_a_thread_of_another_kind_in_place_of_shared_state_is_left_alone(
    db: clew.Database, service: SessionService
) -> None:
    foreign = await db.create(thread_id_of(APP))
    await foreign.append(items=[clew.user("Hi")])

    with pytest.raises(InvalidArgument):
        await begin_session(service, app__unit="C")
    assert await version(db, thread_id_of(APP)) == 1
    with pytest.raises(ThreadNotFound):
        await version(db)


@pytest.mark.parametrize("value", [object(), float("nan"), lambda: None, {"deep": [object()]}])
async def test_state_that_is_not_json_is_refused_by_name(
    db: clew.Database, service: SessionService, value: object
) -> None:
    session = await begin_session(service)

    with pytest.raises(InvalidValue, match="mood"):
        await service.append_event(session, text_event("Hi", mood=value))
    assert (await version(db), session.events, session.state) == (1, [], {})


async def test_two_events_of_one_id_are_refused(service: SessionService) -> None:
    session = await begin_session(service)
    await service.append_event(session, text_event("one", id="e1"))

    with pytest.raises(KeyReused):
        await service.append_event(session, text_event("two", id="e1"))
    assert texts(await load_session(service)) == ["one"]


async def test_a_database_of_one_user_makes_no_sessions_for_another(db: clew.Database, tenant: str) -> None:
    service = SessionService(db.scope(tenant=tenant, user=BOB))

    with pytest.raises(InvalidArgument, match="owned by 'alice'"):
        await begin_session(service)


def test_without_adk_one_is_told_what_to_install() -> None:
    code = "import sys; sys.modules['google.adk'] = None; import clew.adapters.adk"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "google-adk is not installed" in process.stderr
    assert "pip install '.[adk]'" in process.stderr
