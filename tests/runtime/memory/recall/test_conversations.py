"""The conversations of the benchmark are whole, and turns are found better with what is around them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import clew
from bench.retrieval.conversations import own_conversations, parse_conversation, read_conversations
from bench.retrieval.figures import Recall, measure_recall
from bench.retrieval.rankings import SessionClock, fill_database, plain_fts5
from bench.retrieval.weights import ranking_with
from clew.core.text.turns import SHIPPED, TurnWeights
from clew.stores.memory import MemoryStore

ENTRY = {
    "sample_id": "one",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hello"}],
    },
    "qa": [
        {"question": "Who?", "evidence": ["D1:1; D9:9"]},
        {"question": "What?", "evidence": []},
    ],
}


async def recall_with(shape: TurnWeights) -> Recall:
    """The recall on our own conversations."""
    clock = SessionClock()
    db = clew.Database(MemoryStore(clock=clock))
    conversations = own_conversations()
    for conversation in conversations:
        await fill_database(db, clock, conversation)
    return await measure_recall([(c, ranking_with(db, c, shape)) for c in conversations])


def test_every_question_is_answered_by_turns_that_are_there() -> None:
    for conversation in own_conversations():
        ids = {turn.id for turn in conversation.turns}

        assert [q.text for q in conversation.questions if not q.evidence or not q.evidence <= ids] == []


def test_a_file_in_the_form_of_locomo_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(msgspec.json.encode([ENTRY]))
    (conversation,) = read_conversations(path)

    assert conversation == parse_conversation(ENTRY, 0)
    assert [(turn.speaker, turn.time) for turn in conversation.turns] == [("Ann", 1_683_554_160_000)]
    assert [(q.text, q.evidence) for q in conversation.questions] == [("Who?", frozenset({"D1:1"}))]


@pytest.mark.promise("B-15")
async def test_turns_are_found_better_with_what_is_around_them() -> None:
    alone = await recall_with(TurnWeights(near=0.0, wide=0.0, session=0.0))
    shipped = await recall_with(SHIPPED)

    assert shipped.turns[0] >= alone.turns[0]
    assert all(ours > own + 0.08 for ours, own in zip(shipped.turns[1:], alone.turns[1:], strict=True))


@pytest.mark.promise("B-15")
async def test_turns_are_found_better_than_by_the_index_alone() -> None:
    fts5 = await measure_recall([(c, plain_fts5(c)) for c in own_conversations()])
    shipped = await recall_with(SHIPPED)

    assert all(ours > theirs for ours, theirs in zip(shipped.turns, fts5.turns, strict=True))
