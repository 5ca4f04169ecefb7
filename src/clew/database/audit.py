"""The audit: who did what as an operator of a tenant, in a thread that only grows and has a chain.

An entry is written before the thing is done, so nothing is done without one. Whom it is about is kept as a
salted hash: what is erased leaves no name here, and who knows a name can still look for it.
"""

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from clew.core.encoding import JSON, plain
from clew.core.erasure.receipts import mark
from clew.core.errors import InvalidArgument
from clew.core.values import Item
from clew.database.database import Database

AUDIT: Final = "clew/audit"
LOG: Final = "audit"


class Deed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of something that an operator did. One at the command line is in no workspace."""

    action: str
    user: str | None
    workspace: str = ""
    salt: str | None = None
    about: str | None = None
    facts: dict[str, JSON] = {}


async def note(
    db: Database,
    action: str,
    *,
    user: str | None = None,
    workspace: str = "",
    owner: str | None = None,
    thread: str | None = None,
    facts: Mapping[str, JSON] | None = None,
) -> None:
    """Write down that somebody is about to do something in the tenant of a database."""
    salt = secrets.token_hex(8)
    about = subject(owner, thread)
    deed = Deed(
        action=action,
        user=user,
        workspace=workspace,
        salt=salt if about is not None else None,
        about=mark(salt, *about) if about is not None else None,
        facts=dict(facts or {}),
    )
    whole = db.scope(tenant=db.tenant)
    await whole.create(AUDIT, exist_ok=True)
    await whole.thread(AUDIT).append(items=[Item(body=plain(deed), kind="audit", log=LOG)], reason=action)


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
