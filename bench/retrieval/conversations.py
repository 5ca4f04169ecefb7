"""Conversations of several sessions with questions, in the form of LoCoMo: read from a file, or our own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.retrieval import talks as talks_of_our_own

DATE = re.compile(r"(?:(\d+):(\d+) *([ap]m) +on +)?(\d+) +(\w+),? +(\d{4})")
EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, kw_only=True)
class Utterance:
    """Something that was said: by whom, in which session, and when."""

    id: str
    session: int
    speaker: str
    text: str
    time: int


@dataclass(frozen=True, kw_only=True)
class ConversationQuestion:
    """A question, and the ids of the turns that answer it."""

    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A conversation of two people, and what is asked about it."""

    name: str
    turns: tuple[Utterance, ...]
    questions: tuple[ConversationQuestion, ...]

    @property
    def sessions(self) -> dict[int, list[Utterance]]:
        """The turns of each session, in order."""
        sessions: dict[int, list[Utterance]] = {}
        for turn in self.turns:
            sessions.setdefault(turn.session, []).append(turn)
        return sessions


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a file in the form of LoCoMo."""
    return [parse_conversation(entry, number) for number, entry in enumerate(json.loads(path.read_text()))]


def parse_conversation(entry: Mapping[str, Any], number: int) -> Conversation:
    """A conversation from an entry of such a file, without the questions that have no turn as evidence."""
    turns = tuple(_turns(entry["conversation"]))
    ids = {turn.id for turn in turns}
    questions = []
    for row in entry["qa"]:
        evidence = frozenset(EVIDENCE.findall(" ".join(row.get("evidence", ())))) & ids
        if evidence:
            questions.append(ConversationQuestion(text=row["question"], evidence=evidence))
    name = str(entry.get("sample_id", f"conversation-{number}"))
    return Conversation(name=name, turns=turns, questions=tuple(questions))


def _turns(conversation: Mapping[str, Any]) -> Iterator[Utterance]:
    numbers = sorted(int(name[8:]) for name in conversation if re.fullmatch(r"session_\d+", name))
    for session in numbers:
        time = _time(conversation.get(f"session_{session}_date_time", ""))
        for turn in conversation[f"session_{session}"]:
            yield Utterance(
                id=turn["dia_id"],
                session=session,
                speaker=turn["speaker"],
                text=turn["text"],
                time=time,
            )


def _time(text: str) -> int:
    """The milliseconds of a time such as "1:56 pm on 8 May, 2023"; 0 if it is none."""
    match = DATE.search(text)
    if match is None:
        return 0
    hour, minute, half, day, month, year = match.groups()
    date = datetime.strptime(f"{day} {month} {year}", "%d %B %Y").replace(tzinfo=UTC)
    hours = int(hour or 0) % 12 + (12 if half == "pm" else 0)
    return int(date.replace(hour=hours, minute=int(minute or 0)).timestamp() * 1000)


def own_conversations() -> list[Conversation]:
    """The conversations that ship with the benchmark."""
    talks = {"nora": talks_of_our_own.NORA_AND_IDRIS, "marta": talks_of_our_own.MARTA_AND_THE_ASSISTANT}
    return [_parse_talk(name, text) for name, text in talks.items()]


def _parse_talk(name: str, text: str) -> Conversation:
    """A conversation as it is written down in ``talks``."""
    turns: list[Utterance] = []
    questions: list[ConversationQuestion] = []
    session = line = time = 0
    for row in text.strip().splitlines():
        if row.startswith("# "):
            session, line, time = session + 1, 0, _time(row)
        elif row.startswith("? "):
            question, _, lines = row[2:].rpartition(" | ")
            places = [place if ":" in place else f"{session}:{place}" for place in lines.split()]
            evidence = frozenset(f"D{place}" for place in places)
            questions.append(ConversationQuestion(text=question, evidence=evidence))
        else:
            line += 1
            speaker, _, said = row.partition(": ")
            turn_id = f"D{session}:{line}"
            turns.append(Utterance(id=turn_id, session=session, speaker=speaker, text=said, time=time))
    return Conversation(name=name, turns=tuple(turns), questions=tuple(questions))
