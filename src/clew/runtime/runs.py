"""Runs: one execution on a thread, as it is recorded beside it."""

import msgspec

from clew.core.encoding import JSON, plain
from clew.core.errors import StoreDamaged
from clew.core.values import Record
from clew.runtime.holders import Holder
from clew.runtime.models import Usage

KIND = "run"
RUNNING, WAITING, DONE = "running", "waiting", "done"
NATURAL, SUSPENDED, CANCELLED, ERROR, INTERRUPTED = (
    "natural",
    "suspended",
    "cancelled",
    "error",
    "interrupted",
)
QUEUED = "queued"


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who runs what on which thread, how it ended, and what it cost.

    ``until`` is when its lease ends unless ``holder`` renews it; ``epoch`` counts who has held it.
    ``output`` is kept only for a turn that may be repeated by its key. ``first`` is the version of its first
    changeset. ``awaited`` says that a turn of another process waits for its end.
    """

    id: str
    thread: str
    status: str = RUNNING
    origin: str = "user"
    parent: str | None = None
    user: str | None = None
    epoch: int = 1
    started: int
    ended: int | None = None
    termination: str | None = None
    problem: str | None = None
    usage: Usage = Usage()
    holder: Holder | None = None
    until: int = 0
    key: str | None = None
    output: JSON = None
    cancel: bool = False
    awaited: bool = False
    in_doubt: tuple[str, ...] = ()
    first: int = 0
    revision: int = 0


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    termination: str
    problem: str | None = None


def record_of(run: Run, owner: str | None) -> Record:
    """The record that a run is kept as."""
    return Record(
        kind=KIND,
        id=run.id,
        owner=owner,
        tags=(f"thread:{run.thread}", f"status:{run.status}"),
        sort=run.started,
        body=plain(msgspec.structs.replace(run, revision=0)),
    )


def run_of(record: Record) -> Run:
    """The run behind a record.

    Raises:
        StoreDamaged: The record cannot be read, or holds a run of another id.
    """
    try:
        run = msgspec.structs.replace(msgspec.convert(record.body, Run), revision=record.revision)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"run {record.id!r}", problem=str(error)) from error
    if run.id != record.id:  # whoever acts on it would write the record of the other
        raise StoreDamaged(store=f"run {record.id!r}", problem=f"its record holds the run {run.id!r}")
    return run


def status_after(ending: Ending) -> str:
    """What a run is once it has ended so."""
    return WAITING if ending.termination == SUSPENDED else DONE


def meta_of(run: Run, ending: Ending | None) -> dict[str, JSON]:
    """What a changeset says about its run."""
    if ending is None:
        return {"status": RUNNING, "origin": run.origin}
    said: dict[str, JSON] = {"status": status_after(ending), "termination": ending.termination}
    if ending.problem is not None:
        said["problem"] = ending.problem
    return {**said, "usage": plain(run.usage)}
