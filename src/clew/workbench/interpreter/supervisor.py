"""The process between us and a kernel: it sets limits, shuts doors, and takes everything down with it.

It runs by itself, on the standard library alone, with an empty environment. Three processes make a kernel's
family: the *supervisor* reads commands from its standard input and ends the family when that input
ends; the *init* below it is process 1 of a process namespace where the system allows one, watches what the
family uses, and reports on the supervisor's standard output; the *kernel* below that runs the code.
"""

import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from clew.workbench.interpreter.walls import (
    UNASKED,
    Plan,
    confine,
    fence,
    libc,
    limit,
    separate,
    surrender,
)

POLL = 0.2
"""Seconds between two looks at what the family uses."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


# --- who is in the family, and what they use ----------------------------------------------------


def parents() -> Iterator[tuple[int, int]]:
    """Every process that can be seen, with its parent."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The name, in brackets, may itself hold brackets and spaces.
                fields = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()
                yield int(entry.name), int(fields[1])
            except (OSError, IndexError):
                continue


def family(head: int) -> set[int]:
    """Every process below this one, however far it has moved away."""
    below: dict[int, list[int]] = {}
    for process, parent in parents():
        below.setdefault(parent, []).append(process)
    found: set[int] = set()
    waiting = [head]
    while waiting:
        children = below.get(waiting.pop(), [])
        waiting += children
        found.update(children)
    return found


def memory(processes: set[int]) -> int:
    """How many bytes they hold, what they share counted for each."""
    pages = 0
    for process in processes:
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return pages * resource.getpagesize()


def proportional(processes: set[int]) -> int:
    """How many bytes they hold, what they share counted once; slower to ask."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def excess(limits: dict[str, int]) -> str | None:
    """Which limit the family is over, if any."""
    processes = family(os.getpid())
    if len(processes) > limits["processes"]:
        return "processes"
    if memory(processes) > limits["memory"] and proportional(processes) > limits["memory"]:
        return "memory"
    return None


# --- the three processes ------------------------------------------------------------------------


def become_kernel(plan: Plan, *, alone: bool) -> NoReturn:
    """Turn this process into the kernel."""
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for number, source in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
            os.dup2(source, number)
        os.chdir(plan["folder"])
        os.umask(0o077)
        limit(plan["limits"], alone=alone)
        surrender()
        os.execve(plan["argv"][0], plan["argv"], plan["environment"])
    except (OSError, ValueError) as error:
        os.write(2, f"the kernel could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def tell(**what: Any) -> None:
    """Say something to whoever started us; where nobody listens any more, there is nothing to say."""
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except OSError:
        return


def reap(kernel: int) -> int | None:
    """Bury whoever ended; the kernel's end, where it is among them."""
    ended = None
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if process == 0:
            return ended
        if process == kernel:
            ended = os.waitstatus_to_exitcode(status)


def watch(kernel: int, limits: dict[str, int]) -> dict[str, Any]:
    """Pass on interrupts, bury the dead, and look at what is used, until the kernel must go or is gone."""
    looked = time.monotonic()
    while True:
        got = signal.sigtimedwait([signal.SIGCHLD, signal.SIGINT], POLL)
        if got is not None and got.si_signo == signal.SIGINT:
            interrupt(kernel)
        ended = reap(kernel)
        if ended is not None:
            return {"why": "died", "code": ended}
        if time.monotonic() - looked >= POLL:
            looked = time.monotonic()
            over = excess(limits)
            if over is not None:
                return {"why": over}


def interrupt(kernel: int) -> None:
    """Interrupt the kernel and what it started in its own group."""
    try:
        os.killpg(kernel, signal.SIGINT)
    except ProcessLookupError:
        return


def be_init(plan: Plan, refused: str | None) -> NoReturn:
    """Start the kernel, watch it, and end with it: in a process namespace that ends its whole family."""
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGINT])
        unconfined = refused or confine(plan)
        unfenced = None if unconfined is None else fence(plan) if "landlock" in plan["walls"] else UNASKED
        kernel = os.fork()
        if kernel == 0:
            become_kernel(plan, alone=refused is None)
        tell(started=True, alone=refused, confined=unconfined, fenced=unfenced)
        ended = watch(kernel, plan["limits"])
        tell(ended=ended, log=last_words(plan["log"]))
    finally:
        os._exit(0)


def last_words(path: str) -> str:
    """The end of what the kernel wrote where nobody reads: the reason, where it failed."""
    try:
        with Path(path).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def end_family() -> None:
    """Kill everything below us, whatever session or group it went to, and bury it."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        below = family(os.getpid())
        for process in below:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap(0)
        if not below:
            return
        time.sleep(0.005)


def obey(init: int, alive: int) -> None:
    """Pass commands on to the init until it ends, or until whoever commands is gone."""
    waiting = select.poll()
    for source in (0, alive):
        waiting.register(source, select.POLLIN | select.POLLHUP)
    while True:
        ready = {number for number, _ in waiting.poll()}
        if alive in ready:
            return
        if not (commands := os.read(0, 4096)):
            return
        if b"interrupt" in commands:
            os.kill(init, signal.SIGINT)


def main() -> None:
    """Read the plan, start the family, and leave nothing of it behind."""
    plan: Plan = json.loads(sys.stdin.buffer.readline())
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    network = bool(plan["network"])
    refused = separate(network=network) if "namespaces" in plan["walls"] else UNASKED
    alive, held = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(alive)
        be_init(plan, refused)
    os.close(held)
    obey(init, alive)
    end_family()
    shutil.rmtree(plan["private"], ignore_errors=True)


if __name__ == "__main__":
    main()
