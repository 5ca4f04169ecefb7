"""The agent: it works on documents that are not in its prompt, and goes on after whatever happens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.errors import InvalidArgument, ManifestConflict, ModelFailed
from clew.core.values import RecordQuery
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.events import Event, TextDelta
from clew.runtime.state.call_state import UseResult
from clew.runtime.tools.effects import external_effects
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.agent.agent import WorkbenchAgent, WorkResult
from clew.workbench.agent.tools import LOST_RUN_NOTE, CodeRunner, finish_answer
from clew.workbench.interpreter.port import Output, OverflowOutput, StreamOutput
from clew.workbench.session.attachment import read_snapshots
from clew.workbench.session.session import Workbench
from clew.workbench.volume.volume import Volume
from tests.workbench.in_process_interpreters import InProcesses

LONG = (
    "\n".join(f"Line {number}: nothing of note." for number in range(5_000)) + "\nThe key is under the mat."
)


def bench_of(db: clew.Database, tmp_path: Path, interpreters: InProcesses, **options: Any) -> Workbench:
    volume = Volume(tmp_path / "volume", db.tenant, "alice")
    return Workbench(db, volume, interpreters, user="alice", scratch=tmp_path / "scratch", **options)


Working = Callable[..., Any]


def agent_on(db: clew.Database, tmp_path: Path) -> Working:
    """Opens a session with an agent that plays a script."""

    @asynccontextmanager
    async def open_agent(
        *script: Any, **options: Any
    ) -> AsyncIterator[tuple[WorkbenchAgent, Workbench, ScriptedModel]]:
        model = ScriptedModel(*script)
        async with bench_of(db, tmp_path, InProcesses()) as bench:
            await bench.open("s")
            async with WorkbenchAgent(bench, model, **options) as agent:
                yield agent, bench, model

    return open_agent


@pytest.fixture
def everywhere(db: clew.Database, tmp_path: Path) -> Working:
    """A session on each store."""
    return agent_on(db, tmp_path)


@pytest.fixture
async def here() -> AsyncIterator[clew.Database]:
    async with clew.open("memory://") as db:
        yield db


@pytest.fixture
def open_agent(here: clew.Database, tmp_path: Path) -> Working:
    """A session in memory, for what no store has a part in."""
    return agent_on(here, tmp_path)


def prompt_of(request: ModelRequest) -> str:
    """All that a model was told, as one text."""
    return request.instructions + "".join(str(message.content) for message in request.messages)


async def results(db: clew.Database, session: str = "s") -> list[Any]:
    items = await db.thread(session).items()
    return [item.body["output"] for item in items if item.kind == "result"]


# Code.


@pytest.mark.promise("F-06")
async def test_code_keeps_its_variables_from_call_to_call(db: clew.Database, everywhere: Working) -> None:
    script = [
        calls(("c1", "run_python", {"code": "x = 20"})),
        calls(("c2", "run_python", {"code": "print(x + 1)\nx * 2"})),
        "It is 40.",
    ]
    async with everywhere(*script) as (agent, _, _):
        result: WorkResult = await agent.work("Double it.")

    assert (result.text, result.termination) == ("It is 40.", "natural")
    assert await results(db) == ["(no output)", "21\n40"]


async def test_an_error_of_the_code_is_told(here: clew.Database, open_agent: Working) -> None:
    async with open_agent(calls(("c1", "run_python", {"code": "1 / 0"})), "It cannot be done.") as (
        agent,
        _,
        _,
    ):
        await agent.work("Divide.")

    assert "ZeroDivisionError" in (await results(here))[0]


async def test_long_output_is_cut_in_the_middle_and_that_is_said(
    here: clew.Database, open_agent: Working
) -> None:
    code = "print('a' * 5000 + 'b' * 5000 + 'c' * 5000)"
    async with open_agent(calls(("c1", "run_python", {"code": code})), "Done.") as (agent, _, _):
        await agent.work("Print.")

    output = (await results(here))[0]
    assert output.startswith("a" * 4000)
    assert output.endswith("c" * 4000)
    assert "[… 7000 characters left out …]" in output


async def test_events_and_outputs_are_told_as_they_come(open_agent: Working) -> None:
    events: list[Event | Output] = []
    script = [calls(("c1", "run_python", {"code": "print('hello')"})), "Said hello."]
    async with open_agent(*script, notify=events.append) as (agent, _, _):
        await agent.work("Greet.")

    assert StreamOutput(stream="stdout", text="hello\n") in events
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Said hello."


async def test_an_interpreter_that_dies_in_a_turn_is_replaced_and_the_agent_is_told(
    db: clew.Database, everywhere: Working
) -> None:
    script = [
        calls(("c1", "run_python", {"code": "x = 1\ndie()"})),
        calls(("c2", "run_python", {"code": "x"})),
        "It was lost.",
    ]
    async with everywhere(*script) as (agent, _, model):
        await agent.work("Try.")

    first, second = await results(db)
    assert "with all variables" in first
    assert second.startswith("[The interpreter had ended and was started anew.")
    assert "NameError" in second
    assert "The Python interpreter is a new one" in prompt_of(model.requests[-1])


# Documents.


@pytest.mark.promise("F-05")
async def test_a_document_is_worked_on_without_being_in_the_prompt(open_agent: Working) -> None:
    find = "import re\nprint(re.findall('The key.*', documents['house.txt']))"
    script = [calls(("c1", "run_python", {"code": find})), "Under the mat."]
    async with open_agent(*script) as (agent, bench, model):
        await bench.attachment.documents.add("house.txt", LONG.encode())
        result = await agent.work("Where is the key?")

    assert result.text == "Under the mat."
    assert f"'house.txt': {len(LONG)} characters" in model.requests[0].instructions
    assert "Line 17:" not in "".join(prompt_of(request) for request in model.requests)
    assert "The key is under the mat." in prompt_of(model.requests[1])


async def test_documents_are_there_again_in_a_new_interpreter(everywhere: Working, db: clew.Database) -> None:
    async with everywhere() as (_, bench, _):
        await bench.attachment.documents.add("house.txt", LONG.encode())

    async with everywhere(
        calls(("c1", "run_python", {"code": "len(documents['house.txt'])"})), "So long."
    ) as (
        agent,
        _,
        _,
    ):
        await agent.work("How long is it?")

    assert await results(db) == [str(len(LONG))]


async def test_a_document_that_is_not_what_it_was_is_said_and_not_loaded(
    open_agent: Working, here: clew.Database
) -> None:
    async with open_agent() as (_, bench, _):
        document = await bench.attachment.documents.add("house.txt", LONG.encode())
        bench.volume.write(document.path, b"Something else.")
        opening = await bench.open("s", force_new_session=True)

    assert opening.problems[document.path].startswith("volume_file_changed")


# Artifacts.


async def test_a_picture_that_code_shows_is_kept(here: clew.Database, open_agent: Working) -> None:
    code = "bytes([137, 80, 78, 71, 13, 10, 26, 10])"
    async with open_agent(calls(("c1", "run_python", {"code": code})), "Drawn.") as (agent, bench, _):
        result = await agent.work("Draw.")
        page = await bench.attachment.artifacts.list()

    artifact = page.artifacts[0]
    assert (artifact.name, artifact.type, artifact.run) == ("picture-1.png", "image/png", result.run)
    assert f"picture-1.png is kept as artifact {artifact.id}" in (await results(here))[0]


async def test_the_agent_keeps_a_report_for_the_user(open_agent: Working) -> None:
    script = [calls(("c1", "artifact_write", {"name": "report.md", "text": "# Found"})), "Written."]
    async with open_agent(*script) as (agent, bench, _):
        await agent.work("Report.")
        page = await bench.attachment.artifacts.list()
        _, content = await bench.attachment.artifacts.read(page.artifacts[0].id)

    assert content == b"# Found"


# Questions.


async def test_a_question_about_a_piece_is_a_run_below_the_one_that_asks(
    db: clew.Database, everywhere: Working
) -> None:
    script = [
        calls(
            ("c1", "ask", {"question": "Where is the key?", "expression": "documents['house.txt'][-100:]"})
        ),
        "Under the mat.",
        "The key is under the mat.",
    ]
    async with everywhere(*script) as (agent, bench, model):
        await bench.attachment.documents.add("house.txt", LONG.encode())
        result = await agent.work("Find the key.")

    assert await results(db) == ["Under the mat."]
    assert "The key is under the mat." in prompt_of(model.requests[1])
    assert "Line 17:" not in "".join(prompt_of(request) for request in model.requests)
    runs = await db.records.find(RecordQuery(kind="run"))
    parents = {record.body["thread"]: record.body.get("parent") for record in runs}
    child = next(thread for thread in parents if thread != "s")
    assert parents[child] == result.run
    changes = await db.thread(child).changesets()
    assert {change.parent_run_id for change in changes} == {result.run}


async def test_questions_go_only_so_deep(here: clew.Database, open_agent: Working) -> None:
    part = ("c1", "ask_part", {"question": "And here?", "start": 0, "length": 5})
    script = [
        calls(("c1", "ask", {"question": "What?", "expression": "'one two three'"})),
        calls(part),
        "The part says one.",
        "It says one.",
        "One.",
    ]
    async with open_agent(*script, depth=2) as (agent, _, model):
        result = await agent.work("Read.")

    assert result.text == "One."
    tools_by_request = [[tool.name for tool in request.tools] for request in model.requests]
    assert tools_by_request[1] == ["ask_part"]
    assert tools_by_request[2] == []
    assert "one t" in prompt_of(model.requests[2])
    assert "two" not in prompt_of(model.requests[2])


async def test_a_piece_that_is_too_long_is_refused_in_words(here: clew.Database, open_agent: Working) -> None:
    script = [calls(("c1", "ask", {"question": "What?", "expression": "'x' * 50000"})), "Too long."]
    async with open_agent(*script) as (agent, _, _):
        await agent.work("Read.")

    assert "more than 40000 characters" in (await results(here))[0]["error"]


async def test_a_question_is_erased_with_the_session_that_asked_it(
    db: clew.Database, everywhere: Working
) -> None:
    script = [calls(("c1", "ask", {"question": "What?", "expression": "'abc'"})), "Letters.", "Letters."]
    async with everywhere(*script) as (agent, _, _):
        await agent.work("Read.")

    await db.erase(thread="s")

    assert (await db.threads()).threads == ()
    assert await read_snapshots(db) == []


# Finishing.


async def test_finish_ends_the_turn_without_asking_the_model_again(open_agent: Working) -> None:
    async with open_agent(calls(("c1", "finish", {"answer": "42"}))) as (agent, _, model):
        result = await agent.work("What is it?")

    assert result.text == "42"
    assert len(model.requests) == 1


def test_what_is_told_after_finishing_does_not_undo_it() -> None:
    question = Message(role="user", content="What is it?")
    call = Message(role="assistant", kind="call", call="c1", name="finish", arguments={})
    result = Message(role="tool", kind="result", call="c1", content={"answer": "42"})
    note = Message(role="system", content="The interpreter is a new one.")

    assert finish_answer([question, call, result, note]) == "42"
    assert finish_answer([question, call, result, question]) is None


class Cutting:
    """The bench of an interpreter that gives only the beginning of what is printed."""

    @property
    def attachment(self) -> Cutting:
        return self

    @property
    def interpreter(self) -> Cutting:
        return self

    async def ensure_interpreter(self) -> tuple[()]:
        return ()

    async def run(self, code: str) -> AsyncIterator[Output]:
        yield StreamOutput("stdout", "the beginn")
        yield OverflowOutput(90)


async def test_an_answer_that_was_cut_off_is_none() -> None:
    cutting: Any = Cutting()
    code = CodeRunner(cutting, notify=lambda output: None)

    with pytest.raises(InvalidArgument, match="90 bytes of output were over the limit"):
        await code.evaluate_text("answer", 1_000)


async def test_finish_takes_a_long_answer_from_the_interpreter(open_agent: Working) -> None:
    script = [
        calls(("c1", "run_python", {"code": "rows = ['row'] * 9000"})),
        calls(("c2", "finish", {"expression": "' '.join(rows)"})),
    ]
    async with open_agent(*script) as (agent, _, _):
        result = await agent.work("List.")

    assert result.text == " ".join(["row"] * 9000)


async def test_a_finish_that_makes_no_sense_does_not_end_the_turn(
    here: clew.Database, open_agent: Working
) -> None:
    async with open_agent(calls(("c1", "finish", {"expression": "nothing"})), "I meant this.") as (
        agent,
        _,
        _,
    ):
        result = await agent.work("What is it?")

    assert result.text == "I meant this."
    assert "NameError" in (await results(here))[0]["error"]


async def test_core_memory_is_written_and_shown_in_the_next_turn(
    here: clew.Database, open_agent: Working
) -> None:
    script = [
        calls(("c1", "core_memory_append", {"block": "human", "text": "Likes maps."})),
        "Noted.",
        "You like maps.",
    ]
    async with open_agent(*script) as (agent, _, model):
        await agent.work("I like maps.")
        await agent.work("What do I like?")

    assert "Likes maps." in model.requests[-1].instructions
    assert (await here.thread("s").state())["core_memory"] == {"human": "Likes maps."}


# Checkpoints.


@pytest.mark.promise("F-01")
async def test_a_turn_is_followed_by_a_checkpoint(db: clew.Database, everywhere: Working) -> None:
    async with everywhere("Hello.") as (agent, _, _):
        result = await agent.work("Hi.")
        head = await db.thread("s").head()

    assert result.saved is not None
    assert (result.saved.status, result.saved.version) == ("written", head.version)


async def test_a_turn_that_failed_is_followed_by_a_checkpoint_too(
    here: clew.Database, open_agent: Working
) -> None:
    async with open_agent(ModelFailed(model="m", problem="it is out")) as (agent, bench, _):
        with pytest.raises(ModelFailed):
            await agent.work("Hi.")
        again = await bench.checkpoint()

    assert again.status == "unchanged"


async def test_a_manifest_that_is_in_the_way_is_raised_and_the_turn_is_kept(
    here: clew.Database, open_agent: Working
) -> None:
    async with open_agent("Hello.") as (agent, bench, _):
        path = bench._checkpoints("s").path
        bench.volume.write(path, bench.volume.read(path).replace(b'"s"', b'"s" '))
        document = bench.volume.read(path)
        bench.volume.write(path, document.replace(b'"fields": {}', b'"fields": {"mood": "by hand"}'))
        with pytest.raises(ManifestConflict):
            await agent.work("Hi.")
        await bench._leave()

    assert [item.role for item in await here.thread("s").items()] == ["user", "assistant"]


# After a crash.


@pytest.fixture(params=["sqlite", "postgres"])
async def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that another process can open too."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/shared.db"


async def kill_at(point: str, url: str, tenant: str, tmp_path: Path) -> None:
    """Let another process work until it hangs at a point, and kill it there."""
    began = tmp_path / "began"
    arguments = [
        sys.executable,
        "-m",
        "tests.workbench.agent.agent_process",
        url,
        tenant,
        str(tmp_path),
        point,
        "fake",
    ]
    worker = await asyncio.create_subprocess_exec(*arguments, cwd=Path(__file__).parents[3])
    try:
        async with asyncio.timeout(60):
            while not began.exists() or not began.read_text(encoding="utf-8"):
                assert worker.returncode is None
                await asyncio.sleep(0.02)
    finally:
        worker.kill()
        await worker.wait()


@pytest.fixture
def resume_killed(shared_url: str, tenant: str, tmp_path: Path) -> Working:
    """Kills a worker at a point, and opens its session again with another script."""

    @asynccontextmanager
    async def open_agent(
        point: str, *script: Any, **options: Any
    ) -> AsyncIterator[tuple[WorkbenchAgent, clew.Database, ScriptedModel]]:
        await kill_at(point, shared_url, tenant, tmp_path)
        async with clew.open(shared_url) as database:
            db = database.scope(tenant=tenant)
            async with agent_on(db, tmp_path)(*script, **options) as (agent, _, model):
                yield agent, db, model

    return open_agent


@pytest.mark.crash
@pytest.mark.promise("F-06", "F-07")
async def test_after_a_crash_the_task_goes_on_and_the_agent_is_told_what_is_gone(
    resume_killed: Working,
) -> None:
    script = [calls(("c2", "run_python", {"code": "x"})), "It is gone."]
    async with resume_killed("thinking", *script) as (agent, db, model):
        result = await agent.resume()
        items = await db.thread("s").items()

    assert (result.text, result.termination) == ("It is gone.", "natural")
    assert "could not be found again" in prompt_of(model.requests[0])
    assert [item.role for item in items] == [
        *("user", "assistant", "tool", "system"),
        *("assistant", "tool", "assistant"),
    ]
    assert "NameError" in items[5].body["output"]


@pytest.mark.crash
@pytest.mark.promise("B-04")
async def test_code_that_may_have_run_is_reported_and_never_run_again(
    resume_killed: Working, tmp_path: Path
) -> None:
    async with resume_killed("code", "I will look first.") as (agent, db, model):
        result = await agent.resume()
        assert await results(db) == [LOST_RUN_NOTE]
        effects = await external_effects(db.thread("s"))

    assert (tmp_path / "began").read_text(encoding="utf-8") == "x"
    assert result.text == "I will look first."
    assert LOST_RUN_NOTE in prompt_of(model.requests[0])
    assert [effect.tool for effect in effects] == ["run_python"]


@pytest.mark.crash
@pytest.mark.promise("B-04")
async def test_code_that_may_have_run_waits_for_a_person_if_that_is_wanted(
    resume_killed: Working, tmp_path: Path
) -> None:
    async with resume_killed("code", "Then it is done.", in_doubt="ask") as (agent, _, _):
        question = await agent.resume()
        result = await agent.resume({"c1": UseResult("It had run.")})

    assert [(waiting.tool, waiting.why) for waiting in question.waiting] == [("run_python", "in doubt")]
    assert result.text == "Then it is done."
    assert (tmp_path / "began").read_text(encoding="utf-8") == "x"


@pytest.mark.crash
async def test_a_question_that_was_cut_off_is_brought_to_its_end(resume_killed: Working) -> None:
    async with resume_killed("question", "Letters.", "They are letters.") as (agent, db, _):
        result = await agent.resume()
        assert await results(db) == ["(no output)", "Letters."]

    assert result.text == "They are letters."


@pytest.mark.crash
async def test_an_answer_that_is_there_is_not_asked_for_again(resume_killed: Working) -> None:
    async with resume_killed("answered", "They are letters.") as (agent, db, model):
        await agent.resume()
        assert await results(db) == ["(no output)", "Letters."]

    assert len(model.requests) == 1
