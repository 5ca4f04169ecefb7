"""The state of a thread for clients of AG-UI: without the runtime's own entries, changed by patches."""

from collections.abc import Iterable

from clew.core.encoding import JSON
from clew.core.ops import Append, Delete, Document, Op, Set, apply_ops, diff

RESERVED = "$"
"""The first character of the keys under which the runtime keeps its own entries."""
REFUSED_KEYS = frozenset({"__proto__", "constructor", "prototype"})
"""Keys that the clients' library for patches refuses, since they mean something else in JavaScript."""


def public_state(state: Document) -> Document:
    """Return a state without the entries of the runtime."""
    return {key: value for key, value in state.items() if not key.startswith(RESERVED)}


def state_after(state: Document, ops: Iterable[Op]) -> Document:
    """Return a public state after some ops; what they change of the runtime's entries is left out."""
    return public_state(apply_ops(state, ops))


def json_patch(before: Document, after: Document) -> list[dict[str, JSON]] | None:
    """Return the patch of RFC 6902 that leads from one state to another; None if clients would refuse it."""
    ops = diff(before, after)
    if any(REFUSED_KEYS.intersection(map(str, op.path)) for op in ops):
        return None
    return [_operation(op) for op in ops]


def _operation(op: Op) -> dict[str, JSON]:
    match op:
        case Delete(path=path):
            return {"op": "remove", "path": _pointer(path)}
        case Append(path=path, value=value):
            return {"op": "add", "path": _pointer((*path, "-")), "value": value}
        case Set(path=path, value=value):
            return {"op": "add", "path": _pointer(path), "value": value}
    raise AssertionError(op)


def _pointer(path: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)
