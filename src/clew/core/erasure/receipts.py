"""Receipts of erasures: whose traces were erased, what and how much, and what was left. Pure.

A receipt is a few lines in the thread of receipts: one when it is begun, one for each commit that removed
something, one when it is done. Names in it are salted hashes: they can be checked, not read back.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import InvalidArgument
from clew.core.log.holds import HOLD_KIND, RECEIPTS_THREAD
from clew.core.values import Item, Record

RECEIPT_LOG: Final = "receipts"
FIRST_LINE, STEP_LINE, LAST_LINE = "begun", "step", "done"
UNFINISHED, PENDING, COMPLETE, PREVIEW = "unfinished", "pending", "complete", "preview"
RETAINED_KIND: Final = "retained"
"""The kind of records that have a date: each is kept until its ``sort``. An erasure leaves it unless
``with_retained`` is set. Its first tag names the kind of document to the application: ``kind:incident``."""
DOCUMENT_TAG: Final = "kind:"
RULE_KIND: Final = "retention rule"
ARTIFACT_KIND, DOCUMENT_KIND = "artifact", "document"
"""The kinds of records that are about a file: see ``file_path``."""


SubjectKind: TypeAlias = Literal["owner", "thread", "rule"]


class ErasureSubject(msgspec.Struct, frozen=True, kw_only=True):
    """An owner whose traces are erased, or some threads with all that was forked from them."""

    what: SubjectKind
    name: str
    owner: str | None = None
    threads: tuple[str, ...] = ()
    with_retained: bool = False

    @property
    def is_owner(self) -> bool:
        """True if everything of an owner goes, not only some threads."""
        return self.what == "owner"

    @property
    def retained_kinds(self) -> tuple[str, ...]:
        """The kinds of records that stay."""
        return (HOLD_KIND, RULE_KIND) if self.with_retained else (HOLD_KIND, RULE_KIND, RETAINED_KIND)


class FileSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a subject: all of an owner's, those of some threads, and files by path.

    Each of ``files`` is an owner and a path in their part of a volume.
    """

    owner: str | None = None
    threads: tuple[str, ...] = ()
    files: tuple[tuple[str | None, str], ...] = ()


def document_kind(record: Record) -> str:
    """The kind of a record, as its application calls it: that of a retained one is in its tags."""
    kinds = [tag.removeprefix(DOCUMENT_TAG) for tag in record.tags if tag.startswith(DOCUMENT_TAG)]
    return kinds[0] if kinds and record.kind == RETAINED_KIND else record.kind


def file_path(kind: str, body: JSON) -> str | None:
    """The path of the file that a record is about, in its owner's part of a volume; None if there is none."""
    path = body.get("path") if kind in (ARTIFACT_KIND, DOCUMENT_KIND) and isinstance(body, dict) else None
    return path if isinstance(path, str) else None


class RetainedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were left: of which kind, how many, and until when."""

    kind: str
    count: int
    until: int | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement of what was erased. ``subject`` is a salted hash, ``hash`` is over all of this."""

    id: str
    time: int
    what: str
    subject: str
    salt: str
    status: str = UNFINISHED
    counts: dict[str, int] = {}
    kept: tuple[RetainedRecords, ...] = ()
    waiting: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    ended: int | None = None
    hash: str = ""

    def is_about(self, subject: ErasureSubject) -> bool:
        """Return whether it is about this subject."""
        return self.what == subject.what and self.subject == salted_hash(
            self.salt, subject.what, subject.name
        )


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that was erased: a salted hash of its id, and the head it had then.

    If it was being written to at that moment, it may have gone a few versions further.
    """

    mark: str
    version: int
    hash: str


class ErasureStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counts of one commit of an erasure; ``files`` is the number that files were put aside under."""

    counts: dict[str, int] = {}
    threads: tuple[Tombstone, ...] = ()
    files: int = 0


def salted_hash(salt: str, *names: str) -> str:
    """The hash of a name in a receipt: it cannot be read back, but found by those who know the name."""
    return sha256(bytes.fromhex(salt) + encode(list(names))).hexdigest()


def add_counts(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Two counts together."""
    return {
        name: one.get(name, 0) + other.get(name, 0) for name in [*one, *(n for n in other if n not in one)]
    }


def seal_receipt(receipt: Receipt) -> Receipt:
    """A receipt with the hash over its content."""
    # A hash cannot cover itself.
    bare = msgspec.structs.replace(receipt, hash="")
    return msgspec.structs.replace(bare, hash=sha256(encode(as_json(bare))).hexdigest())


def receipts_of(items: Iterable[Item]) -> list[Receipt]:
    """The receipts behind the lines of their thread, the oldest first."""
    receipts: dict[str, Receipt] = {}
    for item in items:
        match item.kind:
            # A last line is the whole receipt, sums included, so it takes the place of those before it.
            case kind if kind in (FIRST_LINE, LAST_LINE):
                receipt = msgspec.convert(item.body, Receipt)
                receipts[receipt.id] = receipt
            case kind if kind == STEP_LINE and item.id in receipts:
                before = receipts[item.id]
                counts = add_counts(before.counts, msgspec.convert(item.body, ErasureStep).counts)
                receipts[item.id] = msgspec.structs.replace(before, counts=counts)
    return list(receipts.values())


def tombstones_of(items: Iterable[Item]) -> dict[str, list[Tombstone]]:
    """The threads that were erased, by receipt."""
    tombstones: dict[str, list[Tombstone]] = {}
    for item in items:
        if item.kind == STEP_LINE and item.id is not None:
            tombstones.setdefault(item.id, []).extend(msgspec.convert(item.body, ErasureStep).threads)
    return tombstones


def last_files_number(items: Iterable[Item], receipt: str) -> int:
    """The last number that a receipt has files put aside under; 0 if there were none yet."""
    steps = (item.body for item in items if item.kind == STEP_LINE and item.id == receipt)
    return max((msgspec.convert(step, ErasureStep).files for step in steps), default=0)


def subject_of(owner: str | None, thread: str | None, *, with_retained: bool = False) -> ErasureSubject:
    """The subject that a caller asks to erase; ``with_retained`` takes its retained records too.

    Raises:
        InvalidArgument: It is not one owner or one thread.
    """
    if owner is not None and thread is None:
        return ErasureSubject(what="owner", name=owner, owner=owner, with_retained=with_retained)
    if thread is not None and thread != RECEIPTS_THREAD:
        return ErasureSubject(
            what="thread", name=thread, owner=owner, threads=(thread,), with_retained=with_retained
        )
    raise InvalidArgument(problem="Say whose traces to erase: those of an owner, or of a thread.")
