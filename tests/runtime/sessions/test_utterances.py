"""Utterances judged before they are answered, and tools of a call: what is logged, kept, and made once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated

import pytest

import clew
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.errors import InvalidId, ModelFailed, StoreDamaged, StoreUnavailable
from clew.core.values import Record, RecordQuery
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.safe_reply import gate
from clew.runtime.model.protocol import ToolCall
from clew.runtime.records.episodes import active_episode
from clew.runtime.runtime import Runtime
from clew.runtime.sessions import voice_tools
from clew.runtime.sessions.utterances import VERDICT, GateSettings, GateVerdict, Utterance, judged_record
from clew.runtime.sessions.voice_tools import AT_WORK, VOICE_CALL, call_tool
from clew.runtime.state.schema import State, input
from clew.runtime.tools.tool import Effect, NotHappened, Suspend, Tool, ToolContext, ToolOutcome, tool
from clew.runtime.turn.draft import Delta

pytestmark = pytest.mark.promise("R-21")


class Noting(State):
    """A state that a gate and a tool can note something in."""

    message: Annotated[str, input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    seen: Annotated[dict[str, int], clew.merge]


@pytest.fixture
async def db() -> AsyncIterator[Database]:
    """A database in memory: nothing here depends on the store."""
    async with clew.open("memory://") as database:
        yield database


@gate
async def judge(state: Noting, ctx: Context) -> Delta:
    """A gate that finds a level in the number of exclamation marks, and says words from two on."""
    texts = [message.text for message in await state.history.tail(10) if message.role == "user"]
    level = min(3, sum(text.count("!") for text in texts))
    if level:
        ctx.turn.record("incident", {"marks": level}, level=level, keep_days=90)
    if level > 1:
        ctx.turn.set_safe_reply("Please call somebody.")
    return {"seen": {"level": level, "before": len(texts) - 1}}


def judge_with(
    db: Database, *stages: object, keeps: tuple[str, ...] = ()
) -> Callable[..., asyncio.Future[GateVerdict]]:
    """A way to have utterances judged by some stages."""
    runtime: Runtime[Noting, None] = Runtime(db, schema=Noting, stages=[])
    how = GateSettings(stages=stages or (judge,), fields=keeps)  # type: ignore[arg-type]  # stages of this state

    def hear(
        text: str, *, id: str = "u1", user: str | None = "ada", late: object = False
    ) -> asyncio.Future[GateVerdict]:
        utterance = Utterance(thread="t", id=id, text=text, user=user, late=bool(late))
        return asyncio.ensure_future(runtime.judge_utterance(utterance, gates=how))

    return hear


async def begin(db: Database) -> None:
    """A thread in which something was said."""
    runtime: Runtime[Noting, None] = Runtime(db, schema=Noting, stages=[])
    await runtime.record_voice_turn("t", text="First!", reply="Mm.", user="ada")


async def rows(db: Database) -> list[Record]:
    """What the gates recorded."""
    return list(await db.records.find(RecordQuery(kind=RETAINED_KIND)))


@pytest.mark.promise("R-22")
async def test_a_row_says_whose_it_is_and_which_episode_it_is_of(db: Database) -> None:
    await begin(db)
    await judge_with(db)("Second!")
    (row,) = await rows(db)
    episode = await active_episode(db, "t")

    assert episode is not None
    assert (row.owner, row.body["episode"], row.body["thread"]) == ("ada", episode.id, "t")


async def test_what_was_said_before_is_judged_with_it(db: Database) -> None:
    await begin(db)
    judgement = await judge_with(db)("Second!")

    assert (judgement.level, judgement.say) == (2, "Please call somebody.")


class Journaling(State):
    """A state with a second log."""

    message: Annotated[str, input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    notes: Annotated[clew.StateLog[str], clew.append]


async def test_a_gate_reads_other_logs_than_the_history_whole(db: Database) -> None:
    notes_seen: list[tuple[int, list[str]]] = []

    async def note(state: Journaling, ctx: Context) -> Delta:
        return {"notes": ["one", "two", "three"]}

    async def read_notes(state: Journaling, ctx: Context) -> Delta:
        notes_seen.append((len(state.notes), [*await state.notes.tail(2)]))
        return {}

    runtime: Runtime[Journaling, None] = Runtime(db, schema=Journaling, stages=[note])
    await runtime.run_turn("t", "Hi", user="ada")
    utterance = Utterance(thread="t", id="u1", text="Hello", user="ada")
    await runtime.judge_utterance(utterance, gates=GateSettings(stages=(read_notes,)))

    assert notes_seen == [(3, ["two", "three"])]


async def test_what_a_gate_remembers_is_kept_if_it_is_asked_for_and_only_if_it_changed(db: Database) -> None:
    await begin(db)
    hear = judge_with(db, keeps=("seen",))
    await hear("Second!", id="u1")
    first = await db.thread("t").head()
    await hear("Second!", id="u2")
    second = await db.thread("t").head()

    assert first.state["seen"] == {"level": 2, "before": 1}
    assert second.version == first.version


async def test_a_gate_sees_the_thread_as_it_stands(db: Database) -> None:
    states: list[dict[str, int]] = []

    @gate
    async def look(state: Noting, ctx: Context) -> Delta:
        states.append(dict(state.seen))
        return {}

    await begin(db)
    await judge_with(db, keeps=("seen",))("Second!")
    await judge_with(db, look)("Third")

    assert states == [{"level": 2, "before": 1}]


async def test_of_several_findings_the_worst_counts(db: Database) -> None:
    @gate
    async def mild(state: Noting, ctx: Context) -> Delta:
        ctx.turn.record("incident", {}, level=1, keep_days=90)
        return {}

    judgements = [await judge_with(db, mild, judge)("Help!!!") for _ in range(2)]

    assert [each.level for each in judgements] == [3, 3]


@pytest.mark.promise("R-22")
async def test_a_gate_that_fails_after_its_words_withholds_nothing(db: Database) -> None:
    @gate
    async def fails(state: Noting, ctx: Context) -> Delta:
        raise ModelFailed(model="judge", problem="it is gone")

    judgement = await judge_with(db, judge, fails)("Help!!!")

    assert judgement.say == "Please call somebody."
    assert [row.body["level"] for row in await rows(db)] == [3]


async def test_a_gate_that_fails_without_words_is_told_and_releases_nothing(db: Database) -> None:
    @gate
    async def fails(state: Noting, ctx: Context) -> Delta:
        raise ModelFailed(model="judge", problem="it is gone")

    with pytest.raises(ModelFailed):
        await judge_with(db, fails)("Hello")


@gate
async def ask_once(state: Noting, ctx: Context) -> Delta:
    """A gate that says words the first time, and notes that it did."""
    if not state.seen:
        ctx.turn.set_safe_reply("May I ask?")
    return {"seen": {"asked": 1}}


@pytest.mark.promise("R-22")
async def test_the_same_words_under_the_same_id_again_are_answered_alike(db: Database) -> None:
    await begin(db)
    hear = judge_with(db, ask_once, keeps=("seen",))
    replies = [(await hear("Well", id=id)).say for id in ("u1", "u1", "u2", "u2")]

    assert replies == ["May I ask?", "May I ask?", "", ""]


@pytest.mark.promise("R-22")
async def test_other_words_under_an_id_that_was_heard_are_judged(db: Database) -> None:
    await judge_with(db)("Hello")

    assert (await judge_with(db)("Help!!!")).level == 3


async def test_a_record_of_what_was_heard_that_cannot_be_read_withholds_no_judgement(db: Database) -> None:
    await judge_with(db)("Help!!!")
    (row,) = await db.records.find(RecordQuery(kind=VERDICT))
    await db.records.put(Record(kind=VERDICT, id=row.id, body={"no": "words"}, owner=row.owner))

    assert (await judge_with(db)("Help!!!")).level == 3


@pytest.mark.promise("R-22")
async def test_what_was_judged_is_recorded_again_with_its_turn_under_one_id(db: Database) -> None:
    await judge_with(db)("Help!!!", late=True)
    (before,) = await rows(db)
    record = await judged_record(db, "t", "u1")
    assert record is not None
    runtime: Runtime[Noting, None] = Runtime(db, schema=Noting, stages=[])
    await runtime.record_voice_turn("t", text="Help!!!", records=[record], user="ada", key="u1")
    (after,) = await rows(db)
    episode = await active_episode(db, "t")

    assert episode is not None
    assert (after.id, after.tags, after.owner) == (before.id, before.tags, before.owner)
    assert (after.body["marks"], after.body["late"], after.body["level"]) == (3, True, 3)
    assert (before.body["episode"], after.body["episode"]) == (None, episode.id)
    assert after.sort - after.body["time"] == before.sort - before.body["time"]


async def test_one_id_in_two_threads_is_two_utterances(db: Database) -> None:
    await judge_with(db)("Help!!!")

    assert (await judged_record(db, "t", "u1")) is not None
    assert (await judged_record(db, "other", "u1")) is None


@pytest.mark.promise("R-22")
async def test_a_store_that_fails_at_any_point_withholds_no_words(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*args: object, **options: object) -> None:
        raise StoreUnavailable(problem="it is down")

    await begin(db)
    replies = []
    for where, name in ((clew.Thread, "head"), (clew.Thread, "append"), (Database, "commit")):
        with monkeypatch.context() as patches:
            patches.setattr(where, name, fails)
            replies.append((await judge_with(db, keeps=("seen",))("Help!!!", id=name)).say)
    monkeypatch.setattr(type(db.records), "get", fails)

    assert replies == ["Please call somebody."] * 3
    assert await judged_record(db, "t", "u1") is None


async def test_no_thread_is_no_conversation(db: Database) -> None:
    async with Runtime(db) as runtime:
        with pytest.raises(InvalidId):
            await runtime.judge_utterance(Utterance(thread="", id="u", text="Hi"))


# Tools.


async def call_voice_tool(
    db: Database, tools: list[Tool], name: str, *, id: str = "c1", thread: str = "t"
) -> object:
    runtime: Runtime[Noting, None] = Runtime(db, schema=Noting, stages=[])
    call = ToolCall(id=id, name=name, arguments={})
    return await call_tool(db, tools, runtime.schema, thread, call, user="ada")


async def test_a_tool_knows_for_whom_and_where_it_is_called_and_its_row_says_so(db: Database) -> None:
    @tool(effect=Effect.NONE)
    async def who(call: ToolContext) -> list[str | None]:
        """Who."""
        return [call.user, call.thread, call.call]

    outputs = await call_voice_tool(db, [who], "who")
    (row,) = await db.records.find(RecordQuery(kind=VOICE_CALL, tags=("thread:t",)))

    assert outputs == ["ada", "t", "c1"]
    assert (row.owner, row.body["status"]) == ("ada", "done")


async def test_one_id_in_two_threads_is_two_calls(db: Database) -> None:
    threads: list[str] = []

    @tool
    async def pay(call: ToolContext) -> int:
        """Pay."""
        threads.append(call.thread)
        return len(threads)

    outputs = [await call_voice_tool(db, [pay], "pay", thread=thread) for thread in ("a", "b", "a")]

    assert (outputs, threads) == ([1, 2, 1], ["a", "b"])


async def test_of_two_at_once_one_is_made(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    payments = []

    async def nothing(*args: object) -> None:
        """What both of them see before either has begun."""

    @tool(effect=Effect.NONE)
    async def pay() -> str:
        """Pay."""
        payments.append(1)
        return "paid"

    monkeypatch.setattr(voice_tools, "_earlier_record", nothing)
    outputs = [await call_voice_tool(db, [pay], "pay") for _ in range(2)]

    assert outputs == ["paid", {"error": AT_WORK}]
    assert payments == [1]


@pytest.mark.promise("B-04")
@pytest.mark.parametrize(("is_done", "times"), [(True, 0), (False, 1)])
async def test_a_call_in_doubt_is_looked_for_before_it_is_made_again(
    db: Database, is_done: object, times: int
) -> None:
    payments, lookups = [], []

    async def check(call: ToolContext) -> object:
        lookups.append(call.key)
        return "found" if is_done else NotHappened()

    @tool(effect=Effect.CHECKABLE, check=check)
    async def pay() -> str:
        """Pay."""
        payments.append(1)
        if len(lookups) == 0:
            raise asyncio.CancelledError  # as a process that ends in the middle of it
        return "paid"

    with pytest.raises(asyncio.CancelledError):
        await call_voice_tool(db, [pay], "pay")
    outputs = [await call_voice_tool(db, [pay], "pay") for _ in range(2)]

    assert outputs == ["found" if is_done else "paid"] * 2
    assert (len(lookups), len(payments)) == (1, 1 + times)


@pytest.mark.promise("B-04")
async def test_a_call_whose_check_fails_stays_in_doubt(db: Database) -> None:
    payments = []

    async def check(call: ToolContext) -> object:
        raise ValueError("the bank is closed")

    @tool(effect=Effect.CHECKABLE, check=check)
    async def pay() -> str:
        """Pay."""
        payments.append(1)
        raise asyncio.CancelledError  # as a process that ends in the middle of it

    with pytest.raises(asyncio.CancelledError):
        await call_voice_tool(db, [pay], "pay")
    output = await call_voice_tool(db, [pay], "pay")

    assert output == {"error": voice_tools.IN_DOUBT}
    assert payments == [1]


async def test_what_a_tool_changes_of_the_state_is_kept_and_seen_by_the_next(db: Database) -> None:
    @tool(effect=Effect.NONE)
    async def cheer(call: ToolContext) -> ToolOutcome:
        """Cheer."""
        return ToolOutcome(output=dict(getattr(call.state, "seen", {})), delta={"seen": {"cheers": 1}})

    await begin(db)
    outputs = [await call_voice_tool(db, [cheer], "cheer", id=id) for id in ("c1", "c2")]

    assert outputs == [{}, {"cheers": 1}]
    assert (await db.thread("t").head()).state["seen"] == {"cheers": 1}


async def test_a_tool_that_asks_a_person_or_takes_too_long_is_told(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(effect=Effect.NONE)
    async def ask() -> str:
        """Ask."""
        raise Suspend("Which one?")

    @tool(effect=Effect.NONE)
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(voice_tools, "SECONDS", 0.01)
    question, timeout = (
        await call_voice_tool(db, [ask], "ask"),
        await call_voice_tool(db, [wait], "wait", id="c2"),
    )

    assert question == {"error": "A person has to answer first: Which one?"}
    assert timeout == {"error": "It took longer than 0.01 s."}


async def test_a_row_that_is_damaged_is_told_and_nothing_is_made_again(db: Database) -> None:
    payments = []

    @tool
    async def pay() -> str:
        """Pay."""
        payments.append(1)
        return "paid"

    await call_voice_tool(db, [pay], "pay")
    (row,) = await db.records.find(RecordQuery(kind=VOICE_CALL))
    await db.records.put(Record(kind=VOICE_CALL, id=row.id, body={"no": "call"}, owner=row.owner))

    with pytest.raises(StoreDamaged):
        await call_voice_tool(db, [pay], "pay")
    assert payments == [1]
