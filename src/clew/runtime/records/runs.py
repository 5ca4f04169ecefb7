"""Runs: one execution on a thread, as it is recorded beside it."""

import hashlib
import os
from functools import cache
from pathlib import Path

import msgspec

from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import StoreDamaged
from clew.core.log import leases
from clew.core.values import Record
from clew.runtime.model.protocol import Usage


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A process, known by its machine (and process namespace), its number and the time it began."""

    machine: str
    pid: int
    started: str


def this_process() -> ProcessIdentity:
    """Return the process that calls this."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> ProcessIdentity:
    """Look up a process that is there, once: a fork has another number."""
    return ProcessIdentity(machine=_machine(), pid=pid, started=_start_time(pid))


def is_here(holder: ProcessIdentity) -> bool:
    """Return whether a process is or was on this machine, so that its end can be seen."""
    return bool(holder.machine) and holder.machine == _machine()


def is_gone(holder: ProcessIdentity) -> bool:
    """Return whether a process has certainly ended; of one on another machine that is not known."""
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
"""The index of the start time among the facts about a process, counted after its state."""


@cache
def _machine() -> str:
    """Return what processes share that know each other by number; empty where that cannot be read."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Return the time when a process began, in the kernel's own count. Numbers are used again, it is not.

    Empty if there is no such process, or if it has ended and its parent has not asked for its status yet.
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
SUPERSEDED, ROLLED_BACK = "superseded", "rolled_back"
"""The endings of a run that a new message ends: what it said stays, or what it added is taken back."""
QUEUED = "queued"
DEFAULT_AGENT = "default"
"""The name of an agent whose author gave it none."""


class Run(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One execution of an agent on a thread: its origin, its holder, its ending, and its cost.

    ``until`` is when its lease ends unless ``holder`` renews it; ``epoch`` counts its holders. ``output`` is
    stored only for a turn that may be repeated by its key. ``first`` is the version of its first changeset.
    ``awaited`` says that a turn of another process waits for its end, ``stop`` with which termination its
    holder is asked to end it. ``trace`` is its span as W3C names it, if it was traced.
    """

    id: str
    thread: str
    agent: str = DEFAULT_AGENT
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
    stop: str | None = None
    awaited: bool = False
    in_doubt: tuple[str, ...] = ()
    first: int = 0
    trace: str | None = None
    revision: int = 0


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run: by itself, by a person, by an error, with its process, or by the next message.

    Its ``termination`` is ``natural``, ``suspended``, ``cancelled``, ``error``, ``interrupted``,
    ``superseded`` or ``rolled_back``.
    """

    termination: str
    problem: str | None = None


def record_of(run: Run, owner: str | None) -> Record:
    """Return the record of a run."""
    return Record(
        kind=KIND,
        id=run.id,
        owner=owner,
        tags=(f"thread:{run.thread}", f"status:{run.status}"),
        sort=run.started,
        body=as_json(msgspec.structs.replace(run, revision=0)),
    )


def run_of(record: Record) -> Run:
    """Return the run of a record.

    Raises:
        StoreDamaged: The record cannot be read, or holds a run of another id.
    """
    try:
        run = msgspec.structs.replace(msgspec.convert(record.body, Run), revision=record.revision)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"run {record.id!r}", problem=str(error)) from error
    if run.id != record.id:  # acting on it would write the record of the other run
        raise StoreDamaged(store=f"run {record.id!r}", problem=f"its record holds the run {run.id!r}")
    return run


def status_after(ending: Ending) -> str:
    """Return the status of a run with this ending."""
    return WAITING if ending.termination == SUSPENDED else DONE


def meta_of(run: Run, ending: Ending | None) -> dict[str, JSON]:
    """Return what a changeset says about its run."""
    if ending is None:
        return {"status": RUNNING, "origin": run.origin}
    meta: dict[str, JSON] = {"status": status_after(ending), "termination": ending.termination}
    if ending.problem is not None:
        meta["problem"] = ending.problem
    return {**meta, "usage": as_json(run.usage)}


def run_with_ending(run: Run, ending: Ending, now: int) -> Run:
    """Return a run as its record says it once it has ended; its lease ends with it."""
    return msgspec.structs.replace(
        run,
        status=status_after(ending),
        termination=ending.termination,
        problem=ending.problem,
        ended=now,
        until=0,
    )


def run_id_for_key(thread: str, key: str) -> str:
    """Return the id of the run of a turn with this idempotency key."""
    return f"run-{hashlib.sha256(encode([thread, key])).hexdigest()[:24]}"


def is_orphaned(run: Run, now: int) -> bool:
    """Return whether no process holds a run any more: its lease has run out, or its process is gone."""
    if run.holder is not None and is_gone(run.holder):
        return True
    if run.holder is not None and is_here(run.holder):
        # A process that is certainly there renews its lease, so only the end of the lease counts, however
        # far off it seems: the clock may have been set back meanwhile.
        return run.until <= now
    return leases.is_over(run.until, now)
