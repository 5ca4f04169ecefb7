"""Words without a language model: it listens, gives back, asks one question, and says what it is.

It is simple and does not pretend otherwise: what it does not understand it calls so. The same conversation
brings the same answer, it needs no key, and it reaches out to nothing.
"""

import itertools
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from clew.core.errors import ModelFailed
from clew.core.text.words import words
from clew.runtime.memory import statements_in
from clew.runtime.memory.learn.finalizer import ConversationSummary
from clew.runtime.memory.phrases.refusals import refusals_in
from clew.runtime.memory.recall.render import MAY_MENTION, ONLY_IF_ASKED
from clew.runtime.memory.values import MOST_THEMES
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew_companion.crisis.floor import language_of
from clew_companion.exercises.selection import exercise_in
from clew_companion.language.commands import command_in
from clew_companion.language.phrases import LanguagePhrases, languages, phrases_of
from clew_companion.language.replies import asks_about_last_session, is_no
from clew_companion.language.second_person import in_second_person
from clew_companion.language.topics import is_asking_why, sentences, topics_in
from clew_companion.memory.promotion import CRISIS_WORDS, HARSH_WORDS
from clew_companion.memory.session import join_names, open_loops_in
from clew_companion.offline.recollection import content_stems, key_sentences, recollection
from clew_companion.offline.reflection import OFFER, reflection
from clew_companion.offline.remarks import RemarkMatch, least_recent, remark_in
from clew_companion.values import Approach

T = TypeVar("T")
WHAT_I_AM = (
    "I should say that I run without a language model just now: I am a small program that listens, gives "
    "back what it hears and knows some exercises."
)
MOST_LETTERS = 4000
"""So many letters of a message are looked at: more cannot be given back anyhow."""

OFFLINE_WORDS = "without a language model"
GREETING = re.compile(
    r"^\W*(?:(?:hi+|hey+|hello+|hiya|yo|good\s+(?:morning|evening|afternoon|day)|greetings|hallo|moin|salut|hola)"
    r"(?:\W+(?:there|again|you|everyone|bot|clew))*(?:\W+|$))+",
    re.IGNORECASE,
)
FAREWELL_WORDS = (
    r"(?:bye(?:[\s-]bye)?|goodbye|good\s?night|see\s+you|talk\s+(?:to\s+you\s+)?(?:later|tomorrow|soon)|"
    r"i(?:['’]?m|\s+am)\s+(?:going|off)\s+to\s+(?:bed|sleep)|i\s+should\s+go(?:\s+now)?(?=\W*$)|i(?:['’]ve\s+got|\s+have|\s+need|['’]ll\s+have)\s+to\s+go|gotta\s+go|"
    r"that['’]?s\s+(?:all|it|enough)(?:\s+for\s+(?:today|now))?|that\s+is\s+all(?:\s+for\s+(?:today|now))?)\b"
)
THANKS_WORDS = r"(?:thanks?|thank\s+you|thx|cheers|many\s+thanks)\b"
OPENING_FILLER = r"^\W*(?:(?:ok(?:ay)?|well|so|right|alright|all\s+right|anyway|great|good|fine|no|yes)\W+)*"
THANKS = re.compile(rf"{OPENING_FILLER}{THANKS_WORDS}|[,.!;]\s*{THANKS_WORDS}\W*$", re.IGNORECASE)
GOODBYE = re.compile(rf"{OPENING_FILLER}{FAREWELL_WORDS}|[,.!;]\s*{FAREWELL_WORDS}", re.IGNORECASE)
IDENTITY_QUESTION = re.compile(
    r"\b(?:are\s+you\s+(?:really\s+|actually\s+|just\s+)?(?:a\s+|an\s+)?"
    r"(?:real|human|person|bot|robot|ai|machine|program|therapist|doctor|psychologist|counsell?or)|"
    r"who\s+are\s+you|am\s+i\s+(?:talking|speaking|writing)\s+(?:to|with)|"
    r"what\s+are\s+you(?=\W*$))\b",
    re.IGNORECASE,
)
IDENTITY = (
    "I am a program, not a person and not a therapist. I do not diagnose and I cannot see you. I can listen, "
    "give back what I hear, and guide you through an exercise. What is on your mind?"
)
NOT_KEEPING = "I will not keep that."
MOST_CLOSING_WORDS = 12
NAME_RULE = re.compile(r"Call the user (?P<name>[^\n.]{1,40})\.")
LAST_SESSION = re.compile(r"Last session(?: \((?P<themes>[^)\n]{1,80})\))?: (?P<summary>[^\n]+)")
SUMMARY_QUOTES = re.compile(r"“(?P<quote>[^”]+)”")
WISHES_HEADING = "How this user wants to be answered:"
SHORT_WISH = re.compile(r"^- .*\b(?:short|brief|concise)\b", re.IGNORECASE | re.MULTILINE)
FEWER_QUESTIONS_WISH = re.compile(r"^- Ask fewer questions", re.IGNORECASE | re.MULTILINE)
GOOD_NEWS = re.compile(
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
LIGHT_TOPICS = ("people", "work", "sleep", "health", "money", "change")
"""Topics that good news can be about."""

GLAD_REPLIES = ("That is good to hear.", "I am glad about that.", "That sounds good.")
GOOD_NEWS_QUESTIONS = (
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
NO_ANSWER = (
    "That is a question I have no good answer to: there is little that I know. What makes you ask?",
    "I do not know, and I would rather say so than guess. What would an answer change for you?",
    "I cannot answer that. What do you think yourself?",
)
QUESTION_START = re.compile(
    r"\W*(?:(?:and|so|but|ok(?:ay)?)\s+)?(?:(?:what|why|how|which|where|who)(?:['’]?s|\s+\w+)?\s+"
    r"(?:is|are|do|does|did|can|could|should|would|will|was|were)|how\s+(?:many|much|long|far|old|often|high|big)|"
    r"(?:can|could|do|does|is|are|will|would|should)\s+(?:i|you|we|it|this|that|he|she|they|there|my))\b",
    re.IGNORECASE,
)
"""How a question begins that lacks its mark."""

LONG_WORD = 4
KEY_MASH = re.compile(r"[^aeiouyäöü]{4,}|.*[bcdfghjklmnpqrstvwxz]{5,}.*")
"""What no English word looks like."""

SHOWS_QUESTION = "How does it show with you?"


class OfflineModel:
    """Answers by rules. It streams its words like any other model, and fills in no forms."""

    name = "offline"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The answer to the last message, word by word."""
        text = offline_reply(request.messages, request.instructions)
        pieces = text.split(" ")
        for number, piece in enumerate(pieces):
            yield TextChunk(piece if number == len(pieces) - 1 else f"{piece} ")
        input_words = sum(len(message.text.split()) for message in request.messages)
        yield Reply(text=text, usage=Usage(calls=1, input_tokens=input_words, output_tokens=len(pieces)))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """The arc of a conversation. It judges nothing else, so that rules decide.

        Raises:
            ModelFailed: It was asked for anything else, or there is nothing to tell.
        """
        summary = summarize_conversation(request.messages) if kind is ConversationSummary else None
        if not isinstance(summary, kind):
            raise ModelFailed(model=self.name, problem="it is offline and gives no typed answers")
        return summary, Usage(calls=1)


def summarize_conversation(messages: Sequence[Message]) -> ConversationSummary | None:
    """A conversation in short, by the topics of what the person said; None if rules cannot tell."""
    texts = [message.text for message in messages if message.role == "user"]
    counts = Counter(topic.name for text in texts for topic in topics_in(text))
    themes = [name for name, _ in counts.most_common(MOST_THEMES)]
    if not themes:
        return (
            ConversationSummary(summary=SMALL_TALK) if all(_is_small_talk(text) for text in texts) else None
        )
    loops = [loop for text in texts for loop in open_loops_in(text)]
    approach, approach_context = _approach_of(messages, themes[0])
    return ConversationSummary(
        themes=themes,
        summary="; ".join([f"talked about {join_names(themes)}", *_key_quotes(messages)]),
        open_loops=loops[-MOST_THEMES:],
        approach=approach,
        approach_context=approach_context,
    )


def _key_quotes(messages: Sequence[Message]) -> list[str]:
    """The sentences that stand for a conversation, in the person's words; none of what is not to be kept."""
    texts = [
        message.text
        for message, reply in itertools.zip_longest(messages, messages[1:])
        if message.role == "user"
        and not (reply is not None and reply.meta.get("response_style") in STYLES_WITHOUT_QUOTES)
    ]
    if len(texts) < LEAST_QUOTED_MESSAGES or refusals_in(texts):
        return []
    quotes = key_sentences([text for text in texts if len(text.split()) <= MOST_QUOTED_WORDS])
    fit = [
        each
        for each in quotes
        # what is kept as a fact is forgotten as one: its words must not outlive it here
        if not (statements_in(each) or HARSH_WORDS.search(each) or CRISIS_WORDS.search(each))
    ]
    return [f"they said: {' '.join(f'“{each}”' for each in fit)}"] if fit else []


STYLES_WITHOUT_QUOTES = ("crisis_response", "safety_check", "memory_control", "guided_exercise")
"""Replies to messages of which no word goes into the summary of a conversation."""
LEAST_QUOTED_MESSAGES, MOST_QUOTED_WORDS = 4, 60
"""A shorter talk is told by its themes alone, and of a longer message nothing is quoted."""


def _approach_of(messages: Sequence[Message], theme: str) -> tuple[Approach, str]:
    """The approach of a conversation and what it was taken for: its last exercise, or else its main theme."""
    names = [
        each.meta["exercise"]["name"] for each in messages if isinstance(each.meta.get("exercise"), dict)
    ]
    exercise = exercise_in(names[-1]) if names else None
    if exercise is not None:
        return exercise.approach, f"the exercise {exercise.name}"
    topics = [topic for each in messages if each.role == "user" for topic in topics_in(each.text)]
    return next(topic.approach for topic in topics if topic.name == theme), theme


SMALL_TALK = "talked for a moment"


def _is_small_talk(text: str) -> bool:
    """Return whether a message says nothing that is worth telling another day."""
    rest = _after_greeting(text)
    return not rest or remark_in(rest) is not None or is_closing(rest)


def offline_reply(messages: Sequence[Message], instructions: str = "") -> str:
    """The reply to the last message, given the earlier ones and the instructions."""
    texts = [
        message.text[:MOST_LETTERS] for message in messages if message.role == "user" and message.text.strip()
    ]
    replies = [message.text for message in messages if message.role == "assistant"]
    wishes = instructions.partition(WISHES_HEADING)[2].partition("\n\n")[0]
    text = _direct_reply(texts, replies, instructions, messages) or reflection(
        texts, replies, is_short=bool(SHORT_WISH.search(wishes))
    )
    if texts and refusals_in(texts[-1:]):
        text = f"{NOT_KEEPING} {text}"
    if FEWER_QUESTIONS_WISH.search(wishes) and OFFER not in text:
        text = without_question(text)
    return text if replies or _says_what_it_is(text) else f"{text}\n\n{WHAT_I_AM}"


def _says_what_it_is(text: str) -> bool:
    phrases = (phrases_of(language) for language in languages())
    return (
        OFFLINE_WORDS in text
        or text == IDENTITY
        or any(each is not None and each.simple == text for each in phrases)
    )


def without_question(text: str) -> str:
    """A text without what it asks; all of it if it does nothing else."""
    return " ".join(sentence for sentence in sentences(text) if not sentence.endswith("?")) or text


def aside_reply(message: str, replies: Sequence[str]) -> str:
    """The reply beside an exercise to a message that is not about it; empty if there is none."""
    if IDENTITY_QUESTION.search(message):
        return without_question(IDENTITY)
    match = remark_in(message)
    if match is not None and match.remark.aside:
        return without_question(least_recent(match.answers, replies, message))
    return without_question(_explanation(message))


def _direct_reply(
    texts: Sequence[str], replies: Sequence[str], instructions: str, messages: Sequence[Message]
) -> str:
    """The answer to a greeting, a remark, a question or an unreadable message; empty for a story."""
    last = texts[-1] if texts else ""
    rest = _after_greeting(last)
    if IDENTITY_QUESTION.search(last):
        return IDENTITY
    if not rest:
        return _greeting(instructions, replies)
    if is_no(last) and replies and OFFER in replies[-1]:
        return "That is fine, we leave it. What would you rather talk about?"
    if is_closing(rest) and not is_no(rest):
        return _farewell(rest)
    if asks_about_last_session(last):
        return _last_session_reply(instructions)
    match = remark_in(rest)
    if match is not None:
        return _remark_reply(match, texts, replies, instructions)
    return (
        _unclear_reply(rest, replies)
        or _recollection_reply(rest, replies, instructions, messages)
        or _explanation(rest, texts[:-1])
        or _good_news_reply(rest, replies)
        or _question_reply(rest, replies)
    )


def is_closing(message: str) -> bool:
    """Return whether a message only thanks or takes leave."""
    is_short = len(message.split()) <= MOST_CLOSING_WORDS
    return is_short and "?" not in message and bool(THANKS.search(message) or GOODBYE.search(message))


def _farewell(last: str) -> str:
    welcome = "You are welcome. " if THANKS.search(last) else ""
    return f"{welcome}Take good care of yourself. I am here when you want to go on."


def _after_greeting(message: str) -> str:
    """A message without the greeting that it begins with."""
    return GREETING.sub("", message).strip()


def _greeting(instructions: str, replies: Sequence[str]) -> str:
    """The first words, with what may be brought up of the last session; later ones are shorter."""
    if replies:
        return "Hello again. What is on your mind?"
    name, last = (
        NAME_RULE.search(instructions),
        LAST_SESSION.search(instructions) if MAY_MENTION in instructions else None,
    )
    hello = f"Hello, {name['name']}." if name else "Hello."
    themes = last["themes"] if last else None
    before = f" Last time it was about {themes}." if themes else " It is good that you are here."
    return f"{hello}{before} What is on your mind today?"


def _remark_reply(match: RemarkMatch, texts: Sequence[str], replies: Sequence[str], instructions: str) -> str:
    if match.answers:
        return least_recent(match.answers, replies, texts[-1])
    return (
        _own_name_reply(texts[:-1], instructions)
        if match.remark.id == "own_name"
        else _so_far_reply(texts[:-1])
    )


def _last_session_reply(instructions: str) -> str:
    """The reply that tells what the last session was about, from its arc."""
    last = LAST_SESSION.search(instructions)
    if last is None:
        return "I remember nothing of an earlier conversation. What would you like to talk about?"
    quotes = [in_second_person(quote["quote"]) for quote in SUMMARY_QUOTES.finditer(last["summary"])]
    themes = f"it was about {last['themes']}" if last["themes"] else "we talked for a moment"
    told = [f"{quote[0].upper()}{quote[1:].rstrip('.!… ')}." for quote in quotes]
    return " ".join([f"Last time {themes}.", *(["You told me:", *told] if told else []), GO_ON_QUESTION])


GO_ON_QUESTION = "Would you like to go on from there?"


def _recollection_reply(
    last: str, replies: Sequence[str], instructions: str, messages: Sequence[Message]
) -> str:
    """The answer to a question by what the person said before that bears on it; empty if nothing does.

    Who does not want the past to be brought up is not told of it.
    """
    if "?" not in last or ONLY_IF_ASKED in instructions:
        return ""
    # Only now: looking through all that was said takes longer than all the rest of a reply.
    text = recollection(last, tellable_texts(messages), instructions)
    return f"{text} {least_recent(RECOLLECTION_QUESTIONS, replies, last)}" if text else ""


def tellable_texts(messages: Sequence[Message]) -> list[str]:
    """The person's earlier messages that they may be told of again.

    Not those said in danger, nor what they asked not to keep or to forget.
    """
    texts = [(at, message.text) for at, message in enumerate(messages) if message.role == "user"]
    refused = {turn for refusal in refusals_in([text for _, text in texts]) for turn in refusal.turns}
    tellable: list[str] = []
    for turn, (at, text) in enumerate(texts[:-1]):
        reply = messages[at + 1]
        command = command_in(text)
        if command is not None and command.kind == "forget_that":
            tellable = tellable[:-1]
        elif command is not None and command.kind == "forget":
            stems = content_stems(command.what)
            tellable = [each for each in tellable if stems.isdisjoint(content_stems(each))]
        elif turn not in refused and reply.meta.get("response_style") not in STYLES_WITHOUT_QUOTES:
            tellable.append(text)
    return tellable


RECOLLECTION_QUESTIONS = (
    "What would you like to do with that?",
    "What speaks for it, and what against it?",
    "What would be a first small step?",
    "What would you say to a friend who asked you this?",
)
"""Questions after what a person has told before."""


def _own_name_reply(texts: Sequence[str], instructions: str) -> str:
    """The name of the person, if they said it."""
    names = [match.name for text in texts if (match := remark_in(text)) is not None and match.name]
    name_rule = NAME_RULE.search(instructions)
    name = names[-1] if names else name_rule["name"] if name_rule else ""
    if not name:
        return "You have not told me your name. You need not, either. What is on your mind?"
    return f"You asked me to call you {name}. What is on your mind, {name}?"


def _so_far_reply(texts: Sequence[str]) -> str:
    """The reply that sums up the conversation so far."""
    names = list(dict.fromkeys(topic.name for text in texts for topic in topics_in(text)))
    if not names:
        return "There is not much that I could tell of it yet. What would you like to talk about?"
    themes = join_names(names[-MOST_THEMES:])
    return f"As far as I can tell, it was about {themes}. Where would you like to go on?"


def _unclear_reply(last: str, replies: Sequence[str]) -> str:
    """The reply to an illegible message, in the person's language if that is known."""
    phrases = _phrases_in_language_of(last)
    if phrases is not None:
        is_told = any(phrases.simple in reply for reply in replies)
        return least_recent(phrases.asks, replies, last) if is_told else phrases.simple
    tokens = words(last)
    long = [word for word in tokens if len(word) >= LONG_WORD]
    is_mashed = bool(long) and all(KEY_MASH.fullmatch(word) for word in long)
    is_readable = re.search(r"[a-z]", last, re.IGNORECASE) is not None and not is_mashed
    if tokens:
        return "" if is_readable else least_recent(UNREADABLE, replies, last)
    return least_recent(UNREADABLE if "?" in last else WORDLESS, replies, last)


ENGLISH_WORDS = frozenset(words("the my it that this with you they she not and are what don but from just"))
"""Words that other languages do not have."""

LEAST_WORDS = 4
"""Fewer words do not tell a language."""


def _phrases_in_language_of(last: str) -> LanguagePhrases | None:
    """The replies in the language of a message that is not English."""
    distinct_words = set(words(last))
    return (
        None
        if len(distinct_words) < LEAST_WORDS or distinct_words & ENGLISH_WORDS
        else phrases_of(language_of(last))
    )


def _explanation(last: str, before: Sequence[str] = ()) -> str:
    """The explanation of a known topic, if the message or the one before asks for it."""
    if not is_asking_why(last):
        return ""
    texts = [last, *reversed(before[-RECENT_TEXTS:])] if BACK_REFERENCE.search(last) else [last]
    topics = next((text_topics for text in texts if (text_topics := topics_in(text))), [])
    return f"{topics[0].explains} {SHOWS_QUESTION}" if topics else ""


RECENT_TEXTS = 3
BACK_REFERENCE = re.compile(r"\b(?:this|that|it|so)\b", re.IGNORECASE)
"""What points to something that was said before."""


def _good_news_reply(last: str, replies: Sequence[str]) -> str:
    """The answer to good news."""
    is_good = GOOD_NEWS.search(last) and not NOT_GOOD.search(last) and "?" not in last
    if not is_good or any(topic.id not in LIGHT_TOPICS for topic in topics_in(last)):
        return ""
    return f"{least_recent(GLAD_REPLIES, replies, last)} {least_recent(GOOD_NEWS_QUESTIONS, replies, last)}"


def _question_reply(last: str, replies: Sequence[str]) -> str:
    """The answer to a question that nothing else knows."""
    is_question = last.endswith("?") or QUESTION_START.match(last)
    return least_recent(NO_ANSWER, replies, last) if is_question and not topics_in(last) else ""
