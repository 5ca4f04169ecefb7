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
    NOT_REQUESTED,
    LaunchPlan,
    apply_landlock,
    drop_capabilities,
    enter_namespaces,
    enter_private_root,
    libc,
    send_listener,
    set_limits,
)

POLL_SECONDS = 0.2
"""Seconds between two looks at what the family uses."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


# --- who is in the family, and what they use ----------------------------------------------------


def process_parents() -> Iterator[tuple[int, int]]:
    """Every process that can be seen, with its parent."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The name, in brackets, may itself hold brackets and spaces.
                fields = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()
                yield int(entry.name), int(fields[1])
            except (OSError, IndexError):
                continue


def descendants(root: int) -> set[int]:
    """Every process below this one, however far it has moved away."""
    children_by_parent: dict[int, list[int]] = {}
    for process, parent in process_parents():
        children_by_parent.setdefault(parent, []).append(process)
    processes: set[int] = set()
    stack = [root]
    while stack:
        children = children_by_parent.get(stack.pop(), [])
        stack += children
        processes.update(children)
    return processes


def resident_bytes(processes: set[int]) -> int:
    """The number of bytes the processes hold, shared ones counted for each."""
    pages = 0
    for process in processes:
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return pages * resource.getpagesize()


def proportional_bytes(processes: set[int]) -> int:
    """The number of bytes the processes hold, shared ones counted once; slower to read."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def limit_in_excess(limits: dict[str, int]) -> str | None:
    """The limit that the family of processes exceeds, if any."""
    processes = descendants(os.getpid())
    if len(processes) > limits["processes"]:
        return "processes"
    if resident_bytes(processes) > limits["memory"] and proportional_bytes(processes) > limits["memory"]:
        return "memory"
    return None


# --- the three processes ------------------------------------------------------------------------


def become_kernel(plan: LaunchPlan, *, in_namespace: bool) -> NoReturn:
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
        set_limits(plan["limits"], in_namespace=in_namespace)
        drop_capabilities()
        os.execve(plan["argv"][0], plan["argv"], plan["environment"])
    except (OSError, ValueError) as error:
        os.write(2, f"the kernel could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def send_report(**what: Any) -> None:
    """Send a message to the process that started us, if it still listens."""
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except OSError:
        return


def reap(kernel: int) -> int | None:
    """Reap processes that ended; return the kernel's end if it is among them."""
    exit_code = None
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return exit_code
        if process == 0:
            return exit_code
        if process == kernel:
            exit_code = os.waitstatus_to_exitcode(status)


def watch_kernel(kernel: int, limits: dict[str, int]) -> dict[str, Any]:
    """Pass on interrupts, bury the dead, and look at what is used, until the kernel must go or is gone."""
    last_check = time.monotonic()
    while True:
        signal_info = signal.sigtimedwait([signal.SIGCHLD, signal.SIGINT], POLL_SECONDS)
        if signal_info is not None and signal_info.si_signo == signal.SIGINT:
            interrupt_kernel(kernel)
        exit_code = reap(kernel)
        if exit_code is not None:
            return {"why": "died", "code": exit_code}
        if time.monotonic() - last_check >= POLL_SECONDS:
            last_check = time.monotonic()
            limit_name = limit_in_excess(limits)
            if limit_name is not None:
                return {"why": limit_name}


def interrupt_kernel(kernel: int) -> None:
    """Interrupt the kernel and what it started in its own group."""
    try:
        os.killpg(kernel, signal.SIGINT)
    except ProcessLookupError:
        return


def run_init(plan: LaunchPlan, namespace_problem: str | None) -> NoReturn:
    """Start the kernel, watch it, and end with it: in a process namespace that ends its whole family."""
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGINT])
        mount_problem = namespace_problem or enter_private_root(plan)
        if mount_problem is not None and plan["needs_walls"]:
            send_report(started=False, alone=namespace_problem, confined=mount_problem, fenced=NOT_REQUESTED)
            os._exit(0)
        landlock_problem = (
            None
            if mount_problem is None
            else apply_landlock(plan)
            if "landlock" in plan["walls"]
            else NOT_REQUESTED
        )
        kernel = os.fork()
        if kernel == 0:
            become_kernel(plan, in_namespace=namespace_problem is None)
        send_report(started=True, alone=namespace_problem, confined=mount_problem, fenced=landlock_problem)
        ending = watch_kernel(kernel, plan["limits"])
        send_report(ended=ending, log=log_tail(plan["log"]))
    finally:
        os._exit(0)


def log_tail(path: str) -> str:
    """The end of what the kernel wrote where nobody reads: the reason, where it failed."""
    try:
        with Path(path).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def kill_descendants() -> None:
    """Kill everything below us, whatever session or group it went to, and bury it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        processes = descendants(os.getpid())
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap(0)
        if not processes:
            return
        time.sleep(0.005)


def forward_commands(init: int, init_reader: int) -> None:
    """Pass commands on to the init until it ends, or until the commanding process is gone."""
    poll = select.poll()
    for source in (0, init_reader):
        poll.register(source, select.POLLIN | select.POLLHUP)
    while True:
        ready = {number for number, _ in poll.poll()}
        if init_reader in ready:
            return
        if not (commands := os.read(0, 4096)):
            return
        if b"interrupt" in commands:
            os.kill(init, signal.SIGINT)


def main() -> None:
    """Read the plan, start the family, and leave nothing of it behind."""
    plan: LaunchPlan = json.loads(sys.stdin.buffer.readline())
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    network = bool(plan["network"])
    namespace_problem = enter_namespaces(network=network) if "namespaces" in plan["walls"] else NOT_REQUESTED
    if namespace_problem is None:
        for sender in plan["listener_senders"]:
            namespace_problem = send_listener(sender)
    init_reader, init_writer = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(init_reader)
        run_init(plan, namespace_problem)
    os.close(init_writer)
    forward_commands(init, init_reader)
    kill_descendants()
    shutil.rmtree(plan["private"], ignore_errors=True)


if __name__ == "__main__":
    main()
