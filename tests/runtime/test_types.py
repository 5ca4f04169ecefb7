"""What a type checker knows of a runtime; mypy reads this file, and a test runs it."""

from __future__ import annotations

from typing import Annotated, Any, assert_type

import msgspec
import pytest

import clew
from clew.database.database import Database
from clew.runtime import Conversation, TurnResult


class Diary(clew.State):
    message: Annotated[str, clew.input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    notes: Annotated[clew.StateLog[int], clew.append]
    progress: Annotated[dict[str, int], clew.merge]
    reply: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What a caller sees."""

    reply: str
    progress: dict[str, int]


async def answer(state: Diary, ctx: clew.Context) -> clew.Delta:
    assert_type(state.message, str)
    assert_type(state.progress, dict[str, int])
    assert_type((await state.history.tail(1))[0].content, Any)
    return {"reply": (await state.history.tail(1))[0].text, "notes": [1, 2]}


@pytest.mark.promise("A-11")
async def test_the_types_of_state_and_output_are_known(db: Database) -> None:
    async with clew.Runtime(db, schema=Diary, stages=[answer], output=Answer) as runtime:
        assert_type(runtime, clew.Runtime[Diary, Answer])
        result = assert_type(await runtime.run_turn("a", "Hi"), TurnResult[Answer])
        state = assert_type(await runtime.state("a"), Diary)
        notes = [note + 1 for note in await state.notes.all()]

    assert (result.output.reply, result.output.progress, notes) == ("Hi", {}, [2, 3])


async def test_a_runtime_without_types_of_its_own_has_a_conversation(db: Database) -> None:
    async with clew.Runtime(db, stages=[]) as runtime:
        assert_type(runtime, clew.Runtime[Conversation, dict[str, Any]])
        result = await runtime.run_turn("a", "Hi")
        state = assert_type(await runtime.state("a"), Conversation)

    assert (result.output, len(state.history)) == ({"reply": ""}, 1)


async def test_the_stateless_call_knows_its_output_too() -> None:
    result = assert_type(
        await clew.run_agent("Hi", schema=Diary, stages=[answer], output=Answer), TurnResult[Answer]
    )

    assert result.output == Answer("Hi", {})
