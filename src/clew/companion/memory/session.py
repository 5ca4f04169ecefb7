"""What goes through a session, kept up by rules: what it is about, what is open, what somebody wants."""

import re
from typing import Any

from clew.companion.language.topics import sentences, topics_in
from clew.companion.state import SessionMemory

CONCERNS, LOOPS = 5, 3
LONGEST = 120
SAID_BEFORE = "Talked about"
TO_COME = re.compile(
    r"\b(?:i(?:['’]ll|\s+will|['’]m\s+going\s+to|\s+am\s+going\s+to|\s+have\s+to|\s+need\s+to|"
    r"['’]ve\s+got\s+(?:to|an?)|\s+have\s+an?)\b[^.!?]*\b"
    r"(?:tomorrow|tonight|next\s+\w+|on\s+(?:mon|tues|wednes|thurs|fri|satur|sun)day|this\s+(?:week|weekend|"
    r"evening|afternoon)|in\s+\w+\s+(?:days|weeks)|soon|later)"
    r"|(?:exam|interview|appointment|meeting|operation|surgery|funeral|wedding|trial|"
    r"test)\b[^.!?]*\b(?:tomorrow|next\s+\w+|on\s+\w+day|this\s+week))\b",
    re.IGNORECASE,
)
WANTING = re.compile(
    r"\b(?:my\s+goal\s+is\s+(?:to\s+)?|i\s+(?:really\s+)?want\s+to\s+(?:be\s+able\s+to\s+)?|i(?:['’]d|"
    r"\s+would)\s+like\s+to\s+(?:be\s+able\s+to\s+)?|i\s+wish\s+i\s+could\s+)"
    r"(?P<what>(?!know\b|ask\b|talk\b|tell\b|die\b|do\s+(?:this|it|that|an?\b)|try\s+(?:this|it|that|an?\b)|"
    r"stop\s+(?:this|here)|say\b|thank\b)[^.!?,;]{4,100})",
    re.IGNORECASE,
)
DONE = re.compile(
    r"\b(?:it|that)\s+(?:went|is\s+over|is\s+done|worked\s+out)\b|\bi\s+(?:did|passed|managed|finished|"
    r"went\s+to)\b",
    re.IGNORECASE,
)


def kept_up(before: SessionMemory, message: str, *, begins: bool) -> dict[str, Any]:
    """What changes in the memory of a session with one more message; ``begins`` if it is the first."""
    start = SessionMemory(active_concerns=[], open_loops=[]) if begins else before
    concerns = _latest(start.active_concerns, [topic.name for topic in topics_in(message)], CONCERNS)
    loops = _latest(_still_open(start.open_loops, message), loops_in(message), LOOPS)
    after = {
        "active_concerns": concerns,
        "open_loops": loops,
        "current_goal": _goal(message) or start.current_goal,
        "summary": f"{SAID_BEFORE} {listed(concerns)}." if concerns else start.summary,
    }
    return {name: value for name, value in after.items() if value != getattr(before, name)}


def loops_in(message: str) -> list[str]:
    """What a message says is still to come."""
    return [
        _cut(sentence) for sentence in sentences(message) if TO_COME.search(sentence) and "?" not in sentence
    ]


def _still_open(loops: list[str], message: str) -> list[str]:
    """What is still open; the newest is closed by a message that says how it went."""
    return loops[:-1] if loops and DONE.search(message) else loops


def _goal(message: str) -> str:
    found = WANTING.search(message)
    return _cut(found["what"].strip()) if found else ""


def _latest(before: list[str], new: list[str], most: int) -> list[str]:
    """The newest last, each once, no more than so many."""
    return list(dict.fromkeys([*(entry for entry in before if entry not in new), *new]))[-most:]


def listed(names: list[str]) -> str:
    """Some names in a row, as they are said."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rsplit(' ', 1)[0]}…"
