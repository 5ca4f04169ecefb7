"""Translation of the errors of psycopg into those of Clew: the one place for it."""

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from clew.core.errors import (
    ClewError,
    InvalidArgument,
    NotMigrated,
    StorageError,
    StorageFull,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreReadOnly,
    StoreUnavailable,
)

STORE = "PostgreSQL"
STALE = "CW001"
THREAD_GONE = "CW002"
RETRY_STATES = {"40001", "40P01"}
LOST_STATES = {"57P01", "57P02", "57P03", "57P05", "53300"}


class ConnectionLost(Exception):
    """The connection broke while a call was under way. Answered by the store; never seen outside."""


class TryAgain(Exception):
    """The server undid a call in favour of another. Answered by the store; never seen outside."""


class ThreadGone(Exception):
    """A thread was deleted while it was read. Answered by the store; never seen outside."""


class StaleWrite(Exception):
    """Something that a call assumes is no longer so. Answered by the store; never seen outside."""


def translation(error: Exception) -> Exception:
    """The error that Clew raises for one of the driver."""
    if isinstance(error, PoolClosed):
        return StoreClosed()
    if isinstance(error, PoolTimeout | TooManyRequests):
        return StoreUnavailable(problem=first_line(error))
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.Error) and state is not None:
        return _error_by_state(error, state)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return ConnectionLost(first_line(error))
    if isinstance(error, psycopg.DataError):
        return InvalidArgument(problem=f"PostgreSQL cannot store this: {first_line(error)}.")
    return StorageError(store=STORE, problem=first_line(error))


def setup_error(error: psycopg.Error) -> ClewError:
    """The error that Clew raises for one of the driver where there is no store yet to answer it."""
    known = translation(error)
    return known if isinstance(known, ClewError) else StoreUnavailable(problem=first_line(error))


def _error_by_state(error: psycopg.Error, state: str) -> Exception:
    """The error for a state that the server reported."""
    if state == STALE:
        return StaleWrite(error.diag.message_primary)
    if state == THREAD_GONE:
        return ThreadGone()
    if state in RETRY_STATES:
        return TryAgain()
    if state in LOST_STATES or state.startswith("08"):
        return ConnectionLost(first_line(error))
    return _refusal(error, state)


def _refusal(error: psycopg.Error, state: str) -> ClewError:
    match state:
        case "53100":
            return StorageFull(store=STORE)
        case "25006":
            return StoreReadOnly(store=STORE)
        case "55P03" | "57014":
            return StoreBusy(store=STORE)
        case "XX001" | "XX002":
            return StoreDamaged(store=STORE, problem=first_line(error))
        case "3F000" | "42P01" | "42883":
            return NotMigrated(store=STORE, found=0, known=0)
        case "42501" if "row-level security" in first_line(error):
            return InvalidArgument(problem="A user cannot write what belongs to another owner.")
    if state.startswith(("22", "54")):
        return InvalidArgument(problem=f"PostgreSQL cannot store this: {first_line(error)}.")
    return StorageError(store=STORE, problem=first_line(error))


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
