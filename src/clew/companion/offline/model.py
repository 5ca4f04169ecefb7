"""Words without a language model: it listens, gives back, asks one question, and says what it is.

It is simple and does not pretend otherwise: what it does not understand it calls so. The same conversation
brings the same answer, it needs no key, and it reaches out to nothing.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from clew.companion.crisis.floor import language_of
from clew.companion.language.phrases import Listening, languages, listening
from clew.companion.language.replies import is_no
from clew.companion.language.topics import is_asking_why, sentences, topics_in
from clew.companion.memory.session import listed, loops_in
from clew.companion.offline.reflection import OFFER, reflection
from clew.companion.offline.remarks import Made, remark_in, unsaid
from clew.core.errors import ModelFailed
from clew.core.text.words import words
from clew.runtime.memory.learn.finalizer import Told
from clew.runtime.memory.phrases.refusals import refusals
from clew.runtime.memory.recall.render import MAY_MENTION
from clew.runtime.memory.values import THEMES
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Part, Reply, Request, Text, Usage

T = TypeVar("T")
WHAT_I_AM = (
    "I should say that I run without a language model just now: I am a small program that listens, gives "
    "back what it hears and knows some exercises."
)
READ = 4000
"""So many letters of a message are looked at: more cannot be given back anyhow."""

WITHOUT = "without a language model"
GREETING = re.compile(
    r"^\W*(?:(?:hi+|hey+|hello+|hiya|yo|good\s+(?:morning|evening|afternoon|day)|greetings|hallo|moin|salut|hola)"
    r"(?:\W+(?:there|again|you|everyone|bot|clew))*(?:\W+|$))+",
    re.IGNORECASE,
)
TAKING_LEAVE = (
    r"(?:bye(?:[\s-]bye)?|goodbye|good\s?night|see\s+you|talk\s+(?:to\s+you\s+)?(?:later|tomorrow|soon)|"
    r"i(?:['’]?m|\s+am)\s+(?:going|off)\s+to\s+(?:bed|sleep)|i\s+should\s+go(?:\s+now)?(?=\W*$)|i(?:['’]ve\s+got|\s+have|\s+need|['’]ll\s+have)\s+to\s+go|gotta\s+go|"
    r"that['’]?s\s+(?:all|it|enough)(?:\s+for\s+(?:today|now))?|that\s+is\s+all(?:\s+for\s+(?:today|now))?)\b"
)
THANKING = r"(?:thanks?|thank\s+you|thx|cheers|many\s+thanks)\b"
FIRST = r"^\W*(?:(?:ok(?:ay)?|well|so|right|alright|all\s+right|anyway|great|good|fine|no|yes)\W+)*"
THANKS = re.compile(rf"{FIRST}{THANKING}|[,.!;]\s*{THANKING}\W*$", re.IGNORECASE)
GOODBYE = re.compile(rf"{FIRST}{TAKING_LEAVE}|[,.!;]\s*{TAKING_LEAVE}", re.IGNORECASE)
ASKED = re.compile(
    r"\b(?:are\s+you\s+(?:really\s+|actually\s+|just\s+)?(?:a\s+|an\s+)?"
    r"(?:real|human|person|bot|robot|ai|machine|program|therapist|doctor|psychologist|counsell?or)|"
    r"who\s+are\s+you|am\s+i\s+(?:talking|speaking|writing)\s+(?:to|with)|"
    r"what\s+are\s+you(?=\W*$))\b",
    re.IGNORECASE,
)
WHO = (
    "I am a program, not a person and not a therapist. I do not diagnose and I cannot see you. I can listen, "
    "give back what I hear, and guide you through an exercise. What is on your mind?"
)
NOT_KEEPING = "I will not keep that."
CLOSING_WORDS = 12
NAME = re.compile(r"Call the user (?P<name>[^\n.]{1,40})\.")
LAST = re.compile(r"Last session \((?P<themes>[^)\n]{1,80})\)")
WISHES = "How this user wants to be answered:"
SHORT = re.compile(r"^- .*\b(?:short|brief|concise)\b", re.IGNORECASE | re.MULTILINE)
FEWER = re.compile(r"^- Ask fewer questions", re.IGNORECASE | re.MULTILINE)
GOOD = re.compile(
    r"\b(?:nice|lovely|great|fun|enjoyed|enjoying|happy|glad|proud|excited|good\s+news|passed\s+(?:my|the)|promoted|"
    r"got\s+(?:the|a)\s+(?:job|promotion|raise|place)|wonderful|beautiful|amazing|awesome|fantastic|laughed|relaxing|"
    r"delicious|(?:feel|feeling|felt)\s+(?:a\s+(?:bit|little)\s+)?(?:better|good|calmer|relieved)|"
    r"went\s+(?:really\s+|very\s+)?well|praised\s+me|getting\s+married)\b",
    re.IGNORECASE,
)
NOT_GOOD = re.compile(
    r"\b(?:not|never|no|hardly|used\s+to|wish|nothing|without|but|should|would|could|if|too|can['’]?t|pretend\w*)\b|n['’]t\b",
    re.IGNORECASE,
)
LIGHT = ("people", "work", "sleep", "health", "money", "change")
"""Topics that good news can be about."""

GLAD = ("That is good to hear.", "I am glad about that.", "That sounds good.")
MORE_OF_IT = (
    "What was the best part of it?",
    "What do you think made the difference?",
    "How does it feel to tell it?",
    "What would you like to keep of it?",
)
UNREADABLE = (
    "I could not read that: I know plain English words best. Could you say it in another way?",
    "That I did not understand, and I would rather say so than guess. What did you mean?",
)
WORDLESS = (
    "I am here. I can only read words, so write whenever you like.",
    "Take your time.",
)
UNANSWERED = (
    "That is a question I have no good answer to: there is little that I know. What makes you ask?",
    "I do not know, and I would rather say so than guess. What would an answer change for you?",
    "I cannot answer that. What do you think yourself?",
)
QUESTION = re.compile(
    r"\W*(?:(?:and|so|but|ok(?:ay)?)\s+)?(?:(?:what|why|how|which|where|who)(?:['’]?s|\s+\w+)?\s+"
    r"(?:is|are|do|does|did|can|could|should|would|will|was|were)|how\s+(?:many|much|long|far|old|often|high|big)|"
    r"(?:can|could|do|does|is|are|will|would|should)\s+(?:i|you|we|it|this|that|he|she|they|there|my))\b",
    re.IGNORECASE,
)
"""How a question begins that lacks its mark."""

LONG_WORD = 4
MASHED = re.compile(r"[^aeiouyäöü]{4,}|.*[bcdfghjklmnpqrstvwxz]{5,}.*")
"""What no English word looks like."""

SHOWS = "How does it show with you?"


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
    """A conversation in short, by the topics of what the person said; None if rules cannot tell."""
    said = [message.text for message in messages if message.role == "user"]
    counts = Counter(topic.name for text in said for topic in topics_in(text))
    themes = [name for name, _ in counts.most_common(THEMES)]
    if not themes:
        return Told(summary=SMALL_TALK) if all(_is_small(text) for text in said) else None
    loops = [loop for text in said for loop in loops_in(text)]
    return Told(themes=themes, summary=f"talked about {listed(themes)}", open_loops=loops[-THEMES:])


SMALL_TALK = "talked for a moment"


def _is_small(text: str) -> bool:
    """Whether a message says nothing that is worth telling another day."""
    rest = _after_greeting(text)
    return not rest or remark_in(rest) is not None or is_closing(rest)


def offline_reply(messages: Sequence[Message], told: str = "") -> str:
    """What is said to the last message, given those before it, and what a model is told of the person."""
    said = [message.text[:READ] for message in messages if message.role == "user" and message.text.strip()]
    replied = [message.text for message in messages if message.role == "assistant"]
    wishes = told.partition(WISHES)[2].partition("\n\n")[0]
    text = _answered(said, replied, told) or reflection(said, replied, is_short=bool(SHORT.search(wishes)))
    if said and refusals(said[-1:]):
        text = f"{NOT_KEEPING} {text}"
    if FEWER.search(wishes) and OFFER not in text:
        text = without_question(text)
    return text if replied or _says_what_it_is(text) else f"{text}\n\n{WHAT_I_AM}"


def _says_what_it_is(text: str) -> bool:
    theirs = (listening(language) for language in languages())
    return WITHOUT in text or text == WHO or any(each is not None and each.simple == text for each in theirs)


def without_question(text: str) -> str:
    """A text without what it asks; all of it if it does nothing else."""
    return " ".join(sentence for sentence in sentences(text) if not sentence.endswith("?")) or text


def aside(message: str, replied: Sequence[str]) -> str:
    """What is said beside an exercise to a message that is not about it; empty if it may be."""
    if ASKED.search(message):
        return without_question(WHO)
    made = remark_in(message)
    if made is not None and made.remark.aside:
        return without_question(unsaid(made.answers, replied, message))
    return without_question(_explained(message))


def _answered(said: Sequence[str], replied: Sequence[str], told: str) -> str:
    """The answer to a greeting, a remark, a question or what cannot be read; empty to what is told."""
    last = said[-1] if said else ""
    rest = _after_greeting(last)
    if ASKED.search(last):
        return WHO
    if not rest:
        return _greeting(told, replied)
    if is_no(last) and replied and OFFER in replied[-1]:
        return "That is fine, we leave it. What would you rather talk about?"
    if is_closing(rest) and not is_no(rest):
        return _farewell(rest)
    made = remark_in(rest)
    if made is not None:
        return _remarked(made, said, replied, told)
    return (
        _unclear(rest, replied)
        or _explained(rest, said[:-1])
        or _gladly(rest, replied)
        or _asked_back(rest, replied)
    )


def is_closing(message: str) -> bool:
    """Whether a message only thanks or takes leave."""
    is_short = len(message.split()) <= CLOSING_WORDS
    return is_short and "?" not in message and bool(THANKS.search(message) or GOODBYE.search(message))


def _farewell(last: str) -> str:
    welcome = "You are welcome. " if THANKS.search(last) else ""
    return f"{welcome}Take good care of yourself. I am here when you want to go on."


def _after_greeting(message: str) -> str:
    """A message without the greeting that it begins with."""
    return GREETING.sub("", message).strip()


def _greeting(told: str, replied: Sequence[str]) -> str:
    """The first words, with what may be brought up of the last session; later ones are shorter."""
    if replied:
        return "Hello again. What is on your mind?"
    name, last = NAME.search(told), LAST.search(told) if MAY_MENTION in told else None
    hello = f"Hello, {name['name']}." if name else "Hello."
    before = f" Last time it was about {last['themes']}." if last else " It is good that you are here."
    return f"{hello}{before} What is on your mind today?"


def _remarked(made: Made, said: Sequence[str], replied: Sequence[str], told: str) -> str:
    if made.answers:
        return unsaid(made.answers, replied, said[-1])
    return _own_name(said[:-1], told) if made.remark.id == "own_name" else _so_far(said[:-1])


def _own_name(said: Sequence[str], told: str) -> str:
    """The name that somebody goes by, if they said it."""
    given = [made.name for text in said if (made := remark_in(text)) is not None and made.name]
    kept = NAME.search(told)
    name = given[-1] if given else kept["name"] if kept else ""
    if not name:
        return "You have not told me your name. You need not, either. What is on your mind?"
    return f"You asked me to call you {name}. What is on your mind, {name}?"


def _so_far(said: Sequence[str]) -> str:
    """What the conversation was about until now."""
    names = list(dict.fromkeys(topic.name for text in said for topic in topics_in(text)))
    if not names:
        return "There is not much that I could tell of it yet. What would you like to talk about?"
    return f"As far as I can tell, it was about {listed(names[-THEMES:])}. Where would you like to go on?"


def _unclear(last: str, replied: Sequence[str]) -> str:
    """What is said to what cannot be read: in the language of the person if that is what it is."""
    theirs = _language(last)
    if theirs is not None:
        is_told = any(theirs.simple in reply for reply in replied)
        return unsaid(theirs.asks, replied, last) if is_told else theirs.simple
    said = words(last)
    long = [word for word in said if len(word) >= LONG_WORD]
    is_mashed = bool(long) and all(MASHED.fullmatch(word) for word in long)
    is_readable = re.search(r"[a-z]", last, re.IGNORECASE) is not None and not is_mashed
    if said:
        return "" if is_readable else unsaid(UNREADABLE, replied, last)
    return unsaid(UNREADABLE if "?" in last else WORDLESS, replied, last)


ENGLISH = frozenset(words("the my it that this with you they she not and are what don but from just"))
"""Words that other languages do not have."""

SENTENCE = 4
"""Fewer words do not tell a language."""


def _language(last: str) -> Listening | None:
    """What is said in the language of a message that is not English."""
    said = set(words(last))
    return None if len(said) < SENTENCE or said & ENGLISH else listening(language_of(last))


def _explained(last: str, before: Sequence[str] = ()) -> str:
    """How such things commonly work, if that is asked of something known, or of what was just said."""
    if not is_asking_why(last):
        return ""
    said = [last, *reversed(before[-RECENT:])] if OWN.search(last) else [last]
    topics = next((found for text in said if (found := topics_in(text))), [])
    return f"{topics[0].explains} {SHOWS}" if topics else ""


RECENT = 3
OWN = re.compile(r"\b(?:this|that|it|so)\b", re.IGNORECASE)
"""What points to something that was said before."""


def _gladly(last: str, replied: Sequence[str]) -> str:
    """The answer to good news."""
    is_good = GOOD.search(last) and not NOT_GOOD.search(last) and "?" not in last
    if not is_good or any(topic.id not in LIGHT for topic in topics_in(last)):
        return ""
    return f"{unsaid(GLAD, replied, last)} {unsaid(MORE_OF_IT, replied, last)}"


def _asked_back(last: str, replied: Sequence[str]) -> str:
    """The answer to a question that nothing else knows."""
    is_question = last.endswith("?") or QUESTION.match(last)
    return unsaid(UNANSWERED, replied, last) if is_question and not topics_in(last) else ""
