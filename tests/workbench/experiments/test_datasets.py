"""Data sets: examples made from threads, as files, and gone with whom they are about."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

import clew
from clew.core.errors import InvalidArgument, RecordNotFound, ThreadNotFound
from clew.core.values import RecordQuery
from clew.database.archive import export_threads, record_kinds
from clew.database.database import Database
from clew.runtime.runtime import Runtime
from clew.runtime.tools.tool import Effect, tool
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.experiments import datasets as keeping
from clew.workbench.experiments.datasets import (
    Dataset,
    ExampleSelection,
    add_examples,
    drop_dataset,
    every_example,
    make_dataset,
    read_dataset,
    read_datasets,
)
from clew.workbench.experiments.examples import Example, ExampleMessage, examples_from, line_of

NOW = 1_750_000_000_000


@pytest.fixture
async def local() -> AsyncIterator[Database]:
    """A database in memory, for what does not depend on the store."""
    async with clew.open("memory://") as database:
        yield database


async def talk(db: Database, id: str, *texts: str, owner: str | None = "alice") -> None:
    """A thread in which user and assistant take turns."""
    thread = await db.create(id, owner=owner)
    for number, text in enumerate(texts):
        await thread.append(items=[clew.assistant(text) if number % 2 else clew.user(text)])


async def all_of(db: Database, name: str = "set") -> list[Example]:
    return [example async for example in every_example(db, name)]


@pytest.mark.promise("F-12")
async def test_each_answered_turn_becomes_an_example(db: Database) -> None:
    await talk(db, "t", "Hi", "Hello.", "How are you?", "Fine.", "And")
    result = await make_dataset(db, "set", ExampleSelection(threads=("t",)), now=NOW)
    first, second = await all_of(db)

    assert (result.added, result.known, result.threads) == (2, 0, 1)
    assert (first.messages, first.expected) == ((ExampleMessage(role="user", content="Hi"),), "Hello.")
    assert [message.content for message in second.messages] == ["Hi", "Hello.", "How are you?"]
    assert second.expected == "Fine."
    assert second.source is not None
    assert (second.source.thread, second.source.version, second.owner) == ("t", 4, "alice")


async def test_a_turn_becomes_an_example_once(db: Database) -> None:
    await talk(db, "t", "Hi", "Hello.")
    await make_dataset(db, "set", ExampleSelection(threads=("t",)), now=NOW)
    await db.thread("t").append(items=[clew.user("More"), clew.assistant("Sure.")])
    again = await make_dataset(db, "set", ExampleSelection(threads=("t",)), now=NOW + 1)

    assert (again.added, again.known) == (1, 1)
    assert [example.expected for example in await all_of(db)] == ["Hello.", "Sure."]


async def test_a_turn_with_tools_is_the_question_and_the_last_answer(local: Database) -> None:
    @tool(effect=Effect.NONE)
    async def weather(city: str) -> str:
        """Say what the weather is like."""
        return f"sunny in {city}"

    reply = calls(("c1", "weather", {"city": "Oslo"}), text="Let me look.")
    async with Runtime(local, model=ScriptedModel(reply, "Sunny."), tools=[weather]) as runtime:
        await runtime.run_turn("t", "How is Oslo?", user="alice")
    await make_dataset(local, "set", ExampleSelection(threads=("t",)), now=NOW)
    [example] = await all_of(local)

    assert ([message.content for message in example.messages], example.expected) == (
        ["How is Oslo?"],
        "Sunny.",
    )


async def test_a_greeting_is_part_of_the_conversation_and_no_answer(local: Database) -> None:
    thread = await local.create("t")
    await thread.append(items=[clew.assistant("Welcome."), clew.user("Hi"), clew.assistant("Hello.")])
    await make_dataset(local, "set", ExampleSelection(threads=("t",)), now=NOW)
    [example] = await all_of(local)

    assert [message.content for message in example.messages] == ["Welcome.", "Hi"]


async def test_what_a_framework_wrote_becomes_examples_too(local: Database) -> None:
    thread = await local.create("t")
    bodies = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    await thread.append(items=[clew.Item(body=body, format="openai.responses") for body in bodies])
    await make_dataset(local, "set", ExampleSelection(threads=("t",)), now=NOW)

    assert [(each.question, each.expected) for each in await all_of(local)] == [("Hi", "Hello.")]


async def test_threads_are_chosen_by_label_owner_and_words(db: Database) -> None:
    await talk(db, "garden", "How are the beans?", "Green.")
    await talk(db, "sea", "How is the harbour?", "Blue.", owner="bob")
    await db.thread("garden").append(patches=[clew.set(["$thread"], {"labels": ["good"]})])
    selections = {
        "label": ExampleSelection(label="good"),
        "owner": ExampleSelection(owner="bob"),
        "words": ExampleSelection(search="harbour"),
        "both": ExampleSelection(search="harbour", label="good"),
    }
    threads = {name: await keeping.select_threads(db, choice) for name, choice in selections.items()}

    assert threads == {"label": ["garden"], "owner": ["sea"], "words": ["sea"], "both": []}


async def test_a_choice_of_nothing_is_refused(local: Database) -> None:
    with pytest.raises(InvalidArgument, match="Say which threads"):
        await make_dataset(local, "set", ExampleSelection(), now=NOW)


async def test_a_thread_that_is_not_there_is_refused(local: Database) -> None:
    with pytest.raises(ThreadNotFound):
        await make_dataset(local, "set", ExampleSelection(threads=("nowhere",)), now=NOW)


async def test_turns_before_a_version_are_left_out(local: Database) -> None:
    await talk(local, "t", "Hi", "Hello.", "How are you?", "Fine.")
    await make_dataset(local, "set", ExampleSelection(threads=("t",), from_version=3), now=NOW)

    assert [example.expected for example in await all_of(local)] == ["Fine."]


async def test_a_window_and_a_limit_keep_examples_small(local: Database) -> None:
    await talk(local, "t", *(str(number) for number in range(20)))
    await make_dataset(local, "set", ExampleSelection(threads=("t",), window=3, limit=4), now=NOW)
    examples = await all_of(local)

    assert [len(example.messages) for example in examples] == [1, 3, 3, 3]


async def test_many_examples_keep_their_order(db: Database) -> None:
    examples = [
        Example(id=f"e{number}", messages=(ExampleMessage(role="user", content=str(number)),))
        for number in range(250)
    ]
    await add_examples(db, "set", examples, now=NOW)

    assert [example.id for example in await all_of(db)] == [example.id for example in examples]
    assert (await read_dataset(db, "set")).added == 250


async def test_two_who_add_at_once_lose_nothing(local: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (Example(id=id, messages=(ExampleMessage(role="user", content=id),)) for id in ("a", "b"))
    ensure_dataset = keeping._ensure_dataset
    has_raced = False

    async def late(db: Database, name: str, now: int) -> Dataset:
        nonlocal has_raced
        dataset = await ensure_dataset(db, name, now)
        if not has_raced:
            has_raced = True
            await add_examples(db, name, [other], now=now)
        return dataset

    monkeypatch.setattr(keeping, "_ensure_dataset", late)
    await add_examples(local, "set", [one], now=NOW)

    assert {example.id for example in await all_of(local)} == {"a", "b"}


async def test_data_sets_are_listed_newest_first_and_deleted_whole(db: Database) -> None:
    one = Example(id="a", messages=(ExampleMessage(role="user", content="Hi"),))
    await add_examples(db, "old", [one], now=NOW)
    await add_examples(db, "new", [one], now=NOW + 1)
    names = [dataset.name for dataset in await read_datasets(db)]
    count = await drop_dataset(db, "old")

    assert (names, count) == (["new", "old"], 1)
    assert [dataset.name for dataset in await read_datasets(db)] == ["new"]
    assert [len(await all_of(db, name)) for name in ("old", "new")] == [0, 1]


async def test_a_data_set_that_is_not_there_cannot_be_deleted(local: Database) -> None:
    with pytest.raises(RecordNotFound):
        await drop_dataset(local, "set")


# Files.


async def test_a_data_set_goes_into_a_file_and_comes_back_the_same(db: Database) -> None:
    await talk(db, "t", "Hi", "Hello.", "How are you?", "Fine.")
    await make_dataset(db, "set", ExampleSelection(threads=("t",)), now=NOW)
    lines = [line_of(example) for example in await all_of(db)]
    await add_examples(db, "copy", examples_from(lines), now=NOW)

    assert [line_of(example) for example in await all_of(db, "copy")] == lines


def test_a_line_may_have_an_input_alone() -> None:
    [example] = examples_from([b'{"input": "2+2?", "expected": 4}\n', b"\n"])

    assert (example.question, example.expected, len(example.id)) == ("2+2?", 4, 20)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"expected": 1}',
        b'{"input": 1}',
        b'{"input": "a", "extra": 1}',
        b'{"messages": [{"role": "user"}]}',
        b"\xff",
    ],
)
def test_a_line_that_is_no_example_is_named(line: bytes) -> None:
    with pytest.raises(InvalidArgument, match="Line 2 is no example"):
        list(examples_from([b'{"input": "fine"}', line]))


@pytest.mark.parametrize("id", ["a/b", "x" * 129])
def test_an_id_that_could_be_mistaken_is_refused(id: str) -> None:
    with pytest.raises(InvalidArgument, match="example id has at most 128 bytes and no slash"):
        list(examples_from([json.dumps({"input": "a", "id": id}).encode()]))


# Whose they are.


@pytest.mark.promise("B-07", "F-12")
async def test_the_erasure_of_a_person_removes_what_was_made_of_their_threads(db: Database) -> None:
    await talk(db, "hers", "My secret is harbour", "I see.")
    await talk(db, "his", "Hi", "Hello.", owner="bob")
    await make_dataset(db, "set", ExampleSelection(threads=("hers", "his")), now=NOW)
    before = [example.question for example in await all_of(db)]
    receipt = await db.erase(owner="alice")

    assert before == ["My secret is harbour", "Hi"]
    assert [example.question for example in await all_of(db)] == ["Hi"]
    assert receipt.counts["records of kind example"] == 1


@pytest.mark.promise("B-07")
async def test_the_erasure_of_a_thread_removes_what_was_made_of_it(db: Database) -> None:
    await talk(db, "one", "Hi", "Hello.", owner=None)
    await talk(db, "two", "Bye", "Goodbye.", owner=None)
    await make_dataset(db, "set", ExampleSelection(threads=("one", "two")), now=NOW)
    await db.erase(thread="one")

    assert [example.question for example in await all_of(db)] == ["Bye"]


@pytest.mark.promise("B-07")
async def test_a_person_who_is_erased_while_examples_are_made_leaves_none(
    local: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(local, "hers", "My secret is harbour", "I see.")
    add = keeping.add_examples

    async def late(db: Database, name: str, examples: list[Example], *, now: int) -> keeping.AdditionResult:
        await db.erase(owner="alice")
        return await add(db, name, examples, now=now)

    monkeypatch.setattr(keeping, "add_examples", late)
    await make_dataset(local, "set", ExampleSelection(threads=("hers",)), now=NOW)

    assert await all_of(local) == []


@pytest.mark.promise("B-07")
async def test_the_export_of_a_person_holds_what_was_made_of_their_threads(db: Database) -> None:
    await talk(db, "hers", "My secret is harbour", "I see.")
    await talk(db, "his", "Hi", "Hello.", owner="bob")
    await make_dataset(db, "set", ExampleSelection(threads=("hers", "his")), now=NOW)
    mine = db.scope(tenant=db.tenant, user="alice")
    scope = clew.core.values.Scope(tenant=db.tenant, user="alice")
    kinds = await record_kinds(mine.store, scope, "alice", ())
    lines = [json.loads(line) async for line in export_threads(mine.store, scope, kinds=kinds)]
    examples = [line for line in lines if line.get("kind") == "example"]

    assert len(examples) == 1
    assert "harbour" in json.dumps(examples)


async def test_a_user_sees_and_makes_only_their_own(db: Database) -> None:
    await talk(db, "hers", "My secret is harbour", "I see.")
    await make_dataset(db, "all", ExampleSelection(threads=("hers",)), now=NOW)
    his = db.scope(tenant=db.tenant, user="bob")

    assert await read_datasets(his) == []
    assert await all_of(his, "all") == []
    with pytest.raises(ThreadNotFound):
        await make_dataset(his, "mine", ExampleSelection(threads=("hers",)), now=NOW)


async def test_a_user_cannot_bring_in_what_belongs_to_another(db: Database) -> None:
    his = db.scope(tenant=db.tenant, user="bob")
    hers = Example(id="a", messages=(ExampleMessage(role="user", content="Hi"),), owner="alice")

    with pytest.raises(InvalidArgument):
        await add_examples(his, "mine", [hers], now=NOW)
    assert await db.records.find(RecordQuery(kind="example")) == []
