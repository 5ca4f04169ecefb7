"""The session protocol, on every store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import SessionSettings
from agents.items import TResponseInputItem
from agents.memory import Session as Protocol

import clew
from clew.adapters.openai_agents import FORMAT, Session
from clew.core.errors import (
    InvalidArgument,
    InvalidValue,
    StoreClosed,
    StoreUnavailable,
    ThreadNotFound,
    VersionNotFound,
)
from clew.core.values import UnreadableItem
from clew.testing import Damage
from tests.adapters.openai_agents.samples import item, sample_items, texts, user

CALL = item(type="function_call", call_id="c1", name="look", arguments="{}", id="fc_1")
OUTPUT = item(type="function_call_output", call_id="c1", output="a parcel")


@pytest.mark.promise("B-10")
def test_it_meets_the_protocol(session: Session) -> None:
    assert isinstance(session, Protocol)


async def test_a_session_that_nobody_used_is_empty(session: Session, db: clew.Database) -> None:
    assert (await session.get_items(), await session.pop_item()) == ([], None)
    assert (await db.threads()).threads == ()


@pytest.mark.promise("S-01")
@pytest.mark.parametrize(
    ("limit", "count"), [(None, 6), (100, 6), (2, 2), (1, 1), (0, 0), (-1, 6), (2_147_483_647, 6)]
)
async def test_the_latest_items_come_in_order(session: Session, limit: int | None, count: int) -> None:
    for part in range(3):
        await session.add_items(sample_items(2, 2 * part))

    assert await session.get_items(limit) == sample_items(6)[6 - count :]


@pytest.mark.promise("S-01", "S-05")
async def test_an_explicit_limit_beats_the_default(db: clew.Database) -> None:
    session = Session("alice", db, session_settings={"limit": 3})
    await session.add_items(sample_items(9))
    default, explicit = await session.get_items(), await session.get_items(5)
    session.session_settings = SessionSettings(limit=1)

    assert (len(default), len(explicit), len(await session.get_items())) == (3, 5, 1)


def test_unknown_settings_are_refused(session: Session, db: clew.Database) -> None:
    with pytest.raises(TypeError):
        Session("alice", db, session_settings={"limitt": 3})


@pytest.mark.promise("S-01", "S-07")
async def test_items_come_back_exactly_as_given(session: Session) -> None:
    items = [
        user("Grüße 👋 \u2028 'quotes' \"and\" \\"),
        CALL,
        OUTPUT,
        item(type="reasoning", id="rs_1", summary=[], encrypted_content=None, score=1.0, count=1),
        item(type="something_new", nested={"a": [1, 2.5, True, None, ""]}),
    ]
    await session.add_items(items)
    history = await session.get_items()

    assert history == items
    assert [type(history[3].get(name)) for name in ("score", "count")] == [float, int]


@pytest.mark.promise("B-10")
async def test_role_kind_and_call_stand_beside_an_item(session: Session, db: clew.Database) -> None:
    await session.add_items([user("Hi"), CALL, OUTPUT, item(type="reasoning", summary=[]), item(a=1)])
    items = await db.thread("alice").items()

    assert [(entry.role, entry.kind, entry.call) for entry in items] == [
        ("user", "message", None),
        ("assistant", "call", "c1"),
        ("tool", "result", "c1"),
        ("assistant", "reasoning", None),
        ("", "message", None),
    ]
    assert {entry.format for entry in items} == {FORMAT}


@pytest.mark.parametrize("name", ["", "x" * 600, "tab\t", 7, None])
async def test_a_call_id_that_cannot_be_a_name_is_kept_in_the_item(session: Session, name: Any) -> None:
    odd = item(type="function_call", call_id=name, name="look", arguments="{}")
    await session.add_items([odd])

    assert await session.get_items() == [odd]


@pytest.mark.promise("S-02")
@pytest.mark.parametrize(
    "bad",
    [object(), float("nan"), {1: "a key"}, b"bytes", "\ud800"],
    ids=["object", "nan", "key", "bytes", "surrogate"],
)
async def test_an_item_that_is_not_json_is_refused_before_anything_is_written(
    session: Session, db: clew.Database, bad: Any
) -> None:
    await session.add_items(sample_items(1))

    with pytest.raises(InvalidValue):
        await session.add_items([user("fine"), item(role="user", content=bad)])
    assert await session.get_items() == sample_items(1)
    assert (await db.thread("alice").head()).version == 1


@pytest.mark.parametrize("bad", ["text", None, 3, ["a list"]])
async def test_an_item_that_is_no_object_is_refused(session: Session, db: clew.Database, bad: Any) -> None:
    with pytest.raises(InvalidValue):
        await session.add_items([user("fine"), bad])
    assert (await db.threads()).threads == ()


@pytest.mark.promise("S-02")
async def test_a_batch_is_one_changeset_in_the_order_of_the_caller(
    session: Session, db: clew.Database
) -> None:
    await session.add_items(sample_items(50))

    changes = await db.thread("alice").changesets()
    assert [[entry.body for entry in change.items] for change in changes] == [sample_items(50)]


@pytest.mark.promise("S-03")
async def test_a_pop_takes_the_newest_item(session: Session) -> None:
    await session.add_items(sample_items(3))
    items = [await session.pop_item() for _ in range(4)]

    assert items == [*reversed(sample_items(3)), None]
    assert await session.get_items() == []


@pytest.mark.promise("S-03")
async def test_a_clear_ends_the_history_and_the_past_stays_readable(session: Session) -> None:
    await session.add_items(sample_items(3))
    await session.pop_item()
    await session.clear_session()
    await session.add_items([user("anew")])

    assert await session.get_items() == [user("anew")]
    assert [len(await session.items_at(version)) for version in range(5)] == [0, 3, 2, 0, 1]


@pytest.mark.promise("S-03")
async def test_a_clear_of_nothing_is_fine(session: Session) -> None:
    await session.clear_session()
    await session.add_items(sample_items(1))
    await session.clear_session()
    await session.clear_session()

    assert await session.get_items() == []


@pytest.mark.promise("S-04")
async def test_first_writers_do_not_race(db: clew.Database) -> None:
    sessions = [Session("alice", db) for _ in range(20)]
    await asyncio.gather(*(each.add_items(sample_items(2, 2 * n)) for n, each in enumerate(sessions)))
    lines = texts(await sessions[0].get_items())

    assert sorted(lines) == sorted(texts(sample_items(40)))
    assert all(lines.index(f"message {n}") + 1 == lines.index(f"message {n + 1}") for n in range(0, 40, 2))


@pytest.mark.promise("S-04")
async def test_each_item_is_popped_once(db: clew.Database) -> None:
    await Session("alice", db).add_items(sample_items(12))
    items = await asyncio.gather(*(Session("alice", db).pop_item() for _ in range(14)))

    assert sorted(texts([entry for entry in items if entry])) == sorted(texts(sample_items(12)))


@pytest.mark.promise("S-04")
async def test_a_cancelled_write_has_an_outcome_when_the_cancellation_arrives(
    session: Session, db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, go_on, change = asyncio.Event(), asyncio.Event(), db.store.change

    async def slow(*args: Any) -> Any:
        start.set()
        await go_on.wait()
        return await change(*args)

    await session.add_items(sample_items(1))
    monkeypatch.setattr(db.store, "change", slow)
    task = asyncio.create_task(session.add_items(sample_items(1, 1)))
    await start.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await session.get_items() == sample_items(2)


@pytest.mark.promise("S-04")
async def test_cancellation_at_any_moment_leaves_whole_batches_and_no_lock(session: Session) -> None:
    for number in range(12):
        task = asyncio.create_task(session.add_items(sample_items(2, 2 * number)))
        for _ in range(number % 6):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
    await session.add_items(sample_items(2))

    assert len(await session.get_items()) % 2 == 0


@pytest.mark.promise("S-06")
async def test_a_corrupt_item_is_left_out_and_told(
    session: Session, db: clew.Database, damage: Damage
) -> None:
    reports: list[UnreadableItem] = []
    session = Session("alice", db, on_unreadable=lambda _, item: reports.append(item))
    await session.add_items(sample_items(5))
    places = [entry.place for entry in await db.thread("alice").items()]
    await damage.rewrite("alice", "history", places[3], b"{not json")

    assert texts(await session.get_items()) == ["message 0", "message 1", "message 2", "message 4"]
    assert texts(await session.get_items(3)) == ["message 1", "message 2", "message 4"]
    assert [item.place for item in reports] == [places[3]] * 2


@pytest.mark.promise("S-06")
async def test_a_pop_passes_over_a_corrupt_item_and_takes_nothing_else(
    db: clew.Database, damage: Damage
) -> None:
    reports: list[UnreadableItem] = []
    session = Session("alice", db, on_unreadable=lambda _, item: reports.append(item))
    await session.add_items(sample_items(4))
    places = [entry.place for entry in await db.thread("alice").items()]
    await damage.rewrite("alice", "history", places[3], b"{not json")

    assert await session.pop_item() == user("message 2")
    assert texts(await session.get_items()) == ["message 0", "message 1"]
    assert [item.place for item in (await db.thread("alice").items()).broken] == [places[3]]
    assert {item.place for item in reports} == {places[3]}


@pytest.mark.promise("S-06")
async def test_a_corrupt_item_is_logged_unless_somebody_else_is_told(
    session: Session, db: clew.Database, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    await session.add_items(sample_items(2))
    place = (await db.thread("alice").items())[0].place
    await damage.rewrite("alice", "history", place, b"{not json")
    await session.get_items()

    assert [record.levelname for record in caplog.records if record.name.startswith("clew")] == ["WARNING"]


@pytest.mark.promise("S-07")
async def test_creation_is_kept_and_updates_advance(session: Session, db: clew.Database) -> None:
    await session.add_items(sample_items(1))
    before = await db.thread("alice").head()
    await session.add_items(sample_items(1))
    await session.pop_item()
    after = await db.thread("alice").head()

    assert after.created == before.created
    assert after.updated >= before.updated
    assert after.version == before.version + 2


@pytest.mark.promise("S-08")
async def test_a_database_that_was_given_stays_open(db: clew.Database) -> None:
    async with Session("alice", db) as session:
        await session.add_items(sample_items(1))

    assert await Session("alice", db).get_items() == sample_items(1)


@pytest.mark.promise("S-08")
async def test_a_database_that_the_session_opened_is_closed(url: str) -> None:
    opening = clew.open(url)
    session = Session("alice", opening)
    await session.add_items(sample_items(1))
    database = await session._lazy_database.database()
    await session.close()

    with pytest.raises(StoreClosed):
        await database.create("another")


async def test_a_session_by_url_keeps_what_it_was_given(tmp_path: Path) -> None:
    for number in range(2):
        async with Session("alice", clew.open(f"sqlite:///{tmp_path}/agent.db")) as session:
            await session.add_items(sample_items(1, number))
    async with Session("alice", clew.open(f"sqlite:///{tmp_path}/agent.db")) as session:
        history = await session.get_items()

    assert history == sample_items(2)


@pytest.mark.promise("S-08")
async def test_a_closed_session_refuses_everything(session: Session) -> None:
    session.close()

    for call in (session.get_items(), session.add_items([]), session.pop_item(), session.clear_session()):
        with pytest.raises(StoreClosed):
            await call


async def test_a_session_that_never_opened_its_database_can_be_closed(tmp_path: Path) -> None:
    await Session("alice", clew.open(f"sqlite:///{tmp_path}/agent.db")).close()

    assert not (tmp_path / "agent.db").exists()


def test_something_that_is_no_database_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"clew\.open"):
        Session("alice", "agent.db")  # type: ignore[arg-type] # that is what is tested


async def test_a_store_that_cannot_be_reached_says_so() -> None:
    session = Session("alice", clew.open("postgresql://nobody@127.0.0.1:1/nothing"))

    with pytest.raises(StoreUnavailable):
        await session.add_items(sample_items(1))


@pytest.mark.promise("B-10")
async def test_a_thread_of_another_format_is_refused(session: Session, db: clew.Database) -> None:
    thread = await db.create("alice")
    await thread.append(items=[clew.user("Hi")])

    for call in (session.get_items(), session.add_items(sample_items(1)), session.clear_session()):
        with pytest.raises(InvalidArgument, match="'clew'"):
            await call
    assert (await thread.head()).version == 1


async def test_a_thread_with_other_logs_of_another_format_is_refused(
    session: Session, db: clew.Database
) -> None:
    thread = await db.create("alice")
    await thread.append(items=[clew.Item(body={}, log="channel", format="langchain")])

    with pytest.raises(InvalidArgument, match="'langchain'"):
        await session.add_items(sample_items(1))


async def test_a_thread_made_before_the_session_is_used(session: Session, db: clew.Database) -> None:
    thread = await db.create("alice", owner="bob")
    await thread.append(patches=[clew.set(["$thread"], {"title": "Parcels"})])
    await session.add_items(sample_items(1))

    assert ((await thread.head()).title, await session.get_items()) == ("Parcels", sample_items(1))


async def test_a_session_belongs_to_its_tenant_and_user(db: clew.Database) -> None:
    session = Session("alice", db.scope(tenant="acme", user="bob"))
    await session.add_items(sample_items(1))

    assert (await db.scope(tenant="acme").thread("alice").head()).owner == "bob"
    assert await Session("alice", db).get_items() == []
    assert await Session("alice", db.scope(tenant="acme", user="eve")).get_items() == []


async def test_the_thread_of_another_user_cannot_be_written(db: clew.Database) -> None:
    await Session("alice", db.scope(tenant="acme", user="bob")).add_items(sample_items(1))

    with pytest.raises(ThreadNotFound):
        await Session("alice", db.scope(tenant="acme", user="eve")).add_items(sample_items(1))


@pytest.mark.promise("S-13")
async def test_a_rewind_takes_exactly_the_suffix_in_one_changeset(
    session: Session, db: clew.Database
) -> None:
    await session.add_items([*sample_items(3), *sample_items(2)])
    result = await session.rewind(sample_items(2))

    assert (result, await session.get_items()) == (True, sample_items(3))
    assert (await db.thread("alice").head()).version == 2


@pytest.mark.promise("S-13")
@pytest.mark.parametrize(
    "suffix",
    [sample_items(2), sample_items(9), [], [user("message 2"), user("else")]],
    ids=["like", "long", "no", "not"],
)
async def test_a_rewind_of_anything_but_the_suffix_is_refused(
    session: Session, db: clew.Database, suffix: list[TResponseInputItem]
) -> None:
    await session.add_items(sample_items(4))

    assert not await session.rewind(suffix)
    assert (await db.thread("alice").head()).version == 1


@pytest.mark.promise("S-13")
async def test_a_writer_in_between_makes_a_rewind_refuse(
    session: Session, db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.add_items(sample_items(2))
    read = session._window

    async def read_and_write(*args: Any, **more: Any) -> Any:
        window = await read(*args, **more)
        await Session("alice", db).add_items([user("me first")])
        return window

    monkeypatch.setattr(session, "_window", read_and_write)

    assert not await session.rewind(sample_items(2))
    assert texts(await Session("alice", db).get_items()) == ["message 0", "message 1", "me first"]


async def test_a_branch_goes_its_own_way(session: Session) -> None:
    await session.add_items(sample_items(2))
    await session.add_items([user("this way")])
    branch = await session.fork("alice/2", at=1)
    await branch.add_items([user("that way")])

    assert texts(await branch.get_items()) == ["message 0", "message 1", "that way"]
    assert texts(await session.get_items()) == ["message 0", "message 1", "this way"]


async def test_a_version_that_is_not_there_is_refused(session: Session) -> None:
    await session.add_items(sample_items(1))

    with pytest.raises(VersionNotFound):
        await session.items_at(2)


async def test_a_search_finds_the_turns(session: Session) -> None:
    await session.add_items([user("Where is my PARCEL?"), CALL, OUTPUT])
    await session.add_items(
        [user("And the letter?"), item(role="assistant", content="No letter, no parcel.")]
    )
    await session.add_items([user("Thanks")])

    turns = await session.search("parcel")
    assert [turn.text for turn in turns] == ["Where is my PARCEL?", "And the letter?"]
    assert [turn.text for turn in await session.search("letter parcel")] == ["And the letter?"]
    assert await session.search("  ") == []


async def test_turns_carry_the_version_to_branch_from(session: Session) -> None:
    await session.add_items([user("one")])
    await session.add_items([item(role="assistant", content="1")])
    await session.add_items([user("two")])
    turns = await session.turns()
    branch = await session.fork("alice/2", at=turns[1].version - 1)

    assert [(turn.text, turn.version) for turn in turns] == [("one", 1), ("two", 3)]
    assert texts(await branch.get_items()) == ["one", "1"]
