"""Leaving no trace in the tables: vacuum asked for, and said if somebody keeps removed rows alive."""

import asyncio

from psycopg.types.numeric import Int8

from clew.core.ports import Scrubbed
from clew.stores.postgres.connections import Connections

BEYOND = (
    "the server's write-ahead log, until it is recycled, and wherever it is archived",
    "backups, dumps and replicas of the database",
    "free space inside table files, until it is written over or VACUUM FULL rewrites them",
)
NOT_ALLOWED = "this role may not vacuum the tables; settle it as a member of clew_owner"
HELD = "a transaction that began before keeps removed rows alive; settle it once that has ended"
LOOKS = 20
PAUSE = 0.1


async def scrubbed(connections: Connections) -> Scrubbed:
    """Have the tables vacuumed once no older transaction holds removed rows; say so if one still does."""
    moment, may_vacuum = (await connections.fetch("moment"))[0]
    if not may_vacuum:
        return Scrubbed(waiting=(NOT_ALLOWED,), beyond=BEYOND)
    holding = 0
    for look in range(LOOKS):
        await asyncio.sleep(PAUSE if look else 0)
        holding = (await connections.fetch("holding", (Int8(moment),)))[0][0]
        if not holding:
            break
    await connections.run("vacuum")
    return Scrubbed(waiting=(HELD,) if holding else (), beyond=BEYOND)
