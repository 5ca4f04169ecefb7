"""Reflections without a language model: the person's words given back, and one question."""

import re
from collections.abc import Sequence

from clew_companion.exercises.selection import fitting_exercises
from clew_companion.language.second_person import in_second_person
from clew_companion.language.topics import Topic, sentences, topics_in
from clew_companion.offline.remarks import least_recent

FEELING = re.compile(
    r"\bi(?:['’]?m|\s+am|\s+feel|['’]?ve\s+been\s+feeling|\s+have\s+been\s+feeling|['’]?ve\s+been|"
    r"\s+have\s+been)\s+"
    r"(?P<what>(?:so|very|really|quite|a\s+bit|always|just|too|not)?\s*[a-z][^.!?\n]{2,90})",
    re.IGNORECASE,
)
ONGOING = re.compile(r"(?:\w+ly\s+|just\s+|not\s+)?\w{3,}ing\b", re.IGNORECASE)
"""Activities of a person that may have ended."""

NEXT_CLAUSE = re.compile(
    r"\s*(?:[,;:–—]|\b(?:but|because|since|and\s+(?:i|then|now|he|she|they|it)|so\s+(?:i|that))\b).*",
    re.IGNORECASE,
)
MOST_FEELING_WORDS = 16
OPENING_FILLER = re.compile(
    r"^\W*(?:(?:i\s+mean|and|but|so|well|yeah|yes|no|ok|okay|because|honestly|actually|also|anyway|hm+|um+|oh|like|basically|"
    r"today|lately|sometimes|then|plus)\b[\s,]*)+",
    re.IGNORECASE,
)
STATEMENT_START = re.compile(
    r"(?:i|i['’]?ve|i['’]d|i['’]ll|my|our|we|we['’](?:re|ve|ll|d)|he|she|they|everything|everyone|everybody|nobody|no\s+one|"
    r"people|the|me\s+and\s+my|it(?=\s.*\b(?:i|me|my)\b))\s",
    re.IGNORECASE,
)
"""How a sentence begins that can be given back."""

NOT_REPEATABLE = re.compile(
    r"\b(?:you|your|yours|u|ur|let['’]?s|please|thanks?)\b|[\"“”()/\\<>{}@#]|https?:", re.IGNORECASE
)
"""What makes a sentence one that is better not given back."""

CLOSING_FILLER = re.compile(
    r"(?:,\s*(?:what|how|why|should|can|could|do|is)\b.*"
    r"|(?:\W+(?:lol|haha|tbh|honestly|actually|though|anyway|i\s+guess|you\s+know|or\s+something))*\W*)$",
    re.IGNORECASE,
)
NOT_OWN_FEELING = re.compile(
    r"\b(?:thinks?|says?|said|told|tells?|if|when|whether|because|wish|afraid|that|like)\b", re.IGNORECASE
)
"""Words before a feeling that show that the person does not say it of themself now."""

LEAST_WORDS, MOST_WORDS = 4, 18


def feeling_reflection(message: str) -> str:
    """A sentence that reflects the feeling that a person states; empty if they state none."""
    for sentence in sentences(message):
        match = FEELING.search(sentence) if not sentence.endswith("?") else None
        is_own = match is not None and not NOT_OWN_FEELING.search(sentence[: match.start()])
        what = NEXT_CLAUSE.sub("", match["what"]).strip() if match and is_own else ""
        if what and len(what.split()) <= MOST_FEELING_WORDS and not NOT_REPEATABLE.search(what):
            return f"{FEELING_OPENING}{_feeling_verb(match)} {in_second_person(what)}."
    return ""


def restatement(message: str) -> str:
    """The person's words as a listener says them, without the end; empty if they cannot be turned round."""
    for sentence in sentences(message):
        core = CLOSING_FILLER.sub("", OPENING_FILLER.sub("", sentence))
        is_short = LEAST_WORDS <= len(core.split()) <= MOST_WORDS
        if (
            not sentence.endswith("?")
            and is_short
            and STATEMENT_START.match(core)
            and not NOT_REPEATABLE.search(core)
        ):
            return _lowercase_first(in_second_person(core))
    return ""


def _lowercase_first(text: str) -> str:
    """A text whose first word is small, if it is one of those that sentences begin with."""
    return f"{text[0].lower()}{text[1:]}"


def _feeling_verb(match: re.Match[str] | None) -> str:
    """Return whether the clause says that the person is, feels, or has been something."""
    before = "" if match is None else match[0][: match.start("what") - match.start()].lower()
    if "feel" in before:
        return "feel"
    return "have been" if "been" in before and match and ONGOING.match(match["what"]) else "are"


OFFER = "Would you like to try"
OFFER_EVERY = 3
"""An exercise is offered when a second message speaks for one, and not again before so many turns."""

TOPIC_MESSAGES = 3
"""So many messages back a topic is still the one that is talked about."""

FEW_WORDS = 4
CONTINUATION = re.compile(
    r"\W*(?:and|but|because|so|it|that|this|he|she|they|him|her|them|every|always|never|still|the\s+same)\b",
    re.IGNORECASE,
)
"""How a message begins that goes on with what was said."""

TROUBLE_QUESTIONS = (
    "What is the hardest part of it for you?",
    "When did you first notice it?",
    "What would feel a little lighter than it does now?",
    "What have you tried so far, and what came of it?",
    "Who else knows about this?",
)
"""Questions about a worry of any kind."""

NEUTRAL_QUESTIONS = (
    "What was that like for you?",
    "Would you like to tell me more about it?",
    "How do you feel about it?",
    "What matters most to you in it?",
    "What goes through your mind as you tell it?",
)
"""What can be asked about anything."""

FEELING_QUESTIONS = (
    "How long has it been like that?",
    "What would you like to be there instead?",
    "What brought it on?",
    "When is it different?",
)
"""Questions about a feeling."""

ACKNOWLEDGEMENTS = (
    "I hear you.",
    "Thank you for telling me.",
    "I am listening.",
    "That is good to know.",
    "I see.",
    "I am glad that you say it.",
    "That stays with me.",
)
REFLECTION_STARTS = ("So ", "I hear that ", "You tell me that ")
"""Openings of a reflection."""
FEELING_OPENING = "You say that you "
REFLECT_EVERY = 10
"""Replies in which the person's words are given back to them once: to listen is not to repeat."""

LONG_MESSAGE_REPLY = "You have told me a lot there, and thank you for it. I can only pick up parts of it."
LONG_MESSAGE_WORDS = 80


def reflection(texts: Sequence[str], replies: Sequence[str], *, is_short: bool) -> str:
    """A reflection and one question."""
    last, topics = texts[-1], topics_in(texts[-1])
    parts = _reflections(last, topics, replies) or [least_recent(ACKNOWLEDGEMENTS, replies, last)]
    return " ".join([*(parts[-1:] if is_short else parts), _question(texts, replies, topics)])


def _reflections(last: str, topics: Sequence[Topic], replies: Sequence[str]) -> list[str]:
    """The clauses of a message in a listener's words; none if none of them can be turned round."""
    if len(last.split()) > LONG_MESSAGE_WORDS:
        return [LONG_MESSAGE_REPLY, *_topic_reflection(topics, replies)]
    has_reflected = any(
        reply.startswith(REFLECTION_STARTS) or FEELING_OPENING in reply for reply in replies[-REFLECT_EVERY:]
    )
    feeling = "" if has_reflected else feeling_reflection(last)
    if feeling:
        return [*_topic_reflection(topics, replies), feeling]
    is_weighty = bool(topics) and topics[0].approach in ("grief_support", "pfa")
    statement = "" if is_weighty or has_reflected else restatement(last)
    opening = least_recent(REFLECTION_STARTS, replies[-2:], last)
    return [*([f"{opening}{statement}."] if statement else []), *_topic_reflection(topics, replies)]


def _topic_reflection(topics: Sequence[Topic], replies: Sequence[str]) -> list[str]:
    """A sentence about a topic, once in a while."""
    lately = " ".join(replies[-TOPIC_MESSAGES:])
    options = topics[0].reflections if topics else ()
    return [] if not options or any(each in lately for each in options) else [least_recent(options, replies)]


def _question(texts: Sequence[str], replies: Sequence[str], topics: Sequence[Topic]) -> str:
    """One question: an exercise if one fits, and otherwise one about the topic that is talked about."""
    last, lately = texts[-1], " ".join(replies[-OFFER_EVERY:])
    if OFFER not in lately and (offer := _offer(texts, replies, topics)):
        return offer
    current = topics or _topics_so_far(texts)
    if not current:
        return least_recent(
            FEELING_QUESTIONS if feeling_reflection(last) else NEUTRAL_QUESTIONS, replies, last
        )
    own = current[0].questions
    is_left = not all(any(question in reply for reply in replies) for question in own)
    return least_recent(own, replies) if is_left else least_recent(TROUBLE_QUESTIONS, replies, last)


def _topics_so_far(texts: Sequence[str]) -> Sequence[Topic]:
    """The topics of earlier messages, if a message goes on with them and has none of its own."""
    if len(texts[-1].split()) > FEW_WORDS and not CONTINUATION.match(texts[-1]):
        return []
    return next(
        (text_topics for text in reversed(texts[-TOPIC_MESSAGES:]) if (text_topics := topics_in(text))), []
    )


def _offer(texts: Sequence[str], replies: Sequence[str], topics: Sequence[Topic]) -> str:
    """An exercise, once two messages speak for one, or at once in a panic; none twice in a conversation."""
    is_urgent = bool(topics) and topics[0].approach == "pfa"
    is_time = is_urgent or (
        fitting_exercises(texts[-OFFER_EVERY:-1]) and (topics or fitting_exercises(texts[-1:]))
    )
    exercises = (fitting_exercises(texts[-1:]) or fitting_exercises(texts[-OFFER_EVERY:])) if is_time else []
    new_exercises = [each for each in exercises if not any(each.name in reply for reply in replies)]
    if not new_exercises:
        return ""
    about = f"There is an exercise that may help a little, of {new_exercises[0].minutes} minutes or so."
    return f"{about} {OFFER} {new_exercises[0].name}?"
