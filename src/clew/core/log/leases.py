"""Leases: for how long something may be held, and when another may take it over."""

LONGEST_LEASE_MS = 3_600_000
"""An hour. Work that takes longer renews its lease."""


def is_over(until: int, now: int) -> bool:
    """Return whether a lease no longer binds: its end has come, or is further off than any lease lasts.

    The latter was written by a clock that ran ahead, or was read after a clock was set back. Believed, it
    would hold what it is about for as long as the clock was wrong.
    """
    return not now < until <= now + LONGEST_LEASE_MS
