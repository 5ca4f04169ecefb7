"""The audit over HTTP: what is noted of whoever asks, and how it is looked through."""

from collections.abc import Mapping

import msgspec

from clew.api.operators import AuditView
from clew.core.encoding import JSON
from clew.core.erasure.receipts import mark
from clew.core.errors import ThreadNotFound
from clew.core.values import Item
from clew.database import audit
from clew.database.audit import AUDIT, LOG, Deed
from clew.database.database import Database
from clew.server.identity.identity import Identity

LOOKED_AT_ONCE, LOOKED_THROUGH = 200, 5_000
"""How many entries are read at a time, and for one page, while something is looked for."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are looked for; ``about`` is ``owner`` or ``thread``, and a name."""

    action: str | None = None
    user: str | None = None
    about: tuple[str, str] | None = None


async def note(
    db: Database,
    identity: Identity,
    action: str,
    *,
    owner: str | None = None,
    thread: str | None = None,
    facts: Mapping[str, JSON] | None = None,
) -> None:
    """Write down that somebody is about to do something."""
    await audit.note(
        db, action, user=identity.user, workspace=identity.workspace, owner=owner, thread=thread, facts=facts
    )


async def entries(
    db: Database, wanted: Wanted, *, limit: int, before: int | None
) -> tuple[list[AuditView], int | None]:
    """Some entries, the newest first, and where the next page begins; None if there is none."""
    found: list[AuditView] = []
    looked = 0
    while len(found) < limit and looked < LOOKED_THROUGH:
        try:
            window = await db.thread(AUDIT).items(last=LOOKED_AT_ONCE, before=before, log=LOG)
        except ThreadNotFound:
            return [], None
        for item in reversed(window.items):
            before, looked = item.place, looked + 1
            if (view := _view(item, wanted)) is not None:
                found.append(view)
            if len(found) == limit:
                break
        if len(window) < LOOKED_AT_ONCE and len(found) < limit:
            return found, None
    return found, before


def _view(item: Item, wanted: Wanted) -> AuditView | None:
    deed = msgspec.convert(item.body, Deed)
    if wanted.action not in (None, deed.action) or wanted.user not in (None, deed.user):
        return None
    if wanted.about is not None and deed.about != mark(deed.salt or "", *wanted.about):
        return None
    return AuditView(
        number=item.version,
        time=item.time,
        action=deed.action,
        user=deed.user,
        workspace=deed.workspace,
        about=deed.about,
        facts=deed.facts,
    )
