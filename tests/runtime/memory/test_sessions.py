"""Memory in turns: what one session tells, the next one knows; and nobody else."""

from __future__ import annotations

from typing import Annotated

import pytest

import clew
from clew.core.patch import append
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.memory.learn.extraction import RememberResult, remember, user_turns
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.recall.render import EpisodicEntry, SemanticEntry, prompt_part
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Arc
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.runtime import Runtime
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import State, input, loaded
from clew.runtime.turn.draft import Delta
from clew.testing.scripted_model import ScriptedModel


class Chat(State):
    message: Annotated[str, input]
    history: Annotated[StateLog[Message], append]
    working_memory: Annotated[list[SemanticEntry | EpisodicEntry | str], loaded]
    reply: str = ""


class Companion:
    """A chat that knows what its user told it before."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.model = ScriptedModel(*["I see."] * 20)
        self.runtime = Runtime(db, schema=Chat, stages=[self.load, self.answer], model=self.model)

    async def load(self, state: Chat, ctx: Context) -> Delta:
        memory = memory_of(self.db, ctx.turn.thread, ctx.turn.user)
        opening = await Retriever(memory).working_memory(state.message, first_turn=len(state.history) == 1)
        self.profile = opening.profile
        return {"working_memory": list(opening.result.entries)}

    async def answer(self, state: Chat, ctx: Context) -> Delta:
        instructions = prompt_part(state.working_memory, self.profile.rules, recall=self.profile.recall)
        request = ModelRequest(
            messages=[Message(role="user", content=state.message)], instructions=instructions
        )
        reply = await ctx.turn.ask(ctx.response_llm, request)
        ctx.turn.add([Message(role="assistant", content=reply.text)])
        return {"reply": reply.text}

    async def say(self, thread: str, text: str, user: str | None = None) -> str:
        """Say something; the instructions that the model got with it."""
        await self.runtime.run_turn(thread, text, user=user)
        return self.model.requests[-1].instructions

    async def end(self, thread: str, user: str | None = None) -> RememberResult:
        """Keep what the session tells, as the end of an episode does."""
        memory = memory_of(self.db, thread, user)
        turns = user_turns(await self.db.thread(thread).items(), thread)
        result = await remember(memory, turns, key=f"end of {thread}")
        await memory.db.commit(
            await memory.episode_writes(
                Arc(id="", episode=thread, summary=f"talked about {turns[-1].text}", themes=("anxiety",)), []
            )
        )
        return result


@pytest.mark.promise("R-18", "R-16", "B-11")
async def test_what_one_session_tells_the_first_turn_of_the_next_knows(db: Database) -> None:
    companion = Companion(db)
    await companion.say("s1", "Please call me Sam. My sister is called Ann.", "alice")
    await companion.say("s1", "my exam", "alice")
    await companion.end("s1", "alice")
    first = await companion.say("s2", "Hey", "alice")

    assert "Call the user Sam." in first
    assert "Last session (anxiety): talked about my exam." in first
    assert '[relationship] sister IS_CALLED Ann — "My sister is called Ann."' in first


@pytest.mark.promise("R-16")
async def test_another_user_and_another_thread_without_one_know_nothing(db: Database) -> None:
    companion = Companion(db)
    await companion.say("s1", "My sister is called Ann.", "alice")
    await companion.end("s1", "alice")
    await companion.say("a", "My sister is called Beth.")
    await companion.end("a")

    assert await companion.say("s3", "my sister", "bob") == ""
    assert await companion.say("b", "my sister") == ""
    assert "Beth" in await companion.say("a", "my sister")


@pytest.mark.promise("B-11")
async def test_a_fact_leads_back_to_the_item_that_it_was_learned_from(db: Database) -> None:
    companion = Companion(db)
    await companion.say("s1", "Hello there", "alice")
    await companion.say("s1", "My sister is called Ann.", "alice")
    await companion.end("s1", "alice")
    (fact,) = (await Memory(db, "alice").page()).facts
    source = fact.source
    assert source is not None
    thread = db.thread(source.thread)
    (item,) = await thread.items(after=source.place - 1, before=source.place + 1)

    assert item.body["content"] == "My sister is called Ann."
    assert (item.run, item.version) == (source.run, source.version)


@pytest.mark.promise("A-05")
async def test_with_recall_off_rules_shape_the_reply_and_the_rest_is_not_brought_up(db: Database) -> None:
    companion = Companion(db)
    await companion.say("s1", "Please no bullet points. My sister is called Ann.", "alice")
    await companion.end("s1", "alice")
    await Memory(db, "alice").set_recall(on=False)
    reply = await companion.say("s2", "my sister", "alice")

    assert "Answer without bullet points." in reply
    assert "Do not bring them up unless the user asks" in reply


@pytest.mark.promise("B-11")
async def test_two_friends_are_both_known_and_a_new_boss_replaces_the_old(db: Database) -> None:
    companion = Companion(db)
    await companion.say("s1", "My friend is called Lea. My boss is called Petra.", "alice")
    await companion.say("s1", "My friend is called Bo. My boss is called Kim.", "alice")
    await companion.end("s1", "alice")
    facts = (await Memory(db, "alice").page()).facts

    assert sorted(fact.object for fact in facts) == ["Bo", "Kim", "Lea"]


async def test_ending_twice_learns_once(db: Database) -> None:
    companion = Companion(db)
    await companion.say("s1", "My sister is called Ann.", "alice")
    results = [await companion.end("s1", "alice"), await companion.end("s1", "alice")]
    (fact,) = (await Memory(db, "alice").page()).facts

    assert [each.result.repeated for each in results] == [False, True]
    assert fact.times == 1


async def test_a_memory_survives_a_restart(shared_url: str) -> None:
    async with clew.open(shared_url) as db:
        companion = Companion(db)
        await companion.say("s1", "Please call me Sam.", "alice")
        await companion.end("s1", "alice")
    async with clew.open(shared_url) as db:
        reply = await Companion(db).say("s2", "Hey", "alice")

    assert "Call the user Sam." in reply
