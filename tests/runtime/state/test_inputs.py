"""The inputs of a turn: what its stages see of the thread and the user, whoever calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

import clew
from clew.core.errors import StateInvalid
from clew.database.database import Database
from clew.runtime.context import Context, MemoryMode
from clew.runtime.execution.safe_reply import gate
from clew.runtime.execution.stateless import run_agent
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.utterances import Utterance
from clew.runtime.state.call_state import Replay
from clew.runtime.state.schema import State, input
from clew.testing.scripted_model import ScriptedModel, calls

pytestmark = pytest.mark.promise("A-03", "R-17")


class Named(State):
    """A state whose stages see where they are."""

    message: Annotated[str, input]
    session_id: Annotated[str | None, input] = None
    user_id: Annotated[str | None, input] = None
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    reply: str = ""


class Witness:
    """A stage that notes the ids that it sees."""

    def __init__(self) -> None:
        self.ids: list[tuple[str | None, str | None]] = []

    async def look(self, state: Named, ctx: Context) -> None:
        self.ids.append((state.session_id, state.user_id))

    def runtime(self, db: Database) -> Runtime[Named, None]:
        return Runtime(db, schema=Named, stages=[self.look])


@pytest.mark.parametrize(
    "turn_input", ["Hi", {"message": "Hi", "session_id": "s1", "user_id": "alice"}], ids=str
)
async def test_stages_see_the_thread_and_the_user_of_their_turn(db: Database, turn_input: Any) -> None:
    witness = Witness()
    async with witness.runtime(db) as runtime:
        await runtime.run_turn("s1", turn_input, user="alice")
        [_ async for _ in runtime.stream_turn("s1", turn_input, user="alice")]

    assert witness.ids == [("s1", "alice")] * 2


async def test_without_a_user_stages_see_none(db: Database) -> None:
    witness = Witness()
    async with witness.runtime(db) as runtime:
        await runtime.run_turn("s1", "Hi")
        await runtime.run_turn("s2", "Hi", mode=MemoryMode.INCOGNITO)

    assert witness.ids == [("s1", None), ("s2", None)]


async def test_a_run_that_is_resumed_sees_the_same_ids(db: Database) -> None:
    witness = Witness()

    @clew.tool(approval=True)
    async def post(to: str) -> str:
        """Post a letter."""
        return to

    stages = [respond(tools=[post]), witness.look]
    model = ScriptedModel(calls(("c1", "post", {"to": "Ann"})), "Posted.")
    async with Runtime(db, schema=Named, stages=stages, model=model) as runtime:
        await runtime.run_turn("s1", "Write to Ann", user="alice")
        await runtime.resume("s1", {"c1": Replay()}, user="alice")

    assert witness.ids == [("s1", "alice")]


async def test_the_gate_of_a_call_sees_the_ids_of_its_thread(db: Database) -> None:
    witness = Witness()
    runtime = Runtime(db, schema=Named, stages=[gate(witness_stage(witness))])
    await runtime.judge_utterance(Utterance(thread="s1", id="u1", text="Hello", user="alice"))

    assert witness.ids == [("s1", "alice")]


def witness_stage(witness: Witness) -> Any:
    async def look(state: Named, ctx: Context) -> None:
        await witness.look(state, ctx)

    return look


@pytest.mark.parametrize(
    ("inputs", "field", "problem"),
    [
        ({"session_id": "s2"}, "session_id", "it is 's2', and the thread of the turn is 's1'"),
        ({"user_id": "eve"}, "user_id", "it is 'eve', and the user of the turn is 'alice'"),
    ],
    ids=["thread", "user"],
)
async def test_an_id_of_something_else_is_refused_and_nothing_begins(
    db: Database, inputs: dict[str, str], field: str, problem: str
) -> None:
    async with Witness().runtime(db) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("s1", {"message": "Hi", **inputs}, user="alice")

    assert (error.value.field, error.value.code) == (field, "state_invalid")
    assert problem in str(error.value)
    assert (await db.threads()).threads == ()


async def test_a_user_id_without_a_user_is_refused(db: Database) -> None:
    async with Witness().runtime(db) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("s1", {"message": "Hi", "user_id": "alice"})

    assert "the user of the turn is None" in str(error.value)


async def test_a_turn_that_stores_nothing_has_the_ids_that_it_is_given() -> None:
    witness = Witness()
    await run_agent({"message": "Hi", "session_id": "s1"}, schema=Named, stages=[witness.look])

    assert witness.ids == [("s1", None)]


def check_even(number: int) -> None:
    """Refuse an odd number."""
    if number % 2:
        raise ValueError(f"{number} is odd")


class Picky(State):
    """A state with inputs that take only some values."""

    message: Annotated[str, input]
    number: Annotated[int, input, check_even] = 0
    tone: Annotated[Literal["kind", "plain"], input] = "kind"
    mood: Annotated[Literal["calm", "glad"] | None, input] = None


@pytest.mark.promise("A-01", "B-20")
@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"number": 3}, "3 is odd"),
        ({"tone": "loud"}, "Invalid enum value 'loud'. Use one of: kind, plain"),
        ({"mood": "wild"}, "Invalid enum value 'wild'. Use one of: calm, glad"),
    ],
    ids=["check", "choice", "choice or none"],
)
async def test_an_input_is_refused_in_words_before_the_turn_begins(
    db: Database, inputs: dict[str, Any], problem: str
) -> None:
    async with Runtime(db, schema=Picky, stages=[]) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("s1", {"message": "Hi", **inputs})
        await runtime.run_turn("s2", {"message": "Hi", "number": 4, "tone": "plain", "mood": "calm"})

    assert error.value.problem == problem
    assert [thread.id for thread in (await db.threads()).threads] == ["s2"]
