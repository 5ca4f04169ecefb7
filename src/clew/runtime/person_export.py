"""Everything about one person: their threads, and the records and files that go with them into an archive."""

from collections.abc import AsyncIterator
from typing import Final

from clew.core.encoding import check_id
from clew.core.erasure.receipts import RETAINED_KIND, RULE_KIND
from clew.core.log.holds import HOLD_KIND
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import Scope
from clew.database.archive import export_threads, record_kinds
from clew.database.database import Database
from clew.runtime.execution import queue
from clew.runtime.memory.vectors.jobs import SPACE_KIND

REQUEST: Final = "http request"
"""The kind of records that let a request to a server be repeated for a while."""
EXCLUDED_KINDS = (RETAINED_KIND, HOLD_KIND, RULE_KIND, VECTOR_KIND, SPACE_KIND, queue.KIND, REQUEST)
"""The kinds of records that a person's archive does not hold: what is the operator's (retained records, legal
holds, rules of retention), what is made again (vectors, and by which embedder), what is still to be done
(queued turns), and what only this server can use (requests that may be repeated).
"""


async def export_person(db: Database, owner: str) -> AsyncIterator[bytes]:
    """The lines of an archive of everything that one person owns. ``import_threads`` takes it in elsewhere.

    Their files are in it if the database knows of a volume.

    Raises:
        InvalidId: The owner has no name that can be used.
        StoreDamaged: A thread does not match its chain.
    """
    scope = Scope(tenant=db.tenant, user=check_id(owner, "owner"))
    kinds = await record_kinds(db.store, scope, owner, EXCLUDED_KINDS)
    async for line in export_threads(db.store, scope, kinds=kinds, files=db.files):
        yield line
