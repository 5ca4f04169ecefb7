"""The texts of running answers on PostgreSQL: rows of a table that is not logged."""

from collections.abc import Awaitable, Callable

from psycopg.types.numeric import Int8

from clew.core.values import ProvisionalText, Scope
from clew.stores.postgres.answers import Row, Values
from clew.stores.postgres.arrays import BlobArray

Fetch = Callable[[str, Values], Awaitable[list[Row]]]


class ProvisionalRows:
    """The texts of running answers. Nothing waits for a disk or a standby; a fail-over empties the table."""

    def __init__(self, fetch: Fetch, fetch_once: Fetch) -> None:
        self._fetch = fetch
        self._fetch_once = fetch_once

    async def begin(self, scope: Scope, text: ProvisionalText, most: int) -> bool:
        """Keep a text in place of the one that its thread has, unless there are too many others."""
        names = (text.thread, text.owner, *_id_of(text))
        values = (scope.tenant, scope.user, *names, BlobArray(text.parts), Int8(most))
        return bool((await self._fetch("begin_provisional", values))[0][0])

    async def extend(self, scope: Scope, text: ProvisionalText, part: bytes) -> bool:
        """Add a part to a text; return False if it is no longer there."""
        values = (scope.tenant, scope.user, text.thread, *_id_of(text), part)
        # Not sent again if the answer is lost: the part may be there.
        return bool((await self._fetch_once("extend_provisional", values))[0][0])

    async def read(self, scope: Scope, thread: str) -> ProvisionalText | None:
        """The text of a thread, if it has one."""
        rows = await self._fetch("provisional", (scope.tenant, scope.user, thread))
        return _text_of(rows[0]) if rows else None

    async def headers(self, scope: Scope) -> list[ProvisionalText]:
        """Every text, without its parts."""
        rows = await self._fetch("provisional_headers", (scope.tenant, scope.user))
        return [_text_of((*row, ())) for row in rows]

    async def drop(self, scope: Scope, thread: str, text: ProvisionalText | None = None) -> bool:
        """Drop the text of a thread, or only a given one; return whether there was one."""
        id = (None, None, None, None) if text is None else _id_of(text)
        return bool((await self._fetch("drop_provisional", (scope.tenant, scope.user, thread, *id)))[0][0])


def _id_of(text: ProvisionalText) -> tuple[str, Int8, Int8, Int8]:
    """The columns that tell an answer from others on its thread."""
    return text.run, Int8(text.version), Int8(text.step), Int8(text.attempt)


def _text_of(row: Row) -> ProvisionalText:
    thread, owner, run, version, step, attempt, parts = row
    return ProvisionalText(
        thread=thread,
        owner=owner,
        run=run,
        version=version,
        step=step,
        attempt=attempt,
        parts=tuple(parts),
    )
