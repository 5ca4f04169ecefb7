"""How each of our stores is damaged behind its back."""

from __future__ import annotations

import msgspec

from holdfast.core.rows import ChangesetRow
from holdfast.stores.memory import MemoryStore


class MemoryDamage:
    """Changes the rows of a store in memory."""

    def __init__(self, stores: list[MemoryStore]) -> None:
        self._stores = stores

    async def rewrite(self, thread: str, log: str, place: int, body: bytes) -> None:
        tenant = self._stores[-1]._tenants["default"]
        items = tenant.rows[tenant.ids[thread]].items
        items[log, place] = msgspec.structs.replace(items[log, place], body=body)

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
