"""The session's memory, updated by rules: its topic, its open questions, and the person's goal."""

import re
from typing import Any

from clew_companion.language.topics import sentences, topics_in
from clew_companion.state import SessionMemory

MOST_CONCERNS, MOST_LOOPS = 5, 3
MOST_LETTERS = 120
SUMMARY_START = "Talked about"
FUTURE_EVENT = re.compile(
    r"\b(?:i(?:['’]ll|\s+will|['’]m\s+going\s+to|\s+am\s+going\s+to|\s+have\s+to|\s+need\s+to|"
    r"['’]ve\s+got\s+(?:to|an?)|\s+have\s+an?)\b[^.!?]*\b"
    r"(?:tomorrow|tonight|next\s+\w+|on\s+(?:mon|tues|wednes|thurs|fri|satur|sun)day|this\s+(?:week|weekend|"
    r"evening|afternoon)|in\s+\w+\s+(?:days|weeks)|soon|later)"
    r"|(?:exam|interview|appointment|meeting|operation|surgery|funeral|wedding|trial|"
    r"test)\b[^.!?]*\b(?:tomorrow|next\s+\w+|on\s+\w+day|this\s+week))\b",
    re.IGNORECASE,
)
GOAL = re.compile(
    r"\b(?:my\s+goal\s+is\s+(?:to\s+)?|i\s+(?:really\s+)?want\s+to\s+(?:be\s+able\s+to\s+)?|i(?:['’]d|"
    r"\s+would)\s+like\s+to\s+(?:be\s+able\s+to\s+)?|i\s+wish\s+i\s+could\s+)"
    r"(?P<what>(?!know\b|ask\b|talk\b|tell\b|die\b|do\s+(?:this|it|that|an?\b)|try\s+(?:this|it|that|an?\b)|"
    r"stop\s+(?:this|here)|say\b|thank\b)[^.!?,;]{4,100})",
    re.IGNORECASE,
)
COMPLETION = re.compile(
    r"\b(?:it|that)\s+(?:went|is\s+over|is\s+done|worked\s+out)\b|\bi\s+(?:did|passed|managed|finished|"
    r"went\s+to)\b",
    re.IGNORECASE,
)


def session_memory_changes(before: SessionMemory, message: str, *, is_first: bool) -> dict[str, Any]:
    """The changes to a session's memory by one more message; ``is_first`` if it is the first."""
    start = SessionMemory(active_concerns=[], open_loops=[]) if is_first else before
    concerns = _latest(start.active_concerns, [topic.name for topic in topics_in(message)], MOST_CONCERNS)
    loops = _latest(_still_open(start.open_loops, message), open_loops_in(message), MOST_LOOPS)
    after = {
        "active_concerns": concerns,
        "open_loops": loops,
        "current_goal": _goal_in(message) or start.current_goal,
        "summary": f"{SUMMARY_START} {join_names(concerns)}." if concerns else start.summary,
    }
    return {name: value for name, value in after.items() if value != getattr(before, name)}


def open_loops_in(message: str) -> list[str]:
    """The plans and worries in a message that are still to come."""
    return [
        _shorten(sentence)
        for sentence in sentences(message)
        if FUTURE_EVENT.search(sentence) and "?" not in sentence
    ]


def _still_open(loops: list[str], message: str) -> list[str]:
    """The open loops after a message; one that says how it went closes the newest."""
    return loops[:-1] if loops and COMPLETION.search(message) else loops


def _goal_in(message: str) -> str:
    match = GOAL.search(message)
    return _shorten(match["what"].strip()) if match else ""


def _latest(before: list[str], new: list[str], most: int) -> list[str]:
    """The newest last, each once, no more than so many."""
    return list(dict.fromkeys([*(entry for entry in before if entry not in new), *new]))[-most:]


def join_names(names: list[str]) -> str:
    """Some names in a row, as they are said."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1].rsplit(' ', 1)[0]}…"
