"""The audit of operators' commands, written to the tenant's audit as over HTTP."""

import getpass
import os

from clew.core.encoding import JSON
from clew.database.audit import add_audit_entry
from clew.database.database import Database


async def audit_action(
    db: Database,
    action: str,
    *,
    tenant: str | None = None,
    owner: str | None = None,
    thread: str | None = None,
    **facts: JSON,
) -> None:
    """Record in the audit what the user of the command line is about to do."""
    entry_facts = {"by": "command line", "account": account(), **facts}
    tenant_db = db.scope(tenant=db.tenant if tenant is None else tenant)
    await add_audit_entry(tenant_db, action, owner=owner, thread=thread, facts=entry_facts)


def account() -> str:
    """The account of this machine that runs the command, by name or by number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
