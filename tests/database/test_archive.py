"""Archives: threads out and in again, to the byte, and nothing of a damaged one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.core.archive import format as archive_format
from clew.core.encoding import encode
from clew.core.errors import ArchiveInvalid, InvalidArgument, StoreDamaged, ThreadExists, ThreadNotFound
from clew.core.log import chain
from clew.core.values import Exact, Item, Scope
from clew.database.archive import ImportResult, ThreadProgress, export_threads, import_threads
from clew.database.search import index_threads
from clew.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from clew.database.thread import Thread

HERE = Scope()


async def export_lines(store: MemoryStore, ids: Sequence[str] | None = None) -> list[bytes]:
    return [line async for line in export_threads(store, HERE, ids)]


async def import_lines(
    lines: Sequence[bytes], store: MemoryStore | None = None, *, skip_existing: bool = False
) -> ImportResult:
    return await import_threads(store or MemoryStore(), HERE, _each(lines), skip_existing=skip_existing)


async def _each(lines: Sequence[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def a_family(store: MemoryStore) -> clew.Database:
    """A thread, forks of it and of them, with everything that a log can hold."""
    db = clew.Database(store)
    root = await db.create("root", owner="alice")
    guest = Item(body=b"\x00\xff", codec="pickled-not", format="guest", log="side")
    await root.append(items=[clew.user("Hi", id="m1"), guest, clew.assistant("Hello")], key="k1")
    await root.append(patches=[clew.set(["$thread"], {"title": "Trip", "labels": ["a"]})], key="k2")
    await root.append(items=[clew.call("c1", "look", {"at": 1}, run="r")], run_id="r")
    await root.append(items=[clew.result("c1", "seen", run="r")], author="bob", reason="Answer")
    await root.append(items=[clew.assistant("Well …")])
    await root.log().pop()
    await root.log().compact([clew.system("Earlier: a greeting.")], keep=1)
    child = await root.fork("child", at=2)
    await child.append(items=[clew.user("Another way")], key="k1")
    await (await child.fork("grandchild")).append(snapshot={"fresh": True}, key="k1")
    await root.fork("bare", at=3)
    await db.create("empty")
    return db


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_export_import_export_is_the_same_to_the_byte(store: MemoryStore) -> None:
    await a_family(store)
    lines, other = await export_lines(store), MemoryStore()

    await import_lines(lines, other)

    assert await export_lines(other) == lines


@pytest.mark.promise("S-07")
async def test_an_imported_thread_is_the_same_at_every_version(store: MemoryStore) -> None:
    db, other = await a_family(store), MemoryStore()
    await import_lines(await export_lines(store), other)
    copy = clew.Database(other)

    for thread in (await db.threads()).threads:
        await same(db.thread(thread.id), copy.thread(thread.id))
    assert await copy.threads() == await db.threads()


async def same(one: Thread, other: Thread) -> None:
    head = await one.head()
    assert await other.head() == head
    assert (await other.verify()) == (await one.verify())
    assert (await other.verify()).ok
    assert await other.changesets(limit=1000) == await one.changesets(limit=1000)
    for version in range(head.version + 1):
        assert await other.state(at=version) == await one.state(at=version)
        for log in head.counters.logs:
            before, after = await one.items(at=version, log=log), await other.items(at=version, log=log)
            assert after.items == before.items


@pytest.mark.promise("B-02")
@pytest.mark.parametrize("store_name", ["memory"])
async def test_idempotency_keys_survive_an_import(store: MemoryStore, store_name: str) -> None:
    await a_family(store)
    other = MemoryStore()
    await import_lines(await export_lines(store), other)
    root = clew.Database(other).thread("root")
    guest = Item(body=b"\x00\xff", codec="pickled-not", format="guest", log="side")

    again = await root.append(
        items=[clew.user("Hi", id="m1"), guest, clew.assistant("Hello")], key="k1", expect=Exact(0)
    )

    assert (again.version, again.repeated) == (1, True)


async def test_a_fork_does_not_take_its_ancestors_keys_along(store: MemoryStore) -> None:
    await a_family(store)
    other = MemoryStore()
    await import_lines(await export_lines(store, ["child"]), other)

    again = (
        await clew.Database(other)
        .thread("child")
        .append(items=[clew.user("Another way")], key="k1", expect=Exact(2))
    )

    assert (again.version, again.repeated) == (3, True)


async def test_an_imported_fork_goes_on_alone(store: MemoryStore) -> None:
    await a_family(store)
    other = MemoryStore()
    await import_lines(await export_lines(store, ["grandchild"]), other)
    thread = clew.Database(other).thread("grandchild")

    await thread.append(items=[clew.user("On")])
    await (await thread.fork("next", at=1)).append(items=[clew.user("Elsewhere")])

    assert (await thread.verify()).ok
    assert (await clew.Database(other).thread("next").verify()).ok


async def test_a_very_deep_fork_comes_back_whole(store: MemoryStore) -> None:
    db, other = clew.Database(store), MemoryStore()
    thread = await db.create("t")
    for depth in range(40):
        await thread.append(items=[clew.user(str(depth))], patches=[clew.set(["depth"], depth)], key="k")
        thread = await thread.fork(f"t{depth}")

    await import_lines(await export_lines(store), other)

    await same(thread, clew.Database(other).thread(thread.id))
    assert await export_lines(other) == await export_lines(store)


async def test_an_imported_fork_is_searched_with_what_it_inherited(store: MemoryStore) -> None:
    await a_family(store)
    other = MemoryStore()
    await import_lines(await export_lines(store, ["child"]), other)
    await index_threads(other, HERE)

    hits = await clew.Database(other).search("hello")

    assert [hit.thread for hit in hits] == ["child"]


async def test_bodies_stand_as_json_where_they_are_json(store: MemoryStore) -> None:
    await a_family(store)
    steps = [json.loads(line) for line in await export_lines(store, ["root"])]

    first = steps[2]

    bodies = {entry["log"]: entry.get("body", entry.get("base64")) for entry in first["items"]}
    assert bodies == {"side": "AP8=", "history": {"content": "Hello"}}


async def test_the_header_names_the_format_and_no_moment(store: MemoryStore) -> None:
    lines = await export_lines(store)

    assert lines == [b'{"clew":"archive","format":1}\n', b'{"clew":"total"}\n']


async def test_every_head_is_told_with_its_hash(store: MemoryStore) -> None:
    db = await a_family(store)
    reports: list[ThreadProgress] = []

    async for _ in export_threads(store, HERE, ["root"], notify=reports.append):
        pass

    head = await db.thread("root").head()
    assert [report.hash for report in reports if report.hash] == [head.hash.hex()]


async def test_an_unknown_thread_cannot_be_exported(store: MemoryStore) -> None:
    with pytest.raises(ThreadNotFound):
        await export_lines(store, ["nobody"])


# What is refused.


async def test_a_thread_that_is_there_already_is_refused(store: MemoryStore) -> None:
    await a_family(store)

    with pytest.raises(ThreadExists):
        await import_lines(await export_lines(store), store)


async def test_a_thread_that_is_there_already_can_be_skipped(store: MemoryStore) -> None:
    await a_family(store)
    lines, other = await export_lines(store), MemoryStore()
    await import_lines(await export_lines(store, ["root"]), other)

    result = await import_lines(lines, other, skip_existing=True)

    assert result.skipped == ("root",)
    assert await export_lines(other) == lines


async def test_an_archive_cut_anywhere_is_refused_and_leaves_whole_threads_only(store: MemoryStore) -> None:
    await a_family(store)
    lines = await export_lines(store)

    for cut in range(len(lines)):
        other = MemoryStore()
        with pytest.raises(ArchiveInvalid):
            await import_lines(lines[:cut], other)
        for thread in (await clew.Database(other).threads()).threads:
            assert (await clew.Database(other).thread(thread.id).verify()).ok


@pytest.mark.promise("B-06")
@given(data=st.data())
async def test_an_archive_altered_anywhere_is_refused(data: st.DataObject) -> None:
    store, other = MemoryStore(), MemoryStore()
    await a_family(store)
    whole = b"".join(await export_lines(store))
    at = data.draw(st.integers(0, len(whole) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    archive = whole[:at] + bytes([byte]) + whole[at + 1 :]

    with pytest.raises(ArchiveInvalid):
        await import_lines(archive.splitlines(keepends=True), other)


async def test_lines_in_another_order_are_refused(store: MemoryStore) -> None:
    await a_family(store)
    lines = await export_lines(store, ["root"])
    lines[2], lines[3] = lines[3], lines[2]

    with pytest.raises(ArchiveInvalid) as error:
        await import_lines(lines)
    assert error.value.line == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "empty"),
        (b"hello\n", "not an archive"),
        (b'{"a": 1}\n', "not an archive"),
        (b'{"clew":"archive","format":2,"more":[]}\n', "format 2"),
    ],
)
async def test_what_is_no_archive_of_ours_is_refused(line: bytes, words: str) -> None:
    with pytest.raises(ArchiveInvalid) as error:
        await import_lines([line] if line else [])
    assert words in str(error.value)


async def test_a_chain_made_anew_does_not_excuse_what_an_append_would_refuse(store: MemoryStore) -> None:
    await (await clew.Database(store).create("t")).append(items=[clew.user("Hi")])
    lines = forge(await export_lines(store))

    with pytest.raises(ArchiveInvalid) as error:
        await import_lines(lines)
    assert "cannot be taken" in str(error.value)


def forge(lines: list[bytes]) -> list[bytes]:
    """An archive whose only item stands far away, with hashes and checksums that fit."""
    opening, step, closing = (json.loads(line) for line in lines[1:4])
    step["items"][0]["place"] = 1 << 40
    step["envelope"]["items"] = [["history", 1 << 40, 1]]
    reader = archive_format._PartialThread(msgspec.convert(opening, archive_format.ThreadLine), 2)
    line = msgspec.json.decode(encode_line(step), type=archive_format.ChangesetLine)
    items = [archive_format._item_row(entry, 1, line.time) for entry in line.items]
    closing["hash"] = step["hash"] = chain.changeset_hash(
        reader._hash, archive_format._changeset_row(line), items
    ).hex()
    step_line = encode_line(step)
    reader.digest.update(lines[1] + step_line)
    closing["sha256"] = reader.digest.hexdigest()
    return [lines[0], lines[1], step_line, encode_line(closing), lines[4]]


def encode_line(line: object) -> bytes:
    return msgspec.json.encode(line) + b"\n"


async def test_a_user_cannot_import_what_belongs_to_another(store: MemoryStore) -> None:
    await a_family(store)

    with pytest.raises((ArchiveInvalid, InvalidArgument)):
        await import_threads(MemoryStore(), Scope(user="mallory"), _each(await export_lines(store, ["root"])))


async def test_a_damaged_thread_cannot_be_exported(store: MemoryStore) -> None:
    await a_family(store)
    rows = store._tenants["default"].rows[1]
    rows.changesets[2] = msgspec.structs.replace(rows.changesets[2], time=0)

    with pytest.raises(StoreDamaged):
        await export_lines(store, ["root"])


# What was erased.


async def erase(store: MemoryStore, version: int) -> None:
    """Take away the content and the items of a version, as erasing will: their commitments stay."""
    rows = store._tenants["default"].rows[1]
    change = rows.changesets[version]
    rows.anchors[version] = encode(await clew.Database(store).thread("t").state(at=version))
    rows.changesets[version] = msgspec.structs.replace(
        change, content=None, salt=None, erased=chain.commitment(change.salt or b"", change.content or b"")
    )
    for at, item in rows.items.items():
        if item.version == version:
            commitment = chain.commitment(item.salt or b"", item.body or b"")
            rows.items[at] = msgspec.structs.replace(item, body=None, salt=None, erased=commitment)


@pytest.mark.promise("B-06")
@pytest.mark.parametrize("store_name", ["memory"])
async def test_what_was_erased_stays_erased_and_leads_to_the_same_state(
    store: MemoryStore, store_name: str
) -> None:
    thread = await clew.Database(store).create("t")
    await thread.append(patches=[clew.set(["list"], [])])
    await thread.append(items=[clew.user("secret")], patches=[clew.append(["list"], "secret")], key="k")
    await thread.append(patches=[clew.append(["list"], "plain")])
    await erase(store, 2)
    lines, other = await export_lines(store), MemoryStore()

    await import_lines(lines, other)

    copy = clew.Database(other).thread("t")
    assert await export_lines(other) == lines
    assert await copy.state() == {"list": ["secret", "plain"]}
    assert (await copy.verify()).erased == ("the content of version 2", "item 256 of 'history'")


# Any thread at all.

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
LOGS = st.sampled_from(["history", "a", "ä b"])
ITEMS = st.builds(Item, body=VALUES, log=LOGS) | st.builds(
    Item, body=st.binary(max_size=30), log=LOGS, codec=st.just("raw"), format=st.just("guest")
)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(ITEMS, max_size=4)),
    st.tuples(st.just("set"), VALUES),
    st.tuples(st.just("snapshot"), st.dictionaries(WORDS, VALUES, max_size=3)),
    st.tuples(st.just("pop"), LOGS),
    st.tuples(st.just("clear"), LOGS),
    st.tuples(st.just("compact"), LOGS),
    st.tuples(st.just("fork"), st.integers(0, 100)),
)


async def take(db: clew.Database, thread: Thread, number: int, step: tuple[str, object]) -> Thread:
    match step:
        case ("append", list(items)):
            await thread.append(items=items, key=f"k{number}")
        case ("set", value):
            await thread.append(patches=[clew.set(["value"], value)])
        case ("snapshot", dict(value)):
            await thread.append(snapshot=value, patches=[clew.set(["n"], number)])
        case ("pop", str(log)):
            await thread.log(log).pop()
        case ("clear", str(log)):
            await thread.log(log).clear()
        case ("compact", str(log)) if len(await thread.items(log=log)) > 1:
            await thread.log(log).compact([clew.system("summary")], keep=1)
        case ("fork", int(at)):
            version = (await thread.head()).version
            return await thread.fork(f"fork-{number}", at=at % (version + 1))
    return thread


@given(steps=st.lists(STEPS, max_size=25))
async def test_any_thread_survives_the_way_out_and_in(steps: list[tuple[str, object]]) -> None:
    store, other = MemoryStore(), MemoryStore()
    db = clew.Database(store)
    thread = await db.create("t")
    for number, step in enumerate(steps):
        thread = await take(db, thread, number, step)
    lines = await export_lines(store)

    await import_lines(lines, other)

    assert await export_lines(other) == lines
    for summary in (await db.threads()).threads:
        await same(db.thread(summary.id), clew.Database(other).thread(summary.id))
