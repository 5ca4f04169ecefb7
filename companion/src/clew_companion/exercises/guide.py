"""Guidance through an exercise, purely: from the current step and the message to the next words."""

import re
from typing import Any

import msgspec

from clew.core.text.words import words
from clew.runtime.context import Context
from clew.runtime.turn.draft import Delta
from clew_companion.exercises.catalogue import Exercise, ExerciseStep, catalogue
from clew_companion.language.phrases import is_saying
from clew_companion.language.replies import is_leaving, is_skipping, is_yes
from clew_companion.memory.load import episode_id
from clew_companion.state import CompanionState

SEPARATOR = re.compile(
    r"\s*(?:[,;\n•]|\d+[.)]|\s-\s|\b(?:and|then|plus|also|und|et|y|ve|oraz)\b)\s*", re.IGNORECASE
)
NOTHING_TO_NAME = re.compile(
    r"\W*(?:nothing|none|no(?:ne)?\s+at\s+all|i\s+(?:can['’]?t|cannot)\b.*)\W*", re.IGNORECASE
)
FILLER_WORDS = frozenset(words("a an the i can see hear feel smell taste touch my some is are of there"))


class ExercisePosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position in an exercise: the current step, and whether it was said a second time."""

    step: int
    is_repeat: bool = False


class ExerciseReply(msgspec.Struct, frozen=True, kw_only=True):
    """The next reply, and the position after it; None if the exercise is finished."""

    text: str
    position: ExercisePosition | None


def begin_exercise(exercise: Exercise) -> ExerciseReply:
    """The first words of an exercise."""
    opening = f"Let us do {exercise.name}: {exercise.minutes} minutes or so. You can stop at any time."
    reply = _reply_from_step(exercise, 0)
    return ExerciseReply(text=f"{opening}\n\n{reply.text}", position=reply.position)


def advance_exercise(exercise: Exercise, position: ExercisePosition, message: str) -> ExerciseReply:
    """The reply to an answer. One that does not fit is asked for once more, and then taken as it is."""
    step = exercise.steps[position.step]
    is_answered = fits(step, message) or is_skipping(message) or position.is_repeat
    if step.repeat and not is_answered:
        return ExerciseReply(text=step.repeat, position=ExercisePosition(step=position.step, is_repeat=True))
    return _reply_from_step(exercise, position.step + 1)


def leave_exercise(exercise: Exercise) -> ExerciseReply:
    """The reply when the person leaves an exercise."""
    text = (
        f"That is fine. We leave {exercise.name} here, and you owe nobody the rest. What would help you now?"
    )
    return ExerciseReply(text=text, position=None)


def fits(step: ExerciseStep, message: str) -> bool:
    """Return whether an answer is what a step waits for."""
    waits_for = step.waits_for
    if waits_for.kind == "yes":
        return is_yes(message)
    if waits_for.kind == "count":
        return (
            bool(NOTHING_TO_NAME.fullmatch(message))
            or is_saying(message, "nothing")
            or thing_count(message) >= waits_for.count
        )
    return True


def thing_count(message: str) -> int:
    """The number of things a message names: its parts, or its words if it has no parts."""
    parts = [part for part in SEPARATOR.split(message) if set(words(part)) - FILLER_WORDS]
    if len(parts) > 1:
        return len(parts)
    return len([word for word in words(message) if word not in FILLER_WORDS])


def _reply_from_step(exercise: Exercise, first: int) -> ExerciseReply:
    """The step of this number and those that follow at once, or the last words."""
    texts: list[str] = []
    for number in range(first, len(exercise.steps)):
        step = exercise.steps[number]
        texts.append(step.say)
        if step.waits_for.kind != "nothing":
            return ExerciseReply(text="\n\n".join(texts), position=ExercisePosition(step=number))
    return ExerciseReply(text="\n\n".join([*texts, exercise.closing]), position=None)


async def guided_exercise(state: CompanionState, context: Context) -> Delta:
    """Begin an exercise, or go on with the one under way; its last step clears it."""
    exercise = catalogue()[state.exercise_state.exercise_type or ""]
    position = position_in(state)
    is_left = position is not None and is_leaving(state.message)
    reply = leave_exercise(exercise) if is_left else _next_reply(exercise, position, state.message)
    return {
        "response_text": reply.text,
        "response_style": "supportive" if is_left else "guided_exercise",
        "response_style_source": "exercise",
        "therapeutic_approach": exercise.approach,
        "exercise_state": _state_after(exercise, reply, context),
        "should_persist_memory": reply.position is None and not is_left,
    }


def _next_reply(exercise: Exercise, position: ExercisePosition | None, message: str) -> ExerciseReply:
    return begin_exercise(exercise) if position is None else advance_exercise(exercise, position, message)


def position_in(state: CompanionState) -> ExercisePosition | None:
    """The position in the exercise under way; None before it begins. A step that is gone begins anew."""
    exercise, step = (
        catalogue().get(state.exercise_state.exercise_type or ""),
        state.exercise_state.exercise_step,
    )
    if exercise is None or step is None or not 0 <= step < len(exercise.steps):
        return None
    return ExercisePosition(step=step, is_repeat=state.exercise_state.exercise_repeated)


def current_exercise(state: CompanionState) -> tuple[Exercise, ExercisePosition] | None:
    """The exercise that a thread is in the middle of, if it is in one."""
    position = position_in(state)
    return None if position is None else (catalogue()[state.exercise_state.exercise_type or ""], position)


NO_EXERCISE: dict[str, Any] = {
    "exercise_type": None,
    "exercise_step": None,
    "exercise_therapeutic_approach": None,
    "exercise_repeated": False,
    "exercise_episode": "",
}
"""The change after which no exercise is under way."""


def _state_after(exercise: Exercise, reply: ExerciseReply, context: Context) -> dict[str, Any]:
    if reply.position is None:
        return NO_EXERCISE
    return {
        "exercise_type": exercise.id,
        "exercise_step": reply.position.step,
        "exercise_therapeutic_approach": exercise.approach,
        "exercise_repeated": reply.position.is_repeat,
        "exercise_episode": episode_id(context),
    }
