"""Leading through an exercise, purely: from where one stands and what was said to what is said next."""

import re
from typing import Any

import msgspec

from clew.companion.exercises.catalogue import Exercise, Step, catalogue
from clew.companion.language.phrases import says
from clew.companion.language.replies import is_leaving, is_skipping, is_yes
from clew.companion.state import Companion
from clew.core.text.words import words
from clew.runtime.context import Context
from clew.runtime.turn.draft import Delta

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


async def guided_exercise(state: Companion, ctx: Context) -> Delta:
    """Begin an exercise, or go on with the one under way; its last step clears it."""
    exercise = catalogue()[state.exercise_state.exercise_type or ""]
    standing = standing_of(state)
    leaves = standing is not None and is_leaving(state.message)
    move = left(exercise) if leaves else _moved(exercise, standing, state.message)
    return {
        "response_text": move.text,
        "response_style": "supportive" if leaves else "guided_exercise",
        "response_style_source": "exercise",
        "therapeutic_approach": exercise.approach,
        "exercise_state": _state_after(exercise, move),
        "should_persist_memory": move.standing is None and not leaves,
    }


def _moved(exercise: Exercise, standing: Standing | None, message: str) -> Move:
    return begun(exercise) if standing is None else advanced(exercise, standing, message)


def standing_of(state: Companion) -> Standing | None:
    """Where the exercise under way stands; None if it has not begun. A step that is gone begins anew."""
    exercise, step = (
        catalogue().get(state.exercise_state.exercise_type or ""),
        state.exercise_state.exercise_step,
    )
    if exercise is None or step is None or not 0 <= step < len(exercise.steps):
        return None
    return Standing(step=step, repeated=state.exercise_state.exercise_repeated)


def under_way(state: Companion) -> tuple[Exercise, Standing] | None:
    """The exercise that a thread is in the middle of, if it is in one."""
    standing = standing_of(state)
    return None if standing is None else (catalogue()[state.exercise_state.exercise_type or ""], standing)


def _state_after(exercise: Exercise, move: Move) -> dict[str, Any]:
    if move.standing is None:
        return {
            "exercise_type": None,
            "exercise_step": None,
            "exercise_therapeutic_approach": None,
            "exercise_repeated": False,
        }
    return {
        "exercise_type": exercise.id,
        "exercise_step": move.standing.step,
        "exercise_therapeutic_approach": exercise.approach,
        "exercise_repeated": move.standing.repeated,
    }
