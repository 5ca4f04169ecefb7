"""Leading through an exercise, purely: from where one stands and what was said to what is said next."""

import re

import msgspec

from clew.companion.exercises.catalogue import Exercise, Step
from clew.companion.saying import is_skipping, is_yes
from clew.companion.sayings import says
from clew.core.text import words

PARTS = re.compile(
    r"\s*(?:[,;\n•]|\d+[.)]|\s-\s|\b(?:and|then|plus|also|und|et|y|ve|oraz)\b)\s*", re.IGNORECASE
)
NOTHING = re.compile(
    r"\W*(?:nothing|none|no(?:ne)?\s+at\s+all|i\s+(?:can['’]?t|cannot)\b.*)\W*", re.IGNORECASE
)
FILLER = frozenset(words("a an the i can see hear feel smell taste touch my some is are of there"))


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where an exercise stands: the step that was said, and whether it was said a second time."""

    step: int
    repeated: bool = False


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """What is said next, and where the exercise stands then; nowhere if it is finished."""

    text: str
    standing: Standing | None


def begun(exercise: Exercise) -> Move:
    """The first words of an exercise."""
    opening = f"Let us do {exercise.name}: {exercise.minutes} minutes or so. You can stop at any time."
    move = _from(exercise, 0)
    return Move(text=f"{opening}\n\n{move.text}", standing=move.standing)


def advanced(exercise: Exercise, standing: Standing, message: str) -> Move:
    """What follows an answer. One that does not fit is asked for once more, and then taken as it is."""
    step = exercise.steps[standing.step]
    is_answered = fits(step, message) or is_skipping(message) or standing.repeated
    if step.repeat and not is_answered:
        return Move(text=step.repeat, standing=Standing(step=standing.step, repeated=True))
    return _from(exercise, standing.step + 1)


def left(exercise: Exercise) -> Move:
    """What is said when somebody leaves an exercise."""
    text = (
        f"That is fine. We leave {exercise.name} here, and you owe nobody the rest. What would help you now?"
    )
    return Move(text=text, standing=None)


def fits(step: Step, message: str) -> bool:
    """Whether an answer is what a step waits for."""
    wanted = step.waits_for
    if wanted.kind == "yes":
        return is_yes(message)
    if wanted.kind == "count":
        return bool(NOTHING.fullmatch(message)) or says(message, "nothing") or named(message) >= wanted.count
    return True


def named(message: str) -> int:
    """How many things a message names: its parts, or its words if it has no parts."""
    parts = [part for part in PARTS.split(message) if set(words(part)) - FILLER]
    if len(parts) > 1:
        return len(parts)
    return len([word for word in words(message) if word not in FILLER])


def _from(exercise: Exercise, first: int) -> Move:
    """The step of this number and those that follow at once, or the last words."""
    said: list[str] = []
    for number in range(first, len(exercise.steps)):
        step = exercise.steps[number]
        said.append(step.say)
        if step.waits_for.kind != "nothing":
            return Move(text="\n\n".join(said), standing=Standing(step=number))
    return Move(text="\n\n".join([*said, exercise.closing]), standing=None)
