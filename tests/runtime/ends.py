"""Ended episodes, finished as a sweep does it, in one call."""

from __future__ import annotations

from clew.database.database import Database
from clew.runtime.sessions.finish import Ends
from clew.runtime.settings import Settings


async def work(db: Database, settings: Settings) -> int:
    """Do the jobs of ended episodes that are due; how many were finished."""
    ends = Ends(db, settings)
    try:
        ends.begin()
        await ends.idle()
    finally:
        await ends.close()
    return ends.finished
