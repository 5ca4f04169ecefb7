"""The hash chain: each changeset commits to the one before it, and to its content by salted hashes."""

from collections.abc import Iterable
from hashlib import sha256

from clew.core.encoding import encode
from clew.core.log.rows import ChangesetRow, ItemRow, Segment, ThreadRow

# Without a salt, an erased body could be guessed from a list of likely texts and tested.
SALT_BYTES = 16
FORMAT = b"clew 1"
NO_COMMITMENT = bytes(32)
"""The commitment of a content that never was."""


def commitment(salt: bytes, body: bytes) -> bytes:
    """The hash by which a body enters the chain. Without body and salt it reveals nothing."""
    return sha256(salt + body).digest()


def genesis(id: str, owner: str | None, time: int, parent: tuple[str, int, bytes] | None) -> bytes:
    """The hash a thread starts from; a fork's contains the hash of the version it forks."""
    # Id, owner and time are part of it, so no chain can be passed off as another thread's.
    origin = [parent[0], parent[1], parent[2].hex()] if parent else None
    return sha256(FORMAT + encode([id, owner, time, origin])).digest()


def changeset_hash(previous: bytes, change: ChangesetRow, items: Iterable[ItemRow]) -> bytes:
    """The hash of a changeset. Its items are given by log and place.

    Every part follows its length or has a fixed one, so no two changesets give the same bytes.
    """
    head = b"%b %b %d %d %d:%b" % (
        FORMAT,
        previous,
        change.version,
        change.time,
        len(change.envelope),
        change.envelope,
    )
    # The envelope enters as it is; content and bodies by commitments, so that they can be erased.
    parts = [head, _commitment_of(change.erased, change.salt, change.content)]
    for item in items:
        log, meta, body, salt = item.log.encode(), item.meta, item.body, item.salt
        parts.append(b"%d %d:%b%d:%b" % (item.place, len(log), log, len(meta), meta))
        if item.erased is None and body is not None and salt is not None:
            parts.append(sha256(salt + body).digest())  # written out, since it is so for all but the erased
        else:
            parts.append(_commitment_of(item.erased, salt, body))
    return sha256(b"".join(parts)).digest()


def _commitment_of(commitment_of_erased: bytes | None, salt: bytes | None, body: bytes | None) -> bytes:
    if commitment_of_erased is not None:
        return commitment_of_erased
    return NO_COMMITMENT if body is None else commitment(salt or b"", body)


def segments_of(thread: ThreadRow) -> list[Segment]:
    """A thread's segments with itself as the last one, the root first."""
    own = Segment(thread.key, thread.version, thread.id, thread.owner, thread.created)
    return [*thread.segments, own]


def start_hash(segment: Segment, before: Segment | None, hash: bytes) -> bytes:
    """The hash that a segment's first changeset follows; ``hash`` is where the one before it ends."""
    parent = (before.id, before.upto, hash) if before else None
    return genesis(segment.id, segment.owner, segment.created, parent)


def head_hash(row: ThreadRow, version: int, hash: bytes) -> bytes:
    """The hash of a head: that of its last changeset, or of the fork if it has none of its own."""
    if row.segments and row.segments[-1].upto == version:
        return start_hash(segments_of(row)[-1], row.segments[-1], hash)
    return hash
