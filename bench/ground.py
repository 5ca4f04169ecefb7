"""Where contestants stand: folders on one disk, databases on one private server, and how long they run."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clock import Pace

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer


@dataclass(kw_only=True)
class Ground:
    """Room for one run of the bench."""

    root: Path
    quick: bool
    with_us: bool
    conversations: Path | None = None
    embedder: str | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _server: PostgresServer | None = None

    def pace(self, *, rounds: int, block: int, warmup: int = 50) -> Pace:
        """How much to time; a quick run does a tenth, too little to quote."""
        return Pace(rounds=max(2, rounds // 10) if self.quick else rounds, block=block, warmup=warmup)

    def count(self, whole: int, quick: int) -> int:
        """A size, smaller in a quick run."""
        return quick if self.quick else whole

    def folder(self) -> Path:
        """A new empty folder."""
        folder = self.root / f"folder-{next(self._numbers)}"
        folder.mkdir(parents=True)
        return folder

    def database(self) -> str:
        """URL of a new empty PostgreSQL database; the first starts the server."""
        name = f"bench_{next(self._numbers)}"
        server = self._start_server()
        server.create_database(name)
        return server.url(name)

    @property
    def is_one_disk(self) -> bool:
        """Whether the server's data is on the disk of the folders, or there is no server."""
        return self._server is None or self._server.directory.stat().st_dev == self.root.stat().st_dev

    def close(self) -> None:
        """Stop and remove the server, if it was started."""
        if self._server is not None:
            self._server.remove()

    def _start_server(self) -> PostgresServer:
        if self._server is None:
            from tests.support.postgres import PostgresServer, find_binaries, new_directory

            self._server = PostgresServer(binaries=find_binaries(), directory=new_directory())
            self._server.start()
        return self._server


@contextmanager
def prepare_ground(
    root: Path,
    *,
    quick: bool,
    with_us: bool,
    conversations: Path | None = None,
    embedder: str | None = None,
) -> Iterator[Ground]:
    """A ground that leaves nothing behind."""
    ground = Ground(root=root, quick=quick, with_us=with_us, conversations=conversations, embedder=embedder)
    try:
        yield ground
    finally:
        ground.close()
        shutil.rmtree(root, ignore_errors=True)
