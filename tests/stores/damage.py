"""How each of our stores is damaged behind its back."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import psycopg

from clew.core.log.rows import ChangesetRow
from clew.stores.memory import MemoryStore

UNREADABLE = b"{\xff"


class MemoryDamage:
    """Changes the rows of a store in memory."""

    def __init__(self, stores: list[MemoryStore]) -> None:
        self._stores = stores

    async def rewrite(self, thread: str, log: str, place: int, body: bytes) -> None:
        tenant = self._stores[-1]._tenants["default"]
        items = tenant.rows[tenant.ids[thread]].items
        items[log, place] = msgspec.structs.replace(items[log, place], body=body)

    async def spoil(self, thread: str) -> None:
        tenant = self._stores[-1]._tenants["default"]
        tenant.rows[tenant.ids[thread]].counters = UNREADABLE

    async def drop(self, thread: str, version: int) -> None:
        del self._changesets(thread)[version]

    async def swap(self, thread: str, first: int, second: int) -> None:
        rows = self._changesets(thread)
        one, other = rows[first], rows[second]
        rows[first] = msgspec.structs.replace(other, version=first)
        rows[second] = msgspec.structs.replace(one, version=second)

    def _changesets(self, thread: str) -> dict[int, ChangesetRow]:
        tenant = self._stores[-1]._tenants["default"]
        return tenant.rows[tenant.ids[thread]].changesets


SQLITE_KEY = "(SELECT key FROM threads WHERE tenant = 'default' AND id = :thread AND deleted = 0)"


class SqliteDamage:
    """Changes the rows of a file through a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def rewrite(self, thread: str, log: str, place: int, body: bytes) -> None:
        self._run(
            "UPDATE items SET body = :body WHERE at = :place + "
            f"((SELECT key FROM logs WHERE thread = {SQLITE_KEY} AND name = :log) << 32)",
            {"thread": thread, "log": log, "place": place, "body": body},
        )

    async def spoil(self, thread: str) -> None:
        self._run(
            "UPDATE changesets SET counters = :bytes WHERE at = "
            f"(SELECT max(at) FROM changesets WHERE at < ({SQLITE_KEY} + 1) << 32)",
            {"thread": thread, "bytes": UNREADABLE},
        )

    async def drop(self, thread: str, version: int) -> None:
        self._run(
            f"DELETE FROM changesets WHERE at = ({SQLITE_KEY} << 32) + :version",
            {"thread": thread, "version": version},
        )

    async def swap(self, thread: str, first: int, second: int) -> None:
        for before, after in ((first, -1), (second, first), (-1, second)):
            self._run(
                f"UPDATE changesets SET at = ({SQLITE_KEY} << 32) + :after "
                f"WHERE at = ({SQLITE_KEY} << 32) + :before",
                {"thread": thread, "before": before, "after": after},
            )

    def _run(self, statement: str, values: dict[str, str | int | bytes]) -> None:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(5000)
        connection.execute(statement, values)
        count = connection.changes()
        connection.close()
        assert count == 1


POSTGRES_KEY = "(SELECT key FROM clew.threads WHERE tenant = 'default' AND id = %(thread)s AND NOT deleted)"


class PostgresDamage:
    """Changes the rows of a database as its superuser."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def rewrite(self, thread: str, log: str, place: int, body: bytes) -> None:
        self._run(
            f"UPDATE clew.items SET body = %(body)s WHERE tenant = 'default' AND key = {POSTGRES_KEY} "
            "AND log = %(log)s AND place = %(place)s",
            {"thread": thread, "log": log, "place": place, "body": body},
        )

    async def spoil(self, thread: str) -> None:
        self._run(
            f"UPDATE clew.threads SET counters = %(bytes)s WHERE tenant = 'default' AND key = {POSTGRES_KEY}",
            {"thread": thread, "bytes": UNREADABLE},
        )

    async def drop(self, thread: str, version: int) -> None:
        self._run(
            f"DELETE FROM clew.changesets WHERE tenant = 'default' AND key = {POSTGRES_KEY} "
            "AND version = %(version)s",
            {"thread": thread, "version": version},
        )

    async def swap(self, thread: str, first: int, second: int) -> None:
        for before, after in ((first, -1), (second, first), (-1, second)):
            self._run(
                "UPDATE clew.changesets SET version = %(after)s WHERE tenant = 'default' "
                f"AND key = {POSTGRES_KEY} AND version = %(before)s",
                {"thread": thread, "before": before, "after": after},
            )

    def _run(self, statement: str, values: dict[str, str | int | bytes]) -> None:
        with psycopg.connect(self._url) as connection:
            count = connection.execute(statement.encode(), values).rowcount
        assert count == 1
