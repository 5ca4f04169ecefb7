"""Isolation of code from the machine: namespaces, Landlock, capabilities and limits.

It runs in the supervisor's processes, on the standard library alone.
"""

import ctypes
import fcntl
import os
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY, ATTR_NOSUID = -100, 0x8000, 1, 2
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SYS_MOUNT_SETATTR = 442
"""The same number on every architecture, as for every call that is this new."""
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
LISTENER_PORT = 3128
"""The port of the only listener in a network of its own, so nobody else has it."""
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
DEVICES = ("null", "zero", "full", "random", "urandom")

SYS_LANDLOCK = 444
"""To make a ruleset; the next two add a rule, and apply it."""
LANDLOCK_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights Landlock knows about files, by its version."""
READ_RIGHTS = 0b1101
FILE_RIGHTS = 0b1100_0000_0000_0111
TCP_BIND, TCP_CONNECT, ABSTRACT_SOCKETS, SIGNALS = 1, 2, 1, 2

NOT_REQUESTED = "not asked for"
LaunchPlan = dict[str, Any]
libc = ctypes.CDLL(None, use_errno=True)


def call_libc(name: str, *arguments: Any) -> None:
    """Call into the C library, and raise what it says went wrong."""
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    if getattr(libc, name)(*values) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter_namespaces(*, network: bool) -> str | None:
    """Leave the machine's users, processes and network behind; why not, where that is refused."""
    user, group = os.getuid(), os.getgid()
    flags = NEWPID | NEWIPC | (0 if network else NEWNET)
    try:
        call_libc("unshare", NEWUSER | flags)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except (OSError, AttributeError) as error:
        return str(error)
    return None


def send_listener(sender: int) -> str | None:
    """Open a port behind the walls, and send its listener to who is before them; why not, where refused.

    A socket stays in the network that it was made in. So those who accept its connections are reached from
    behind the walls, and nothing else is.
    """
    try:
        with socket.socket(fileno=sender) as connection, socket.socket() as listener:
            fcntl.ioctl(listener, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))
            listener.bind(("127.0.0.1", LISTENER_PORT))
            listener.listen()
            socket.send_fds(connection, [b"listener"], [listener.fileno()])
    except OSError as error:
        return str(error)
    return None


def enter_private_root(plan: LaunchPlan) -> str | None:
    """Leave only the named folders to be seen; why not, where that is refused."""
    try:
        call_libc("unshare", NEWNS)
        call_libc("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
        _mount_root(plan)
        _pivot_root(plan["root"])
    except (OSError, KeyError, AttributeError) as error:
        return str(error)
    return None


def _mount_root(plan: LaunchPlan) -> None:
    root = plan["root"]
    call_libc("mount", b"tmpfs", root.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755,size=4m")
    _bind(plan["temporary"], root + "/tmp", writable=True)
    _bind(plan["shared"], root + "/dev/shm", writable=True)
    for path in plan["read"]:
        _bind(path, root + path, writable=False)
    for path in sorted(plan["write"], key=len):
        _bind(path, root + path, writable=True)
    for name in DEVICES:
        _bind(f"/dev/{name}", f"{root}/dev/{name}", writable=True)
    for name, target in (("fd", "/proc/self/fd"), ("ptmx", "pts/ptmx")):
        Path(root, "dev", name).symlink_to(target)
    for folder, kind, options in (
        ("dev/pts", b"devpts", b"newinstance,ptmxmode=0666,mode=620"),
        ("proc", b"proc", None),
    ):
        Path(root, folder).mkdir()
        flags = MS_NOSUID | MS_NOEXEC | (MS_NODEV if kind == b"proc" else 0)
        call_libc("mount", kind, f"{root}/{folder}".encode(), kind, flags, options)


def _bind(source: str, target: str, *, writable: bool) -> None:
    target_path, source_path = Path(target), Path(source)
    if not source_path.exists() or target_path.is_symlink():
        return
    target_path.parent.mkdir(parents=True, exist_ok=True)
    if source_path.is_symlink() and not writable:
        target_path.symlink_to(source_path.readlink())
        return
    if source_path.is_dir():
        target_path.mkdir(exist_ok=True)
    elif not target_path.exists():
        target_path.touch()
    call_libc("mount", source.encode(), target.encode(), None, MS_BIND | MS_REC, None)
    _restrict(target, ATTR_NOSUID if writable else ATTR_NOSUID | ATTR_RDONLY)


def _restrict(target: str, attributes: int) -> None:
    mount_attributes = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    call_libc(
        "syscall", SYS_MOUNT_SETATTR, AT_FDCWD, target.encode(), AT_RECURSIVE, ctypes.byref(mount_attributes),
        ctypes.sizeof(mount_attributes),
    )  # fmt: skip


def _pivot_root(root: str) -> None:
    os.chdir(root)
    call_libc("syscall", PIVOT_ROOT[os.uname().machine], b".", b".")
    call_libc("umount2", b".", MNT_DETACH)
    os.chdir("/")
    mount_attributes = (ctypes.c_uint64 * 4)(ATTR_RDONLY, 0, 0, 0)
    call_libc(
        "syscall",
        SYS_MOUNT_SETATTR,
        AT_FDCWD,
        b"/",
        0,
        ctypes.byref(mount_attributes),
        ctypes.sizeof(mount_attributes),
    )


def apply_landlock(plan: LaunchPlan) -> str | None:
    """Leave only the named folders to be opened, where they cannot be hidden; why not, where refused."""
    try:
        abi = libc.syscall(SYS_LANDLOCK, None, ctypes.c_long(0), ctypes.c_long(1))
        if abi < 1:
            return "this system has no Landlock"
        all_rights = (1 << LANDLOCK_RIGHTS[min(abi, 5)]) - 1
        network = 0 if plan["network"] or abi < 4 else TCP_BIND | TCP_CONNECT
        rules = (ctypes.c_uint64 * 3)(all_rights, network, ABSTRACT_SOCKETS | SIGNALS if abi >= 6 else 0)
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        ruleset = libc.syscall(SYS_LANDLOCK, ctypes.byref(rules), ctypes.c_long(size), ctypes.c_long(0))
        if ruleset < 0:
            return f"Landlock: {os.strerror(ctypes.get_errno())}"
        for path, rights in _landlock_rules(plan, all_rights):
            _add_landlock_rule(ruleset, path, rights)
        call_libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call_libc("syscall", SYS_LANDLOCK + 2, ruleset, 0)
    except (OSError, AttributeError) as error:
        return str(error)
    return None


def _landlock_rules(plan: LaunchPlan, all_rights: int) -> Iterator[tuple[str, int]]:
    for path in (*plan["read"], "/proc", "/dev"):
        yield path, READ_RIGHTS
    for path in (*plan["write"], plan["shared"], "/dev/shm", "/dev/pts", "/dev/ptmx"):
        yield path, all_rights
    for name in DEVICES:
        yield f"/dev/{name}", all_rights


def _add_landlock_rule(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    path_rights = rights if Path(path).is_dir() else rights & FILE_RIGHTS
    rule = ctypes.create_string_buffer(struct.pack("=Qi", path_rights, descriptor))
    call_libc("syscall", SYS_LANDLOCK + 1, ruleset, 1, rule, 0)
    os.close(descriptor)


def drop_capabilities() -> None:
    """Give up every capability for good; a process that has none has nothing to give up."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    call_libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def set_limits(limits: dict[str, int], *, in_namespace: bool) -> None:
    """Set the limits that the system itself keeps."""
    resource.setrlimit(resource.RLIMIT_DATA, (limits["memory"], limits["memory"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["file_size"], limits["file_size"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if in_namespace:
        # Counted by user: in a user namespace that is this family, and outside it everything of the user.
        count = limits["processes"] + limits["threads"]
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
