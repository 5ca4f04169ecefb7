"""LangGraph's store, on Clew's records: namespaces, filters, time to live and search by meaning."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import msgspec
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from clew.adapters.langgraph import keeping
from clew.adapters.langgraph.keeping import EXPIRING, KIND, MINUTE, WILDCARD, Kept, Namespace, Vector
from clew.adapters.langgraph.loops import Line
from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument, RecordNotFound, RevisionConflict
from clew.core.values import Drop, Put, Record, RecordQuery, Write
from clew.threads.database import Database

PAGE = 200
FOREVER = 1e9


@check_methods
class Store(BaseStore):
    """Keeps LangGraph's long-term memory in Clew's records.

    ``db`` is an open database or a URL, as for the checkpointer. ``index`` says how to embed and which
    fields; without it a query is ignored. Items whose time is over are never seen again; ``sweep_ttl``
    removes them.
    """

    supports_ttl = True

    def __init__(
        self,
        db: Database | str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.ttl_config = ttl
        self._line = Line(db)
        self._clock = clock
        self._dims = index.get("dims") if index else None
        self._embeddings = ensure_embeddings(index.get("embed")) if index else None
        self._fields = list((index or {}).get("fields") or ["$"])

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Read, then write; all writes are committed together."""
        asked = _Batch(ops)
        vectors: dict[str, Vector] = {}
        if self._embeddings is not None:
            texts = self._texts(asked)
            embedded = self._embeddings.embed_documents(texts) if texts else []
            vectors |= zip(texts, embedded, strict=True)
            vectors |= {query: self._embeddings.embed_query(query) for query in asked.queries}
        return self._line.run(lambda db: self._done(db, asked, self._checked(vectors)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Read, then write; all writes are committed together."""
        asked = _Batch(ops)
        vectors: dict[str, Vector] = {}
        if self._embeddings is not None:
            texts = self._texts(asked)
            vectors |= zip(
                texts, await self._embeddings.aembed_documents(texts) if texts else [], strict=True
            )
            for query in asked.queries:
                vectors[query] = await self._embeddings.aembed_query(query)
        return await self._line.call(lambda db: self._done(db, asked, self._checked(vectors)))

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; how many there were."""
        return self._line.run(self._sweep)

    async def asweep_ttl(self) -> int:
        """Remove the items whose time is over; how many there were."""
        return await self._line.call(self._sweep)

    def close(self) -> None:
        """Close the database, if it was opened here."""
        self._line.close()

    async def aclose(self) -> None:
        """Close the database, if it was opened here."""
        await asyncio.to_thread(self._line.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Embedding.

    def _texts(self, asked: "_Batch") -> list[str]:
        """Every text that has to be embedded, once."""
        texts = [text for op in asked.puts.values() for text in self._texts_of(op).values()]
        return list(dict.fromkeys(texts))

    def _texts_of(self, op: PutOp) -> dict[str, str]:
        """The texts of a value that are found by meaning, by where they stand."""
        if op.value is None or op.index is False or self._embeddings is None:
            return {}
        found: dict[str, str] = {}
        for path in self._fields if op.index is None else op.index:
            texts = get_text_at_path(op.value, "$" if path == "$" else tokenize_path(path))
            found |= {
                f"{path}.{number}" if len(texts) > 1 else path: text for number, text in enumerate(texts)
            }
        return found

    def _checked(self, vectors: dict[str, Vector]) -> dict[str, Vector]:
        for vector in vectors.values():
            if self._dims is not None and len(vector) != self._dims:
                raise InvalidArgument(
                    problem=f"The index has {self._dims} dimensions; a text was embedded in {len(vector)}."
                )
        return vectors

    def _now(self, db: Database) -> int:
        """The time by the clock that was given, or by the one that all who write to the database share."""
        return db.store.now() if self._clock is None else self._clock()

    # Doing.

    async def _done(self, db: Database, asked: "_Batch", vectors: Mapping[str, Vector]) -> list[Result]:
        now = self._now(db)
        results: list[Result] = []
        for op in asked.ops:
            match op:
                case GetOp():
                    results.append(await self._get(db, op, now))
                case SearchOp():
                    results.append(await self._search(db, op, vectors, now))
                case ListNamespacesOp():
                    results.append(await self._list(db, op, now))
                case PutOp():
                    results.append(None)
        if asked.puts:
            await db.commit([await self._write(db, op, vectors, now) for op in asked.puts.values()])
        return results

    async def _get(self, db: Database, op: GetOp, now: int) -> Item | None:
        record = await _record(db, op.namespace, op.key)
        if record is None or not (kept := keeping.kept_in(record)).is_alive(now):
            return None
        if op.refresh_ttl:
            await self._refresh(db, [record], now)
        return keeping.item_of(kept)

    async def _search(
        self, db: Database, op: SearchOp, vectors: Mapping[str, Vector], now: int
    ) -> list[SearchItem]:
        wanted = op.offset + op.limit
        query = vectors.get(op.query) if op.query else None
        found: dict[str, Record] = {}
        async for record in _below(db, op.namespace_prefix):
            kept = keeping.kept_in(record)
            if kept.is_alive(now) and keeping.passes(kept.value, op.filter):
                found[record.id] = record
            if query is None and len(found) >= wanted:
                break
        items = [keeping.kept_in(record) for record in found.values()]
        order = keeping.ranked(items, query) if query is not None else [(kept, None) for kept in items]
        page = order[op.offset : wanted]
        if op.refresh_ttl:
            seen = [keeping.record_id(kept.namespace, kept.key) for kept, _ in page]
            await self._refresh(db, [found[id] for id in seen], now)
        return [keeping.found_of(kept, score) for kept, score in page]

    async def _list(self, db: Database, op: ListNamespacesOp, now: int) -> list[Namespace]:
        conditions = op.match_conditions or ()
        plain = [c.path for c in conditions if c.match_type == "prefix" and WILDCARD not in c.path]
        found: set[Namespace] = set()
        async for record in _below(db, tuple(plain[0]) if plain else ()):
            kept = keeping.kept_in(record)
            if kept.is_alive(now) and all(keeping.matches(kept.namespace, c) for c in conditions):
                found.add(kept.namespace[: op.max_depth] if op.max_depth is not None else kept.namespace)
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _write(self, db: Database, op: PutOp, vectors: Mapping[str, Vector], now: int) -> Write:
        if op.value is None:
            return Drop(kind=KIND, id=keeping.record_id(op.namespace, op.key))
        before = await _record(db, op.namespace, op.key)
        old = keeping.kept_in(before) if before is not None else None
        life = _life(op.ttl)
        kept = Kept(
            namespace=op.namespace,
            key=op.key,
            value=dict(op.value),
            created=old.created if old is not None and old.is_alive(now) else now,
            updated=now,
            life=life,
            expires=now + life if life is not None else None,
            vectors={path: keeping.packed(vectors[text]) for path, text in self._texts_of(op).items()},
        )
        return Put(record=keeping.record_of(kept))

    async def _refresh(self, db: Database, records: Sequence[Record], now: int) -> None:
        """Let items that were read live on; one that was written meanwhile lives on as written."""
        for record in records:
            kept = keeping.kept_in(record)
            if kept.life is not None:
                longer = msgspec.structs.replace(kept, expires=now + kept.life)
                try:
                    await db.records.put(keeping.record_of(longer), expect=record.revision)
                except RevisionConflict:
                    continue

    async def _sweep(self, db: Database) -> int:
        now, gone = self._now(db), 0
        async for record in _found(db, RecordQuery(kind=KIND, tags=(EXPIRING,), limit=PAGE)):
            if not keeping.kept_in(record).is_alive(now):
                try:
                    await db.records.drop(KIND, record.id, expect=record.revision)
                except RevisionConflict:
                    continue
                gone += 1
        return gone


class _Batch:
    """Operations to be done together: of several puts of one item, the last counts."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops = list(ops)
        for op in self.ops:
            validate_op_namespace(op)
        self.puts = {(op.namespace, op.key): op for op in self.ops if isinstance(op, PutOp)}
        self.queries = {op.query for op in self.ops if isinstance(op, SearchOp) and op.query}


def _life(minutes: float | None) -> int | None:
    """A time to live in milliseconds."""
    if minutes is not None and not 0 < minutes < FOREVER:
        raise InvalidArgument(problem=f"{minutes} minutes are no time to live.")
    return round(minutes * MINUTE) if minutes is not None else None


async def _record(db: Database, namespace: Namespace, key: str) -> Record | None:
    try:
        return await db.records.get(KIND, keeping.record_id(namespace, key))
    except RecordNotFound:
        return None


def _below(db: Database, prefix: Namespace) -> AsyncIterator[Record]:
    return _found(db, RecordQuery(kind=KIND, tags=keeping.prefix_tags(prefix), limit=PAGE))


async def _found(db: Database, query: RecordQuery) -> AsyncIterator[Record]:
    """Everything that a query finds, page by page."""
    while page := await db.records.find(query):
        for record in page:
            yield record
        if len(page) < query.limit:
            return
        query = msgspec.structs.replace(query, after=(page[-1].sort, page[-1].id))
