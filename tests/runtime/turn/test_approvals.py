"""Calls that wait for a person: kept on disk, decided anywhere, and decided once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest

import clew
from clew.core.errors import DecisionRefused, InvalidArgument, TurnBusy, TurnSuspended
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.records.events import RunFinished, TextDelta
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import PassOn, Replay, UseResult
from clew.runtime.state.schema import State, input, per_call, persistent
from clew.runtime.tools.tool import Effect, Suspend, Tool, ToolContext, tool
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.turn.approval_process import DAY, decide_here, letters_in, post_tool, suspend_here
from tests.support.child_process import ChildProcess, run_in_child

ANN, BOB = ("c1", "post", {"to": "Ann"}), ("c2", "post", {"to": "Bob"})
ODD_IDS = ("a.b/c", "'; DROP--", '"quoted"', "\N{SPARKLES} \N{ZERO WIDTH JOINER}", "$run", "0", "x" * 200)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Where what was posted can be seen."""
    return tmp_path / "letters"


@pytest.fixture
def far_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that other processes can open."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database").url)
    return f"sqlite:///{tmp_path / 'far.db'}"


elsewhere = pytest.mark.parametrize(
    "far_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


async def results(db: Database) -> dict[str | None, Any]:
    """What the calls of thread a were answered."""
    return {item.call: item.body["output"] for item in await db.thread("a").items() if item.kind == "result"}


async def open_calls(db: Database) -> Any:
    """What the state of thread a keeps of unresolved calls."""
    return (await db.thread("a").state()).get("$calls", {})


# What waits.


@pytest.mark.promise("T-16")
async def test_a_call_that_needs_approval_waits_and_is_not_run(db: Database, letters: Path) -> None:
    async with Runtime(db, model=ScriptedModel(calls(ANN)), tools=[post_tool(letters)]) as runtime:
        result = await runtime.run_turn("a", "Post it")

    waiting = result.waiting[0]
    assert (result.termination, waiting.call, waiting.tool, waiting.why) == (
        "suspended",
        "c1",
        "post",
        "approval",
    )
    assert (waiting.arguments, letters_in(letters)) == ({"to": "Ann"}, [])


@pytest.mark.promise("T-16")
async def test_approval_may_depend_on_the_arguments(db: Database) -> None:
    payments: list[int] = []

    @tool(approval=lambda arguments: arguments["amount"] > 100)
    async def pay(amount: int = 500) -> str:
        payments.append(amount)
        return f"paid {amount}"

    requests = [("c1", "pay", {"amount": 50}), ("c2", "pay", {}), ("c3", "pay", {"amount": "all"})]
    async with Runtime(db, model=ScriptedModel(calls(*requests)), tools=[pay]) as runtime:
        result = await runtime.run_turn("a", "Pay")

    outputs = await results(db)
    assert ([waiting.call for waiting in result.waiting], payments) == (["c2"], [50])
    assert (outputs["c1"], "do not fit" in outputs["c3"]["error"]) == ("paid 50", True)


@pytest.mark.promise("T-16")
async def test_if_it_cannot_be_told_whether_to_ask_a_person_is_asked(db: Database) -> None:
    @tool(approval=lambda arguments: arguments["nothing"])
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    async with Runtime(db, model=ScriptedModel(calls(("c1", "pay", {"amount": 1}))), tools=[pay]) as runtime:
        result = await runtime.run_turn("a", "Pay")

    assert [waiting.why for waiting in result.waiting] == ["approval"]


async def test_a_run_that_goes_on_can_be_listened_to_with_its_live_text(db: Database, letters: Path) -> None:
    model = ScriptedModel(calls(ANN), ["Po", "sted."])
    async with Runtime(db, model=model, tools=[post_tool(letters)]) as runtime:
        await runtime.run_turn("a", "Post it")
        events = [event async for event in runtime.stream_resume("a", {"c1": Replay()})]

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Po", "sted."]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].termination == "natural"


async def test_a_run_goes_on_if_nobody_listens_any_more(db: Database, letters: Path) -> None:
    model = ScriptedModel(calls(ANN), "Posted.")
    async with Runtime(db, model=model, tools=[post_tool(letters)]) as runtime:
        await runtime.run_turn("a", "Post it")
        async for _ in runtime.stream_resume("a", {"c1": Replay()}):
            break
        while not runtime.is_idle:  # noqa: ASYNC110  # there is no event for the end of all turns
            await asyncio.sleep(0.01)
        items = await db.thread("a").items(last=1)

    assert items[0].body == {"content": "Posted."}


@pytest.mark.promise("T-16")
async def test_a_new_turn_is_refused_while_calls_wait(db: Database, letters: Path) -> None:
    async with Runtime(db, model=ScriptedModel(calls(ANN, BOB)), tools=[post_tool(letters)]) as runtime:
        result = await runtime.run_turn("a", "Post it")
        with pytest.raises(TurnSuspended) as error:
            await runtime.run_turn("a", "And?")
    assert (error.value.run, error.value.calls) == (result.run, ["c1", "c2"])


@pytest.mark.promise("T-16", "B-05")
async def test_a_suspended_run_can_be_cancelled(db: Database, letters: Path) -> None:
    model = ScriptedModel(calls(ANN), "Hello again.")
    async with Runtime(db, model=model, tools=[post_tool(letters)]) as runtime:
        result = await runtime.run_turn("a", "Post it")
        is_cancelled = await runtime.cancel("a")
        with pytest.raises(DecisionRefused):
            await runtime.resume("a", {"c1": Replay()})
        again = await runtime.run_turn("a", "Never mind")

    repairs = [item for item in await db.thread("a").items() if item.kind == "repair"]
    run = await db.records.get("run", result.run)
    assert (is_cancelled, again.text, letters_in(letters)) == (True, "Hello again.", [])
    assert [item.body["calls"] for item in repairs] == [{"c1": result.run}]
    assert (run.body["termination"], run.body.get("in_doubt", [])) == ("cancelled", [])


# The three modes.


@pytest.mark.promise("T-16")
@elsewhere
@pytest.mark.parametrize(
    ("name", "decision", "posts", "output"),
    [
        ("post", Replay(), ["Ann"], "posted to Ann"),
        ("post", UseResult({"declined": True}), [], {"declined": True}),
        ("ask", PassOn("Elm Street"), ["Ann, Elm Street"], "posted to Ann, Elm Street"),
    ],
    ids=["replay", "use the result", "pass it on"],
)
async def test_a_decision_is_taken_days_later_in_another_process(
    far_url: str, letters: Path, name: str, decision: Any, posts: list[str], output: Any
) -> None:
    waiting = await asyncio.to_thread(
        run_in_child, suspend_here, far_url, letters, ("c1", name, {"to": "Ann"})
    )
    text = await asyncio.to_thread(run_in_child, decide_here, far_url, letters, {"c1": decision}, 5)

    async with clew.open(far_url) as db:
        assert (waiting, text) == (["c1"], "natural: Done.")
        assert (letters_in(letters), await results(db), await open_calls(db)) == (posts, {"c1": output}, {})


@pytest.mark.promise("T-16")
async def test_a_tool_may_ask_again_and_again(db: Database) -> None:
    decisions: list[Any] = []

    @tool
    async def survey(context: ToolContext) -> str:
        decisions.append(context.decision)
        if len(decisions) < 3:
            raise Suspend(f"question {len(decisions)}")
        return "thanks"

    async with Runtime(
        db, model=ScriptedModel(calls(("c1", "survey", {})), "Done."), tools=[survey]
    ) as runtime:
        first = await runtime.run_turn("a", "Ask me")
        second = await runtime.resume("a", {"c1": PassOn("one")})
        last = await runtime.resume("a", {"c1": PassOn("two", asked=2)})

    assert [(w.question, w.asked, w.why) for w in (*first.waiting, *second.waiting)] == [
        ("question 1", 1, "input"),
        ("question 2", 2, "input"),
    ]
    assert (decisions, last.text) == ([None, "one", "two"], "Done.")


# Some of the calls, again, otherwise.


@pytest.mark.promise("T-16")
async def test_calls_are_decided_one_by_one_and_the_others_keep_waiting(db: Database, letters: Path) -> None:
    model = ScriptedModel(calls(ANN, BOB), "Done.")
    async with Runtime(db, model=model, tools=[post_tool(letters)]) as runtime:
        await runtime.run_turn("a", "Post both")
        half = await runtime.resume("a", {"c2": Replay()})
        posts = letters_in(letters)
        result = await runtime.resume("a", {"c1": UseResult("no")})

    assert (half.termination, [waiting.call for waiting in half.waiting], posts) == (
        "suspended",
        ["c1"],
        ["Bob"],
    )
    assert (result.text, letters_in(letters), len(model.requests)) == ("Done.", ["Bob"], 2)
    assert await results(db) == {"c1": "no", "c2": "posted to Bob"}


@pytest.mark.promise("T-16")
async def test_a_decision_taken_again_changes_nothing(db: Database, letters: Path) -> None:
    model = ScriptedModel(calls(ANN, BOB), "Done.")
    async with Runtime(db, model=model, tools=[post_tool(letters)]) as runtime:
        await runtime.run_turn("a", "Post both")
        await runtime.resume("a", {"c1": Replay()})
        version = (await db.thread("a").head()).version
        half = await runtime.resume("a", {"c1": Replay()})
        again = await runtime.resume("a")
        version_after = (await db.thread("a").head()).version
        await runtime.resume("a", {"c2": Replay()})
        over = await runtime.resume("a", {"c1": Replay(), "c2": Replay(asked=1)})

    assert version == version_after
    assert half == again
    assert ([waiting.call for waiting in half.waiting], half.termination) == (["c2"], "suspended")
    assert (over.text, over.termination, letters_in(letters)) == ("Done.", "natural", ["Ann", "Bob"])


@pytest.mark.promise("T-16")
@pytest.mark.parametrize(
    ("call", "decision", "problem"),
    [
        ("c9", Replay(), "no such call waits"),
        ("c1", UseResult("no"), "it was decided otherwise before"),
        ("c2", "yes", "'yes' is no decision"),
        ("c2", UseResult(float("nan")), "it is not JSON"),
        ("c2", PassOn(object()), "it is not JSON"),
        ("c2", Replay(asked=2), "it answers question 2, and question 1 waits"),
    ],
)
async def test_a_decision_that_cannot_be_taken_is_refused_and_nothing_is_run(
    db: Database, letters: Path, call: str, decision: Any, problem: str
) -> None:
    async with Runtime(db, model=ScriptedModel(calls(ANN, BOB)), tools=[post_tool(letters)]) as runtime:
        await runtime.run_turn("a", "Post both")
        await runtime.resume("a", {"c1": Replay()})
        version = (await db.thread("a").head()).version
        with pytest.raises(DecisionRefused) as error:
            await runtime.resume("a", {call: decision})
    assert error.value.call == call
    assert error.value.problem.startswith(problem)
    assert ((await db.thread("a").head()).version, letters_in(letters)) == (version, ["Ann"])


@pytest.mark.promise("T-16")
async def test_an_answer_to_an_earlier_question_is_not_taken_for_a_later_one(db: Database) -> None:
    decisions: list[Any] = []

    @tool
    async def survey(context: ToolContext) -> str:
        decisions.append(context.decision)
        raise Suspend("and now?")

    async with Runtime(db, model=ScriptedModel(calls(("c1", "survey", {}))), tools=[survey]) as runtime:
        await runtime.run_turn("a", "Ask me")
        await runtime.resume("a", {"c1": PassOn("yes")})
        with pytest.raises(DecisionRefused) as error:
            await runtime.resume("a", {"c1": PassOn("yes")})
    assert (error.value.problem.startswith("question 2 about it waits"), decisions) == (True, [None, "yes"])


@pytest.mark.promise("T-16")
async def test_where_nothing_waits_nothing_is_resumed(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("Hello.")) as runtime:
        await runtime.run_turn("a", "Hi")
        with pytest.raises(DecisionRefused):
            await runtime.resume("a", {"c1": Replay()})
        with pytest.raises(InvalidArgument):
            await runtime.resume("a")


@pytest.mark.promise("T-16")
@pytest.mark.parametrize(
    ("decision", "output"),
    [
        (UseResult("by hand"), "by hand"),
        (Replay(), {"error": "There is no tool 'post'. Known: none."}),
    ],
)
async def test_a_decision_outlives_its_tool(db: Database, letters: Path, decision: Any, output: Any) -> None:
    async with Runtime(db, model=ScriptedModel(calls(ANN, BOB)), tools=[post_tool(letters)]) as runtime:
        await runtime.run_turn("a", "Post it")
    async with Runtime(db, model=ScriptedModel("Done.")) as later:
        half = await later.resume("a", {"c1": decision})
        result = await later.resume("a", {"c2": UseResult("no")})

    assert ([waiting.call for waiting in half.waiting], result.text) == (["c2"], "Done.")
    assert (await results(db))["c1"] == output


@pytest.mark.promise("T-16")
@elsewhere
async def test_of_two_processes_that_decide_at_once_one_wins_and_the_tool_runs_once(
    far_url: str, letters: Path
) -> None:
    await asyncio.to_thread(run_in_child, suspend_here, far_url, letters, ANN)
    both = [ChildProcess(decide_here, far_url, letters, {"c1": Replay()}) for _ in range(2)]
    texts = [await asyncio.to_thread(process.result) for process in both]

    assert "natural: Done." in texts
    assert set(texts) <= {"natural: Done.", "turn_busy"}
    assert letters_in(letters) == ["Ann"]


@pytest.mark.promise("T-16")
async def test_while_a_decision_is_carried_out_another_is_told_to_wait(db: Database) -> None:
    start, end = asyncio.Event(), asyncio.Event()
    call_log: list[str] = []

    @tool(approval=True)
    async def post() -> str:
        call_log.append("post")
        start.set()
        await end.wait()
        return "posted"

    async with Runtime(db, model=ScriptedModel(calls(("c1", "post", {})), "Done."), tools=[post]) as runtime:
        await runtime.run_turn("a", "Post it")
        first = asyncio.create_task(runtime.resume("a", {"c1": Replay()}))
        await start.wait()
        with pytest.raises(TurnBusy):
            await runtime.resume("a", {"c1": UseResult("no")})
        end.set()
        assert ((await first).text, call_log) == ("Done.", ["post"])


# What goes with a call.


class Forms(State):
    """A state with a field that belongs to one tool call."""

    message: Annotated[str, input]
    history: Annotated[clew.StateLog[Message], clew.append]
    draft: Annotated[dict[str, Any], clew.merge, per_call]
    done: Annotated[int, persistent] = 0
    reply: str = ""


def form_tool(views: list[Any]) -> Tool:
    """A tool that keeps what it was told until it has all of it."""

    @tool(effect=Effect.NONE)
    async def fill(name: str, context: ToolContext) -> str:
        assert isinstance(context.state, Forms)
        views.append((name, context.state.draft))
        if context.decision is None:
            raise Suspend("and then?", delta={"draft": {"name": name}})
        return f"{context.state.draft['name']} {context.decision}"

    return fill


@pytest.mark.promise("T-12", "T-16")
@pytest.mark.parametrize("call", ODD_IDS)
async def test_state_of_a_call_is_kept_under_its_id_and_goes_with_it(db: Database, call: str) -> None:
    views: list[Any] = []
    model = ScriptedModel(calls((call, "fill", {"name": "Ann"})), "Done.")
    async with Runtime(db, schema=Forms, model=model, tools=[form_tool(views)]) as runtime:
        await runtime.run_turn("a", "Fill it")
        kept_for_call = (await open_calls(db))[call]["fields"]
        before = await runtime.state("a")
        await runtime.resume("a", {call: PassOn("Lee")})

    assert isinstance(before, Forms)
    assert (kept_for_call, before.draft) == ({"draft": {"name": "Ann"}}, {})
    assert views == [("Ann", {}), ("Ann", {"name": "Ann"})]
    assert (await results(db), await open_calls(db)) == ({call: "Ann Lee"}, {})


@pytest.mark.promise("T-12", "T-18")
async def test_calls_do_not_see_each_others_state(db: Database) -> None:
    views: list[Any] = []
    requests = [("c.1", "fill", {"name": "Ann"}), ("c", "fill", {"name": "Bob"})]
    async with Runtime(
        db, schema=Forms, model=ScriptedModel(calls(*requests), "Done."), tools=[form_tool(views)]
    ) as runtime:
        await runtime.run_turn("a", "Fill both")
        await runtime.resume("a", {"c.1": PassOn("Lee"), "c": PassOn("Ray")})

    assert sorted(views[2:]) == [("Ann", {"name": "Ann"}), ("Bob", {"name": "Bob"})]


@pytest.mark.promise("T-16")
async def test_the_clock_may_have_gone_on_for_days(db: Database, letters: Path) -> None:
    time = [1_000]
    model = ScriptedModel(calls(ANN), "Done.")
    async with Runtime(
        db, model=model, tools=[post_tool(letters)], config=RuntimeConfig(clock=lambda: time[0])
    ) as runtime:
        await runtime.run_turn("a", "Post it")
        time[0] += 30 * DAY
        result = await runtime.resume("a", {"c1": Replay()})

    assert (result.text, letters_in(letters)) == ("Done.", ["Ann"])
