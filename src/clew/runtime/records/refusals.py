"""Refusals: rows that background work cannot act on, reported once and passed over until they change."""

import logging
from collections import OrderedDict
from typing import Final

from clew.core.errors import ClewError, Conflict, InvalidInput, NotFound, StoreDamaged
from clew.core.values import Record

log = logging.getLogger("clew")
REMEMBERED: Final = 10_000
REFUSED: Final = (StoreDamaged, Conflict, InvalidInput, NotFound)
"""The errors that are about one row. Any other is about the store, and ends a part of the sweep."""


class Refusals:
    """The rows that this process has refused, by kind and id, each at the revision it was refused at."""

    def __init__(self) -> None:
        self._revisions: OrderedDict[tuple[str, str], int] = OrderedDict()

    def covers(self, record: Record) -> bool:
        """Return whether a row was refused as it is now."""
        return self._revisions.get((record.kind, record.id)) == record.revision

    def add(self, record: Record, error: ClewError) -> None:
        """Report a row, and pass it over until it is changed."""
        log.warning("The %s %r is passed over until it is changed: %s", record.kind, record.id, error)
        self._revisions[record.kind, record.id] = record.revision
        self._revisions.move_to_end((record.kind, record.id))
        if len(self._revisions) > REMEMBERED:
            self._revisions.popitem(last=False)
