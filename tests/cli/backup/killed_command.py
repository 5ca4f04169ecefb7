"""A command that copies a database and is killed at one of the moments at which it changes the disk."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from clew.cli.app import run
from clew.stores.postgres import dumps
from clew.stores.sqlite import store as sqlite_store

CHANGES: Final = frozenset(
    {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
)
"""What Python says it is about to do to names on the disk."""


class Fuse:
    """Kills this process when it is lit for the nth time."""

    def __init__(self, nth: int) -> None:
        self._rest = nth
        self.is_armed = False

    def burn(self) -> None:
        """Come one step nearer to the end."""
        if self.is_armed:
            self._rest -= 1
            if self._rest == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(words: Sequence[str], nth: int) -> int:
    """Run a command that is killed before its nth change of a name on the disk, or page of a copy."""
    fuse = Fuse(nth)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES:
            fuse.burn()

    sys.addaudithook(watch)
    sqlite_store.BACKUP_PAGES = 20
    step = sqlite_store.SqliteStore._backup

    def copy_slowly(self: Any, path: str, progress: Any, stopped: Any) -> None:
        def burn_a_little(pages: int, total: int) -> None:
            fuse.burn()
            progress(pages, total)

        step(self, path, burn_a_little, stopped)

    sqlite_store.SqliteStore._backup = copy_slowly  # type: ignore[method-assign]  # in a process of its own
    fuse.is_armed = True
    return run(words)


def run_and_die_at(words: Sequence[str], point: str, nth: int) -> int:
    """Run a restore on PostgreSQL that is killed before it comes to a point for the nth time."""
    fuse = Fuse(nth)
    method = getattr(dumps.Replacement, point)

    async def burn_and_go_on(self: Any, *arguments: Any) -> None:
        fuse.burn()
        await method(self, *arguments)

    setattr(dumps.Replacement, point, burn_and_go_on)
    fuse.is_armed = True
    return run(words)
