"""Runs, data sets and experiments at the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import clew
from clew.core.errors import ModelFailed
from clew.runtime.model.protocol import Reply, Usage
from clew.runtime.records.steps import Price
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.tools.tool import Effect, tool
from clew.testing.scripted_model import ScriptedModel, calls
from tests.support.command_line import CommandLine

AGENTS = """
def echo(example):
    return example.question

async def knowing(example):
    if example.question == "Bye":
        raise RuntimeError("gone")
    return example.expected

def half(example, output):
    return {"score": 0.5, "why": "so so"}

number = 7
"""


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    raise ValueError(f"no weather in \x1b[31m{city}")


async def _fill(url: str) -> None:
    async with clew.open(url) as db:
        thread = await db.create("t", owner="alice")
        await thread.append(items=[clew.user("Hi"), clew.assistant("Hello.")])
        await thread.append(items=[clew.user("Bye"), clew.assistant("Ciao.")])
        call = calls(("c1", "weather", {"city": "Oslo"}))
        reply = Reply(text="Sunny.", usage=Usage(calls=1, input_tokens=1000, output_tokens=100))
        prices = {"scripted": Price(input=1.0, output=10.0)}
        down = ModelFailed(model="m", problem="it is down")
        model = ScriptedModel(call, reply, down)
        async with Runtime(db, model=model, tools=[weather], config=RuntimeConfig(prices=prices)) as runtime:
            await runtime.run_turn("talk", "How is Oslo?", user="alice")
            with pytest.raises(ModelFailed):
                await runtime.run_turn("talk", "And now?", user="alice")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A database with a conversation and a turn with a tool, and a directory with functions."""
    file = tmp_path / "agent.db"
    asyncio.run(_fill(f"sqlite:///{file}"))
    name = f"agents_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(AGENTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("AGENTS", name)
    return CommandLine(file, capsys)


@pytest.fixture
def agents(shell: CommandLine, tmp_path: Path) -> str:
    """The module of functions, which only the current directory has."""
    return f"agents_{tmp_path.name.replace('-', '_')}"


# Runs.


@pytest.mark.promise("F-12")
def test_a_run_is_shown_with_its_steps(shell: CommandLine) -> None:
    failure, run = shell.json("runs", "list", "--thread", "talk")["runs"]
    detail = shell.json("runs", "show", run["id"])

    assert (failure["termination"], run["termination"]) == ("error", "natural")
    assert [(step["kind"], step["cost"]) for step in detail["steps"]] == [
        ("model", 0),
        ("tool", None),
        ("model", 2000),
        ("output", None),
    ]
    assert detail["steps"][1]["error"] == "ValueError: no weather in \x1b[31mOslo"
    assert detail["run"]["usage"] == {"calls": 2, "input_tokens": 1000, "output_tokens": 100, "cost": 2000}


def test_steps_are_a_table_for_people(shell: CommandLine) -> None:
    run_id = shell.json("runs", "list")["runs"][1]["id"]
    code, out, _ = shell("runs", "show", run_id)

    assert code == 0
    words = ("weather", "no weather in", "$0.002000", "scripted", "respond", "1000 in, 100 out", "talk")
    assert [word for word in words if word not in out] == []
    assert "\x1b" not in out


def test_a_run_that_is_not_there_is_an_error(shell: CommandLine) -> None:
    code, _, err = shell("runs", "show", "run-none")

    assert (code, "(record_not_found)" in err) == (1, True)


def test_runs_are_a_table_for_people(shell: CommandLine) -> None:
    _, out, _ = shell("runs", "list", "--status", "done")

    assert ("natural" in out, "error" in out) == (True, True)
    assert "There are no runs here." in shell("runs", "list", "--status", "waiting")[1]


# Data sets.


@pytest.mark.promise("F-12")
def test_a_data_set_is_made_shown_carried_and_deleted(shell: CommandLine, tmp_path: Path) -> None:
    result = shell.json("datasets", "make", "set", "--thread", "t")
    datasets = shell.json("datasets", "list")["datasets"]
    examples = shell.json("datasets", "show", "set")["examples"]
    file = tmp_path / "set.jsonl"
    export = shell.json("datasets", "export", "set", "-o", str(file))
    import_result = shell.json("datasets", "import", "copy", str(file))
    deletion = shell.json("datasets", "delete", "set")

    assert (result["added"], [each["name"] for each in datasets]) == (2, ["set"])
    assert [(each["expected"], each["owner"]) for each in examples] == [
        ("Hello.", "alice"),
        ("Ciao.", "alice"),
    ]
    assert (export["examples"], import_result["added"], deletion["examples"]) == (2, 2, 2)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2


def test_a_data_set_goes_through_a_pipe(shell: CommandLine) -> None:
    shell("datasets", "make", "set", "--search", "hello")
    code, out, err = shell("datasets", "export", "set")

    assert (code, json.loads(out.splitlines()[0])["expected"]) == (0, "Hello.")
    assert "2 examples exported." in err


def test_data_sets_are_tables_for_people(shell: CommandLine) -> None:
    nothing = shell("datasets", "list")[1]
    output = shell("datasets", "make", "set", "--owner", "alice", "--limit", "1")[1]
    again = shell("datasets", "make", "set", "--thread", "t")[1]

    assert "There are no data sets here." in nothing
    assert "1 example from 2 threads added to set." in output
    assert "2 examples from 1 thread added to set." in again
    assert "Hello." in shell("datasets", "show", "set")[1]
    assert "set" in shell("datasets", "list")[1]
    assert "It had 2 more of them already." in shell("datasets", "make", "set", "--thread", "t")[1]
    assert "set is deleted, with 3 examples." in shell("datasets", "delete", "set")[1]


def test_a_file_that_is_no_data_set_leaves_nothing(shell: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"input": "a"}\n{"input": 1}\n', encoding="utf-8")
    code, _, err = shell("datasets", "import", "bad", "bad.jsonl")

    assert (code, "Line 2 is no example" in err) == (1, True)
    assert shell.json("datasets", "list")["datasets"] == []


# Experiments.


@pytest.mark.promise("F-12")
def test_an_agent_is_asked_and_two_experiments_are_compared(shell: CommandLine, agents: str) -> None:
    shell("datasets", "make", "set", "--thread", "t")
    first = shell.json("experiments", "run", "first", "--dataset", "set", "--agent", f"{agents}:echo")
    second = shell.json("experiments", "run", "second", "--dataset", "set", "--agent", f"{agents}:knowing")
    comparison = shell.json("experiments", "compare", "first", "second")

    assert (first["status"], first["summary"]["mean"], first["summary"]["cost"]) == ("done", 0.0, None)
    assert (second["summary"]["mean"], second["summary"]["failed"]) == (1.0, 1)
    assert (comparison["better"], comparison["worse"], comparison["same"]) == (1, 0, 0)
    assert [each["difference"] for each in comparison["examples"]] == [1.0, None]
    assert comparison["examples"][1]["second"]["error"] == "RuntimeError: gone"


def test_experiments_are_tables_for_people(shell: CommandLine, agents: str) -> None:
    shell("datasets", "make", "set", "--thread", "t")
    nothing = shell("experiments", "list")[1]
    for name, agent in (("first", "echo"), ("second", "knowing")):
        shell("experiments", "run", name, "--dataset", "set", "--agent", f"{agents}:{agent}")
    output = shell("experiments", "compare", "first", "second")[1]

    assert "There are no experiments here." in nothing
    assert "RuntimeError: gone" in shell("experiments", "show", "second")[1]
    assert "second" in shell("experiments", "list")[1]
    assert ("+1.000" in output, "1 better, 0 worse, 0 the same." in output) == (True, True)
    assert "second is deleted, with 2 results." in shell("experiments", "delete", "second")[1]


def test_examples_with_the_same_score_are_shown_on_request(shell: CommandLine, agents: str) -> None:
    shell("datasets", "make", "set", "--thread", "t")
    for name in ("first", "second"):
        shell("experiments", "run", name, "--dataset", "set", "--agent", f"{agents}:echo")
    some = shell.json("experiments", "compare", "first", "second")
    every = shell.json("experiments", "compare", "first", "second", "--all")

    assert (len(some["examples"]), len(every["examples"]), every["same"]) == (0, 2, 2)


def test_a_scorer_of_ones_own_may_say_more(shell: CommandLine, agents: str) -> None:
    shell("datasets", "make", "set", "--thread", "t")
    words = ("run", "first", "--dataset", "set", "--agent", f"{agents}:echo", "--scorer", f"{agents}:half")
    shell("experiments", *words)
    results = shell.json("experiments", "show", "first")["results"]

    assert [(each["score"], each["detail"]) for each in results] == [(0.5, {"why": "so so"})] * 2


@pytest.mark.parametrize(("least", "code"), [("0.5", 1), ("0", 0)])
def test_a_mean_that_is_too_low_ends_with_1(shell: CommandLine, agents: str, least: str, code: int) -> None:
    shell("datasets", "make", "set", "--thread", "t")
    words = ("run", "first", "--dataset", "set", "--agent", f"{agents}:echo", "--at-least", least)

    assert shell("experiments", *words)[0] == code


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "Say what is asked"),
        (("--model", "openai:gpt-5", "--agent", "{agents}:echo"), "Say what is asked"),
        (("--agent", "{agents}:nothing"), "cannot be imported"),
        (("--agent", "no_such_module:echo"), "cannot be imported"),
        (("--agent", "{agents}:number"), "is no function"),
        (("--agent", ""), "cannot be imported"),
        (("--agent", "{agents}:echo", "--scorer", "nice"), "cannot be imported"),
    ],
)
def test_what_cannot_be_asked_is_an_error(
    shell: CommandLine, agents: str, words: tuple[str, ...], problem: str
) -> None:
    shell("datasets", "make", "set", "--thread", "t")
    arguments = [word.format(agents=agents) for word in words]
    code, _, err = shell("experiments", "run", "first", "--dataset", "set", *arguments)

    assert (code, problem in " ".join(err.split())) == (1, True)
