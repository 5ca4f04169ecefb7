"""The prompt of a reply: composed from small sources, the rules always among them."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from clew.runtime.memory import Rule, prompt_part
from clew_companion.exercises.catalogue import catalogue
from clew_companion.exercises.guide import current_exercise
from clew_companion.memory.load import entries_of
from clew_companion.state import CompanionState


@cache
def prompt_source(name: str) -> str:
    """One of the sources, by its path without an ending: ``styles/closing``."""
    path = resources.files("clew_companion.replies").joinpath("sources", f"{name}.txt")
    return path.read_text(encoding="utf-8").strip()


def instructions(state: CompanionState, skills: Mapping[str, str] | None = None) -> str:
    """The whole prompt for the reply of a turn."""
    parts = [
        prompt_source("identity"),
        prompt_source("rules"),
        prompt_source(f"styles/{state.response_style or 'supportive'}"),
        prompt_source(f"approaches/{state.therapeutic_approach or 'none'}"),
        _exercise_part(state),
        *_skill_texts(state, skills or {}),
        _session_part(state),
        _memory_part(state),
    ]
    return "\n\n".join(part for part in parts if part)


def _memory_part(state: CompanionState) -> str:
    """The prompt's part on memory. Rules always hold; the rest may be brought up or not."""
    profile = state.procedural_profile
    rules = [Rule(id=text, about="", text=text) for text in profile.procedural_rules]
    return prompt_part(entries_of(state), rules, recall=profile.proactive_recall_enabled)


def _skill_texts(state: CompanionState, skills: Mapping[str, str]) -> Sequence[str]:
    return [skills[name] for name in state.installed_skills if name in skills]


def _session_part(state: CompanionState) -> str:
    lines = [f"- {line}" for line in session_lines(state)]
    return "\n".join(["This session:", *lines]) if lines else ""


def session_lines(state: CompanionState) -> list[str]:
    """The memory of the session in lines, as far as there is any."""
    memory = state.session_memory
    lines = [
        f"so far: {memory.summary}" if memory.summary else "",
        f"it is about: {', '.join(memory.active_concerns)}" if memory.active_concerns else "",
        f"still open: {'; '.join(memory.open_loops)}" if memory.open_loops else "",
        f"they want: {memory.current_goal}" if memory.current_goal else "",
    ]
    return [line for line in lines if line]


def _exercise_part(state: CompanionState) -> str:
    """The step of the exercise under way, or the names of those that can be offered."""
    current = current_exercise(state)
    if current is not None:
        exercise, position = current
        step = exercise.steps[position.step].say
        return (
            f"The exercise {exercise.name!r} is under way. It stands at this step: {step}\n"
            "Answer the question beside it in two or three sentences. The step is said again after it."
        )
    if state.response_style != "technique":
        return ""
    return "Exercises: " + ", ".join(exercise.name for exercise in catalogue().values())
