"""What a runtime does about retention beside its turns: rules are applied, and receipts that wait settled."""

import logging
from collections.abc import Callable

from clew.threads.database import Database

log = logging.getLogger("clew")
HOUR_MS = 60 * 60 * 1000


class Retaining:
    """Looks after a tenant's retention rules, at once and then every hour. One user's database has none."""

    def __init__(self, db: Database, clock: Callable[[], int]) -> None:
        self._db = db
        self._clock = clock
        self._next = 0

    async def __call__(self) -> None:
        """Do what is due, if it is time."""
        now = self._clock()
        if self._db.user is not None or now < self._next:
            return
        self._next = now + HOUR_MS
        await self._db.retention.settle()
        for applied in await self._db.retention.apply(now=now):
            if applied.threads:
                log.info("Retention rule %s let go of %d threads.", applied.rule, len(applied.threads))
