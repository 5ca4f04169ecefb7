"""The plain agent: a model and nothing else; without one it says how to connect one."""

from __future__ import annotations

import clew
from clew.agents import AgentSettings, plain_agent
from clew.agents.plain import NO_MODEL
from clew.testing import ScriptedModel


async def test_without_a_model_its_reply_says_how_to_connect_one() -> None:
    async with clew.open("memory://") as db, plain_agent.make_runtime(db, AgentSettings()) as runtime:
        result = await runtime.run_turn("t", "Hello", user="alice")

    assert (result.text, result.termination) == (NO_MODEL, "natural")
    assert "--model" in NO_MODEL
    assert result.usage.calls == 0


def test_without_a_model_its_notice_says_so_before_a_person_begins() -> None:
    assert plain_agent.notices_for(None) == (NO_MODEL,)
    assert plain_agent.notices_for(ScriptedModel()) == ()


async def test_with_a_model_that_answers() -> None:
    settings = AgentSettings(model=ScriptedModel("Hello, Alice."))
    async with clew.open("memory://") as db, plain_agent.make_runtime(db, settings) as runtime:
        result = await runtime.run_turn("t", "Hello", user="alice")

    assert result.text == "Hello, Alice."
