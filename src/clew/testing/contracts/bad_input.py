"""Bad input: refused with a code and a sentence, before anything is written; odd input: kept."""

# ruff: noqa: D102 - tests are named by sentences.

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest

from clew.core import patch
from clew.core.errors import ClewError, InvalidId, InvalidInput, InvalidValue, TooLarge
from clew.core.items import user
from clew.core.ports import Store
from clew.core.values import Absent, Changeset, Cut, Item, Job, Limits, Record, RecordQuery
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import thread_dump
from clew.testing.fixtures import StoreFixtures, StoreOpener


def nested_list(depth: int) -> Any:
    """A list in a list in a list, and so on."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def circular_list() -> Any:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


NOT_JSON: Final[dict[str, Any]] = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "half a surrogate pair": "\ud800",
    "half a surrogate pair in a key": {"\udfff": 1},
    "bytes": b"bytes",
    "a tuple": (1, 2),
    "an integer key": {1: "a"},
    "a null key": {None: "a"},
    "a set": {1},
    "a decimal": Decimal("1.5"),
    "a time": datetime(2026, 1, 1, tzinfo=UTC),
    "a uuid": UUID(int=1),
    "an object": object(),
    "a struct": Record(kind="k", id="i", body=1),
    "a complex number": 1j,
    "nesting": nested_list(500),
    "absurd nesting": nested_list(50_000),
    "a circle": circular_list(),
}

ODD_JSON: Final[dict[str, Any]] = {
    "NUL": "a\x00b\x00",
    "NUL in a key": {"a\x00b": "\x00"},
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\u2028\u2029",
    "emoji": "🦊👨‍👩‍👧‍👦🏴‍☠️",
    "noncharacters": "\ufffe\uffff\U0010ffff\ufeff",
    "combining": "e\u0301 é \u202e right to left",
    "large integers": [2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 10**50],
    "floats": [0.1, 1e308, 5e-324, -0.0, 1.0, 1e22, 123456789.123456789],
    "true, 1 and 1.0": [True, 1, 1.0, False, 0, 0.0],
    "empty things": ["", [], {}, None, {"": ""}],
    "keys out of order": {"b": 1, "a": 2, "B": 3, "é": 4, "10": 5, "9": 6},
    "nesting": nested_list(150),
    "SQL": "'; DROP TABLE threads; --",
}

FINE_IDS: Final[dict[str, str]] = {
    "slash": "a/b//c",
    "dots": "../../etc/passwd",
    "a dot": ".",
    "emoji": "🦊👨‍👩‍👧‍👦",
    "SQL": "x'; DROP TABLE threads; --",
    "percent": "100%_\\%s %(a)s $1 :a ?1 {b}",
    "spaces": " a  b ",
    "quotes": "\"`'",
    "right to left": "\u202eabc",
    "composed": "é",
    "decomposed": "e\u0301",
    "upper": "ID",
    "lower": "id",
    "digits": "007",
    "colon": "a:b",
    "as long as may be": "x" * 512,
    "nothing": "null",
}
BAD_IDS: Final[dict[str, Any]] = {
    "empty": "",
    "10 kB": "x" * 10_240,
    "513 bytes": "x" * 513,
    "513 bytes in fewer letters": "é" * 257,
    "NUL": "a\x00b",
    "newline": "a\nb",
    "delete": "a\x7f",
    "half a surrogate pair": "a\ud800",
    "bytes": b"id",
    "a number": 7,
    "nothing at all": None,
}

Use = Callable[[Database, Any], Awaitable[object]]


async def _read_head(db: Database, id: Any) -> object:
    return await db.thread(id).head()


async def _list_tenant(db: Database, id: Any) -> object:
    return await db.scope(tenant=id).threads()


async def _fork_thread(db: Database, id: Any) -> object:
    return await db.thread("thread").fork(id)


async def _pop_item(db: Database, id: Any) -> object:
    return await db.thread("thread").log(id).pop()


def _bad_tag(id: Any) -> Any:
    """A tag as bad as an id; one may be a little longer, so that an id fits into it."""
    return id * 2 if isinstance(id, str) else id


ID_USES: Final[dict[str, Use]] = {
    "create": lambda db, id: db.create(id),
    "open": _read_head,
    "fork": _fork_thread,
    "tenant": _list_tenant,
    "log": lambda db, id: db.thread("thread").append(items=[Item(body=1, log=id)]),
    "log to take from": _pop_item,
    "item format": lambda db, id: db.thread("thread").append(items=[Item(body=1, format=id)]),
    "item kind": lambda db, id: db.thread("thread").append(items=[Item(body=1, kind=id)]),
    "reason": lambda db, id: db.thread("thread").append(Changeset(reason=id)),
    "record kind": lambda db, id: db.records.put(Record(kind=id, id="r", body=1)),
    "record id": lambda db, id: db.records.put(Record(kind="k", id=id, body=1)),
    "tag": lambda db, id: db.records.put(Record(kind="k", id="r", body=1, tags=(_bad_tag(id),))),
    "job id": lambda db, id: db.jobs.enqueue(Job(id=id, kind="k")),
    "job kind": lambda db, id: db.jobs.enqueue(Job(id="j", kind=id)),
}
OPTIONAL_ID_USES: Final[dict[str, Use]] = {
    "owner": lambda db, id: db.create("new", owner=id),
    "owner of an absent thread": lambda db, id: db.thread("new").append(Changeset(), expect=Absent(owner=id)),
    "item id": lambda db, id: db.thread("thread").append(items=[Item(body=1, id=id)]),
    "item run": lambda db, id: db.thread("thread").append(items=[Item(body=1, run=id)]),
    "call": lambda db, id: db.thread("thread").append(items=[Item(body=1, call=id)]),
    "run": lambda db, id: db.thread("thread").append(Changeset(run_id=id)),
    "parent run": lambda db, id: db.thread("thread").append(Changeset(parent_run_id=id)),
    "key": lambda db, id: db.thread("thread").append(Changeset(key=id)),
    "author": lambda db, id: db.thread("thread").append(Changeset(author=id)),
    "record owner": lambda db, id: db.records.put(Record(kind="k", id="r", body=1, owner=id)),
    "job key": lambda db, id: db.jobs.enqueue(Job(id="j", kind="k", key=id)),
    "job owner": lambda db, id: db.jobs.enqueue(Job(id="j", kind="k", owner=id)),
}

VALUE_USES: Final[dict[str, Use]] = {
    "body": lambda db, value: db.thread("thread").append(items=[user("fine"), Item(body=value)]),
    "part of a body": lambda db, value: db.thread("thread").append(items=[user({"a": [1, value]})]),
    "patch": lambda db, value: db.thread("thread").append(patches=[patch.set(["a"], value)]),
    "part of a patch": lambda db, value: db.thread("thread").append(
        patches=[patch.merge([], {"a": [value]})]
    ),
    "snapshot": lambda db, value: db.thread("thread").append(snapshot={"a": value}),
    "state action": lambda db, value: db.thread("thread").append(state_actions=[value]),
    "run meta": lambda db, value: db.thread("thread").append(Changeset(run_meta={"a": value})),
    "record": lambda db, value: db.records.put(Record(kind="k", id="r", body=value)),
    "job": lambda db, value: db.jobs.enqueue(Job(id="j", kind="k", body=value)),
}


WRONG: Final[Any] = 1.5
"""What belongs nowhere here."""
NAME: Final[Any] = "name"
"""What belongs nowhere where several names are meant."""
NAMES: Final[Any] = ["a", "b"]
"""What belongs nowhere where one name is meant."""


async def _extend_lease(db: Database, lease_ms: int) -> object:
    await db.jobs.enqueue(Job(id="leased", kind="leased"))
    (job,) = await db.jobs.claim(["leased"])
    return await db.jobs.extend(job, lease_ms=lease_ms)


NONSENSE: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    "a cut beyond the end": lambda db: db.thread("thread").append(
        Changeset(cuts=(Cut(first=1, last=10**9, count=0),))
    ),
    "a cut of more than there is": lambda db: db.thread("thread").append(
        Changeset(cuts=(Cut(first=1, last=1, count=5),))
    ),
    "a cut of nothing": lambda db: db.thread("thread").append(
        Changeset(cuts=(Cut(first=0, last=0, count=0),))
    ),
    "a place where appended items go": lambda db: db.thread("thread").append(items=[Item(body=1, place=256)]),
    "a negative place": lambda db: db.thread("thread").append(items=[Item(body=1, place=-5)]),
    "a place beyond all": lambda db: db.thread("thread").append(items=[Item(body=1, place=2**70 + 1)]),
    "a step that is no number": lambda db: db.thread("thread").append(items=[Item(body=1, step=WRONG)]),
    "text for a codec of bytes": lambda db: db.thread("thread").append(
        items=[Item(body="text", codec="raw")]
    ),
    "a snapshot that is no object": lambda db: db.thread("thread").append(snapshot=WRONG),
    "an increment by NaN": lambda db: db.thread("thread").append(
        patches=[patch.increment(["a"], float("nan"))]
    ),
    "an increment by truth": lambda db: db.thread("thread").append(
        patches=[patch.increment(["a"], value=True)]
    ),
    "a merge of a list": lambda db: db.thread("thread").append(patches=[patch.merge(["a"], WRONG)]),
    "a path with a fraction": lambda db: db.thread("thread").append(patches=[patch.set([WRONG], 1)]),
    "a path with half a surrogate pair": lambda db: db.thread("thread").append(
        patches=[patch.set(["\ud800"], 1)]
    ),
    "a path in a path": lambda db: db.thread("thread").append(patches=[patch.set([NAMES], 1)]),
    "text that is no item": lambda db: db.thread("thread").append(items=["text"]),
    "text that is no op": lambda db: db.thread("thread").append(patches=["text"]),
    "a version that is a truth": lambda db: db.thread("thread").append(items=[user("fine")], expect=True),
    "a negative version": lambda db: db.thread("thread").append(items=[user("fine")], expect=-1),
    "a version that is text": lambda db: db.thread("thread").append(items=[user("fine")], expect="0"),
    "a revision that is a truth": lambda db: db.records.put(Record(kind="k", id="r", body=1), expect=True),
    "text for tags": lambda db: db.records.put(Record(kind="k", id="r", body=1, tags=NAME)),
    "an order beyond 64 bits": lambda db: db.records.put(Record(kind="k", id="r", body=1, sort=2**70)),
    "a time beyond 64 bits": lambda db: db.jobs.enqueue(Job(id="j", kind="k", due=2**70)),
    "a bound beyond 64 bits": lambda db: db.records.find(RecordQuery(kind="k", since=2**70)),
    "a lease beyond 64 bits": lambda db: _extend_lease(db, 2**70),
    "fewer than no threads": lambda db: db.threads(limit=-1),
    "fewer than no records": lambda db: db.records.find(RecordQuery(kind="k", limit=-1)),
    "fewer than no jobs": lambda db: db.jobs.list(limit=-1),
    "fewer than no claims": lambda db: db.jobs.claim(["k"], limit=-1),
    "fewer than no changesets": lambda db: db.thread("thread").changesets(limit=-1),
    "fewer than no hits": lambda db: db.search("word", limit=-1),
}


async def error_of(attempt: Callable[[], Awaitable[object]]) -> BaseException | None:
    """The error that an attempt raises, if any."""
    try:
        await attempt()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error
    return None


class BadInputContract(StoreFixtures):
    """Tests of input: a value that cannot be stored is refused by name, any other comes back."""

    @pytest.mark.promise("T-14", "T-15")
    @pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON)
    async def test_what_is_not_json_is_refused_everywhere(
        self, db: Database, thread: Thread, value: Any
    ) -> None:
        before = await thread_dump(thread)
        errors = {name: await error_of(partial(use, db, value)) for name, use in VALUE_USES.items()}

        assert {name: type(error) for name, error in errors.items()} == dict.fromkeys(
            VALUE_USES, InvalidValue
        )
        assert await thread_dump(thread) == before
        assert (await db.records.find(RecordQuery(kind="k")), await db.jobs.list()) == ([], [])

    @pytest.mark.promise("T-14")
    async def test_the_error_names_the_part_that_is_not_json(self, thread: Thread) -> None:
        with pytest.raises(InvalidValue) as caught:
            await thread.append(items=[user("fine"), Item(body={"a": [1, {"b": float("nan")}]})])
        assert caught.value.path == "items[1].body.a[1].b"
        assert "nan" in str(caught.value)

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize("value", ODD_JSON.values(), ids=ODD_JSON)
    async def test_odd_json_comes_back_to_the_byte(self, db: Database, thread: Thread, value: Any) -> None:
        change = Changeset(
            items=(Item(body=value),),
            patches=(patch.set(["a"], value),),
            state_actions=(value,),
            run_meta={"a": value},
        )
        await thread.append(change)
        await db.records.put(Record(kind="k", id="r", body=value))
        await db.jobs.enqueue(Job(id="j", kind="k", body=value))

        (read_change,), (job,) = await thread.changesets(), await db.jobs.list()
        values = [
            (await thread.items())[0].body,
            (await thread.state())["a"],
            read_change.state_actions[0],
            (read_change.run_meta or {})["a"],
            (await db.records.get("k", "r")).body,
            job.body,
        ]
        assert [repr(with_sorted_keys(one)) for one in values] == [repr(with_sorted_keys(value))] * len(
            values
        )
        assert (await thread.verify()).ok

    @pytest.mark.promise("T-14")
    async def test_nul_is_kept_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            thread = await db.create("thread")
            await thread.append(items=[user("a\x00b")], patches=[patch.set(["k\x00"], "\x00")])
        async with self.reopen(opening, clock) as db:
            thread = db.thread("thread")
            content_and_state = (await thread.items())[0].body["content"], await thread.state()

        assert content_and_state == ("a\x00b", {"k\x00": "\x00"})

    @pytest.mark.promise("T-14")
    async def test_ids_of_any_printable_text_are_kept_apart(self, db: Database) -> None:
        for name, id in FINE_IDS.items():
            thread = await db.create(id, owner=id)
            item = Item(body={"content": name}, id=id, log=id, run=id, call=id, format=id)
            await thread.append(Changeset(items=(item,), run_id=id, key=id, author=id, reason=id))
            await db.records.put(Record(kind=id, id=id, body=name, owner=id, tags=(id,)), expect=0)
            await db.jobs.enqueue(Job(id=id, kind=id, body=name, owner=id, key=id))

        for name, id in FINE_IDS.items():
            (change,) = await db.scope(tenant="default", user=id).thread(id).changesets()
            (item,) = change.items
            assert (item.body["content"], item.id, item.log, change.key) == (name, id, id, id)
            (record,) = await db.records.find(RecordQuery(kind=id, tags=(id,), owner=id))
            (job,) = await db.jobs.claim([id], limit=9)
            assert (record.body, record.id, job.body, job.id) == (name, id, name, id)
        assert {summary.id for summary in (await db.threads(limit=99)).threads} == set(FINE_IDS.values())

    @pytest.mark.promise("T-14")
    async def test_tenants_of_any_printable_text_are_kept_apart(self, db: Database) -> None:
        for id in FINE_IDS.values():
            await db.scope(tenant=id, user=id).create(id)

        for id in FINE_IDS.values():
            assert [summary.id for summary in (await db.scope(tenant=id).threads()).threads] == [id]

    @pytest.mark.promise("T-14", "S-05")
    @pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
    async def test_a_bad_id_is_refused_everywhere(self, db: Database, thread: Thread, id: Any) -> None:
        before = await thread_dump(thread)
        uses = ID_USES | ({} if id is None else OPTIONAL_ID_USES)
        errors = {name: await error_of(partial(use, db, id)) for name, use in uses.items()}

        assert {name: type(error) for name, error in errors.items()} == dict.fromkeys(uses, InvalidId)
        assert await thread_dump(thread) == before
        assert [summary.id for summary in (await db.threads()).threads] == ["thread"]

    @pytest.mark.promise("S-05")
    async def test_the_limit_of_a_body_holds_everywhere(
        self, store: Store, db: Database, thread: Thread
    ) -> None:
        store.limits = Limits(body=1000, changeset=3000)
        before = await thread_dump(thread)
        large = "x" * 1000
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: thread.append(items=[user("small"), user(large)]),
            lambda: thread.append(items=[Item(body=b"x" * 1001, codec="raw")]),
            lambda: db.records.put(Record(kind="k", id="r", body=large)),
            lambda: db.jobs.enqueue(Job(id="j", kind="k", body=large)),
            lambda: thread.append(items=[user("x" * 900)] * 4),
            lambda: thread.append(patches=[patch.set(["a"], large * 3)]),
            lambda: thread.append(snapshot={"a": large * 3}),
        ]
        error_types = [type(await error_of(attempt)) for attempt in attempts]

        assert error_types == [TooLarge] * len(attempts)
        assert await thread_dump(thread) == before
        await thread.append(items=[user("x" * 900)] * 3)

    @pytest.mark.promise("S-05")
    async def test_a_body_of_64_megabytes_is_refused_in_words(self, thread: Thread) -> None:
        with pytest.raises(TooLarge) as caught:
            await thread.append(items=[user("x" * (64 * 1024 * 1024))])
        assert caught.value.size > caught.value.limit
        assert "limit" in str(caught.value)

    @pytest.mark.promise("S-05")
    async def test_a_large_body_comes_back(self, thread: Thread) -> None:
        text = "0123456789abcdef" * (128 * 1024)
        await thread.append(items=[user(text)], patches=[patch.set(["a"], text)])

        assert (await thread.items())[0].body["content"] == text
        assert (await thread.state())["a"] == text

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize("use", NONSENSE.values(), ids=NONSENSE)
    async def test_a_call_that_makes_no_sense_is_refused(
        self, db: Database, thread: Thread, use: Callable[[Database], Awaitable[object]]
    ) -> None:
        before = await thread_dump(thread)

        with pytest.raises(InvalidInput):
            await use(db)
        assert await thread_dump(thread) == before

    @pytest.mark.promise("T-14")
    async def test_every_refusal_has_a_code_and_a_sentence(self, db: Database, thread: Thread) -> None:
        attempts: list[Callable[[], Awaitable[object]]] = [
            *(partial(use, db, float("nan")) for use in VALUE_USES.values()),
            *(partial(use, db, "") for use in ID_USES.values()),
            partial(thread.head, at=99),
            db.thread("nobody").head,
        ]
        errors = [await error_of(attempt) for attempt in attempts]

        assert all(isinstance(error, ClewError) and error.code for error in errors)
        assert all(str(error).endswith((".", "text.")) for error in errors)


def with_sorted_keys(value: Any) -> Any:
    """A value with its keys in canonical order, as it is read back."""
    if isinstance(value, dict):
        return {key: with_sorted_keys(value[key]) for key in sorted(value, key=str.encode)}
    return [with_sorted_keys(part) for part in value] if isinstance(value, list) else value
