"""The heads a store remembers, so that an append need not read first."""

from collections.abc import Callable, Mapping

from clew.core.log.commit import Known

MOST_HEADS = 4096
MOST_BYTES = 64 * 1024 * 1024


class Heads:
    """Known heads by tenant and id; those not written for the longest go first when there are too many.

    One thread learns, others may look. A remembered head may be out of date: effects carry what they
    assume, so an old head costs a second plan, never a wrong write.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Known] = {}
        self._bytes = 0

    def of(self, tenant: str) -> Callable[[str], Known | None]:
        """What is known of a tenant's threads."""
        return lambda id: self._known.get((tenant, id))

    def learn(self, tenant: str, heads: Mapping[str, Known | None]) -> None:
        """Remember heads, and forget those given as None."""
        for id, known in heads.items():
            self._forget((tenant, id))
            if known is not None:
                self._known[tenant, id] = known
                self._bytes += known.row.counters.size
        while len(self._known) > MOST_HEADS or (self._bytes > MOST_BYTES and len(self._known) > 1):
            self._forget(next(iter(self._known)))

    def _forget(self, key: tuple[str, str]) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= known.row.counters.size
