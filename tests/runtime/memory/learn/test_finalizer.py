"""The end of an episode: an arc and what is promoted, kept once, whatever fails on the way."""

from __future__ import annotations

import pytest

from clew.core.errors import ModelFailed
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.recall.render import EpisodicEntry
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Candidate, MemorySource
from clew.runtime.memory.vectors.jobs import run_embedding_jobs
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import Conversation
from clew.runtime.turn.draft import Delta
from clew.testing.embedder import SpellingEmbedder
from clew.testing.scripted_model import ScriptedModel

SUMMARY = {
    "themes": ["exams"],
    "summary": "talked about the exam",
    "mood_opened": "tense",
    "open_loops": ["revise"],
}


async def talk(db: Database, finalizer: Finalizer, *texts: str, thread: str = "s1") -> None:
    """A session of one user from its first turn to its end."""
    async with Runtime(db, model=ScriptedModel(*["I see."] * len(texts)), finalize=finalizer) as runtime:
        for text in texts:
            await runtime.run_turn(thread, text, user="alice")
        await runtime.end_session(thread, user="alice")


@pytest.mark.promise("B-11")
async def test_an_ended_episode_leaves_an_arc_and_what_was_promoted(db: Database) -> None:
    def notice(request: ModelRequest) -> dict[str, object]:
        return {"rules": [{"message": 2, "quote": "tea helps", "about": "tea", "rule": "Suggest tea."}]}

    model = ScriptedModel(notice, lambda _: SUMMARY)
    await talk(db, Finalizer(model), "My sister is called Ann", "tea helps", "tea helps, really")
    memory = Memory(db, "alice")
    (arc,) = (await memory.page("arcs")).arcs

    assert (arc.summary, arc.themes, arc.open_loops) == ("talked about the exam", ("exams",), ("revise",))
    assert [fact.object for fact in (await memory.page()).facts] == ["Ann"]
    assert [rule.text for rule in (await memory.profile()).rules] == ["Suggest tea."]
    assert (await db.thread(memory.thread).head()).version == 1


@pytest.mark.parametrize(
    "model",
    [
        None,
        ScriptedModel(*[ModelFailed(model="m", problem="down")] * 6),
        ScriptedModel(*[lambda _: {}, lambda _: {"summary": " "}] * 3),
    ],
    ids=["none", "failing", "silent"],
)
async def test_without_a_model_plain_statements_and_own_words_are_left(
    db: Database, model: ScriptedModel | None
) -> None:
    finalizer = Finalizer(model, retry_policy=RetryPolicy(attempts=1))
    await talk(db, finalizer, "My sister is called Ann", "The exam, always the exam")
    memory = Memory(db, "alice")
    (arc,) = (await memory.page("arcs")).arcs

    assert [fact.object for fact in (await memory.page()).facts] == ["Ann"]
    assert (arc.themes[0], arc.summary) == ("exam", "they said: “The exam, always the exam”")


@pytest.mark.promise("B-11")
async def test_what_was_refused_is_in_no_arc_and_is_told_to_no_model(db: Database) -> None:
    model = ScriptedModel(lambda _: {}, lambda _: SUMMARY)
    texts = (
        "I like tea",
        "My ex is called Tom and that is the longest thing I say",
        "Please don't remember that",
    )
    await talk(db, Finalizer(model), *texts)
    await talk(db, Finalizer(), *texts, thread="s2")
    arcs = (await Memory(db, "alice").page("arcs")).arcs

    assert [arc.summary for arc in arcs] == ["they said: “I like tea”", "talked about the exam"]
    assert [message.text for message in model.requests[-1].messages] == ["I like tea", "I see."]


@pytest.mark.promise("B-11")
async def test_a_session_that_is_not_to_be_remembered_leaves_nothing(db: Database) -> None:
    await talk(db, Finalizer(), "Please don't remember anything I say today", "My sister is called Ann")
    memory = Memory(db, "alice")

    assert ((await memory.page()).facts, (await memory.page("arcs")).arcs) == ((), ())


async def test_each_episode_is_an_arc_of_its_own_and_reads_only_its_own_turns(db: Database) -> None:
    await talk(db, Finalizer(), "I'm worried about my exam")
    await talk(db, Finalizer(), "I like tea")
    memory = Memory(db, "alice")
    arcs = (await memory.page("arcs")).arcs

    assert ["I like tea" in arc.summary for arc in arcs] == [True, False]
    assert [fact.object for fact in (await memory.page()).facts] == ["tea"]


async def test_what_a_turn_held_is_promoted_by_the_same_rules(db: Database) -> None:
    async def hold(state: Conversation, ctx: Context) -> Delta:
        (item,) = await db.thread(ctx.turn.thread).items(last=1)
        assert ctx.session_memory_buffer is not None
        source = MemorySource(thread=ctx.turn.thread, place=item.place, item=item.id)
        ctx.session_memory_buffer.add(
            Candidate(predicate="LIKES", object=state.message, quote=state.message, plain=True, source=source)
        )
        return {}

    model = ScriptedModel(*["I see."] * 3)
    async with Runtime(db, model=model, stages=[hold, respond()], finalize=Finalizer()) as runtime:
        await runtime.run_turn("s1", "green tea", user="alice")
        await runtime.run_turn("s1", "Please don't remember that", user="alice")
        await runtime.run_turn("s1", "old maps", user="alice")
        await runtime.end_session("s1", user="alice")

    assert [fact.object for fact in (await Memory(db, "alice").page()).facts] == ["old maps"]


async def test_vectors_are_made_in_the_queue(db: Database) -> None:
    embedder = SpellingEmbedder()
    await talk(db, Finalizer(embedder=embedder), "My sister is called Ann")
    before = await db.records.find(RecordQuery(kind=VECTOR_KIND))
    counts = [await run_embedding_jobs(db, embedder), await run_embedding_jobs(db, embedder)]

    assert (list(before), counts) == ([], [2, 0])


async def test_an_episode_without_a_user_leaves_what_it_knows_to_its_thread(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("I see."), finalize=Finalizer()) as runtime:
        await runtime.run_turn("a", "My sister is called Ann")
        await runtime.end_session("a")

    assert [fact.object for fact in (await memory_of(db, "a").page()).facts] == ["Ann"]
    assert (await memory_of(db, "b").page()).facts == ()


@pytest.mark.promise("A-04", "A-10")
async def test_an_episode_keeps_what_an_approach_was_taken_for_and_how_much_it_wrote(db: Database) -> None:
    summary = {**SUMMARY, "approach": "cbt", "approach_context": "the fear of failing"}
    model = ScriptedModel(lambda _: {}, lambda _: summary)
    async with Runtime(db, model=ScriptedModel("I see."), finalize=Finalizer(model)) as runtime:
        await runtime.run_turn("s1", "My sister is called Ann", user="alice")
        episode = await runtime.end_session("s1", user="alice")
    memory = memory_of(db, "s2", "alice")
    (entry,) = (await Retriever(memory).working_memory("exam", first_turn=True)).result.entries[:1]

    assert episode is not None
    assert episode.write_counts == {"candidates": 1, "facts": 1, "rules": 0, "arcs": 1}
    assert isinstance(entry, EpisodicEntry)
    assert (entry.approach_used, entry.approach_context) == ("cbt", "the fear of failing")
