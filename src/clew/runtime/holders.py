"""Who holds a run: a process, told from every other, and whether it is still there."""

import os
from functools import cache
from pathlib import Path

import msgspec


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process: on which machine (and in which of its process namespaces), which one, since when."""

    place: str
    pid: int
    started: str


def this_process() -> Holder:
    """The process we are in."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> Holder:
    """A process that is there, looked up once: a fork has another number."""
    return Holder(place=_place(), pid=pid, started=_started(pid))


def is_here(holder: Holder) -> bool:
    """Whether a process is or was on this machine, so that its end can be told."""
    return bool(holder.place) and holder.place == _place()


def is_gone(holder: Holder) -> bool:
    """Whether a process has certainly ended. One on another machine may be alive for all we know."""
    if not is_here(holder):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _started(holder.pid) != holder.started


AGE = 19
"""Which of the facts about a process, after its state, says when it began."""


@cache
def _place() -> str:
    """What processes must share to know each other by number; empty where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the kernel's own count; numbers are used again, this is not.

    Empty if there is none, or if it has ended and only nobody has asked yet how.
    """
    try:
        state, *facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" or len(facts) < AGE else facts[AGE - 1]
