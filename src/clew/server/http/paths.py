"""Ids in paths: a slash inside an id, and the threads that have routes of their own."""

from typing import Any
from urllib.parse import unquote

from clew.core.errors import ThreadNotFound

SLASH_STAND_IN = "\x1f"
"""Replaces a slash inside an id while a path is split at its slashes; no id can hold it."""

OWN_THREADS_PREFIX = "clew/"
"""The prefix of threads that have routes of their own: receipts, and the audit."""


def protect_slashes(scope: dict[str, Any]) -> dict[str, Any]:
    """Return the scope of a connection in whose path ``%2F`` is part of an id, and no separator."""
    raw: bytes = scope.get("raw_path") or b""
    if scope["type"] not in ("http", "websocket") or b"%2f" not in raw.lower():
        return scope
    parts = raw.partition(b"?")[0].decode("latin-1").split("/")
    return {**scope, "path": "/".join(unquote(part).replace("/", SLASH_STAND_IN) for part in parts)}


def decode_path_part(part: str) -> str:
    """Return the id that a part of a path names."""
    return part.replace(SLASH_STAND_IN, "/")


def check_reachable(thread: str) -> str:
    """Return a thread that is not one of those with routes of their own.

    Raises:
        ThreadNotFound: It is one of them.
    """
    if thread.startswith(OWN_THREADS_PREFIX):
        raise ThreadNotFound(thread=thread)
    return thread
