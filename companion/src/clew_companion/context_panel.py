"""The context of an answer, for the panel of a chat: the third place where working memory is rendered."""

from typing import Any

from clew.runtime.memory.recall.render import render_entries
from clew_companion.memory.load import entries_of
from clew_companion.replies.prompt import session_lines
from clew_companion.state import CompanionState


def describe_context(state: CompanionState) -> dict[str, list[str]]:
    """The context of a turn, as lines by a title; what there is nothing of has none."""
    profile, diagnostics = state.procedural_profile, state.diagnostics
    recall = "may be brought up" if profile.proactive_recall_enabled else "is brought up only if asked for"
    entries = render_entries(entries_of(state))
    return {
        "route": [state.route],
        "style": [_with_source(state.response_style, state.response_style_source)],
        "approach": [state.therapeutic_approach] if state.therapeutic_approach else [],
        "exercise": _exercise_lines(state),
        "lookup": _lookup_lines(state),
        "retrieval": _retrieval_lines(diagnostics),
        "working memory": [*entries, f"({recall})"] if entries else ["(none)"],
        "rules": list(profile.procedural_rules),
        "session": session_lines(state),
        "skills": [", ".join(state.installed_skills)] if state.installed_skills else [],
    }


def _with_source(style: str, source: str) -> str:
    return f"{style}, by {source}" if source else style


def _exercise_lines(state: CompanionState) -> list[str]:
    exercise = state.exercise_state
    if exercise.exercise_type is None:
        return []
    return [f"{exercise.exercise_type}, step {(exercise.exercise_step or 0) + 1}"]


def _lookup_lines(state: CompanionState) -> list[str]:
    lookup = state.grounded_lookup
    return [f"{lookup.status}: {lookup.query}"] if state.route == "grounded_lookup" else []


def _retrieval_lines(diagnostics: dict[str, Any]) -> list[str]:
    path, problem = diagnostics.get("retrieval_path", ""), diagnostics.get("retrieval_problem", "")
    # Diagnostics are merged, so a problem may be that of an earlier turn.
    if path != "token_recall_after_embed_error":
        problem = ""
    return [f"{path}: {problem}" if problem else path] if path else []
