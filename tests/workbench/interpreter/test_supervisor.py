"""The supervisor's own eyes: who is in a family, what it uses, and what it says where the system refuses."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from clew.workbench.interpreter import supervisor, walls


def test_the_family_has_everyone_below() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        family = supervisor.descendants(child.pid)
        below = {process.pid for process in psutil.Process(child.pid).children(recursive=True)}
        child.communicate(b"\n")

    assert (family, len(below)) == (below, 1)


def test_memory_is_what_the_system_says() -> None:
    mine = {os.getpid()}

    assert supervisor.resident_bytes(mine) == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert 0 < supervisor.proportional_bytes(mine) <= supervisor.resident_bytes(mine) * 1.2


def test_a_process_that_is_gone_uses_nothing() -> None:
    assert (supervisor.resident_bytes({2**22 + 1}), supervisor.proportional_bytes({2**22 + 1})) == (0, 0)


@pytest.mark.parametrize(
    ("limits", "over"),
    [
        ({"processes": -1, "memory": 2**62}, "processes"),
        ({"processes": 2**20, "memory": -1}, "memory"),
        ({"processes": 2**20, "memory": 2**62}, None),
    ],
)
def test_the_limit_that_is_broken_is_named(limits: dict[str, int], over: str | None) -> None:
    assert supervisor.limit_in_excess(limits) == over


def test_a_system_that_refuses_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *arguments: object) -> None:
        raise PermissionError(1, f"{name}: Operation not permitted")

    monkeypatch.setattr(walls, "call_libc", refuse)

    assert "unshare" in (walls.enter_namespaces(network=False) or "")
    assert "unshare" in (walls.enter_private_root({}) or "")


def test_a_call_that_fails_says_why() -> None:
    with pytest.raises(OSError, match="umount2"):
        walls.call_libc("umount2", b"/nowhere at all", 0)


def test_last_words_that_were_never_said_are_none() -> None:
    assert supervisor.log_tail("/nowhere/at/all") == ""
