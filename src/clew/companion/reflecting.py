"""What somebody tells, given back without a language model, and one question about it."""

import re
from collections.abc import Sequence

from clew.companion.exercises.choosing import fitting
from clew.companion.mirroring import mirrored, restated
from clew.companion.remarks import unsaid
from clew.companion.topics import Topic, topics_in

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
