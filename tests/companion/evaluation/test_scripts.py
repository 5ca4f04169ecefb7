"""The scripted conversations pass, and one that should not, does not."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from clew.cli.app import build_app
from clew.database.database import Database
from clew_companion.evaluation.runner import evaluate_script
from clew_companion.evaluation.scripts import Script, ScriptSession, ScriptTurn, scripts

LONG = 30


@pytest.mark.parametrize("script", scripts().values(), ids=lambda script: script.name)
async def test_a_conversation_goes_as_it_is_written(in_memory: Database, script: Script) -> None:
    result = await evaluate_script(in_memory, script)

    assert result.failures == ()


def test_there_are_long_ones_over_several_sessions() -> None:
    long = [script for script in scripts().values() if script.length >= LONG]

    assert len(long) >= 3
    assert all(len(script.sessions) > 1 for script in long)


@pytest.mark.parametrize(
    "wrong",
    [
        {"style": "closing"},
        {"approach": "act"},
        {"exercise": "box_breathing"},
        {"step": 3},
        {"pending": True},
        {"persists": True},
        {"level": 3},
        {"has": ("zebra",)},
        {"lacks": ("hello",)},
    ],
    ids=lambda wrong: str(next(iter(wrong))),
)
async def test_an_expectation_that_is_not_met_is_told(in_memory: Database, wrong: dict[str, object]) -> None:
    line = msgspec.convert({"say": "Hi", **wrong}, ScriptTurn)
    script = Script(name="wrong", about="", sessions=(ScriptSession(thread="s1", turns=(line,)),))
    result = await evaluate_script(in_memory, script)

    (failure,) = result.failures
    assert failure.expected.startswith(next(iter(wrong)))
    assert not result.is_passed


async def test_what_a_session_leaves_is_looked_at(in_memory: Database) -> None:
    session = ScriptSession(
        thread="s1",
        turns=(ScriptTurn(say="My sister is called Ann."),),
        knows=("Beth",),
        knows_not=("Ann",),
        count=7,
        concerns=("money",),
    )
    result = await evaluate_script(in_memory, Script(name="wrong", about="", sessions=(session,)))

    assert len(result.failures) == 4


def test_the_command_reports_and_says_by_its_code_whether_all_is_well() -> None:
    run = CliRunner().invoke(build_app(), ["evaluate", "in_danger", "--json"])
    (result,) = msgspec.json.decode(run.stdout)

    assert (run.exit_code, result["failures"]) == (0, [])
    assert result["turns"] == scripts()["in_danger"].length


def test_the_command_names_the_conversations_if_there_is_none_of_a_name() -> None:
    result = CliRunner().invoke(build_app(), ["evaluate", "nothing"])

    assert result.exit_code == 1
    assert "in_control" in result.stderr
