"""Errors of providers and stores, fit to be shown: nothing secret, and whether asking again may help."""

import re
from collections.abc import Sequence

from clew.core.errors import ClewError, StoreFailed

_LONGEST = 300
_TRANSIENT = frozenset((408, 409, 425, 429))
_PLACEHOLDER = "[hidden]"
SEE_LOG = "the server's log says more"
_KEYS = re.compile(
    r"\bbearer\s+\S+|\b(?:sk|pk|rk|gsk|xai|ghp|key|api[-_]?key)[-_=:][\w.*-]{6,}|\bAIza[\w-]{10,}",
    re.IGNORECASE,
)


def redact(text: str, secrets: Sequence[str]) -> str:
    """A text on one line without keys, cut where it is too long to be read."""
    for secret in secrets:
        text = text.replace(secret, _PLACEHOLDER)
    line = " ".join(_KEYS.sub(_PLACEHOLDER, text).split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def public_error(error: ClewError) -> ClewError:
    """An error as a client may read it: the details of a store are for the log."""
    if not isinstance(error, StoreFailed):
        return error
    facts = error.facts()
    return type(error)(
        **{name: SEE_LOG if _is_internal(name, fact) else fact for name, fact in facts.items()}
    )


def error_name(error: BaseException) -> str:
    """The code of an error of ours, or the name of another's type: nothing of its words."""
    return error.code if isinstance(error, ClewError) else type(error).__name__


def _is_internal(name: str, fact: object) -> bool:
    return isinstance(fact, str) and name != "thread"


def is_transient(status: int) -> bool:
    """Return whether a request that was answered with this status may succeed later."""
    return status in _TRANSIENT or status >= 500
