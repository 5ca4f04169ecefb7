"""Runs: one execution on a thread, as it is recorded beside it."""

import os
from functools import cache
from pathlib import Path

import msgspec

from clew.core.encoding import JSON, as_json
from clew.core.errors import StoreDamaged
from clew.core.values import Record
from clew.runtime.model.protocol import Usage


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A process: on which machine (and in which of its process namespaces), which one, since when."""

    place: str
    pid: int
    started: str


def this_process() -> ProcessIdentity:
    """The process we are in."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> ProcessIdentity:
    """A process that is there, looked up once: a fork has another number."""
    return ProcessIdentity(place=_machine(), pid=pid, started=_start_time(pid))


def is_here(holder: ProcessIdentity) -> bool:
    """Whether a process is or was on this machine, so that its end can be told."""
    return bool(holder.place) and holder.place == _machine()


def is_gone(holder: ProcessIdentity) -> bool:
    """Whether a process has certainly ended. One on another machine may be alive for all we know."""
    if not is_here(holder):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _start_time(holder.pid) != holder.started


START_TIME_FIELD = 19
"""Which of the facts about a process, after its state, says when it began."""


@cache
def _machine() -> str:
    """What processes must share to know each other by number; empty where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """When a process began, in the kernel's own count; numbers are used again, this is not.

    Empty if there is none, or if it has ended and only nobody has asked yet how.
    """
    try:
        state, *facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" or len(facts) < START_TIME_FIELD else facts[START_TIME_FIELD - 1]


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
    holder: ProcessIdentity | None = None
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
        body=as_json(msgspec.structs.replace(run, revision=0)),
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
    meta: dict[str, JSON] = {"status": status_after(ending), "termination": ending.termination}
    if ending.problem is not None:
        meta["problem"] = ending.problem
    return {**meta, "usage": as_json(run.usage)}
