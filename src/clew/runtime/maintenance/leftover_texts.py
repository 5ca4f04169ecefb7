"""Leftover texts: those of answers whose process died before it could drop them."""

from clew.core.errors import ThreadNotFound
from clew.core.values import ProvisionalText, Scope
from clew.database.database import Database, owner_database
from clew.database.provisional import provisional_texts
from clew.runtime.records.runs import RUNNING
from clew.runtime.state.run_state import RunState
from clew.runtime.turn.thread_events import is_void


async def drop_leftover_texts(db: Database) -> None:
    """Drop the text of every answer that is committed, or whose run or thread is gone."""
    texts = provisional_texts(db.store)
    if texts is None:
        return
    for header in await texts.headers(Scope(tenant=db.tenant, user=db.user)):
        own_db = owner_database(db, header.owner)
        if await _is_leftover(own_db, header):
            await texts.drop(Scope(tenant=own_db.tenant, user=own_db.user), header.thread, header)


async def _is_leftover(db: Database, header: ProvisionalText) -> bool:
    thread = db.thread(header.thread)
    try:
        head = await thread.head()
    except ThreadNotFound:
        return True
    run = RunState.of(head.state)
    if run.id != header.run or run.status != RUNNING:
        return True
    return await is_void(thread, header, head.version)
