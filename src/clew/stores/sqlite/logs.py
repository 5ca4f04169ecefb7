"""The numbers of logs, remembered."""

import apsw

from clew.stores.sqlite.connection import QUERIES, rows_of

MOST = 10_000


class LogKeys:
    """Which number each thread's log has. Numbers are never used again, so an old one finds nothing wrong."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, str], int] = {}

    def get(self, connection: apsw.Connection, thread: int, name: str) -> int | None:
        """The number of a thread's log; None if it has none yet."""
        key = self._keys.get((thread, name))
        if key is None:
            rows = rows_of(connection, QUERIES["log"], (thread, name))
            if not rows:
                return None
            key = self._remember(thread, name, int(rows[0][0]))
        return key

    def made(self, connection: apsw.Connection, thread: int, name: str) -> int:
        """The number of a thread's log, made if it has none yet."""
        key = self.get(connection, thread, name)
        if key is None:
            rows = rows_of(connection, QUERIES["add_log"], (thread, name))
            key = self._remember(thread, name, int(rows[0][0]))
        return key

    def forget(self) -> None:
        """Forget everything: a transaction that made some of them was undone."""
        self._keys.clear()

    def _remember(self, thread: int, name: str, key: int) -> int:
        if len(self._keys) >= MOST:
            self._keys.clear()
        self._keys[thread, name] = key
        return key
