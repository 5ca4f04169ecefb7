"""Words without a language model: it listens, reflects, asks one open question, and says what it is.

It is simple and does not pretend otherwise. The same words bring the same answer, it needs no key, and it
reaches out to nothing.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar
from zlib import crc32

from holdfast.companion.exercises.choosing import fitting
from holdfast.companion.mirroring import mirrored
from holdfast.companion.saying import is_no
from holdfast.companion.session import listed, loops_in
from holdfast.companion.topics import Topic, topics_in
from holdfast.core.errors import ModelFailed
from holdfast.runtime.memory.finalizing import Told
from holdfast.runtime.memory.rendering import MAY_MENTION
from holdfast.runtime.memory.values import THEMES
from holdfast.runtime.messages import Message
from holdfast.runtime.models import Part, Reply, Request, Text, Usage

T = TypeVar("T")
OFFER_EVERY = 3
"""An exercise is offered in the second turn that speaks for one, and not again before so many turns."""

WHAT_I_AM = (
    "I should say that I run without a language model just now: I am a small program that listens, gives "
    "back what it hears and knows some exercises."
)
GREETING = re.compile(
    r"\W*(?:hi|hey|hello|good\s+(?:morning|evening|afternoon)|hallo|moin|salut|hola)(?:\W+there)?\W*",
    re.IGNORECASE,
)
THANKS = re.compile(r"\b(?:thanks?|thank\s+you|bye|good\s?night|see\s+you|that['’]?s\s+all)\b", re.IGNORECASE)
ASKED = re.compile(
    r"\b(?:are\s+you\s+(?:a\s+|an\s+)?(?:real|human|person|bot|robot|ai|machine|program|therapist|doctor)|"
    r"who\s+are\s+you|"
    r"what\s+are\s+you)\b",
    re.IGNORECASE,
)
WHO = (
    "I am a program, not a person and not a therapist. I do not diagnose and I cannot see you. I can listen, "
    "give back what I hear, and guide you through an exercise. What is on your mind?"
)
OFFER = "Would you like to try"
CLOSING_WORDS = 12
NAME = re.compile(r"Call the user (?P<name>[^\n.]{1,40})\.")
LAST = re.compile(r"Last session \((?P<themes>[^)\n]{1,80})\)")
WISHES = "How this user wants to be answered:"
SHORT = re.compile(r"^- .*\b(?:short|brief|concise)\b", re.IGNORECASE | re.MULTILINE)
FEWER = re.compile(r"^- Ask fewer questions", re.IGNORECASE | re.MULTILINE)
OPEN = (
    "What is the hardest part of it for you?",
    "When did you first notice it?",
    "What would feel a little lighter than it does now?",
    "What happens just before it gets strong?",
    "What have you tried so far, and what came of it?",
    "Who else knows about this?",
)
HEARD = ("I hear you.", "Thank you for telling me.", "That makes sense to me.", "I am following you.")


class OfflineModel:
    """Answers by rules. It streams its words like any other model, and fills in no forms."""

    name = "offline"

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """The answer to the last message, word by word."""
        text = offline_reply(request.messages, request.instructions)
        pieces = text.split(" ")
        for number, piece in enumerate(pieces):
            yield Text(piece if number == len(pieces) - 1 else f"{piece} ")
        heard = sum(len(message.text.split()) for message in request.messages)
        yield Reply(text=text, usage=Usage(calls=1, input_tokens=heard, output_tokens=len(pieces)))

    async def fill(self, request: Request, kind: type[T]) -> tuple[T, Usage]:
        """What a conversation was about, for its arc. It judges nothing else, so that rules decide.

        Raises:
            ModelFailed: It was asked for anything else, or there is nothing to tell.
        """
        told = retold(request.messages) if kind is Told else None
        if not isinstance(told, kind):
            raise ModelFailed(model=self.name, problem="it is offline and gives no typed answers")
        return told, Usage(calls=1)


def retold(messages: Sequence[Message]) -> Told | None:
    """A conversation in short, by the topics of what the person said; None if it had none."""
    said = [message.text for message in messages if message.role == "user"]
    counts = Counter(topic.name for text in said for topic in topics_in(text))
    themes = [name for name, _ in counts.most_common(THEMES)]
    if not themes:
        return None
    loops = [loop for text in said for loop in loops_in(text)]
    return Told(themes=themes, summary=f"talked about {listed(themes)}", open_loops=loops[-THEMES:])


def offline_reply(messages: Sequence[Message], told: str = "") -> str:
    """What is said to the last message, given those before it, and what a model is told of the person."""
    said = [message.text for message in messages if message.role == "user" and message.text.strip()]
    replied = [message.text for message in messages if message.role == "assistant"]
    last = said[-1] if said else ""
    if ASKED.search(last):
        return WHO
    if not last or GREETING.fullmatch(last):
        return _introduced(_greeting(told), replied)
    if is_no(last) and replied and OFFER in replied[-1]:
        return "That is fine, we leave it. What would you rather talk about?"
    if THANKS.search(last) and len(last.split()) <= CLOSING_WORDS:
        return "You are welcome. Take good care of yourself. I am here when you want to go on."
    return _introduced(_reflection(said, replied, told), replied)


def _greeting(told: str) -> str:
    """The first words, with what may be brought up of the last session."""
    name, last = NAME.search(told), LAST.search(told) if MAY_MENTION in told else None
    hello = f"Hello, {name['name']}." if name else "Hello."
    before = f" Last time it was about {last['themes']}." if last else " It is good that you are here."
    return f"{hello}{before} What is on your mind today?"


def _reflection(said: Sequence[str], replied: Sequence[str], told: str) -> str:
    """What was heard, given back, and one question, as far as the person wants any of it."""
    last, topics = said[-1], topics_in(said[-1])
    wishes = told.partition(WISHES)[2].partition("\n\n")[0]
    parts = [topics[0].reflection if topics else "", mirrored(last) or HEARD[_chance(last) % len(HEARD)]]
    heard = [part for part in parts if part]
    question = _question(said, replied, topics)
    if FEWER.search(wishes) and OFFER not in question:
        question = ""
    return " ".join([*(heard[-1:] if SHORT.search(wishes) else heard), question]).strip()


def _question(said: Sequence[str], replied: Sequence[str], topics: Sequence[Topic]) -> str:
    """One question: an exercise if one fits and none was offered lately, and otherwise an open one."""
    lately = " ".join(replied[-OFFER_EVERY:])
    found = fitting(said[-OFFER_EVERY:]) if len(said) > 1 else []
    if found and OFFER not in lately:
        return f"There is something that could help a little right now. {OFFER} {found[0].name}?"
    own = [topic.question for topic in topics if topic.question not in lately]
    fresh = [question for question in OPEN if question not in lately] or list(OPEN)
    return own[0] if own else fresh[_chance(said[-1]) % len(fresh)]


def _introduced(text: str, replied: Sequence[str]) -> str:
    """What it is, said once at the beginning of a conversation."""
    return text if replied else f"{text}\n\n{WHAT_I_AM}"


def _chance(text: str) -> int:
    """A number that depends on the words alone."""
    return crc32(text.encode())
