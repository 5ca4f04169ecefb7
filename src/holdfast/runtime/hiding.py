"""What a provider said, fit to be shown: nothing secret, one line, and whether asking again may help."""

import re
from collections.abc import Sequence

_LONGEST = 300
_PASSING = frozenset((408, 409, 425, 429))
_HIDDEN = "[hidden]"
_KEYS = re.compile(
    r"\bbearer\s+\S+|\b(?:sk|pk|rk|gsk|xai|ghp|key|api[-_]?key)[-_=:][\w.*-]{6,}|\bAIza[\w-]{10,}",
    re.IGNORECASE,
)


def hidden(text: str, secrets: Sequence[str]) -> str:
    """A text on one line without keys, cut where it is too long to be read."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    line = " ".join(_KEYS.sub(_HIDDEN, text).split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def is_passing(status: int) -> bool:
    """Whether a request that was answered with this status may succeed later."""
    return status in _PASSING or status >= 500
