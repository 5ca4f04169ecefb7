"""The audit: actions of the operators of a tenant, in a thread that only grows and has a chain.

An entry is written before the thing is done, so nothing is done without one. Its subject is stored as a
salted hash: what is erased leaves no name here, and a known name can still be searched for.
"""

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from clew.core.encoding import JSON, as_json
from clew.core.erasure.receipts import salted_hash
from clew.core.errors import InvalidArgument
from clew.core.values import Item
from clew.database.database import Database

AUDIT_THREAD: Final = "clew/audit"
AUDIT_LOG: Final = "audit"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of something that an operator did. One at the command line is in no workspace."""

    action: str
    user: str | None
    workspace: str = ""
    salt: str | None = None
    about: str | None = None
    facts: dict[str, JSON] = {}


async def add_audit_entry(
    db: Database,
    action: str,
    *,
    user: str | None = None,
    workspace: str = "",
    owner: str | None = None,
    thread: str | None = None,
    facts: Mapping[str, JSON] | None = None,
) -> None:
    """Write an entry of something that is about to be done in the tenant of a database."""
    salt = secrets.token_hex(8)
    about = audit_subject(owner, thread)
    entry = AuditEntry(
        action=action,
        user=user,
        workspace=workspace,
        salt=salt if about is not None else None,
        about=salted_hash(salt, *about) if about is not None else None,
        facts=dict(facts or {}),
    )
    whole = db.scope(tenant=db.tenant)
    await whole.create(AUDIT_THREAD, exist_ok=True)
    await whole.thread(AUDIT_THREAD).append(
        items=[Item(body=as_json(entry), kind="audit", log=AUDIT_LOG)], reason=action
    )


def audit_subject(owner: str | None, thread: str | None) -> tuple[str, str] | None:
    """The subject of an action: an owner, a thread, or none.

    Raises:
        InvalidArgument: Both are named.
    """
    if owner is not None and thread is not None:
        raise InvalidArgument(problem="Name an owner or a thread, not both.")
    if owner is not None:
        return "owner", owner
    return ("thread", thread) if thread is not None else None
