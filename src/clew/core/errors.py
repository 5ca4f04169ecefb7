"""Everything Clew raises: one root, stable codes.

ClewError
├── InvalidInput
│   ├── InvalidValue          a value that is not JSON, named by its path
│   ├── InvalidId             an id that cannot name anything
│   ├── InvalidArgument       a call that makes no sense, in words
│   ├── OpFailed              an op that does not fit the state
│   ├── TranscriptBroken      a result without its call, or a call left open
│   ├── TooLarge              a body over the limit
│   ├── UnsupportedMediaType  a body that is not said to be of the type that its route takes
│   ├── LogFull               no place left in a log
│   ├── ArchiveInvalid        an archive that cannot be read
│   ├── SchemaInvalid         a state class that makes no sense
│   ├── StateInvalid          a stage's delta that does not fit the schema
│   ├── VolumePathRefused     a name on a volume that cannot be used, or what is there
│   ├── VolumeFull            no room left in a user's part of a volume
│   ├── ModeRefused           a mode that a thread cannot have here
│   ├── UserMissing           a request that names nobody, about a thread that is somebody's
│   ├── BlockFull             a block of core memory over its limit
│   └── DocumentUnreadable
│       ├── DocumentUnsupported   a kind of file that has no text for us
│       ├── DocumentBroken        a file that is not what it says it is
│       ├── DocumentEncrypted     a file that needs a password
│       ├── DocumentEmpty         a file with nothing in it
│       ├── DocumentWithoutText   pages that are only pictures
│       ├── DocumentTooLarge      more bytes, pages or text than is read
│       └── DocumentTooSlow       a file that takes too long to read
├── NotFound
│   ├── ThreadNotFound
│   ├── VersionNotFound
│   ├── VolumeFileNotFound
│   ├── RecordNotFound
│   └── BlockNotFound         no such block of core memory
├── Conflict
│   ├── VersionConflict       the thread is not where ``expect`` says
│   ├── ThreadExists
│   ├── RevisionConflict      the record is not where ``expect`` says
│   ├── KeyReused             one idempotency key, two different bodies
│   ├── ClaimLost             the job belongs to another worker now
│   ├── TurnBusy              another turn of the thread is running
│   ├── TurnSuspended         the thread waits for a decision
│   ├── LeaseLost             the run was taken over by another
│   ├── CheckpointStale       a graph's thread has moved on since it was read
│   ├── StateConflict         two changes that do not commute
│   ├── DecisionRefused       a decision that cannot be taken
│   ├── RewindRefused         what should be taken back is not whole at the end
│   ├── StageGone             a run stopped at a stage that this runtime does not have
│   ├── ThreadOfAnotherAgent  only the agent of a thread writes it
│   │   └── GuestThread       a guest framework keeps the thread
│   ├── RequestPending        the first request with a key is still at work
│   ├── VolumeFileChanged     the file is not what ``expect`` says
│   ├── LegalHold             what should go is held by law
│   └── ManifestConflict      a manifest on a volume and the database disagree
├── StoreFailed
│   ├── StoreUnavailable      no connection; nothing was sent
│   ├── OutcomeUnknown        the connection broke while a commit was under way
│   ├── StorageFull
│   ├── StorageError          the disk or the server said no
│   ├── StoreReadOnly
│   ├── StoreBusy             another process kept the file locked
│   ├── StoreDamaged          not a database, or a broken one
│   ├── StoreFileLost         the file or its WAL is no longer the one that was opened
│   ├── WalOrphaned           a WAL with commits in it, and no database beside it
│   ├── NewerFormat           written by a newer release
│   ├── NewerSchema           a state written by a newer schema
│   ├── NotMigrated           the schema is missing or old, and we may not change it
│   ├── StoreClosed
│   ├── StoreForked           opened by the parent, used in a child process
│   ├── ManifestUnreadable    a manifest on a volume that is none
│   └── ManifestWriteFailed   a manifest that is not on its volume
├── RunFailed
│   ├── ModelFailed           the model did not answer
│   ├── DeadlineExceeded      a call or a turn took too long
│   ├── ToolConflict          parallel tools wrote what does not commute
│   ├── GuardrailTripped      a guardrail refused input or output
│   ├── InterpreterFailed     an interpreter did not come up, or its provider refused
│   ├── InterpreterGone       the interpreter is not there any more, with its variables
│   └── RepositoryFailed      the repository of a session was not checked out, by the name of the reason
├── AccessRefused
│   ├── Unauthenticated       no credentials, or none that hold
│   ├── Forbidden             known, but not allowed to do this
│   └── IssuerUnavailable     the issuer's keys could not be had
├── UnsafeSettings            a server that must not start as it is set up
├── RateLimited               more at once than the server allows
│   └── ServerFull            all that one process serves at once is in use
├── ArtifactDamaged           the file of an artifact is gone, or altered
├── SourceUnreadable          another program's database, named to an import, cannot be read
├── MissingExtra              an optional dependency is not installed
└── UnknownUrl                a URL no store answers to
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


def _rebuild_error(kind: type["ClewError"], facts: dict[str, Any]) -> "ClewError":
    return kind(**facts)


@dataclass(eq=False)
class ClewError(Exception):
    """The root: every error has a code that never changes, and its facts as attributes."""

    code: ClassVar[str] = "error"
    sentence: ClassVar[str] = "Something went wrong."

    def __str__(self) -> str:
        return self.sentence.format(**self.facts())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), self.facts())

    def facts(self) -> dict[str, Any]:
        """The facts of the error, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(eq=False)
class InvalidInput(ClewError):
    """An argument or a value cannot be used. Nothing was changed; correct it and try again."""

    code: ClassVar[str] = "invalid_input"


@dataclass(eq=False)
class InvalidValue(InvalidInput):
    """A value is not JSON. Convert it before you hand it over."""

    path: str
    problem: str
    code: ClassVar[str] = "invalid_value"
    sentence: ClassVar[str] = "The value at {path} cannot be stored: {problem}."


@dataclass(eq=False)
class InvalidId(InvalidInput):
    """An id is empty, too long or not printable text. Choose another."""

    what: str
    problem: str
    code: ClassVar[str] = "invalid_id"
    sentence: ClassVar[str] = (
        "The {what} cannot be used: {problem}. Ids are 1 to 512 bytes of printable text."
    )


@dataclass(eq=False)
class InvalidArgument(InvalidInput):
    """An argument is of another type, or does not go with the others. The sentence says which."""

    problem: str
    code: ClassVar[str] = "invalid_argument"
    sentence: ClassVar[str] = "{problem}"


@dataclass(eq=False)
class OpFailed(InvalidInput):
    """An op does not fit the state, so the whole changeset was refused."""

    index: int
    op: str
    path: list[str | int]
    problem: str
    code: ClassVar[str] = "op_failed"
    sentence: ClassVar[str] = (
        "Op {index} ({op} at {path}) does not fit the state: {problem}. Nothing of the changeset was kept."
    )


@dataclass(eq=False)
class TranscriptBroken(InvalidInput):
    """A tool result answers no open call, or open calls would be left behind."""

    thread: str
    call: str
    problem: str
    code: ClassVar[str] = "transcript_broken"
    sentence: ClassVar[str] = (
        "Thread {thread!r}: {problem} (call {call!r}). Answer the open calls, or close them with repair()."
    )


@dataclass(eq=False)
class TooLarge(InvalidInput):
    """A body is over the limit. Store it elsewhere and keep a reference, or raise the limit when opening."""

    what: str
    size: int
    limit: int
    code: ClassVar[str] = "too_large"
    sentence: ClassVar[str] = (
        "The {what} has {size} bytes; the limit is {limit}. Keep a reference, or open with a larger limit."
    )


@dataclass(eq=False)
class UnsupportedMediaType(InvalidInput):
    """The body of a request is not of the type that its route takes. Name that type in ``Content-Type``."""

    media_type: str | None
    expected: str
    code: ClassVar[str] = "unsupported_media_type"
    sentence: ClassVar[str] = "The Content-Type of the body must be {expected}."


@dataclass(eq=False)
class LogFull(InvalidInput):
    """A log has no place left where the item should go. Fork or start another thread."""

    thread: str
    log: str
    code: ClassVar[str] = "log_full"
    sentence: ClassVar[str] = (
        "Log {log!r} of thread {thread!r} has no place left there. Continue in a new thread."
    )


@dataclass(eq=False)
class ArchiveInvalid(InvalidInput):
    """An archive is damaged, cut short, or of a format this release does not know."""

    line: int
    problem: str
    code: ClassVar[str] = "archive_invalid"
    sentence: ClassVar[str] = (
        "The archive cannot be imported (line {line}): {problem}. Nothing of that thread was kept."
    )


@dataclass(eq=False)
class SchemaInvalid(InvalidInput):
    """A field of a state class is declared in a way that makes no sense."""

    schema: str
    field: str
    problem: str
    code: ClassVar[str] = "schema_invalid"
    sentence: ClassVar[str] = "Field {field!r} of {schema} cannot be used: {problem}."


@dataclass(eq=False)
class StateInvalid(InvalidInput):
    """A stage or a tool wrote what the schema does not allow, so its delta was refused as a whole."""

    stage: str
    field: str
    problem: str
    code: ClassVar[str] = "state_invalid"
    sentence: ClassVar[str] = "{stage} cannot write field {field!r}: {problem}."


@dataclass(eq=False)
class VolumePathRefused(InvalidInput):
    """A path on a volume cannot be used, or what is there is no plain file. Nothing was touched."""

    path: str
    problem: str
    code: ClassVar[str] = "volume_path_refused"
    sentence: ClassVar[str] = "The volume's path {path!r} is refused: {problem}."


@dataclass(eq=False)
class VolumeFull(InvalidInput):
    """A user's part of the volume has no room for a file. Delete some, or raise its capacity."""

    path: str
    size: int
    left: int
    code: ClassVar[str] = "volume_full"
    sentence: ClassVar[str] = (
        "{path!r} has {size} bytes, and the volume has room for {left}. Delete files, or raise the capacity."
    )


@dataclass(eq=False)
class ModeRefused(InvalidInput):
    """A mode cannot be had here: a request may step down to incognito, never up, and never out of it."""

    asked: str
    offered: str
    problem: str
    code: ClassVar[str] = "mode_refused"
    sentence: ClassVar[str] = "Mode {asked!r} cannot be had where {offered!r} is offered: {problem}."


@dataclass(eq=False)
class UserMissing(InvalidInput):
    """A thread belongs to a user, and the request names none. Nothing was changed; name its user."""

    thread: str
    code: ClassVar[str] = "user_missing"
    sentence: ClassVar[str] = (
        "Thread {thread!r} belongs to a user, and the request names none. Name its user, or another thread."
    )


@dataclass(eq=False)
class BlockFull(InvalidInput):
    """A block of core memory would be over its limit. Shorten what is in it first."""

    block: str
    size: int
    limit: int
    code: ClassVar[str] = "block_full"
    sentence: ClassVar[str] = (
        "Block {block!r} would have {size} characters; at most {limit} fit. Nothing was changed; "
        "replace or shorten what is in it first."
    )


@dataclass(eq=False)
class DocumentUnreadable(InvalidInput):
    """A document has no text that could be read. It was not loaded."""

    code: ClassVar[str] = "document_unreadable"


@dataclass(eq=False)
class DocumentUnsupported(DocumentUnreadable):
    """A file is of a kind that is not read. Give it as PDF, HTML, Markdown or plain text."""

    document: str
    type: str
    code: ClassVar[str] = "document_unsupported"
    sentence: ClassVar[str] = (
        "Document {document!r} is of type {type}, which is not read. "
        "Give it as PDF, HTML, Markdown or plain text."
    )


@dataclass(eq=False)
class DocumentBroken(DocumentUnreadable):
    """A file is damaged, or is not what it says it is. Get it again from where it comes."""

    document: str
    problem: str
    code: ClassVar[str] = "document_broken"
    sentence: ClassVar[str] = (
        "Document {document!r} cannot be read: {problem}. Get it again from where it comes."
    )


@dataclass(eq=False)
class DocumentEncrypted(DocumentUnreadable):
    """A file needs a password. Save it without one, and load that."""

    document: str
    code: ClassVar[str] = "document_encrypted"
    sentence: ClassVar[str] = "Document {document!r} needs a password. Save it without one, and load that."


@dataclass(eq=False)
class DocumentEmpty(DocumentUnreadable):
    """A file has nothing in it."""

    document: str
    code: ClassVar[str] = "document_empty"
    sentence: ClassVar[str] = "Document {document!r} has nothing in it."


@dataclass(eq=False)
class DocumentWithoutText(DocumentUnreadable):
    """The pages of a file are only pictures. Have their text recognised first."""

    document: str
    pages: int
    code: ClassVar[str] = "document_without_text"
    sentence: ClassVar[str] = (
        "Document {document!r} has {pages} pages and no text: they may be pictures. "
        "Have their text recognised first, and load that."
    )


@dataclass(eq=False)
class DocumentTooLarge(DocumentUnreadable):
    """A file has more in it than is read. Split it, or raise the limit."""

    document: str
    what: str
    size: int
    limit: int
    code: ClassVar[str] = "document_too_large"
    sentence: ClassVar[str] = (
        "Document {document!r} has {size} {what}; at most {limit} are read. Split it, or raise the limit."
    )


@dataclass(eq=False)
class DocumentTooSlow(DocumentUnreadable):
    """A file takes too long to read, or too much memory. Print it anew, or raise the limit."""

    document: str
    seconds: float
    code: ClassVar[str] = "document_too_slow"
    sentence: ClassVar[str] = (
        "Document {document!r} could not be read within {seconds} s. Print it anew, or raise the limit."
    )


@dataclass(eq=False)
class NotFound(ClewError):
    """The thing asked for does not exist, or is not yours to see."""

    code: ClassVar[str] = "not_found"


@dataclass(eq=False)
class ThreadNotFound(NotFound):
    """There is no such thread here. Create it first, or check tenant and user."""

    thread: str
    code: ClassVar[str] = "thread_not_found"
    sentence: ClassVar[str] = "There is no thread {thread!r} here. Create it first, or check tenant and user."


@dataclass(eq=False)
class VersionNotFound(NotFound):
    """The thread has no such version yet. Ask for one up to its head."""

    thread: str
    version: int
    head: int
    code: ClassVar[str] = "version_not_found"
    sentence: ClassVar[str] = "Thread {thread!r} has versions 0 to {head}; version {version} does not exist."


@dataclass(eq=False)
class VolumeFileNotFound(NotFound):
    """There is no such file on the volume, or not in this user's part of it."""

    path: str
    code: ClassVar[str] = "volume_file_not_found"
    sentence: ClassVar[str] = "The volume has no file {path!r}."


@dataclass(eq=False)
class RecordNotFound(NotFound):
    """There is no such record here."""

    kind: str
    id: str
    code: ClassVar[str] = "record_not_found"
    sentence: ClassVar[str] = "There is no {kind} {id!r} here."


@dataclass(eq=False)
class BlockNotFound(NotFound):
    """Core memory has no such block. Use one of those that it has."""

    block: str
    known: list[str]
    code: ClassVar[str] = "block_not_found"
    sentence: ClassVar[str] = "Core memory has no block {block!r}. It has: {known}."


@dataclass(eq=False)
class Conflict(ClewError):
    """Another write came first. Nothing was changed; look again and decide again."""

    code: ClassVar[str] = "conflict"


@dataclass(eq=False)
class VersionConflict(Conflict):
    """The thread is not at the expected version. Read its head and decide again."""

    thread: str
    expected: int
    actual: int
    code: ClassVar[str] = "version_conflict"
    sentence: ClassVar[str] = (
        "Thread {thread!r} is at version {actual}, not {expected}. Read its head and decide again."
    )


@dataclass(eq=False)
class ThreadExists(Conflict):
    """The id is taken. Use the thread that is there, or another id."""

    thread: str
    code: ClassVar[str] = "thread_exists"
    sentence: ClassVar[str] = "Thread {thread!r} exists already. Open it, or choose another id."


@dataclass(eq=False)
class RevisionConflict(Conflict):
    """The record is not at the expected revision (0: it is absent). Read it and decide again."""

    kind: str
    id: str
    expected: int
    actual: int
    code: ClassVar[str] = "revision_conflict"
    sentence: ClassVar[str] = (
        "{kind} {id!r} is at revision {actual}, not {expected}. Read it and decide again."
    )


@dataclass(eq=False)
class KeyReused(Conflict):
    """The idempotency key was used for something else. Use a new key for a new request."""

    thread: str
    key: str
    code: ClassVar[str] = "key_reused"
    sentence: ClassVar[str] = (
        "Key {key!r} of thread {thread!r} was used with another body. Use a new key for a new request."
    )


@dataclass(eq=False)
class ClaimLost(Conflict):
    """The job's lease ran out and another worker may have it. Drop what you did."""

    job: str
    code: ClassVar[str] = "claim_lost"
    sentence: ClassVar[str] = (
        "Job {job!r} is no longer yours: its lease ran out or it was finished. Drop the result."
    )


@dataclass(eq=False)
class TurnBusy(Conflict):
    """Another turn of this thread is running. Try again later, or let the runtime wait or queue."""

    thread: str
    run: str
    retry_after_ms: int
    code: ClassVar[str] = "turn_busy"
    sentence: ClassVar[str] = (
        "Thread {thread!r} is busy with run {run!r}. Try again in {retry_after_ms} ms, "
        "or let it wait: busy='wait' or 'queue' for a turn, on_conflict='wait' for a checkpointer."
    )


@dataclass(eq=False)
class TurnSuspended(Conflict):
    """The thread waits for decisions on tool calls. Resume it with them, or cancel the run."""

    thread: str
    run: str
    calls: list[str]
    code: ClassVar[str] = "turn_suspended"
    sentence: ClassVar[str] = (
        "Run {run!r} of thread {thread!r} waits for a decision on {calls}. "
        "Resume it with decisions, or cancel it."
    )


@dataclass(eq=False)
class LeaseLost(Conflict):
    """Another run has taken the thread over; nothing more of this one is kept. Start a new turn."""

    thread: str
    run: str
    code: ClassVar[str] = "lease_lost"
    sentence: ClassVar[str] = (
        "Run {run!r} no longer holds thread {thread!r}; what it had not committed is dropped. "
        "Start a new turn."
    )


@dataclass(eq=False)
class CheckpointStale(Conflict):
    """A graph's thread has moved on since it was read. Read its state again and decide again."""

    thread: str
    checkpoint: str
    newest: str
    code: ClassVar[str] = "checkpoint_stale"
    sentence: ClassVar[str] = (
        "Thread {thread!r} has moved on from checkpoint {checkpoint!r} to {newest!r}. "
        "Read its state again, or name the checkpoint to fork from it."
    )


@dataclass(eq=False)
class StateConflict(Conflict):
    """Another write changed what this run changes, and the two do not commute. Run the turn again."""

    thread: str
    path: list[str | int]
    ours: str
    theirs: str
    version: int
    code: ClassVar[str] = "state_conflict"
    sentence: ClassVar[str] = (
        "Thread {thread!r}, version {version}: {theirs} at {path} does not commute with our {ours}. "
        "Read the thread again and repeat the turn."
    )


@dataclass(eq=False)
class DecisionRefused(Conflict):
    """A decision cannot be taken: the call is unknown, was decided otherwise, or does not allow it."""

    thread: str
    call: str
    problem: str
    code: ClassVar[str] = "decision_refused"
    sentence: ClassVar[str] = "The decision on call {call!r} of thread {thread!r} is refused: {problem}."


@dataclass(eq=False)
class RewindRefused(Conflict):
    """The part to take back is not whole at the end of the thread. Nothing was changed."""

    thread: str
    problem: str
    code: ClassVar[str] = "rewind_refused"
    sentence: ClassVar[str] = (
        "Thread {thread!r} is not rewound: {problem}. Nothing was changed; rewind to a version instead."
    )


@dataclass(eq=False)
class StageGone(Conflict):
    """A run stopped at a stage that this runtime does not have. Nothing was changed."""

    thread: str
    run: str
    stage: str
    code: ClassVar[str] = "stage_gone"
    sentence: ClassVar[str] = (
        "Run {run!r} of thread {thread!r} stopped at stage {stage!r}, which is not among the stages here. "
        "Resume it where it is, or cancel the run and send the next message."
    )


@dataclass(eq=False)
class ThreadOfAnotherAgent(Conflict):
    """A thread is written only by the agent that ran its first turn. Nothing was changed.

    ``agent`` is the one that was refused, ``other`` the one that the thread belongs to. Serve that one, or
    let an operator hand the thread over.
    """

    thread: str
    agent: str
    other: str
    code: ClassVar[str] = "agent_mismatch"
    sentence: ClassVar[str] = (
        "Thread {thread!r} belongs to the agent {other!r}. The agent {agent!r} can read it, not write it. "
        "To hand it over: clew threads adopt {thread!r} --agent {agent}"
    )


@dataclass(eq=False)
class GuestThread(ThreadOfAnotherAgent):
    """A guest framework, ``other``, keeps the thread, and no agent here writes it. Nothing was changed.

    Go on with the framework, or copy what was said to a new thread.
    """

    code: ClassVar[str] = "guest_thread"
    sentence: ClassVar[str] = (
        "Thread {thread!r} is kept by {other}. The agent {agent!r} can read it, not write it. "
        "Go on with {other}, or copy its messages to a new thread."
    )


@dataclass(eq=False)
class RequestPending(Conflict):
    """The first request with this key is still at work. Wait, and send it again with the same key."""

    key: str
    retry_after_ms: int
    code: ClassVar[str] = "request_pending"
    sentence: ClassVar[str] = (
        "The first request with key {key!r} is still at work. Send it again in {retry_after_ms} ms."
    )


@dataclass(eq=False)
class VolumeFileChanged(Conflict):
    """The file is not what was expected (None: it is absent). Read it and decide again."""

    path: str
    expected: str | None
    actual: str | None
    code: ClassVar[str] = "volume_file_changed"
    sentence: ClassVar[str] = (
        "{path!r} on the volume has checksum {actual}, not {expected}. Read it and decide again."
    )


@dataclass(eq=False)
class LegalHold(Conflict):
    """The owner or thread to be removed is on legal hold. Nothing was removed; release the hold first."""

    what: str
    name: str
    reason: str
    code: ClassVar[str] = "legal_hold"
    sentence: ClassVar[str] = (
        "The {what} {name!r} is on legal hold: {reason}. Nothing was removed. Release the hold first."
    )


@dataclass(eq=False)
class ManifestConflict(Conflict):
    """The manifest on the volume and the database do not hold the same history. Neither was changed.

    ``found`` is the version that the manifest holds, ``head`` the one that the database is at; None if
    there is none. Say which of the two holds: take the manifest, or take the database.
    """

    session: str
    found: int | None
    head: int | None
    problem: str
    code: ClassVar[str] = "manifest_conflict"
    sentence: ClassVar[str] = (
        "The manifest of session {session!r} and the database disagree: {problem}. Nothing was overwritten. "
        "Restore the one that is behind, or say which one holds: take 'manifest' or take 'database'."
    )


@dataclass(eq=False)
class StoreFailed(ClewError):
    """The store could not do its work."""

    code: ClassVar[str] = "store_failed"


@dataclass(eq=False)
class StoreUnavailable(StoreFailed):
    """The store cannot be reached, and nothing was changed. Try again later."""

    problem: str
    code: ClassVar[str] = "store_unavailable"
    sentence: ClassVar[str] = "The store cannot be reached: {problem}. Nothing was changed; try again."


@dataclass(eq=False)
class OutcomeUnknown(StoreFailed):
    """The connection broke during a commit. Repeat it with the same idempotency key: it commits once."""

    problem: str
    code: ClassVar[str] = "outcome_unknown"
    sentence: ClassVar[str] = (
        "The connection broke during a commit ({problem}). Repeat it with the same key; it commits once."
    )


@dataclass(eq=False)
class StorageFull(StoreFailed):
    """The disk is full. What was acknowledged is safe; make room and try again."""

    store: str
    code: ClassVar[str] = "storage_full"
    sentence: ClassVar[str] = (
        "No space left for {store}. What was acknowledged is safe; make room and try again."
    )


@dataclass(eq=False)
class StorageError(StoreFailed):
    """The disk or the server reported an error. What was acknowledged is safe."""

    store: str
    problem: str
    code: ClassVar[str] = "storage_error"
    sentence: ClassVar[str] = (
        "{store} failed: {problem}. Nothing was acknowledged; check the disk or the server and try again."
    )


@dataclass(eq=False)
class StoreReadOnly(StoreFailed):
    """The file or its directory cannot be written."""

    store: str
    code: ClassVar[str] = "store_read_only"
    sentence: ClassVar[str] = (
        "{store} cannot be written. Check the permissions of the file and its directory."
    )


@dataclass(eq=False)
class StoreBusy(StoreFailed):
    """Another process kept the store locked for too long."""

    store: str
    code: ClassVar[str] = "store_busy"
    sentence: ClassVar[str] = (
        "{store} was locked by another process for too long. Nothing was changed; try again."
    )


@dataclass(eq=False)
class StoreDamaged(StoreFailed):
    """The file is not a database or is damaged. Restore a backup; keep the damaged file."""

    store: str
    problem: str
    code: ClassVar[str] = "store_damaged"
    sentence: ClassVar[str] = (
        "{store} is damaged or not a Clew database: {problem}. Keep it and restore a backup."
    )


@dataclass(eq=False)
class StoreFileLost(StoreFailed):
    """The file or its write-ahead log was moved, deleted or replaced. Find it, then open it again.

    ``saved`` is the copy that was made of the write-ahead log, if there was anything in it.
    """

    store: str
    problem: str
    saved: str = ""
    code: ClassVar[str] = "store_file_lost"
    sentence: ClassVar[str] = (
        "{store} is no longer the file that was opened: {problem}. Nothing more is acknowledged; "
        "put the right file there and open it again."
    )


@dataclass(eq=False)
class WalOrphaned(StoreFailed):
    """A write-ahead log holds commits, and its database is missing. Put that back, or move the log away."""

    store: str
    wal: str
    code: ClassVar[str] = "wal_orphaned"
    sentence: ClassVar[str] = (
        "{wal} holds commits of a database, but {store} is missing or empty. Opening it would delete them: "
        "nothing was touched. Put the database back beside its log, or move the log away."
    )


@dataclass(eq=False)
class NewerFormat(StoreFailed):
    """The data was written by a newer release and is left untouched. Upgrade Clew."""

    store: str
    found: int
    known: int
    code: ClassVar[str] = "newer_format"
    sentence: ClassVar[str] = (
        "{store} has format {found}; this release knows {known}. It was left untouched; upgrade Clew."
    )


@dataclass(eq=False)
class NewerSchema(StoreFailed):
    """A thread's state was written by a newer schema and is left untouched. Deploy the newer code."""

    thread: str
    found: int
    known: int
    code: ClassVar[str] = "newer_schema"
    sentence: ClassVar[str] = (
        "The state of thread {thread!r} has schema version {found}; this program knows {known}. "
        "It was left untouched; deploy the newer program."
    )


@dataclass(eq=False)
class NotMigrated(StoreFailed):
    """The schema is missing or old and this role may not change it. Run ``clew migrate`` as the owner."""

    store: str
    found: int
    known: int
    code: ClassVar[str] = "not_migrated"
    sentence: ClassVar[str] = (
        "{store} has schema {found}, this release needs {known}. Run `clew migrate` as its owner."
    )


@dataclass(eq=False)
class StoreClosed(StoreFailed):
    """The store was closed. Open it again."""

    code: ClassVar[str] = "store_closed"
    sentence: ClassVar[str] = "The store is closed. Open it again with clew.open()."


@dataclass(eq=False)
class StoreForked(StoreFailed):
    """A child process uses a store that its parent opened. Open it again in the child."""

    opened_by: int
    code: ClassVar[str] = "store_forked"
    sentence: ClassVar[str] = (
        "The store was opened by process {opened_by} and does not work in a child that was forked from it. "
        "Open it again in the child with clew.open()."
    )


@dataclass(eq=False)
class ManifestUnreadable(StoreFailed):
    """The manifest on the volume cannot be read. It is kept, and never taken for an empty one."""

    session: str
    kept: str
    problem: str
    code: ClassVar[str] = "manifest_unreadable"
    sentence: ClassVar[str] = (
        "The manifest of session {session!r} cannot be read: {problem} It is kept as {kept!r}. "
        "Open the session again to have it written anew from the database."
    )


@dataclass(eq=False)
class ManifestWriteFailed(StoreFailed):
    """The manifest could not be written. The turn is in the database; the next checkpoint tries again."""

    session: str
    problem: str
    code: ClassVar[str] = "manifest_write_failed"
    sentence: ClassVar[str] = (
        "The manifest of session {session!r} was not written: {problem}. What was said is in the database; "
        "see to the volume, and the next checkpoint writes it."
    )


@dataclass(eq=False)
class RunFailed(ClewError):
    """A run could not go on. What it had committed stays; the thread takes the next turn."""

    code: ClassVar[str] = "run_failed"


@dataclass(eq=False)
class ModelFailed(RunFailed):
    """A model did not give a usable answer. ``retry`` says whether asking again may help.

    ``retry_after_ms`` is how long its provider asked to wait; ``spent`` is what an unusable answer has cost.
    """

    model: str
    problem: str
    retry: bool = False
    retry_after_ms: int | None = None
    spent: dict[str, int] = field(default_factory=dict)
    code: ClassVar[str] = "model_failed"
    sentence: ClassVar[str] = "Model {model!r} failed: {problem}."


@dataclass(eq=False)
class DeadlineExceeded(RunFailed):
    """A model call, a tool or a turn took longer than it may. Raise the deadline or ask for less."""

    what: str
    seconds: float
    code: ClassVar[str] = "deadline_exceeded"
    sentence: ClassVar[str] = "{what} took longer than {seconds} s."


@dataclass(eq=False)
class ToolConflict(RunFailed):
    """Two tools that ran side by side wrote the same place. Let them write apart, or one after another."""

    first: str
    second: str
    path: list[str | int]
    code: ClassVar[str] = "tool_conflict"
    sentence: ClassVar[str] = "Tools {first!r} and {second!r} both changed {path}, and their order matters."


@dataclass(eq=False)
class GuardrailTripped(RunFailed):
    """A guardrail refused the turn. The accepted input is kept, speculative output is dropped."""

    guardrail: str
    problem: str
    code: ClassVar[str] = "guardrail_tripped"
    sentence: ClassVar[str] = "Guardrail {guardrail!r} refused the turn: {problem}."


@dataclass(eq=False)
class InterpreterFailed(RunFailed):
    """An interpreter did not come up, or its provider refused. ``retry`` says whether to try again."""

    where: str
    problem: str
    retry: bool = False
    code: ClassVar[str] = "interpreter_failed"
    sentence: ClassVar[str] = "The interpreter ({where}) failed: {problem}."


@dataclass(eq=False)
class InterpreterGone(RunFailed):
    """The interpreter is not there any more, and its variables with it. Make a new one."""

    interpreter: str
    problem: str
    code: ClassVar[str] = "interpreter_gone"
    sentence: ClassVar[str] = (
        "Interpreter {interpreter!r} is gone: {problem}. Its variables are lost; make a new one."
    )


@dataclass(eq=False)
class RepositoryFailed(RunFailed):
    """The repository of a session was not checked out. ``reason`` names why; the session works without it."""

    url: str
    reason: str
    problem: str
    code: ClassVar[str] = "repository_failed"
    sentence: ClassVar[str] = "The repository {url!r} was not checked out ({reason}): {problem}."


@dataclass(eq=False)
class AccessRefused(ClewError):
    """Access was refused. Nothing was read or changed."""

    code: ClassVar[str] = "access_refused"


@dataclass(eq=False)
class Unauthenticated(AccessRefused):
    """The request has no credentials, or none that are valid. Sign in again, or send another key."""

    problem: str
    code: ClassVar[str] = "unauthenticated"
    sentence: ClassVar[str] = "Authentication failed: {problem}"


@dataclass(eq=False)
class Forbidden(AccessRefused):
    """The credentials are valid, but not for this. Ask for the role or the scope that is named."""

    problem: str
    code: ClassVar[str] = "forbidden"
    sentence: ClassVar[str] = "{problem}"


@dataclass(eq=False)
class IssuerUnavailable(AccessRefused):
    """The keys of the issuer of tokens are not available, so no token can be checked. Try again later."""

    issuer: str
    problem: str
    code: ClassVar[str] = "issuer_unavailable"
    sentence: ClassVar[str] = "The keys of {issuer} are not available: {problem}. Try again a little later."


@dataclass(eq=False)
class UnsafeSettings(ClewError):
    """The server would not be safe as it is set up, so it does not start. Each problem says what to do."""

    problems: list[str]
    code: ClassVar[str] = "unsafe_settings"
    sentence: ClassVar[str] = "The server does not start like this: {problems}"

    def __str__(self) -> str:
        return self.sentence.format(problems=" ".join(map(str, self.problems)))


@dataclass(eq=False)
class RateLimited(ClewError):
    """More is asked for at once than the server allows. Wait, and try again."""

    what: str
    limit: int
    retry_after_ms: int
    code: ClassVar[str] = "rate_limited"
    sentence: ClassVar[str] = (
        "Too many {what}: at most {limit} are allowed. Nothing was changed; try again in {retry_after_ms} ms."
    )


@dataclass(eq=False)
class ServerFull(RateLimited):
    """All that one process of the server serves at once is in use. Try again, or ask another process."""

    code: ClassVar[str] = "server_full"
    sentence: ClassVar[str] = (
        "This server is full: it has {limit} {what}. Nothing was changed; try again in {retry_after_ms} ms."
    )


@dataclass(eq=False)
class ArtifactDamaged(ClewError):
    """The file of an artifact is gone, or not what was saved. Restore it from a backup of the volume."""

    artifact: str
    problem: str
    code: ClassVar[str] = "artifact_damaged"
    sentence: ClassVar[str] = (
        "Artifact {artifact!r} is damaged: {problem}. Restore it from a backup of the volume."
    )


@dataclass(eq=False)
class SourceUnreadable(ClewError):
    """The database of another program, named to an import, cannot be read. It was not changed."""

    source: str
    problem: str
    code: ClassVar[str] = "source_unreadable"
    sentence: ClassVar[str] = (
        "{source} cannot be read: {problem}. It was not changed; check the address, or use a copy."
    )


@dataclass(eq=False)
class MissingExtra(ClewError):
    """An optional dependency is not installed."""

    extra: str
    package: str
    code: ClassVar[str] = "missing_extra"
    sentence: ClassVar[str] = (
        "{package} is not installed. Install it from a clone of Clew: pip install '.[{extra}]'"
    )


@dataclass(eq=False)
class UnknownUrl(ClewError):
    """No store answers to this URL."""

    url: str
    code: ClassVar[str] = "unknown_url"
    sentence: ClassVar[str] = (
        "No store for {url!r}. Use memory://, sqlite:///path/to/file.db or postgresql://user@host/database."
    )
