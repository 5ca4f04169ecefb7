"""What somebody tells, given back without a language model, and one question about it."""

import re
from collections.abc import Sequence

from clew.companion.exercises.selection import fitting
from clew.companion.language.topics import Topic, sentences, topics_in
from clew.companion.offline.remarks import unsaid

TURNED = {
    "i": "you",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "am": "are",
    "i'm": "you are",
    "im": "you are",
    "i've": "you have",
    "ive": "you have",
    "i'd": "you would",
    "i'll": "you will",
    "we": "you",
    "we're": "you are",
    "we've": "you have",
    "we'll": "you will",
    "we'd": "you would",
    "our": "your",
    "ours": "yours",
    "us": "you",
    "ourselves": "yourselves",
}
FEELING = re.compile(
    r"\bi(?:['’]?m|\s+am|\s+feel|['’]?ve\s+been\s+feeling|\s+have\s+been\s+feeling|['’]?ve\s+been|"
    r"\s+have\s+been)\s+"
    r"(?P<what>(?:so|very|really|quite|a\s+bit|always|just|too|not)?\s*[a-z][^.!?\n]{2,90})",
    re.IGNORECASE,
)
LASTING = re.compile(r"(?:\w+ly\s+|just\s+|not\s+)?\w{3,}ing\b", re.IGNORECASE)
"""What somebody has been doing, and may do no longer."""

CLAUSE = re.compile(
    r"\s*(?:[,;:–—]|\b(?:but|because|since|and\s+(?:i|then|now|he|she|they|it)|so\s+(?:i|that))\b).*",
    re.IGNORECASE,
)
LONGEST = 16
WAS = re.compile(r"\b(i)\s+was(n['’]?t)?\b", re.IGNORECASE)
BEGINNING = re.compile(
    r"^\W*(?:(?:i\s+mean|and|but|so|well|yeah|yes|no|ok|okay|because|honestly|actually|also|anyway|hm+|um+|oh|like|basically|"
    r"today|lately|sometimes|then|plus)\b[\s,]*)+",
    re.IGNORECASE,
)
TELLING = re.compile(
    r"(?:i|i['’]?ve|i['’]d|i['’]ll|my|our|we|we['’](?:re|ve|ll|d)|he|she|they|everything|everyone|everybody|nobody|no\s+one|"
    r"people|the|me\s+and\s+my|it(?=\s.*\b(?:i|me|my)\b))\s",
    re.IGNORECASE,
)
"""How a sentence begins that can be given back."""

SPOKEN_TO = re.compile(
    r"\b(?:you|your|yours|u|ur|let['’]?s|please|thanks?)\b|[\"“”()/\\<>{}@#]|https?:", re.IGNORECASE
)
"""What makes a sentence one that is better not given back."""

ENDING = re.compile(
    r"(?:,\s*(?:what|how|why|should|can|could|do|is)\b.*"
    r"|(?:\W+(?:lol|haha|tbh|honestly|actually|though|anyway|i\s+guess|you\s+know|or\s+something))*\W*)$",
    re.IGNORECASE,
)
SUPPOSED = re.compile(
    r"\b(?:thinks?|says?|said|told|tells?|if|when|whether|because|wish|afraid|that|like)\b", re.IGNORECASE
)
"""What stands before how somebody is, where it is not they who say it of themself now."""

FEWEST, MOST = 4, 18


def mirrored(message: str) -> str:
    """A sentence that gives back how somebody says they are; empty if they do not say it."""
    for sentence in sentences(message):
        found = FEELING.search(sentence) if not sentence.endswith("?") else None
        is_own = found is not None and not SUPPOSED.search(sentence[: found.start()])
        what = CLAUSE.sub("", found["what"]).strip() if found and is_own else ""
        if what and len(what.split()) <= LONGEST and not SPOKEN_TO.search(what):
            return f"You say that you {_how(found)} {turned(what)}."
    return ""


def restated(message: str) -> str:
    """What somebody tells, as the listener says it, without its end; empty if it cannot be turned round."""
    for sentence in sentences(message):
        core = ENDING.sub("", BEGINNING.sub("", sentence))
        is_short = FEWEST <= len(core.split()) <= MOST
        if not sentence.endswith("?") and is_short and TELLING.match(core) and not SPOKEN_TO.search(core):
            return _begun_small(turned(core))
    return ""


def turned(words: str) -> str:
    """The words as the listener says them: my is your, I is you."""
    told = WAS.sub(lambda found: f"{found[1]} were{found[2] or ''}", words.replace("’", "'"))
    return " ".join(_turned(word) for word in told.split())


def _turned(word: str) -> str:
    core = word.strip(',.;:!"()')
    return word.replace(core, TURNED[core.lower()]) if core.lower() in TURNED else word


def _begun_small(text: str) -> str:
    """A text whose first word is small, if it is one of those that sentences begin with."""
    return f"{text[0].lower()}{text[1:]}"


def _how(found: re.Match[str] | None) -> str:
    """Whether somebody is, feels, or has been something."""
    before = "" if found is None else found[0][: found.start("what") - found.start()].lower()
    if "feel" in before:
        return "feel"
    return "have been" if "been" in before and found and LASTING.match(found["what"]) else "are"


OFFER = "Would you like to try"
OFFER_EVERY = 3
"""An exercise is offered when a second message speaks for one, and not again before so many turns."""

GOES_ON = 3
"""So many messages back a topic is still the one that is talked about."""

FEW = 4
GOING_ON = re.compile(
    r"\W*(?:and|but|because|so|it|that|this|he|she|they|him|her|them|every|always|never|still|the\s+same)\b",
    re.IGNORECASE,
)
"""How a message begins that goes on with what was said."""

OPEN = (
    "What is the hardest part of it for you?",
    "When did you first notice it?",
    "What would feel a little lighter than it does now?",
    "What have you tried so far, and what came of it?",
    "Who else knows about this?",
)
"""What can be asked about whatever weighs on somebody."""

NEUTRAL = (
    "What was that like for you?",
    "Would you like to tell me more about it?",
    "How do you feel about it?",
    "What matters most to you in it?",
    "What goes through your mind as you tell it?",
)
"""What can be asked about anything."""

OF_A_STATE = (
    "How long has it been like that?",
    "What would you like to be there instead?",
    "What brought it on?",
    "When is it different?",
)
"""What can be asked about how somebody says they are."""

HEARD = ("I hear you.", "Thank you for telling me.", "I am listening.")
GIVEN_BACK = ("So ", "I hear that ", "You tell me that ")
"""How what somebody told begins when it is given back."""

MUCH = "You have told me a lot there, and thank you for it. I can only pick up parts of it."
LONG = 80


def reflection(said: Sequence[str], replied: Sequence[str], *, is_short: bool) -> str:
    """What was heard, given back, and one question."""
    last, topics = said[-1], topics_in(said[-1])
    heard = _given_back(last, topics, replied) or [unsaid(HEARD, replied, last)]
    return " ".join([*(heard[-1:] if is_short else heard), _question(said, replied, topics)])


def _given_back(last: str, topics: Sequence[Topic], replied: Sequence[str]) -> list[str]:
    """What was told, in the words of a listener; nothing if none of it can be turned round."""
    if len(last.split()) > LONG:
        return [MUCH, *_reflected(topics, replied)]
    feeling = mirrored(last)
    if feeling:
        return [*_reflected(topics, replied), feeling]
    is_weighty = bool(topics) and topics[0].approach in ("grief_support", "pfa")
    told = "" if is_weighty else restated(last)
    begun = unsaid(GIVEN_BACK, replied[-2:], last)
    return [*([f"{begun}{told}."] if told else []), *_reflected(topics, replied)]


def _reflected(topics: Sequence[Topic], replied: Sequence[str]) -> list[str]:
    """What is said of a topic, once in a while."""
    lately = " ".join(replied[-GOES_ON:])
    told = topics[0].reflections if topics else ()
    return [] if not told or any(each in lately for each in told) else [unsaid(told, replied)]


def _question(said: Sequence[str], replied: Sequence[str], topics: Sequence[Topic]) -> str:
    """One question: an exercise if one fits, and otherwise one about the topic that is talked about."""
    last, lately = said[-1], " ".join(replied[-OFFER_EVERY:])
    if OFFER not in lately and (offer := _offer(said, replied, topics)):
        return offer
    current = topics or _going_on(said)
    if not current:
        return unsaid(OF_A_STATE if mirrored(last) else NEUTRAL, replied, last)
    own = current[0].questions
    is_left = not all(any(question in reply for reply in replied) for question in own)
    return unsaid(own, replied) if is_left else unsaid(OPEN, replied, last)


def _going_on(said: Sequence[str]) -> Sequence[Topic]:
    """What was talked about before, if a message goes on with it and has no topic of its own."""
    if len(said[-1].split()) > FEW and not GOING_ON.match(said[-1]):
        return []
    return next((found for text in reversed(said[-GOES_ON:]) if (found := topics_in(text))), [])


def _offer(said: Sequence[str], replied: Sequence[str], topics: Sequence[Topic]) -> str:
    """An exercise, once two messages speak for one, or at once in a panic; none twice in a conversation."""
    is_urgent = bool(topics) and topics[0].approach == "pfa"
    is_time = is_urgent or (fitting(said[-OFFER_EVERY:-1]) and (topics or fitting(said[-1:])))
    found = (fitting(said[-1:]) or fitting(said[-OFFER_EVERY:])) if is_time else []
    fresh = [each for each in found if not any(each.name in reply for reply in replied)]
    if not fresh:
        return ""
    about = f"There is an exercise that may help a little, of {fresh[0].minutes} minutes or so."
    return f"{about} {OFFER} {fresh[0].name}?"
