"""Ended episodes, finished as a sweep does it, in one call."""

from __future__ import annotations

from clew.database.database import Database
from clew.runtime.sessions.finish import EpisodeFinisher
from clew.runtime.settings import Settings


async def work(db: Database, settings: Settings) -> int:
    """Do the jobs of ended episodes that are due; how many were finished."""
    ends = EpisodeFinisher(db, settings)
    try:
        ends.start_worker()
        await ends.wait_until_idle()
    finally:
        await ends.close()
    return ends.finished_count
