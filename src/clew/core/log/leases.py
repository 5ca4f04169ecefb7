"""Leases: for how long something may be held, and when whoever looks may take it over."""

LONGEST_LEASE_MS = 3_600_000
"""An hour. Whoever needs longer renews."""


def is_over(until: int, now: int) -> bool:
    """Whether a lease binds nobody: its end has come, or is further off than that of any lease.

    The latter was written by a clock that ran ahead, or was read after a clock was set back. Believed, it
    would hold what it is about for as long as the clock was wrong.
    """
    return not now < until <= now + LONGEST_LEASE_MS
