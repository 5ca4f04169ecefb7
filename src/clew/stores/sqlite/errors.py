"""Where the driver's errors become ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from clew.core.errors import (
    ClewError,
    StorageError,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    StoreReadOnly,
)

DAMAGE = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""Reported as errors of the disk, but it is the content that is wrong."""


@contextmanager
def translated(store: str) -> Iterator[None]:
    """Raise our errors for those of the driver."""
    try:
        yield
    except apsw.Error as error:
        raise ours(error, store) from error


def ours(error: apsw.Error, store: str) -> ClewError:
    """Our error for one of the driver."""
    if getattr(error, "extendedresult", None) in DAMAGE:
        return StoreDamaged(store=store, problem="a page points beyond the end of the file")
    match error:
        case apsw.FullError():
            return StorageFull(store=store)
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(store=store)
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnly(store=store)
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError():
            return StoreDamaged(store=store, problem=str(error))
    return StorageError(store=store, problem=str(error))
