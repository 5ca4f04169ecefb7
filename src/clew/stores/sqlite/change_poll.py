"""A poll of the file for waiting tasks: its number of changes, and the versions of threads."""

import asyncio
import time
from collections.abc import Callable, Sequence

import apsw

from clew.core.errors import StoreClosed
from clew.stores.sqlite.connection import QUERIES, rows_of, translate_errors
from clew.stores.sqlite.open_file import OpenFile
from clew.stores.sqlite.readers import Readers
from clew.stores.watch import ScopedThread


class ChangePoll:
    """A poll over a connection that writes nothing, so every change that it sees is another's."""

    def __init__(
        self, connect: Callable[[], apsw.Connection], file: OpenFile, store: str, readers: Readers
    ) -> None:
        self._connect = connect
        self._file = file
        self._store = store
        self._readers = readers
        self._connection: apsw.Connection | None = None
        self._closed = False

    async def change_token(self) -> object:
        """The file's number of changes, read from memory that all its processes share."""
        with translate_errors(self._store):
            if self._connection is None:
                self._connection = await asyncio.to_thread(self._connect)
            if self._closed:
                self.close()
                raise StoreClosed
            self._file.look(time.monotonic())
            return self._connection.pragma("data_version")

    async def versions(self, threads: Sequence[ScopedThread]) -> list[int | None]:
        """The versions of some threads; None for one that is not there."""

        def read(connection: apsw.Connection) -> list[int | None]:
            results = (rows_of(connection, QUERIES["versions"], _values(each)) for each in threads)
            return [rows[0][0] if rows else None for rows in results]

        return await self._readers.run(read)

    def close(self) -> None:
        """End the poll."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _values(thread: ScopedThread) -> dict[str, str | None]:
    return {"tenant": thread.scope.tenant, "user": thread.scope.user, "id": thread.thread}
