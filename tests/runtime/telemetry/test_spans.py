"""Spans of turns, steps, commits and jobs, by the GenAI conventions, on every store."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, user_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind, StatusCode

import clew
from clew.core.errors import InvalidArgument, ModelFailed, ThreadNotFound
from clew.database.database import Database
from clew.runtime.context import Context, MemoryMode
from clew.runtime.execution.stateless import run_agent
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.model.protocol import Reply, Usage
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, MemoryConfig, RuntimeConfig, SessionConfig
from clew.runtime.state.call_state import PassOn
from clew.runtime.state.schema import Conversation
from clew.runtime.telemetry import conventions
from clew.runtime.telemetry.telemetry import TelemetryConfig
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.draft import Delta
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.telemetry.recorded_spans import RecordedSpans, record_spans
from tests.runtime.telemetry.suspended_turn import THREAD, gated_runtime

PAGE = Path(__file__).parents[3] / "docs/how-to/observe.md"
SECRET = "the word is Rumpelstilzchen"
TURN = "invoke_agent default"


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    await asyncio.sleep(0)
    return f"sunny in {city}"


@tool(effect=Effect.NONE)
async def divide(number: int) -> str:
    """Divide by zero."""
    raise ZeroDivisionError(SECRET)


@tool(effect=Effect.NONE)
async def ask(question: str) -> str:
    """Run a turn on another thread."""
    async with (
        clew.open("memory://") as db,
        Runtime(db, agent="inner", model=ScriptedModel("42"), config=PLAIN) as runtime,
    ):
        return (await runtime.run_turn("inside", question)).text


QUIET = SessionConfig(finalize_active_sessions_on_close=False)
"""No session ends by itself, so that there are no spans but those of the turns."""
PLAIN = RuntimeConfig(sessions=QUIET)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so that no event tells of."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def output_of(*arguments: str) -> str:
    """The output of a program of its own."""
    command = [sys.executable, *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode()


def texts_of(spans: RecordedSpans) -> str:
    """Everything that any span says."""
    return "\n".join(span.to_json() for span in spans.all)


@pytest.mark.promise("B-19")
async def test_a_plain_turn_is_a_model_call_an_output_and_two_commits(
    db: Database, spans: RecordedSpans
) -> None:
    reply = Reply(text="Hello.", usage=Usage(calls=1, input_tokens=12, output_tokens=3))
    async with Runtime(db, model=ScriptedModel(reply, name="openai:gpt-5"), config=PLAIN) as runtime:
        result = await runtime.run_turn("t", "hi", user="alice")

    assert spans.tree() == [TURN, ["commit", "chat gpt-5", "output reply", "commit"]]
    assert spans.named(TURN) == [
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "default",
            "gen_ai.conversation.id": "t",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 3,
            "clew.run.id": result.run,
            "clew.run.termination": "natural",
        }
    ]
    assert spans.named("chat gpt-5") == [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": "default",
            "gen_ai.conversation.id": "t",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 3,
            "clew.step.outcome": "ok",
            "clew.step.stage": "respond",
        }
    ]
    assert [each["clew.commit.reason"] for each in spans.named("commit")] == ["UserMessage", "RunFinished"]
    assert [each["clew.commit.changesets"] for each in spans.named("commit")] == [1, 2]
    assert spans.span("chat gpt-5").kind is SpanKind.CLIENT


@pytest.mark.promise("B-19")
async def test_tools_that_run_side_by_side_are_side_by_side_in_the_turn(
    db: Database, spans: RecordedSpans
) -> None:
    both = calls(("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Rome"}))
    async with Runtime(db, model=ScriptedModel(both, "Sunny."), tools=[weather], config=PLAIN) as runtime:
        await runtime.run_turn("t", "hi")

    tool_spans = [span for span in spans.all if span.name == "execute_tool weather"]
    assert spans.tree() == [
        TURN,
        [
            "commit",
            "chat scripted",
            "commit",
            "execute_tool weather",
            "execute_tool weather",
            "commit",
            "chat scripted",
            "output reply",
            "commit",
        ],
    ]
    assert [(span.attributes or {})["gen_ai.tool.call.id"] for span in tool_spans] == ["c1", "c2"]
    assert (tool_spans[1].start_time or 0) < (tool_spans[0].end_time or 0)
    assert [each["gen_ai.response.finish_reasons"] for each in spans.named("chat scripted")] == [
        ("tool_calls",),
        ("stop",),
    ]


@pytest.mark.promise("B-19")
async def test_a_turn_inside_a_tool_is_inside_the_span_of_the_tool(
    db: Database, spans: RecordedSpans
) -> None:
    script = ScriptedModel(calls(("c1", "ask", {"question": "?"})), "42.")
    async with Runtime(db, model=script, tools=[ask], config=PLAIN) as runtime:
        await runtime.run_turn("t", "hi")

    inner = ["commit", "chat scripted", "output reply", "commit"]
    inside = spans.tree()[1]
    assert inside[inside.index("execute_tool ask") + 1] == ["invoke_agent inner", inner]


@pytest.mark.promise("B-19")
async def test_a_tool_that_fails_says_the_type_of_its_error_and_not_its_words(
    db: Database, spans: RecordedSpans
) -> None:
    script = ScriptedModel(calls(("c1", "divide", {"number": 1})), "No.")
    async with Runtime(db, model=script, tools=[divide], config=PLAIN) as runtime:
        await runtime.run_turn("t", "hi")

    span = spans.span("execute_tool divide")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ZeroDivisionError"
    assert (span.attributes or {})["clew.step.outcome"] == "failed"
    assert spans.span(TURN).status.status_code is StatusCode.UNSET
    assert SECRET not in texts_of(spans)


@pytest.mark.promise("B-19")
async def test_a_turn_that_fails_has_the_code_of_its_error_in_every_span_that_failed(
    db: Database, spans: RecordedSpans
) -> None:
    failing = ScriptedModel(ModelFailed(model="scripted", problem=SECRET))
    async with Runtime(db, model=failing, config=PLAIN) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("t", "hi")

    failed = {span.name for span in spans.all if span.status.status_code is StatusCode.ERROR}
    assert spans.tree() == [TURN, ["commit", "chat scripted", "commit"]]
    assert failed == {TURN, "chat scripted"}
    assert {each["error.type"] for name in failed for each in spans.named(name)} == {"model_failed"}
    assert [each["clew.run.termination"] for each in spans.named(TURN)] == ["error"]
    assert SECRET not in texts_of(spans)


@pytest.mark.promise("B-19")
async def test_a_turn_that_was_never_begun_is_a_span_with_its_error(
    db: Database, spans: RecordedSpans
) -> None:
    async with Runtime(db, model=ScriptedModel("Hello."), config=PLAIN) as runtime:
        await runtime.run_turn("t", "hi", user="alice")
        with pytest.raises(ThreadNotFound):
            await runtime.run_turn("t", "hi", user="bob")

    assert [each["clew.run.termination"] for each in spans.named(TURN)] == ["natural", "refused"]
    assert spans.named(TURN)[1]["error.type"] == "thread_not_found"


@pytest.mark.promise("B-19")
async def test_a_recall_is_a_retrieval(db: Database, spans: RecordedSpans) -> None:
    config = RuntimeConfig(memory=MemoryConfig(), sessions=QUIET)
    async with Runtime(db, model=ScriptedModel("Hello."), config=config) as runtime:
        await runtime.run_turn("t", "hi", user="alice")

    assert spans.tree()[1][:3] == ["commit", "retrieval memory", "chat scripted"]
    assert spans.named("retrieval memory") == [
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.agent.name": "default",
            "gen_ai.conversation.id": "t",
            "gen_ai.data_source.id": "memory",
            "clew.step.outcome": "ok",
            "clew.step.stage": "respond",
        }
    ]


@pytest.mark.promise("B-19")
async def test_the_end_of_a_session_is_a_job_with_its_model_calls_and_its_commit(
    db: Database, spans: RecordedSpans
) -> None:
    model = ScriptedModel("Hello.", lambda _: {}, lambda _: {"summary": "They met."})
    async with Runtime(db, model=model, finalize=Finalizer(model)) as runtime:
        await runtime.run_turn("t", "hi", user="alice")
        await runtime.end_session("t", user="alice")

    job = spans.tree()[2:]
    assert job[0] == "job end episode:default"
    assert job[1][-1] == "commit"
    assert set(job[1][:-1]) == {"chat scripted"}
    assert spans.named("job end episode:default")[0]["gen_ai.conversation.id"] == "t"
    assert spans.span("job end episode:default").status.status_code is StatusCode.UNSET


@pytest.mark.promise("B-19")
async def test_a_job_that_fails_says_so(db: Database, spans: RecordedSpans) -> None:
    async def fail(*arguments: object) -> Any:
        raise InvalidArgument(problem=SECRET)

    async with Runtime(db, model=ScriptedModel("Hello."), finalize=fail) as runtime:
        await runtime.run_turn("t", "hi")
        await runtime.end_session("t")

    assert spans.named("job end episode:default")[0]["error.type"] == "invalid_argument"
    assert SECRET not in texts_of(spans)


@pytest.mark.promise("B-19")
async def test_a_queued_turn_is_a_child_of_the_call_that_queued_it(
    db: Database, spans: RecordedSpans
) -> None:
    go_on = asyncio.Event()
    async with Runtime(db, model=ScriptedModel(go_on, "one", "two"), config=PLAIN) as runtime:
        first = asyncio.create_task(runtime.run_turn("t", "1"))
        await until(lambda: bool(spans.named("commit")))
        with trace.get_tracer("test").start_as_current_span("request"):
            await runtime.run_turn("t", "2", busy="queue")
        go_on.set()
        await first
        await until(lambda: runtime.is_idle)

    turn = ["commit", "chat scripted", "output reply", "commit"]
    assert spans.tree() == [TURN, turn, "request", [TURN, [TURN, turn]]]
    assert [each["clew.run.termination"] for each in spans.named(TURN)] == ["natural", "queued", "natural"]


@pytest.mark.promise("B-19")
async def test_a_run_that_waited_is_linked_to_its_earlier_trace_in_another_process(shared_url: str) -> None:
    output = await output_of("-m", "tests.runtime.telemetry.suspended_turn", shared_url)
    trace_id, span_id = output.split()
    with record_spans() as spans:
        async with clew.open(shared_url) as db, gated_runtime(db, "Sent.") as runtime:
            result = await runtime.resume(THREAD, {"c1": PassOn(value=True)})

    [link] = spans.span(TURN).links
    assert result.termination == "natural"
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == (trace_id, span_id)
    assert f"{spans.span(TURN).context.trace_id:032x}" != trace_id
    assert spans.tree() == [
        TURN,
        ["commit", "execute_tool send", "commit", "chat scripted", "output reply", "commit"],
    ]


@pytest.mark.promise("B-19")
async def test_a_turn_answered_before_is_one_span_that_says_so(db: Database, spans: RecordedSpans) -> None:
    async with Runtime(db, model=ScriptedModel("Hello."), config=PLAIN) as runtime:
        for _ in range(2):
            await runtime.run_turn("t", "hi", key="k")

    assert spans.tree() == [TURN, ["commit", "chat scripted", "output reply", "commit"], TURN]
    assert [each["clew.run.termination"] for each in spans.named(TURN)] == ["natural", "replayed"]


async def run_secret_turn(db: Database, config: TelemetryConfig, *, mode: MemoryMode | None = None) -> None:
    """Run a turn with a planted text in every place that content can come from."""
    script = ScriptedModel(calls(("c1", "weather", {"city": SECRET}), text=SECRET), SECRET)
    runtime = Runtime(
        db,
        model=script,
        tools=[weather],
        instructions=SECRET,
        config=RuntimeConfig(telemetry=config, memory=MemoryConfig(), sessions=QUIET),
    )
    async with runtime:
        await runtime.run_turn("t", SECRET, user="alice-7", mode=mode)


@pytest.mark.promise("B-19")
async def test_nothing_that_was_said_and_nobody_is_in_a_span_unless_asked_for(
    db: Database, spans: RecordedSpans
) -> None:
    await run_secret_turn(db, TelemetryConfig())

    assert len(spans.all) == 10
    assert SECRET not in texts_of(spans)
    assert "alice-7" not in texts_of(spans)


@pytest.mark.promise("B-19")
async def test_content_and_users_are_in_spans_if_they_are_asked_for(
    db: Database, spans: RecordedSpans
) -> None:
    await run_secret_turn(db, TelemetryConfig(content=True, users=True))

    first, second = spans.named("chat scripted")
    tool_span = spans.named("execute_tool weather")[0]
    assert {each["user.id"] for span in spans.all for each in [dict(span.attributes or {})]} == {"alice-7"}
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": SECRET}]
    assert json.loads(first["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": SECRET}]}
    ]
    assert json.loads(second["gen_ai.input.messages"])[2:] == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": SECRET}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": f"sunny in {SECRET}"}],
        },
    ]
    assert json.loads(second["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": SECRET}], "finish_reason": "stop"}
    ]
    assert json.loads(tool_span["gen_ai.tool.call.arguments"]) == {"city": SECRET}
    assert json.loads(tool_span["gen_ai.tool.call.result"]) == f"sunny in {SECRET}"


@pytest.mark.promise("B-19")
async def test_incognito_leaves_neither_content_nor_ids_even_if_asked_for(
    db: Database, spans: RecordedSpans
) -> None:
    await run_secret_turn(db, TelemetryConfig(content=True, users=True), mode=MemoryMode.INCOGNITO)

    assert len(spans.all) == 10
    assert SECRET not in texts_of(spans)
    assert not any("conversation.id" in key or key in ("clew.run.id", "user.id") for key in keys_of(spans))


def keys_of(spans: RecordedSpans) -> set[str]:
    return {key for span in spans.all for key in span.attributes or {}}


async def test_a_turn_without_a_store_is_a_span_too(spans: RecordedSpans) -> None:
    await run_agent("hi", model=ScriptedModel("Hello."))

    assert spans.tree() == [TURN, ["chat scripted", "output reply"]]


async def test_a_step_of_ones_own_is_a_span(spans: RecordedSpans) -> None:
    async def look_up(state: Conversation, ctx: Context) -> Delta:
        with ctx.turn.step("code", "parse"):
            return {}

    stages = [look_up, respond()]
    async with (
        clew.open("memory://") as db,
        Runtime(db, stages=stages, model=ScriptedModel("Hello."), config=PLAIN) as runtime,
    ):
        await runtime.run_turn("t", "hi")

    assert "code parse" in spans.tree()[1]


async def test_what_a_sampler_leaves_out_has_nothing_inside() -> None:
    with record_spans(ALWAYS_OFF) as spans:
        async with (
            clew.open("memory://") as db,
            Runtime(db, model=ScriptedModel("Hello."), config=PLAIN) as runtime,
        ):
            await runtime.run_turn("t", "hi")

    assert spans.all == []


async def test_background_work_is_no_part_of_the_request_that_opened_the_runtime(
    spans: RecordedSpans,
) -> None:
    config = RuntimeConfig(leases=LeaseConfig(sweep_seconds=0.01), sessions=SessionConfig(idle_seconds=0.01))
    async with clew.open("memory://") as db:
        runtime = Runtime(db, model=ScriptedModel("Hello."), config=config)
        with trace.get_tracer("test").start_as_current_span("request"):
            await runtime.__aenter__()
            await runtime.run_turn("t", "hi")
        await until(lambda: bool(spans.named("job end episode:default")))
        await runtime.close()

    assert [span.name for span in spans.all if span.parent is None] == ["request", "job end episode:default"]


async def test_without_opentelemetry_a_turn_runs_and_does_not_import_it() -> None:
    program = """
import asyncio, sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Refusal())
import clew
from clew.testing import ScriptedModel
async def main():
    async with clew.open("memory://") as db, clew.Runtime(db, model=ScriptedModel("Hello.")) as runtime:
        return (await runtime.run_turn("t", "hi")).text
print(asyncio.run(main()))
"""
    output = await output_of("-c", program)

    assert output == "Hello.\n"


@pytest.mark.promise("B-19")
def test_the_names_are_those_of_the_conventions() -> None:
    sources: Sequence[object] = (gen_ai_attributes, user_attributes, error_attributes)
    known = {value for source in sources for value in vars(source).values() if isinstance(value, str)}
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    providers = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    names = [value for value in vars(conventions).values() if isinstance(value, str) and "." in value]

    assert [
        name for name in names if name.startswith(("gen_ai.", "user.", "error.")) and name not in known
    ] == []
    assert {
        conventions.INVOKE_AGENT,
        conventions.CHAT,
        conventions.EXECUTE_TOOL,
        conventions.RETRIEVAL,
    } <= operations
    assert set(conventions.PROVIDERS.values()) <= providers


def test_every_span_and_attribute_is_in_the_guide_and_no_other() -> None:
    traces = PAGE.read_text(encoding="utf-8").partition("\n## Traces\n")[2].partition("\n## Observers\n")[0]
    values = [value for name, value in vars(conventions).items() if name.isupper() and isinstance(value, str)]
    attributes = {value for value in values if re.fullmatch(r"(gen_ai|clew|user|error)\.[\w.]+", value)}
    operations = {conventions.INVOKE_AGENT, conventions.CHAT, conventions.EXECUTE_TOOL}
    operations |= {conventions.RETRIEVAL, conventions.COMMIT, conventions.JOB}

    assert set(re.findall(r"`((?:gen_ai|clew|user|error)\.[\w.]+)`", traces)) == attributes
    assert set(re.findall(r"^\| `(\w+)(?: [A-Z]+)?` \|", traces, re.MULTILINE)) == operations
