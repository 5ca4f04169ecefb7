"""Functions that many tests of the contract share."""

from collections.abc import Iterable

import msgspec

from clew.core.encoding import JSON, encode
from clew.core.ops import Document, apply_ops
from clew.core.values import Changeset, Item
from clew.database.thread import Thread


def contents_of(items: Iterable[Item]) -> list[JSON]:
    """The contents of some messages."""
    return [item.body["content"] for item in items]


async def thread_dump(thread: Thread) -> bytes:
    """All there is to see of a thread, to compare before and after."""
    window = await thread.items()
    return msgspec.json.encode(
        [await thread.head(), window.items, window.broken, await thread.changesets(limit=1000)]
    )


def replay_state(changes: Iterable[Changeset]) -> Document:
    """The state that some changesets lead to, folded by hand."""
    state: Document = {}
    for change in changes:
        state = apply_ops(state if change.snapshot is None else change.snapshot, change.patches)
    return state


def canonical_bytes(state: Document) -> bytes:
    """A state to the byte."""
    return encode(state)
