"""Heads and verdicts of whole databases, over all tenants, as commands read and show them."""

from collections.abc import Sequence

import msgspec

from clew.cli.command import CommandCall
from clew.cli.render.values import HeadHash
from clew.core.errors import ThreadNotFound
from clew.core.log.rows import ThreadRow, UnreadableThread
from clew.core.ports import Reader
from clew.core.values import Scope
from clew.database.inventory import list_tenants, list_threads
from clew.database.verify import Verdict, unreadable, verify_thread


class CopiedHeads(msgspec.Struct, frozen=True, kw_only=True):
    """The heads of a copy, and the threads in it that have none since they cannot be read."""

    heads: list[HeadHash]
    unreadable: list[Verdict] = []


async def read_heads(reader: Reader, tenants: Sequence[str]) -> CopiedHeads:
    """The heads of all threads of some tenants."""
    heads: list[HeadHash] = []
    damaged: list[Verdict] = []
    for tenant in tenants:
        for row in await list_threads(reader, Scope(tenant=tenant)):
            if isinstance(row, ThreadRow):
                head = HeadHash(tenant=tenant, thread=row.id, version=row.version, hash=row.hash.hex())
                heads.append(head)
            else:
                damaged.append(unreadable(tenant, row.id, row.problem))
    return CopiedHeads(heads=heads, unreadable=damaged)


async def scopes_of(call: CommandCall, reader: Reader) -> list[Scope]:
    """The scopes of a command: the tenant that the caller names, or else every tenant.

    Raises:
        Forbidden: The login does not see every tenant, and none is named.
    """
    if call.is_narrowed:
        return [call.scope]
    return [Scope(tenant=tenant) for tenant in await list_tenants(reader)]


async def verify_scopes(call: CommandCall, reader: Reader, scopes: Sequence[Scope]) -> list[Verdict]:
    """Check every thread of some scopes."""
    rows: list[tuple[Scope, ThreadRow | UnreadableThread]] = []
    for scope in scopes:
        rows += [(scope, row) for row in await list_threads(reader, scope)]
    return await verify_threads(call, reader, [(scope, row.id) for scope, row in rows])


async def verify_threads(
    call: CommandCall, reader: Reader, threads: Sequence[tuple[Scope, str]]
) -> list[Verdict]:
    """Check some threads; one that is deleted meanwhile is passed over if it is one of several."""
    verdicts: list[Verdict] = []
    with call.progress("Checking", len(threads)) as advance:
        for scope, thread in threads:
            try:
                verdicts.append(await verify_thread(reader, scope, thread))
            except ThreadNotFound:
                if len(threads) == 1:
                    raise
            advance(1)
    return verdicts
