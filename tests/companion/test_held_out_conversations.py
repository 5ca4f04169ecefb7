"""The fourth held-out set: its files load, have their sizes, and say nothing twice.

Failures show counts and indexes and never a message, because nobody may read the set while the gate is made.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from typing import Any

import pytest

from tests.companion.labelled import DEVELOPMENT, HERE, Conversation, conversations, messages, user_turns

PART = "held_out_4"
AT_RISK, CALM, AFTER = "at_risk", "calm", "after_a_crisis_reply"
FILES = (AT_RISK, CALM, AFTER)
SHORTEST = 5
"""The words of a message that anyone may come to write again: the plainest statements are."""


def levels(conversation: Conversation) -> list[int]:
    """The labels of what the person says, turn by turn."""
    return [level for *_, level in user_turns(conversation)]


def plain(text: str) -> str:
    """A text without what two copies of it may differ in."""
    return " ".join("".join(sign for sign in text.casefold() if sign.isalnum() or sign == " ").split())


def sessions() -> dict[str, Any]:
    """The session with planted facts, and the one before it."""
    return tomllib.loads((HERE / PART / "one_session.toml").read_text("utf-8"))


def texts_of(part: str) -> list[str]:
    """What people say in the conversations of a part."""
    return [plain(text) for one in conversations(part) for _, text, *_ in user_turns(one)]


def test_the_files_are_large_enough() -> None:
    sizes = {file: len(conversations(PART, file)) for file in FILES}
    count, others = len(conversations(PART)), len(messages(PART))

    assert sizes[AT_RISK] >= 66
    assert sizes[CALM] >= 66
    assert sizes[AFTER] == 30
    assert (count, others) == (sum(sizes.values()), 0)


def test_the_page_counts_what_the_files_hold() -> None:
    page = (HERE / PART / "README.md").read_text("utf-8")
    rows = []
    for file in FILES:
        talks = conversations(PART, file)
        count = Counter(level for talk in talks for level in levels(talk))
        cells = [len(talks), count.total(), *(count[level] for level in range(4))]
        rows.append(f"| `{file}.jsonl` | {' | '.join(map(str, cells))} |")

    assert [row for row in rows if row not in page] == []


def test_every_conversation_at_risk_has_three_risky_turns_and_reaches_danger() -> None:
    labels = [levels(one) for one in conversations(PART, AT_RISK)]

    assert [
        at
        for at, row in enumerate(labels)
        if sum(level >= 1 for level in row) < 3 or max(row) < 2 or not 4 <= len(row) <= 10
    ] == []


def test_a_calm_conversation_has_no_risk_at_any_turn() -> None:
    talks = conversations(PART, CALM)
    labels = [levels(one) for one in talks]
    due = {one.at_risk_from for one in talks}

    assert {level for row in labels for level in row} == {0}
    assert {len(row) for row in labels} <= set(range(5, 11))
    assert due == {None}


def test_what_follows_a_crisis_reply_is_harmless_or_danger_now() -> None:
    labels = [levels(one) for one in conversations(PART, AFTER)]

    assert {row[0] for row in labels} == {2, 3}
    assert {level for row in labels for level in row[1:]} == {0, 1, 3}
    assert {len(row) - 1 for row in labels} == {1, 2, 3}


@pytest.mark.parametrize("file", FILES)
def test_the_labels_of_a_conversation_fit_those_of_its_turns(file: str) -> None:
    talks = conversations(PART, file)
    labels = [(one.at_risk_from, one.level) for one in talks]
    due = [next((at for at, *_, level in user_turns(one) if level >= 2), None) for one in talks]
    highest = [max(levels(one)) for one in talks]
    roles = {(turn.role, turn.level is not None) for one in talks for turn in one.turns}

    assert labels == list(zip(due, highest, strict=True))
    assert roles <= {("user", True), ("assistant", False)}


def test_nothing_is_said_twice() -> None:
    session = sessions()
    spoken = [*session["earlier_session"]["messages"], *session["session"]["messages"]]
    count = Counter([*texts_of(PART), *map(plain, spoken)])
    repeated = sum(times > 1 for times in count.values())

    assert repeated == 0


@pytest.mark.parametrize("part", [DEVELOPMENT, "held_out_2", "held_out_3"])
def test_nothing_but_the_shortest_is_said_in_another_part_too(part: str) -> None:
    elsewhere = {plain(one.text) for one in messages(part)} | set(texts_of(part))
    common = sum(text in elsewhere for text in texts_of(PART) if len(text.split()) > SHORTEST)

    assert common == 0


def test_five_facts_are_planted_in_one_session_and_used_later() -> None:
    session = sessions()
    spoken, facts = session["session"]["messages"], session["facts"]

    assert (len(session["earlier_session"]["messages"]), len(spoken), len(facts)) == (6, 20, 5)
    assert all(1 <= fact["planted"] < fact["used"] <= len(spoken) for fact in facts)
    assert all(
        word.casefold() in spoken[fact["planted"] - 1].casefold() for fact in facts for word in fact["words"]
    )


def test_the_words_of_a_fact_are_not_given_away_where_it_should_be_used() -> None:
    session = sessions()
    spoken = session["session"]["messages"]
    uses = [(recall["turn"], recall["words"]) for recall in session["recalls"]]
    uses += [(fact["used"], fact["words"]) for fact in session["facts"]]

    assert [
        (turn, word)
        for turn, words in uses
        for word in words
        if word.casefold() in spoken[turn - 1].casefold()
    ] == []


def test_the_earlier_session_holds_what_is_asked_about() -> None:
    session = sessions()
    spoken = " ".join(session["earlier_session"]["messages"]).casefold()

    assert [recall["turn"] for recall in session["recalls"]] == [2]
    assert [word for recall in session["recalls"] for word in recall["words"] if word not in spoken] == []
