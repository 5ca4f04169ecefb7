"""What keeps code apart from the machine: namespaces, Landlock, capabilities and limits.

It runs in the supervisor's processes, on the standard library alone.
"""

import ctypes
import os
import resource
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
DEVICES = ("null", "zero", "full", "random", "urandom")

SYS_LANDLOCK = 444
"""To make a ruleset; the next two add a rule, and apply it."""
FENCED_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights Landlock knows about files, by its version."""
READ_RIGHTS = 0b1101
FILE_RIGHTS = 0b1100_0000_0000_0111
TCP_BIND, TCP_CONNECT, ABSTRACT_SOCKETS, SIGNALS = 1, 2, 1, 2

UNASKED = "not asked for"
Plan = dict[str, Any]
libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """Call into the C library, and raise what it says went wrong."""
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    if getattr(libc, name)(*given) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def separate(*, network: bool) -> str | None:
    """Leave the machine's users, processes and network behind; why not, where that is refused."""
    user, group = os.getuid(), os.getgid()
    wanted = NEWPID | NEWIPC | (0 if network else NEWNET)
    try:
        call("unshare", NEWUSER | wanted)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except (OSError, AttributeError) as error:
        return str(error)
    return None


def confine(plan: Plan) -> str | None:
    """Leave only the named folders to be seen; why not, where that is refused."""
    try:
        call("unshare", NEWNS)
        call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
        _furnish(plan)
        _enter(plan["root"])
    except (OSError, KeyError, AttributeError) as error:
        return str(error)
    return None


def _furnish(plan: Plan) -> None:
    root = plan["root"]
    call("mount", b"tmpfs", root.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755,size=4m")
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
    for place, kind, options in (
        ("dev/pts", b"devpts", b"newinstance,ptmxmode=0666,mode=620"),
        ("proc", b"proc", None),
    ):
        Path(root, place).mkdir()
        flags = MS_NOSUID | MS_NOEXEC | (MS_NODEV if kind == b"proc" else 0)
        call("mount", kind, f"{root}/{place}".encode(), kind, flags, options)


def _bind(source: str, target: str, *, writable: bool) -> None:
    place, origin = Path(target), Path(source)
    if not origin.exists() or place.is_symlink():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if origin.is_symlink() and not writable:
        place.symlink_to(origin.readlink())
        return
    if origin.is_dir():
        place.mkdir(exist_ok=True)
    elif not place.exists():
        place.touch()
    call("mount", source.encode(), target.encode(), None, MS_BIND | MS_REC, None)
    _restrict(target, ATTR_NOSUID if writable else ATTR_NOSUID | ATTR_RDONLY)


def _restrict(target: str, attributes: int) -> None:
    what = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    call(
        "syscall", SYS_MOUNT_SETATTR, AT_FDCWD, target.encode(), AT_RECURSIVE, ctypes.byref(what),
        ctypes.sizeof(what),
    )  # fmt: skip


def _enter(root: str) -> None:
    os.chdir(root)
    call("syscall", PIVOT_ROOT[os.uname().machine], b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")
    what = (ctypes.c_uint64 * 4)(ATTR_RDONLY, 0, 0, 0)
    call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, b"/", 0, ctypes.byref(what), ctypes.sizeof(what))


def fence(plan: Plan) -> str | None:
    """Leave only the named folders to be opened, where they cannot be hidden; why not, where refused."""
    try:
        abi = libc.syscall(SYS_LANDLOCK, None, ctypes.c_long(0), ctypes.c_long(1))
        if abi < 1:
            return "this system has no Landlock"
        every = (1 << FENCED_RIGHTS[min(abi, 5)]) - 1
        network = 0 if plan["network"] or abi < 4 else TCP_BIND | TCP_CONNECT
        rules = (ctypes.c_uint64 * 3)(every, network, ABSTRACT_SOCKETS | SIGNALS if abi >= 6 else 0)
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        ruleset = libc.syscall(SYS_LANDLOCK, ctypes.byref(rules), ctypes.c_long(size), ctypes.c_long(0))
        if ruleset < 0:
            return f"Landlock: {os.strerror(ctypes.get_errno())}"
        for path, rights in _gates(plan, every):
            _open_gate(ruleset, path, rights)
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        call("syscall", SYS_LANDLOCK + 2, ruleset, 0)
    except (OSError, AttributeError) as error:
        return str(error)
    return None


def _gates(plan: Plan, every: int) -> Iterator[tuple[str, int]]:
    for path in (*plan["read"], "/proc", "/dev"):
        yield path, READ_RIGHTS
    for path in (*plan["write"], plan["shared"], "/dev/shm", "/dev/pts", "/dev/ptmx"):
        yield path, every
    for name in DEVICES:
        yield f"/dev/{name}", every


def _open_gate(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    allowed = rights if Path(path).is_dir() else rights & FILE_RIGHTS
    rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, place))
    call("syscall", SYS_LANDLOCK + 1, ruleset, 1, rule, 0)
    os.close(place)


def surrender() -> None:
    """Give up every capability for good; a process that has none has nothing to give up."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def limit(limits: dict[str, int], *, alone: bool) -> None:
    """Set the limits that the system itself keeps."""
    resource.setrlimit(resource.RLIMIT_DATA, (limits["memory"], limits["memory"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["file_size"], limits["file_size"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if alone:
        # Counted by user: in a user namespace that is this family, and outside it everything of the user.
        count = limits["processes"] + limits["threads"]
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
