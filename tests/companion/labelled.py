"""The labelled messages and conversations that the crisis gate is trained and measured on."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.runtime.model.messages import Message

HERE = Path(__file__).parent
DEVELOPMENT, FIFTH = "development", "fifth"
"""What is learnt from, and the fifth of it that the network was not taught with: it is measured there."""
FOLDS, UNHEARD = 5, 0
"""The folds that the development part is cut into, and the one that is the fifth."""
CONVERSATIONS_ONLY = ("held_out_4",)
"""The parts whose files all hold conversations, whatever they are called."""


class Turn(msgspec.Struct, frozen=True):
    """One turn of a conversation. ``level`` is there where each turn of the person is labelled by itself."""

    role: str
    text: str
    level: int | None = None


class LabelledMessage(msgspec.Struct, frozen=True):
    """A message and how serious it was labelled. ``file`` is the name of the one that it stands in."""

    text: str
    level: int
    kind: str
    language: str
    before: tuple[Turn, ...] = ()
    file: str = ""


class Conversation(msgspec.Struct, frozen=True):
    """A conversation, and the turn by which its risk must have been noticed."""

    shape: str
    turns: tuple[Turn, ...]
    at_risk_from: int | None
    level: int
    language: str = "en"
    answer: str = ""


def messages(part: str) -> list[LabelledMessage]:
    """The labelled messages of a part, file by file."""
    if part == FIFTH:
        return [one for one in messages(DEVELOPMENT) if fold(one) == UNHEARD]
    return [
        msgspec.convert({**line, "file": file.stem}, LabelledMessage)
        for file in _files(part, talks=False)
        for line in _lines(file)
    ]


def conversations(part: str, name: str = "*") -> list[Conversation]:
    """The conversations of a part, file by file, or of its one file of this name."""
    if part == FIFTH:
        return [one for one in conversations(DEVELOPMENT, name) if fold(one) == UNHEARD]
    files = [file for file in _files(part, talks=True) if file.match(f"{name}.jsonl")]
    return [msgspec.convert(line, Conversation) for file in files for line in _lines(file)]


def _files(part: str, *, talks: bool) -> list[Path]:
    return [file for file in sorted((HERE / part).glob("*.jsonl")) if _holds_conversations(file) == talks]


def _holds_conversations(file: Path) -> bool:
    return "conversations" in file.name or file.parent.name in CONVERSATIONS_ONLY


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]


def as_messages(turns: Sequence[Turn]) -> list[Message]:
    """Turns as the gate is given them."""
    return [Message(role=turn.role, content=turn.text) for turn in turns]


def user_turns(conversation: Conversation) -> list[tuple[int, str, list[Message], int]]:
    """What the person says: where, the words, the turns before, and how serious it is labelled there."""
    return [
        (at, turn.text, as_messages(conversation.turns[:at]), _level(conversation, at))
        for at, turn in enumerate(conversation.turns)
        if turn.role == "user"
    ]


def _level(conversation: Conversation, at: int) -> int:
    """How serious a turn is: its own label, or else that of the conversation from where the risk shows."""
    label = conversation.turns[at].level
    if label is not None:
        return label
    due = conversation.at_risk_from
    return conversation.level if due is not None and at >= due else 0


def fold(one: LabelledMessage | Conversation) -> int:
    """The fold that something is in. What begins with the same words is in the same one."""
    turns = one.turns if isinstance(one, Conversation) else one.before
    first = turns[0].text if turns else one.text if isinstance(one, LabelledMessage) else ""
    return hashlib.sha256(first.encode()).digest()[0] % FOLDS
