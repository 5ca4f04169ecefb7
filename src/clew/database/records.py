"""Records: small documents with a revision, found by kind, tag and order."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from clew.core.arguments import Count, check_methods
from clew.core.encoding import Id
from clew.core.errors import RecordNotFound
from clew.core.log import commit
from clew.core.log.checks import check_query, check_vector_query, prepare_write
from clew.core.log.rows import AskRecord, AskRecords, ask
from clew.core.log.vectors import read_nearest
from clew.core.ports import Store
from clew.core.values import Drop, Put, Record, RecordQuery, Scope, VectorMatch, VectorQuery


@check_methods
class Records:
    """The records of one tenant, as one user sees them."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope

    async def put(self, record: Record, *, expect: Count | None = None) -> Record:
        """Write a record; ``expect`` is its revision now, 0 if it must be absent.

        Raises:
            RevisionConflict: The record is not where ``expect`` says.
        """
        write = prepare_write(Put(record=record, expect=expect), self._store.limits)
        plan = await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))
        result = plan.results[0]
        assert isinstance(result, Record)
        return result

    async def get(self, kind: Id, id: Id) -> Record:
        """A record.

        Raises:
            RecordNotFound: There is none of that kind and id.
        """
        record: Record | None = await self._store.read(self._scope, ask(AskRecord(kind, id)))
        if record is None:
            raise RecordNotFound(kind=kind, id=id)
        return record

    async def find(self, query: RecordQuery) -> Sequence[Record]:
        """The records that a query finds, in order.

        Raises:
            InvalidArgument: A number in the query is out of range.
        """
        return await self._store.read(self._scope, ask(AskRecords(check_query(query))))

    async def nearest(self, query: VectorQuery) -> Sequence[VectorMatch]:
        """The records of the vectors that are most like one, the best first. All vectors are searched.

        Raises:
            InvalidArgument: A number in the query is out of range, or its vector has none.
        """
        return await self._store.read(self._scope, read_nearest(check_vector_query(query)))

    async def drop(self, kind: Id, id: Id, *, expect: Count | None = None) -> None:
        """Delete a record; one that is absent is fine unless a revision is expected."""
        write = Drop(kind=kind, id=id, expect=expect)
        await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))


async def record_pages(records: Records, query: RecordQuery) -> AsyncIterator[Sequence[Record]]:
    """Give every record that a query finds, page by page; its limit is the size of a page.

    A page begins behind the last record of the one before, not after so many: a record that is changed
    meanwhile may leave the query, and the next ones move up.
    """
    while page := await records.find(query):
        yield page
        if len(page) < query.limit:
            return
        query = msgspec.structs.replace(query, after=(page[-1].sort, page[-1].id))
