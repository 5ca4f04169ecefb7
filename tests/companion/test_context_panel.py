"""The context panel: what an answer was made with, in the words of the one renderer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from clew.database.database import Database
from clew.runtime.settings import RuntimeConfig
from clew.testing.embedder import SpellingEmbedder
from clew_companion.agent import companion, inputs_of
from clew_companion.entry_point import agent
from clew_companion.replies.prompt import instructions
from clew_companion.state import CompanionState
from clew_companion.values import AgentInput


async def contexts(
    db: Database, *messages: str, thread: str = "s2", **options: Any
) -> list[tuple[CompanionState, Mapping[str, Sequence[str]]]]:
    """The state of each turn at its end, and the panel of it."""
    states: list[CompanionState] = []
    config = RuntimeConfig(on_turn_end=lambda thread, state: states.append(state))
    async with companion(db, config=config, **options) as runtime:
        for message in messages:
            agent_input = AgentInput(message=message, session_id=thread, user_id="alice")
            await runtime.run_turn(thread, inputs_of(agent_input), user="alice")
    assert agent.describe_context is not None
    return [(state, agent.describe_context(state)) for state in states]


async def learn_about_ann(db: Database) -> None:
    """A session that leaves a fact, a rule and an arc."""
    await contexts(db, "My sister is called Ann. Please keep your answers short.", thread="s1")


@pytest.mark.promise("A-04", "R-18")
async def test_entries_read_in_the_panel_as_they_do_in_the_prompt(in_memory: Database) -> None:
    await learn_about_ann(in_memory)
    [(state, panel)] = await contexts(in_memory, "How can I help my sister?")
    prompt = instructions(state)

    assert panel["working memory"] == [
        "Last session (somebody close): talked about somebody close.",
        '[relationship] sister IS_CALLED Ann — "My sister is called Ann."',
        "(may be brought up)",
    ]
    assert [line for line in panel["working memory"][:-1] if f"- {line}" not in prompt] == []
    assert panel["rules"] == ["Keep answers short."]


@pytest.mark.promise("B-15", "A-04")
async def test_what_was_said_earlier_is_in_the_prompt_and_in_the_panel(in_memory: Database) -> None:
    await contexts(in_memory, "The heating in the greenhouse broke again", thread="s1")
    [(state, panel)] = await contexts(in_memory, "Is it the greenhouse or its heating that worries me?")
    (line,) = [line for line in panel["working memory"] if line.startswith("Said on")]

    assert "in s1: user: The heating in the greenhouse broke again / assistant: " in line
    assert f"- {line}" in instructions(state)


@pytest.mark.promise("A-10")
async def test_the_panel_names_route_style_approach_session_and_retrieval(in_memory: Database) -> None:
    [(state, panel)] = await contexts(in_memory, "I miss my sister", embedder=SpellingEmbedder())

    assert panel["route"] == ["therapeutic"]
    assert panel["style"] == [f"{state.response_style}, by rules"]
    assert panel["approach"] == [state.therapeutic_approach]
    assert panel["session"] == ["so far: Talked about somebody close.", "it is about: somebody close"]
    assert panel["retrieval"] == ["hybrid_rrf"]
    assert panel["working memory"] == ["(none)"]


@pytest.mark.promise("A-04")
async def test_a_plain_string_of_an_old_checkpoint_is_shown_as_it_is(in_memory: Database) -> None:
    [(state, _)] = await contexts(in_memory, "Hello")
    fields = {name: getattr(state, name) for name in type(state).__dataclass_fields__}
    assert agent.describe_context is not None
    panel = agent.describe_context(CompanionState(**fields | {"working_memory": ["She likes tea."]}))

    assert panel["working memory"][0] == "She likes tea."


async def test_an_exercise_and_a_lookup_are_named_while_there_is_one(in_memory: Database) -> None:
    panels = [
        panel
        for _, panel in await contexts(
            in_memory, "Can we do box breathing?", "stop", "How many people live in Norway?"
        )
    ]

    assert [panel["exercise"] for panel in panels] == [["box_breathing, step 1"], [], []]
    assert [panel["lookup"] for panel in panels] == [
        [],
        [],
        ["not_attempted: How many people live in Norway?"],
    ]
