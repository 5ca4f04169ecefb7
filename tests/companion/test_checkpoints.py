"""The checkpoints of the companion's turns: the same sequence as any agent has, on every path."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.agents.search_provider import Finding
from clew.core.values import Changeset
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.records.events import MessageAdded
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.runtime.turn.draft import Delta
from clew.testing.faults import FailingStore
from clew_companion.agent import companion
from clew_companion.state import CompanionState
from clew_companion.values import AgentOutput
from tests.companion.scripted_companion import DANGER, SAFE, ScriptedControlModel, Talk, stages, talker

pytestmark = pytest.mark.promise("T-08")
USER, ASSISTANT, RUN_FINISHED = "UserMessage", "AssistantTurnCommitted", "RunFinished"
PLAIN = [USER, ASSISTANT, RUN_FINISHED]
RECORDED = [USER, USER, ASSISTANT, RUN_FINISHED]
"""Of a turn whose row in the crisis log, or whose paid judgement, is stored before a reply is worded."""

PATHS = {
    "therapeutic": ("I had a hard day with my boss", PLAIN),
    "exercise": ("Let's do box breathing", PLAIN),
    "memory control": ("What do you remember about me?", PLAIN),
    "lookup": ("How many people live in Norway?", PLAIN),
    "safety check": ("I can't do this anymore", RECORDED),
    "crisis": ("I want to kill myself tonight", RECORDED),
}
PATHS_WITH_MODEL = {
    "therapeutic": ("I had a hard day with my boss", [USER, USER, USER, ASSISTANT, RUN_FINISHED]),
    "exercise": ("Let's do box breathing", RECORDED),
    "memory control": ("What do you remember about me?", RECORDED),
    "lookup": ("How many people live in Norway?", RECORDED),
    "crisis": ("I want to kill myself tonight", RECORDED),
}
FORMS: dict[str, Any] = {
    "Judgement": {"level": 0},
    "TriageResult": {"route": "therapeutic", "style": "reflective"},
    "LookupAnswer": {"answered": True, "answer": "About 5.6 million people.", "rests_on": [1]},
}


class Almanac:
    """A search that knows one page."""

    name = "almanac"

    async def search(self, query: str, limit: int) -> list[Finding]:
        text = "About 5.6 million people live in Norway."
        return [Finding(title="Norway", url="https://example.org/norway", text=text)]


async def changes_of(db: Database, thread: str = "s1") -> list[Changeset]:
    return await db.scope(tenant=db.tenant, user="alice").thread(thread).changesets()


async def reasons(db: Database) -> list[str]:
    return [change.reason for change in await changes_of(db)]


def reasons_of_replies(changes: list[Changeset]) -> list[str]:
    """The reason of each changeset that holds a message of the assistant."""
    return [change.reason for change in changes for item in change.items if item.role == "assistant"]


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_commits_its_reply_as_an_assistant_turn(db: Database, path: str) -> None:
    message, sequence = PATHS[path]
    async with companion(db, search=Almanac()) as runtime:
        await Talk(runtime).say(message)
    changes = await changes_of(db)

    assert [change.reason for change in changes] == sequence
    assert reasons_of_replies(changes) == [ASSISTANT]


@pytest.mark.parametrize("path", PATHS_WITH_MODEL)
async def test_a_model_adds_only_the_checkpoints_of_what_it_judged(db: Database, path: str) -> None:
    message, sequence = PATHS_WITH_MODEL[path]
    model = ScriptedControlModel("That sounds like a long day.", **FORMS)
    async with companion(db, model, search=Almanac()) as runtime:
        await Talk(runtime).say(message)
    changes = await changes_of(db)

    assert [change.reason for change in changes] == sequence
    assert reasons_of_replies(changes) == [ASSISTANT]


@pytest.mark.promise("T-11")
@pytest.mark.parametrize("path", PATHS)
async def test_streaming_follows_the_same_schedule(db: Database, path: str) -> None:
    message, sequence = PATHS[path]
    async with companion(db, search=Almanac()) as runtime:
        events = await Talk(runtime).events_of(message)
    [reply] = [
        event for event in events if isinstance(event, MessageAdded) and event.message.role == "assistant"
    ]

    assert await reasons(db) == sequence
    assert reply.mark is not None
    assert (await changes_of(db))[reply.mark[0] - 1].reason == ASSISTANT


async def test_no_reply_stands_in_another_changeset_than_that_of_its_message(db: Database) -> None:
    async with companion(db) as runtime:
        output = await Talk(runtime).say("I had a hard day with my boss")
    others = [change for change in await changes_of(db) if change.reason != ASSISTANT]

    assert output.response_text.splitlines()[0] not in repr(others)


async def test_the_reply_and_the_end_go_to_the_store_together(db: Database) -> None:
    store = FailingStore(db.store, fail_at=0, only="change")
    own = Database(store).scope(tenant=db.tenant)
    async with companion(own, config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=3600))) as runtime:
        await Talk(runtime).say("I had a hard day with my boss")
        count = store.calls

    assert count == 2


async def test_a_safe_reply_after_an_error_is_an_assistant_turn(db: Database) -> None:
    async def fail(state: CompanionState, context: Context) -> Delta:
        raise RuntimeError("a stage of one's own")

    listen, triage, _ = stages()
    async with Runtime(
        db, schema=CompanionState, stages=[listen, triage, fail], output=AgentOutput
    ) as runtime:
        result = await runtime.run_turn("s1", DANGER, user="alice")
    changes = await changes_of(db)

    assert (result.text, result.termination) == (SAFE, "error")
    assert [change.reason for change in changes] == RECORDED
    assert reasons_of_replies(changes) == [ASSISTANT]


async def test_a_turn_that_fails_has_no_assistant_turn(db: Database) -> None:
    async def fail(state: CompanionState, context: Context) -> Delta:
        raise RuntimeError("a stage of one's own")

    async with Runtime(
        db, schema=CompanionState, stages=[*stages()[:2], fail], output=AgentOutput
    ) as runtime:
        with pytest.raises(RuntimeError):
            await runtime.run_turn("s1", "Hello", user="alice")

    assert await reasons(db) == [USER, RUN_FINISHED]


async def test_a_turn_that_is_cancelled_has_no_assistant_turn(db: Database) -> None:
    asked = asyncio.Event()

    class SilentModel(ScriptedControlModel):
        async def stream(self, request: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()
            yield

    async with talker(db, SilentModel(**FORMS)) as runtime:
        turn = asyncio.create_task(runtime.run_turn("s1", "I had a hard day", user="alice"))
        await asked.wait()
        await runtime.cancel("s1", user="alice")
        result = await turn

    assert result.termination == "cancelled"
    assert await reasons(db) == [USER, USER, RUN_FINISHED]
