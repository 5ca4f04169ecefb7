"""A score of how the offline companion listens: one session after another, in counts and never in words.

    python -m tests.companion.listening

plays the held-out sessions and prints which planted facts were used rightly, by their indexes.
"""

import asyncio
import itertools
import json
import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

import clew
from clew.core.text.words import words
from clew_companion.agent import companion
from clew_companion.language.second_person import in_second_person
from tests.companion.labelled import HERE

RUN_WORDS = 4
"""So many words of the person in a row are given back to them."""


class ListeningScore(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a session, and the indexes of what was recalled, used and contradicted in it."""

    turns: int
    repeats: int
    recalled: list[int]
    used: list[int]
    contradicted: list[int]
    most_suggestions: int


def held_out_sessions() -> dict[str, Any]:
    """The session with planted facts, and the one before it."""
    return tomllib.loads((HERE / "held_out_4" / "one_session.toml").read_text("utf-8"))


async def play_sessions(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The replies of the second session, after the first was ended."""
    async with await clew.open("memory://") as db, companion(db) as runtime:
        for message in first:
            await runtime.run_turn("first", message, user="sam")
        await runtime.end_session("first", user="sam")
        return [(await runtime.run_turn("second", message, user="sam")).text for message in second]


def repeats(message: str, reply: str) -> bool:
    """Return whether a reply gives a run of the person's words back to them."""
    said = {" ".join(run) for text in (message, in_second_person(message)) for run in _runs(text)}
    return any(" ".join(run) in said for run in _runs(reply))


def _runs(text: str) -> list[tuple[str, ...]]:
    tokens = words(text.replace("’", "'"))
    return list(zip(*(itertools.islice(tokens, at, None) for at in range(RUN_WORDS)), strict=False))


def score_session(sessions: dict[str, Any], replies: Sequence[str]) -> ListeningScore:
    """Score the replies of a session by what was planted in it. Messages are counted from 1."""
    facts = sessions["facts"]
    wish = [fact for fact in facts if "at_most_suggestions" in fact]
    return ListeningScore(
        turns=len(replies),
        repeats=sum(map(repeats, sessions["session"]["messages"], replies)),
        recalled=[
            at for at, each in enumerate(sessions["recalls"]) if _has_words(each, replies[each["turn"] - 1])
        ],
        used=[
            at
            for at, fact in enumerate(facts)
            if fact["words"] and _has_words(fact, replies[fact["used"] - 1])
        ],
        contradicted=[
            at
            for at, each in enumerate([*facts, *sessions["recalls"]])
            if any(wrong.lower() in reply.lower() for wrong in each["contradictions"] for reply in replies)
        ],
        most_suggestions=max(
            (
                replies[turn - 1].count("\n- ")
                for fact in wish
                for turn in (fact["used"], *fact.get("used_again", ()))
            ),
            default=0,
        ),
    )


def _has_words(entry: dict[str, Any], reply: str) -> bool:
    return all(word.lower() in reply.lower() for word in entry["words"])


async def main() -> None:
    """Print the counts of the held-out session."""
    sessions = held_out_sessions()
    replies = await play_sessions(sessions["earlier_session"]["messages"], sessions["session"]["messages"])
    print(json.dumps(msgspec.to_builtins(score_session(sessions, replies))))  # noqa: T201  # counts only


if __name__ == "__main__":
    asyncio.run(main())
