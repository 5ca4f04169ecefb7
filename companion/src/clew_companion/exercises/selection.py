"""The choice of an exercise: the one asked for, the one that fits, or the one that was offered."""

import re
from collections.abc import Iterable
from functools import cache

from clew.core.text.words import stem, words
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew_companion.exercises.catalogue import Exercise, catalogue, names_of
from clew_companion.language.phrases import is_saying, mentions, normalize_text

REQUEST = re.compile(
    r"\b(?:let['’]?s|let\s+us|can\s+(?:we|you|i)|could\s+(?:we|you|i)|shall\s+we|i(?:['’]d|\s+would)\s+like|"
    r"i\s+(?:want|need)|want\s+to|"
    r"please|guide\s+me|walk\s+me|help\s+me|teach\s+me|show\s+me|start|begin|try|do\s+(?:the|a|an|some|"
    r"another)|ready\s+for)\b",
    re.IGNORECASE,
)
OBJECTION = re.compile(
    r"\b(?:did|tried|used\s+to|hate|hated|yesterday|last\s+(?:time|week|night)|(?:don['’]?t|do\s+not|"
    r"didn['’]?t|doesn['’]?t|never|"
    r"no\s+more|not)\s+(?:\w+\s+){0,3}(?:exercise|again|want|like|help|work|another))\b",
    re.IGNORECASE,
)
ANY_EXERCISE = re.compile(
    r"\b(?:an?|some|another|the|any|guided|calming|relaxing|breathing|other|short|quick|"
    r"your)\s+(?:\w+\s+)?exercises?\b"
    r"|\bexercise(?:s)?\s+(?:for|to|that|with|together|please|now)\b"
    r"|\b(?:do|try|start|offer|have)\s+(?:\w+\s+)?exercises?\b|^\W*exercises?\W*$|"
    r"\bhelp\s+me\s+(?:to\s+)?(?:calm|relax|breathe|ground)\b",
    re.IGNORECASE,
)
QUESTION = re.compile(
    r"\b(?:what\s+(?:is|are)|how\s+does|why\s+does|does\s+it\s+work|is\s+it\s+true)\b", re.IGNORECASE
)
OTHER_EXERCISE = re.compile(
    r"\b(?:gym|homework|workout|physio\w*|treadmill|jogging|yoga\s+class|math|maths|school)\b", re.IGNORECASE
)
"""What tells that an exercise is of another kind."""

SHORT_MESSAGE_WORDS = 6
MOST_EXTRA_WORDS = 2
"""So many words beside a name say nothing of their own."""

LEAST_SCORE = 2
SIGN_WORDS: dict[str, str] = {
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


def exercise_asked_for(message: str) -> Exercise | None:
    """The exercise that a message names and asks for."""
    exercise, name = _exercise_and_name_in(message)
    if exercise is None or _is_only_mention(message):
        return None
    is_alone = len(words(message)) - len(name.split()) <= MOST_EXTRA_WORDS
    return exercise if is_alone or REQUEST.search(message) or mentions(message, "wanting") else None


def _is_only_mention(message: str) -> bool:
    """Return whether a message speaks of an exercise, or against it, and does not ask for it."""
    return bool(OBJECTION.search(message) or QUESTION.search(message)) or mentions(message, "against")


def asks_for_any(message: str) -> bool:
    """Return whether a message asks for any exercise."""
    if is_saying(message, "exercise"):
        return True
    if (
        not ANY_EXERCISE.search(message)
        or OBJECTION.search(message)
        or QUESTION.search(message)
        or OTHER_EXERCISE.search(message)
    ):
        return False
    return bool(len(message.split()) <= SHORT_MESSAGE_WORDS or REQUEST.search(message))


def exercise_in(text: str) -> Exercise | None:
    """The exercise that a text names: the one by the longest name, if several."""
    return _exercise_and_name_in(text)[0]


def _exercise_and_name_in(text: str) -> tuple[Exercise | None, str]:
    """The exercise that a text names, and by which name."""
    plain = f" {_plain_text(text)} "
    for name, exercise in _exercises_by_name():
        if f" {name} " in plain:
            return exercise, name
    return None, ""


@cache
def _exercises_by_name() -> tuple[tuple[str, Exercise], ...]:
    """All names, the longest first."""
    pairs = [
        (_plain_text(name), exercise) for exercise in catalogue().values() for name in names_of(exercise)
    ]
    return tuple(sorted(pairs, key=lambda pair: -len(pair[0])))


def _plain_text(text: str) -> str:
    return " ".join(words(normalize_text(text)))


def offer_in(text: str) -> Exercise | None:
    """The exercise that a reply offered in its last question."""
    ending = text.strip().rpartition("\n")[2]
    if "?" not in ending:
        return None
    questions = [part for part in re.split(r"(?<=[.!?])\s+", ending) if part.endswith("?")]
    return next(
        (exercise for part in reversed(questions) if (exercise := exercise_in(part)) is not None), None
    )


def choice_from(text: str, message: str) -> Exercise | None:
    """The exercise that a message picks, by its number, from a list that a reply gave."""
    match = CHOICE.fullmatch(message)
    exercises = [exercise_in(line) for line in text.splitlines() if line.startswith("- ")]
    if match is None or not exercises:
        return None
    number = next((at for at, names in enumerate(ORDINALS) if match["which"].lower() in names), len(ORDINALS))
    return (
        exercises[-1] if number == len(ORDINALS) else exercises[number] if number < len(exercises) else None
    )


ORDINALS = (("1", "1st", "first", "one"), ("2", "2nd", "second", "two"), ("3", "3rd", "third", "three"))
CHOICE = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|let['’]?s\s+(?:do|try|take)|i(?:['’]d|\s+would)\s+like|i\s+(?:want|take|choose)|please|number|"
    r"the)\W+)*(?P<which>1|2|3|1st|2nd|3rd|first|second|third|one|two|three|last)(?:\s+one)?(?:\W+please)?\W*",
    re.IGNORECASE,
)


def fitting_exercises(texts: Iterable[str]) -> list[Exercise]:
    """The exercises that fit what was said, the best first; none if nothing speaks for any."""
    stems = {stem(word) for text in texts for word in words(text) if word not in FUNCTION_WORDS}
    scores = [(_score(exercise, stems), exercise) for exercise in catalogue().values()]
    return [exercise for score, exercise in sorted(scores, key=lambda pair: -pair[0]) if score >= LEAST_SCORE]


def _score(exercise: Exercise, stems: set[str]) -> int:
    strong, weak = _sign_stems(exercise.id)
    return 2 * len(strong & stems) + len(weak & stems)


@cache
def _sign_stems(id: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words that speak for an exercise strongly, and those that do weakly."""
    lines = catalogue()[id].offer_when
    strong = frozenset(stem(word) for word in words(SIGN_WORDS.get(id, "")))
    weak = frozenset(stem(word) for line in lines for word in words(line) if word not in FUNCTION_WORDS)
    return strong, weak - strong - MEANINGLESS_STEMS


MEANINGLESS_STEMS = frozenset(
    map(stem, words("person people feel thing day want would like something somebody well"))
)
"""Words that speak for nothing."""
