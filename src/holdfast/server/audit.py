"""The audit: who did what as an operator of a tenant, in a thread that only grows and has a chain.

An entry is written before the thing is done, so nothing is done without one. Whom it is about is kept as a
salted hash: what is erased leaves no name here, and who knows a name can still look for it.
"""

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.client.operations import AuditView
from holdfast.core.encoding import JSON, plain
from holdfast.core.errors import InvalidArgument, ThreadNotFound
from holdfast.core.receipts import mark
from holdfast.core.values import Item
from holdfast.server.identity.values import Identity
from holdfast.threads.database import Database

AUDIT: Final = "holdfast/audit"
LOG: Final = "audit"
LOOKED_AT_ONCE, LOOKED_THROUGH = 200, 5_000
"""How many entries are read at a time, and for one page, while something is looked for."""


class Deed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of something that an operator did."""

    action: str
    user: str | None
    workspace: str
    salt: str | None = None
    about: str | None = None
    facts: dict[str, JSON] = {}


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
    salt = secrets.token_hex(8)
    about = subject(owner, thread)
    deed = Deed(
        action=action,
        user=identity.user,
        workspace=identity.workspace,
        salt=salt if about is not None else None,
        about=mark(salt, *about) if about is not None else None,
        facts=dict(facts or {}),
    )
    await db.create(AUDIT, exist_ok=True)
    await db.thread(AUDIT).append(items=[Item(body=plain(deed), kind="audit", log=LOG)], reason=action)


def subject(owner: str | None, thread: str | None) -> tuple[str, str] | None:
    """Whom something is about: an owner, a thread, or nobody.

    Raises:
        InvalidArgument: Both are named.
    """
    if owner is not None and thread is not None:
        raise InvalidArgument(problem="Name an owner or a thread, not both.")
    if owner is not None:
        return "owner", owner
    return ("thread", thread) if thread is not None else None


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
