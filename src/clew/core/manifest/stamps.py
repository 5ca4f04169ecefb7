"""Stamps: the version of a thread that a manifest on a volume holds, and how the two compare.

A manifest itself names no version, so that a session that was imported gives the same manifest again. The
file on a volume says it beside the manifest: the version, the hash that the thread had there, and a checksum
of the manifest, so that a change by hand can be distinguished from an older version.
"""

import enum
from hashlib import sha256

import msgspec

from clew.core.encoding import JSON, encode
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import STAMP_KEY, Manifest, check_format, manifest_from


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """The version of a thread that a manifest holds, and its hash then."""

    version: int
    hash: str
    sha256: str


class StampedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest as a volume has it; intact if it is what its stamp says. One may have no stamp."""

    document: dict[str, JSON]
    stamp: Stamp | None
    is_intact: bool

    @property
    def manifest(self) -> Manifest:
        """The manifest. It is decoded when it is asked for, which costs more than to compare its stamp.

        Raises:
            InvalidArgument: It cannot be used.
        """
        return manifest_from(self.document)


class ThreadVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's version and hash, and its hash at the version of a stamp, if it has that."""

    version: int
    hash: bytes
    hash_at_stamp: bytes | None = None


class ManifestStatus(enum.Enum):
    """The relation of a manifest to its thread."""

    CURRENT = "current"
    """It is what the thread is."""
    BEHIND = "behind"
    """The thread has moved on from it."""
    AHEAD = "ahead"
    """It holds a version that the thread does not have: the database was set back, or is lost."""
    OTHER = "other"
    """The thread had another hash at that version: it is not the one that the manifest was made of."""
    ALTERED = "altered"
    """It is not what was written at that version."""
    UNSTAMPED = "unstamped"
    """It names no version: it was put there by hand, or by an older release."""


PROBLEMS = {
    ManifestStatus.AHEAD: "the manifest holds version {found}, and the database is {where}",
    ManifestStatus.OTHER: "the manifest was made of another history: version {found} has another hash",
    ManifestStatus.ALTERED: "the manifest was changed since it was written at version {found}",
    ManifestStatus.UNSTAMPED: "the manifest names no version, and does not hold what the database does",
}
"""The problems, in words, where the two do not go together."""


def encode_stamped_manifest(manifest: Manifest, version: int, hash: bytes) -> bytes:
    """Encode a manifest as a volume keeps it, with the version that it holds."""
    # Each part is encoded once, though the whole is needed twice: for its checksum, and with the stamp.
    parts: dict[str, JSON] = {
        name: msgspec.Raw(encode(getattr(manifest, name))) for name in manifest.__struct_fields__
    }
    stamp = Stamp(version=version, hash=hash.hex(), sha256=sha256(encode(parts)).hexdigest())
    return msgspec.json.format(encode({**parts, STAMP_KEY: stamp}), indent=1) + b"\n"


def read_stamped_manifest(data: bytes, session: str) -> StampedManifest:
    """The manifest that a file on a volume holds.

    Raises:
        InvalidArgument: It holds none, or that of another session.
    """
    try:
        document = msgspec.json.decode(data)
        raw_stamp = document.pop(STAMP_KEY, None) if isinstance(document, dict) else None
        stamp = None if raw_stamp is None else msgspec.convert(raw_stamp, Stamp)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(problem=f"It is no manifest: {error}.") from error
    document = check_format(document)
    is_intact = stamp is None or stamp.sha256 == sha256(encode(document)).hexdigest()
    if stamp is None or not is_intact:
        manifest_from(document)  # another program wrote it, so it may be anything
    if document.get("session") != session:
        raise InvalidArgument(problem=f"It is the manifest of session {document.get('session')!r}.")
    return StampedManifest(document=document, stamp=stamp, is_intact=is_intact)


def manifest_status(manifest: StampedManifest, thread: ThreadVersion | None) -> ManifestStatus:
    """Compare a manifest with its thread, None if that is not there."""
    stamp = manifest.stamp
    if not manifest.is_intact:
        return ManifestStatus.ALTERED
    if stamp is None:
        return ManifestStatus.UNSTAMPED
    if thread is None or stamp.version > thread.version:
        return ManifestStatus.AHEAD
    hash = thread.hash if stamp.version == thread.version else thread.hash_at_stamp
    if hash is None or hash.hex() != stamp.hash:
        return ManifestStatus.OTHER
    return ManifestStatus.CURRENT if stamp.version == thread.version else ManifestStatus.BEHIND
