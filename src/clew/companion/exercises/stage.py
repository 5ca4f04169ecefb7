"""The branch that leads through an exercise."""

from typing import Any

from clew.companion.exercises.catalogue import Exercise, catalogue
from clew.companion.exercises.guiding import Move, Standing, advanced, begun, left
from clew.companion.saying import is_leaving
from clew.companion.state import Companion
from clew.runtime.context import Context
from clew.runtime.draft import Delta


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
