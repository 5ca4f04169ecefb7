"""What a model is told before it words a reply: composed from small sources, the rules always among them."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from clew.companion.exercises.catalogue import catalogue
from clew.companion.exercises.guide import under_way
from clew.companion.memory.load import entries_of
from clew.companion.state import Companion
from clew.runtime.memory import Rule, prompt_part


@cache
def source(name: str) -> str:
    """One of the sources, by its path without an ending: ``styles/closing``."""
    path = resources.files("clew.companion.replies").joinpath("sources", f"{name}.txt")
    return path.read_text(encoding="utf-8").strip()


def instructions(state: Companion, skills: Mapping[str, str] | None = None) -> str:
    """All that a model is told for the reply of a turn."""
    parts = [
        source("identity"),
        source("rules"),
        source(f"styles/{state.response_style or 'supportive'}"),
        source(f"approaches/{state.therapeutic_approach or 'none'}"),
        _exercises(state),
        *_skills(state, skills or {}),
        _session(state),
        known(state),
    ]
    return "\n\n".join(part for part in parts if part)


def known(state: Companion) -> str:
    """What is known of the person. Their rules hold always; the rest may be brought up or not."""
    profile = state.procedural_profile
    rules = [Rule(id=text, about="", text=text) for text in profile.procedural_rules]
    return prompt_part(entries_of(state), rules, recall=profile.proactive_recall_enabled)


def unknown_skills(state: Companion, skills: Mapping[str, str]) -> list[str]:
    """The skills that were asked for and are not there."""
    return [name for name in state.installed_skills if name not in skills]


def _skills(state: Companion, skills: Mapping[str, str]) -> Sequence[str]:
    return [skills[name] for name in state.installed_skills if name in skills]


def _session(state: Companion) -> str:
    memory = state.session_memory
    lines = [
        f"- so far: {memory.summary}" if memory.summary else "",
        f"- it is about: {', '.join(memory.active_concerns)}" if memory.active_concerns else "",
        f"- still open: {'; '.join(memory.open_loops)}" if memory.open_loops else "",
        f"- they want: {memory.current_goal}" if memory.current_goal else "",
    ]
    told = [line for line in lines if line]
    return "\n".join(["This session:", *told]) if told else ""


def _exercises(state: Companion) -> str:
    """The step of the exercise under way, or the names of those that can be offered."""
    found = under_way(state)
    if found is not None:
        exercise, standing = found
        step = exercise.steps[standing.step].say
        return (
            f"The exercise {exercise.name!r} is under way. It stands at this step: {step}\n"
            "Answer the question beside it in two or three sentences. The step is said again after it."
        )
    if state.response_style != "technique":
        return ""
    return "Exercises: " + ", ".join(exercise.name for exercise in catalogue().values())
