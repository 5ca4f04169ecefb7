"""Which exercise somebody asks for, which one fits what they say, and which one was offered."""

import re
from collections.abc import Iterable
from functools import cache

from clew.companion.exercises.catalogue import Exercise, catalogue, names_of
from clew.companion.language.phrases import mentions, says, simple
from clew.core.text.words import stem, words
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS

WANTING = re.compile(
    r"\b(?:let['’]?s|let\s+us|can\s+(?:we|you|i)|could\s+(?:we|you|i)|shall\s+we|i(?:['’]d|\s+would)\s+like|"
    r"i\s+(?:want|need)|want\s+to|"
    r"please|guide\s+me|walk\s+me|help\s+me|teach\s+me|show\s+me|start|begin|try|do\s+(?:the|a|an|some|"
    r"another)|ready\s+for)\b",
    re.IGNORECASE,
)
AGAINST = re.compile(
    r"\b(?:did|tried|used\s+to|hate|hated|yesterday|last\s+(?:time|week|night)|(?:don['’]?t|do\s+not|"
    r"didn['’]?t|doesn['’]?t|never|"
    r"no\s+more|not)\s+(?:\w+\s+){0,3}(?:exercise|again|want|like|help|work|another))\b",
    re.IGNORECASE,
)
ANY = re.compile(
    r"\b(?:an?|some|another|the|any|guided|calming|relaxing|breathing|other|short|quick|"
    r"your)\s+(?:\w+\s+)?exercises?\b"
    r"|\bexercise(?:s)?\s+(?:for|to|that|with|together|please|now)\b"
    r"|\b(?:do|try|start|offer|have)\s+(?:\w+\s+)?exercises?\b|^\W*exercises?\W*$|"
    r"\bhelp\s+me\s+(?:to\s+)?(?:calm|relax|breathe|ground)\b",
    re.IGNORECASE,
)
ASKING = re.compile(
    r"\b(?:what\s+(?:is|are)|how\s+does|why\s+does|does\s+it\s+work|is\s+it\s+true)\b", re.IGNORECASE
)
BODY = re.compile(
    r"\b(?:gym|homework|workout|physio\w*|treadmill|jogging|yoga\s+class|math|maths|school)\b", re.IGNORECASE
)
"""What tells that an exercise is of another kind."""

SHORT = 6
BESIDE = 2
"""So many words beside a name say nothing of their own."""

ENOUGH = 2
SIGNS: dict[str, str] = {
    "grounding_5_4_3_2_1": "panic unreal dissociated flashback overwhelmed spiralling spiraling trembling",
    "box_breathing": "racing heart breath exam interview nervous anger angry furious stressed stress calm",
    "muscle_relaxation": "tense tension tight shoulders aching jaw relax relaxed body",
    "sleep_wind_down": "sleep asleep insomnia night bed tired awake",
    "thought_record": "failure stupid worthless thought thoughts blame fault mistake",
    "leaves_on_a_stream": "circles rumination ruminating overthinking mind loop",
    "worry_time": "worry worries worrying worried anxious anxiety",
    "self_compassion_break": "ashamed shame harsh guilty guilt myself",
    "behavioural_activation": "motivation effort empty listless bed nothing energy",
    "letter_to_someone_missed": "died death grief miss funeral mourning",
    "saying_it_clearly": "argument conflict boss conversation boundary mother father partner friend",
    "values_compass": "meaning direction decision purpose values",
    "two_sides_of_a_change": "quit quitting change ambivalent undecided torn",
    "urge_surfing": "craving cravings urge drink smoke cigarette binge",
    "gratitude_noticing": "grateful gratitude good thankful",
}
"""Words that let an exercise fit, beside those of its own file."""


def asked_for(message: str) -> Exercise | None:
    """The exercise that a message names and asks for."""
    found, name = _named(message)
    if found is None or _is_only_told(message):
        return None
    is_alone = len(words(message)) - len(name.split()) <= BESIDE
    return found if is_alone or WANTING.search(message) or mentions(message, "wanting") else None


def _is_only_told(message: str) -> bool:
    """Whether a message speaks of an exercise, or against it, and does not ask for it."""
    return bool(AGAINST.search(message) or ASKING.search(message)) or mentions(message, "against")


def asks_for_any(message: str) -> bool:
    """Whether a message asks for an exercise, whichever."""
    if says(message, "exercise"):
        return True
    if not ANY.search(message) or AGAINST.search(message) or ASKING.search(message) or BODY.search(message):
        return False
    return bool(len(message.split()) <= SHORT or WANTING.search(message))


def named_in(text: str) -> Exercise | None:
    """The exercise that a text names: the one by the longest name, if several."""
    return _named(text)[0]


def _named(text: str) -> tuple[Exercise | None, str]:
    """The exercise that a text names, and by which name."""
    told = f" {_plain(text)} "
    for name, exercise in _names():
        if f" {name} " in told:
            return exercise, name
    return None, ""


@cache
def _names() -> tuple[tuple[str, Exercise], ...]:
    """All names, the longest first."""
    found = [(_plain(name), exercise) for exercise in catalogue().values() for name in names_of(exercise)]
    return tuple(sorted(found, key=lambda pair: -len(pair[0])))


def _plain(text: str) -> str:
    return " ".join(words(simple(text)))


def offered_in(text: str) -> Exercise | None:
    """The exercise that a reply offered in its last question."""
    ending = text.strip().rpartition("\n")[2]
    if "?" not in ending:
        return None
    asked = [part for part in re.split(r"(?<=[.!?])\s+", ending) if part.endswith("?")]
    return next((found for part in reversed(asked) if (found := named_in(part)) is not None), None)


def chosen_from(text: str, message: str) -> Exercise | None:
    """The exercise that a message picks, by its number, from a list that a reply gave."""
    found = PICKING.fullmatch(message)
    listed = [named_in(line) for line in text.splitlines() if line.startswith("- ")]
    if found is None or not listed:
        return None
    number = next((at for at, names in enumerate(NUMBERS) if found["which"].lower() in names), len(NUMBERS))
    return listed[-1] if number == len(NUMBERS) else listed[number] if number < len(listed) else None


NUMBERS = (("1", "1st", "first", "one"), ("2", "2nd", "second", "two"), ("3", "3rd", "third", "three"))
PICKING = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|let['’]?s\s+(?:do|try|take)|i(?:['’]d|\s+would)\s+like|i\s+(?:want|take|choose)|please|number|"
    r"the)\W+)*(?P<which>1|2|3|1st|2nd|3rd|first|second|third|one|two|three|last)(?:\s+one)?(?:\W+please)?\W*",
    re.IGNORECASE,
)


def fitting(texts: Iterable[str]) -> list[Exercise]:
    """The exercises that fit what was said, the best first; none if nothing speaks for any."""
    said = {stem(word) for text in texts for word in words(text) if word not in FUNCTION_WORDS}
    scored = [(_score(exercise, said), exercise) for exercise in catalogue().values()]
    return [exercise for score, exercise in sorted(scored, key=lambda pair: -pair[0]) if score >= ENOUGH]


def _score(exercise: Exercise, said: set[str]) -> int:
    strong, weak = _signs(exercise.id)
    return 2 * len(strong & said) + len(weak & said)


@cache
def _signs(id: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words that speak for an exercise strongly, and those that do weakly."""
    lines = catalogue()[id].offer_when
    strong = frozenset(stem(word) for word in words(SIGNS.get(id, "")))
    weak = frozenset(stem(word) for line in lines for word in words(line) if word not in FUNCTION_WORDS)
    return strong, weak - strong - WEAKEST


WEAKEST = frozenset(map(stem, words("person people feel thing day want would like something somebody well")))
"""Words that speak for nothing."""
