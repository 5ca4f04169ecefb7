"""Vacuum of the tables, so that no trace is left; a report if a transaction keeps removed rows alive."""

import asyncio

from psycopg.types.numeric import Int8

from clew.core.ports import ScrubResult
from clew.stores.postgres.connections import Connections

BEYOND = (
    "the server's write-ahead log, until it is recycled, and wherever it is archived",
    "backups, dumps and replicas of the database",
    "free space inside table files, until it is written over or VACUUM FULL rewrites them",
)
NOT_ALLOWED = "this role may not vacuum the tables; settle it as a member of clew_owner"
TRANSACTION_OPEN = "a transaction that began before keeps removed rows alive; settle it once that has ended"
LOOKS = 20
PAUSE = 0.1


async def scrub_tables(connections: Connections) -> ScrubResult:
    """Have the tables vacuumed once no older transaction holds removed rows; say so if one still does."""
    moment, may_vacuum = (await connections.fetch("moment"))[0]
    if not may_vacuum:
        return ScrubResult(waiting=(NOT_ALLOWED,), beyond=BEYOND)
    holding = 0
    for look in range(LOOKS):
        await asyncio.sleep(PAUSE if look else 0)
        holding = (await connections.fetch("holding", (Int8(moment),)))[0][0]
        if not holding:
            break
    await connections.run_command("vacuum")
    return ScrubResult(waiting=(TRANSACTION_OPEN,) if holding else (), beyond=BEYOND)
