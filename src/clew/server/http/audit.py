"""The audit over HTTP: actions of callers are recorded, and entries are searched."""

from collections.abc import Mapping

import msgspec

from clew.api.audit import AuditView
from clew.core.encoding import JSON
from clew.core.erasure.receipts import salted_hash
from clew.core.errors import ThreadNotFound
from clew.core.values import Item
from clew.database import audit
from clew.database.audit import AUDIT_LOG, AUDIT_THREAD, AuditEntry
from clew.database.database import Database
from clew.server.identity.identity import Identity

BATCH_SIZE, MOST_ENTRIES = 200, 5_000
"""How many entries a search reads at a time, and at most for one page."""


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of entries; ``about`` is ``owner`` or ``thread``, and a name."""

    action: str | None = None
    user: str | None = None
    about: tuple[str, str] | None = None


async def record_action(
    db: Database,
    identity: Identity,
    action: str,
    *,
    owner: str | None = None,
    thread: str | None = None,
    facts: Mapping[str, JSON] | None = None,
) -> None:
    """Record that a caller is about to do something."""
    await audit.add_audit_entry(
        db, action, user=identity.user, workspace=identity.workspace, owner=owner, thread=thread, facts=facts
    )


async def entries(
    db: Database, query: AuditQuery, *, limit: int, before: int | None
) -> tuple[list[AuditView], int | None]:
    """Return entries, the newest first, and the position of the next page; None at the end."""
    views: list[AuditView] = []
    entry_count = 0
    while len(views) < limit and entry_count < MOST_ENTRIES:
        try:
            window = await db.thread(AUDIT_THREAD).items(last=BATCH_SIZE, before=before, log=AUDIT_LOG)
        except ThreadNotFound:
            return [], None
        for item in reversed(window.items):
            before, entry_count = item.place, entry_count + 1
            if (view := _view_if_match(item, query)) is not None:
                views.append(view)
            if len(views) == limit:
                break
        if len(window) < BATCH_SIZE and len(views) < limit:
            return views, None
    return views, before


def _view_if_match(item: Item, query: AuditQuery) -> AuditView | None:
    entry = msgspec.convert(item.body, AuditEntry)
    if query.action not in (None, entry.action) or query.user not in (None, entry.user):
        return None
    if query.about is not None and entry.about != salted_hash(entry.salt or "", *query.about):
        return None
    return AuditView(
        number=item.version,
        time=item.time,
        action=entry.action,
        user=entry.user,
        workspace=entry.workspace,
        about=entry.about,
        facts=entry.facts,
    )
