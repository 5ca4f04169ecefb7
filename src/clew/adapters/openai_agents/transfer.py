"""Sessions of the SDK's own databases, as histories to import: ``SQLiteSession`` and ``SQLAlchemySession``.

Items are read as JSON and stored as they are; no class of the SDK is made of them.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, LiteralString

import msgspec

from clew.adapters.openai_agents.items import items_from_sdk
from clew.adapters.source import Row, SourceDatabase, milliseconds
from clew.core.encoding import JSON
from clew.core.errors import ClewError
from clew.core.values import Changeset, Item
from clew.database.database import Database
from clew.database.transfer import ThreadHistory, ThreadTransfer, TransferOptions, transfer_thread

STRUCTURE: Final = "message_structure"
"""The table in which ``AdvancedSQLiteSession`` has its branches."""

COUNT: Final = "SELECT count(DISTINCT session_id) FROM agent_messages"
MESSAGES: Final = (
    "SELECT session_id, id, message_data, created_at FROM agent_messages ORDER BY session_id, id"
)
MAIN_BRANCH: Final = """
SELECT session_id, id, message_data, created_at FROM agent_messages AS message
WHERE NOT EXISTS (SELECT 1 FROM message_structure WHERE message_id = message.id AND branch_id <> 'main')
   OR EXISTS (SELECT 1 FROM message_structure WHERE message_id = message.id AND branch_id = 'main')
ORDER BY session_id, id
"""
BRANCHES: Final = """
SELECT DISTINCT session_id, branch_id FROM message_structure WHERE branch_id <> 'main'
ORDER BY session_id, branch_id
"""


async def count_threads(source: SourceDatabase) -> int:
    """The number of sessions with items."""
    return sum([number async for (number,) in source.rows(COUNT)])


async def transfer_threads(
    source: SourceDatabase, db: Database, options: TransferOptions
) -> AsyncIterator[ThreadTransfer]:
    """Take in every session, each as the thread that a ``Session`` of its id goes on with."""
    branches = await _branches(source)
    query = MAIN_BRANCH if branches is not None else MESSAGES
    async for session, rows in _rows_by_session(source, query):
        left_out = [f"branch {name!r}" for name in (branches or {}).get(session, ())]
        yield await transfer_thread(db, _history_of(session, rows, left_out, options), options)


async def _branches(source: SourceDatabase) -> dict[str, list[str]] | None:
    """The branches of each session besides the main one; None if the database knows no branches."""
    if STRUCTURE not in await source.columns():
        return None
    branches: dict[str, list[str]] = {}
    async for session, branch in source.rows(BRANCHES):
        branches.setdefault(session, []).append(branch)
    return branches


async def _rows_by_session(
    source: SourceDatabase, query: LiteralString
) -> AsyncIterator[tuple[str, list[Row]]]:
    """The rows of one session after another."""
    session, rows = "", list[Row]()
    async for row in source.rows(query):
        if rows and row[0] != session:
            yield session, rows
            rows = []
        session = row[0]
        rows.append(row[1:])
    if rows:
        yield session, rows


def _history_of(
    session: str, rows: Sequence[Row], left_out: list[str], options: TransferOptions
) -> ThreadHistory:
    items: list[Item] = []
    for id, data, created in rows:
        try:
            body: JSON = msgspec.json.decode(data)
            items.append(msgspec.structs.replace(items_from_sdk([body])[0], time=milliseconds(created) or 0))
        except (ClewError, msgspec.MsgspecError, UnicodeError) as error:
            left_out.append(f"row {id} of agent_messages: {error}")
    return ThreadHistory(
        thread=f"{options.prefix}{session}",
        owner=options.owner,
        changesets=tuple(_changesets_of(items)),
        left_out=tuple(left_out),
    )


def _changesets_of(items: Sequence[Item]) -> Iterator[Changeset]:
    """A changeset for each message of a person, and one for what came of it, as a run writes them."""
    batch: list[Item] = []
    for item in items:
        if batch and "user" in (item.role, batch[-1].role):
            yield _changeset_of(batch)
            batch = []
        batch.append(item)
    if batch:
        yield _changeset_of(batch)


def _changeset_of(items: Sequence[Item]) -> Changeset:
    return Changeset(
        items=tuple(msgspec.structs.replace(item, time=0) for item in items), time=items[-1].time
    )
