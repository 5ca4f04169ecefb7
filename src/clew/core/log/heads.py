"""The heads a store remembers, so that an append need not read first."""

from collections.abc import Callable, Mapping

from clew.core.log.commit import ThreadHead

MOST_HEADS = 4096
MOST_BYTES = 64 * 1024 * 1024


class HeadCache:
    """Known heads by tenant and id; those not written for the longest go first when there are too many.

    One thread learns, others may look. A remembered head may be out of date: writes carry what they
    assume, so an old head costs a second plan, never a wrong write.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], ThreadHead] = {}
        self._bytes = 0

    def find(self, tenant: str, id: str) -> ThreadHead | None:
        """The remembered head of a tenant's thread."""
        return self._heads.get((tenant, id))

    def finder(self, tenant: str) -> Callable[[str], ThreadHead | None]:
        """A function that finds the remembered head of a tenant's thread."""
        return lambda id: self._heads.get((tenant, id))

    def remember(self, tenant: str, heads: Mapping[str, ThreadHead | None]) -> None:
        """Remember heads, and forget those given as None."""
        for id, head in heads.items():
            self._forget((tenant, id))
            if head is not None:
                self._heads[tenant, id] = head
                self._bytes += head.row.counters.size
        while len(self._heads) > MOST_HEADS or (self._bytes > MOST_BYTES and len(self._heads) > 1):
            self._forget(next(iter(self._heads)))

    def _forget(self, key: tuple[str, str]) -> None:
        head = self._heads.pop(key, None)
        if head is not None:
            self._bytes -= head.row.counters.size
