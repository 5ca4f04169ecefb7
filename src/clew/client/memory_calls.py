"""The calls of memory: what is known of a user, put right, forgotten and brought back."""

from typing import Literal

from clew.client import bodies, findings
from clew.client.requests import Call, call, named
from clew.core.encoding import JSON


def memory(
    *,
    kind: Literal["facts", "arcs"] = "facts",
    limit: int = 50,
    cursor: str | None = None,
    user: str | None = None,
) -> Call[findings.MemoryPage]:
    """What is known of a user."""
    return call("GET", "/memory", findings.MemoryPage, kind=kind, limit=limit, cursor=cursor, user=user)


def memory_entry(id: str, *, user: str | None = None) -> Call[dict[str, JSON]]:
    """One fact, arc or rule."""
    return call("GET", f"/memory/entries/{named(id)}", dict[str, JSON], user=user)


def catch_up(*, user: str | None = None) -> Call[findings.CatchUp]:
    """The last session in a line, for whoever begins another."""
    return call("GET", "/memory/catch-up", findings.CatchUp, user=user)


def export_memory(*, user: str | None = None) -> Call[dict[str, JSON]]:
    """Everything that is known, as one document."""
    return call("GET", "/memory/export", dict[str, JSON], user=user)


def correct_memory(
    id: str, object: str, *, negated: bool = False, user: str | None = None, key: str | None = None
) -> Call[dict[str, JSON]]:
    """Put right what a fact or a rule says."""
    body = bodies.NewCorrection(object=object, negated=negated)
    path = f"/memory/entries/{named(id)}/correct"
    return call("POST", path, dict[str, JSON], body=body, key=key, user=user)


def forget_memory(
    ids: list[str], *, confirmed: bool = False, user: str | None = None, key: str | None = None
) -> Call[findings.ForgottenView]:
    """Forget some of it: first shown, then confirmed."""
    body = bodies.NewForget(ids=ids, confirmed=confirmed)
    return call("POST", "/memory/forget", findings.ForgottenView, body=body, key=key, user=user)


def undo_memory(
    version: int | None = None, *, user: str | None = None, key: str | None = None
) -> Call[findings.UndoneView]:
    """Take back the last change of a memory."""
    body = bodies.NewUndo(version=version)
    return call("POST", "/memory/undo", findings.UndoneView, body=body, key=key, user=user)


def set_recall(*, on: bool, user: str | None = None) -> Call[bodies.NewRecall]:
    """Whether what is recalled may be brought up."""
    return call("PUT", "/memory/recall", bodies.NewRecall, body=bodies.NewRecall(on=on), user=user)
