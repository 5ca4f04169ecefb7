"""The word that a pending action waits for: a clear yes, a number, or anything else, which cancels it."""

import re

from clew.core.arguments import check_arguments
from clew.core.text import words
from clew.runtime.memory.keeping import Memory
from clew.runtime.memory.values import Forgotten

YES = r"(?:yes|y|yeah|yep|yup|ja|jawohl|oui|si|sim|da|tak|hai|confirm|confirmed)"
AGREES = re.compile(
    rf"\b(?:{YES}|sure|ok|okay|absolutely|definitely|certainly|of\s+course|go\s+ahead|do\s+it|please\s+do|klar|"
    r"(?:delete|remove)\s+(?:it|them|this|that|these|those|all|both))\b"
)
POLITE = re.compile(
    r"\b(?:please|do|go|ahead|it|them|this|that|these|those|all|both|bitte|thanks|thank|you|delete|remove|forget)\b"
)
NEVER_MIND = re.compile(rf"^(?!.*\b{YES}\b).*\bforget\s+(?:it|that|this)\b")
"""“Forget it” alone rather means: leave it."""

NUMBERS = re.compile(r"\s*(?:number\s+)?(\d{1,2})(?:\s*(?:,|and|&)\s*(\d{1,2}))*\s*[.!]?\s*")


@check_arguments
async def settled(memory: Memory, reply: str) -> Forgotten:
    """Confirm or cancel what waits, by the user's next words alone; no model is asked.

    Numbers choose among what was shown. Whatever is not clearly a yes cancels.
    """
    pending = (await memory.profile()).pending
    if pending is None:
        return Forgotten(version=0)
    if is_yes(reply):
        return await memory.confirm()
    numbers = chosen(reply, len(pending.targets))
    if numbers:
        return await memory.confirm([pending.targets[number - 1].id for number in numbers])
    await memory.cancel()
    return Forgotten(version=0)


def is_yes(reply: str) -> bool:
    """Whether a reply is a clear yes, and nothing besides."""
    said = " ".join(words(reply))
    rest = POLITE.sub("", AGREES.sub("", said))
    return bool(AGREES.search(said)) and not rest.strip() and not NEVER_MIND.search(said)


def chosen(reply: str, most: int) -> list[int]:
    """The numbers that a reply consists of, if each was offered."""
    numbers = [int(found) for found in re.findall(r"\d+", reply)] if NUMBERS.fullmatch(reply) else []
    return numbers if numbers and all(0 < number <= most for number in numbers) else []
