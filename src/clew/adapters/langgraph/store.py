"""LangGraph's store, on Clew's records: namespaces, filters, time to live and search by meaning."""

import asyncio
import base64
import math
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
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

from clew.adapters.langgraph.event_loop import DatabaseLoop
from clew.adapters.langgraph.layout import digest
from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument, RecordNotFound, RevisionConflict
from clew.core.values import Drop, Put, Record, RecordQuery, Write
from clew.database.database import Database

KIND: Final = "langgraph.item"
EXPIRING_TAG: Final = "expiring"
MINUTE_MS: Final = 60_000
WILDCARD: Final = "*"

Namespace = tuple[str, ...]
Vector = Sequence[float]


class StoredItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item as a record's body says it; times and the time to live are in milliseconds."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created: int
    updated: int
    life: int | None = None
    expires: int | None = None
    vectors: dict[str, str] = {}

    def is_alive(self, now: int) -> bool:
        """Return whether it has not expired."""
        return self.expires is None or self.expires > now


def record_id(namespace: Namespace, key: str) -> str:
    """The id of an item's record."""
    return digest(*namespace, key)


def prefix_tags(prefix: Namespace) -> tuple[str, ...]:
    """The tag that all items below a namespace share; none for the root, below which everything is."""
    return (f"below {digest(*prefix)}",) if prefix else ()


def record_of_item(item: StoredItem) -> Record:
    """The record of an item: found below each of its namespaces, in the order items were made."""
    tags = [tag for length in range(len(item.namespace)) for tag in prefix_tags(item.namespace[: length + 1])]
    if item.expires is not None:
        tags.append(EXPIRING_TAG)
    body = msgspec.to_builtins(msgspec.structs.replace(item, value={}))
    # As it was given: what is not JSON is refused by its path.
    body |= {"namespace": list(item.namespace), "value": item.value}
    return Record(
        kind=KIND, id=record_id(item.namespace, item.key), body=body, tags=tuple(tags), sort=item.created
    )


def stored_item(record: Record) -> StoredItem:
    """The item that a record keeps."""
    return msgspec.convert(record.body, StoredItem)


def langgraph_item(item: StoredItem) -> Item:
    """An item as LangGraph gets it."""
    return Item(
        value=item.value,
        key=item.key,
        namespace=item.namespace,
        created_at=_datetime(item.created),
        updated_at=_datetime(item.updated),
    )


def search_item(item: StoredItem, score: float | None) -> SearchItem:
    """An item as a search gives it."""
    return SearchItem(
        namespace=item.namespace,
        key=item.key,
        value=item.value,
        created_at=_datetime(item.created),
        updated_at=_datetime(item.updated),
        score=score,
    )


def _datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


# Filters.


def passes_filter(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Return whether a value has what a filter asks for."""
    return all(_meets(value.get(name), condition) for name, condition in (filter or {}).items())


def _meets(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(str(name).startswith("$") for name in condition):
            return all(_meets_operator(value, operator, against) for operator, against in condition.items())
        return isinstance(value, dict) and all(
            _meets(value.get(name), part) for name, part in condition.items()
        )
    if isinstance(condition, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(condition)
            and all(_meets(part, other) for part, other in zip(value, condition, strict=True))
        )
    return bool(value == condition)


def _meets_operator(value: Any, operator: str, against: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == against) is (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise InvalidArgument(problem=f"{operator!r} is not an operator: $eq, $ne, $gt, $gte, $lt or $lte.")
    try:
        left, right = float(value), float(against)
    except (TypeError, ValueError):
        return False
    if operator == "$gt":
        return left > right
    if operator == "$gte":
        return left >= right
    return left < right if operator == "$lt" else left <= right


def matches_namespace(namespace: Namespace, condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends as a condition says."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(label_pattern in (WILDCARD, label) for label, label_pattern in zip(part, path, strict=True))


# Vectors.


def encode_vector(vector: Vector) -> str:
    """A vector as text: single precision, which is more than embeddings mean."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def decode_vector(text: str) -> Vector:
    """The vector behind a text."""
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)


def rank_items(items: Sequence[StoredItem], query: Vector) -> list[tuple[StoredItem, float | None]]:
    """Items by the nearest of their vectors; those without any come last."""
    scores = [
        (item, max(cosine(query, decode_vector(text)) for text in item.vectors.values()))
        for item in items
        if item.vectors
    ]
    scores.sort(key=lambda pair: -pair[1])
    return [*scores, *((kept, None) for kept in items if not kept.vectors)]


def cosine(one: Vector, other: Vector) -> float:
    """The cosine of the angle between two vectors; 0 if one of them is zero."""
    length = math.hypot(*one) * math.hypot(*other)
    return sum(left * right for left, right in zip(one, other, strict=True)) / length if length else 0.0


RECORDS_PER_PAGE = 200
MOST_MINUTES = 1e9


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
        self._database_loop = DatabaseLoop(db)
        self._clock = clock
        self._dimensions = index.get("dims") if index else None
        self._embeddings = ensure_embeddings(index.get("embed")) if index else None
        self._fields = list((index or {}).get("fields") or ["$"])

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Read, then write; all writes are committed together."""
        batch = _OperationBatch(ops)
        vectors: dict[str, Vector] = {}
        if self._embeddings is not None:
            texts = self._texts_to_embed(batch)
            embeddings = self._embeddings.embed_documents(texts) if texts else []
            vectors |= zip(texts, embeddings, strict=True)
            vectors |= {query: self._embeddings.embed_query(query) for query in batch.queries}
        return self._database_loop.run(lambda db: self._run_batch(db, batch, self._check_dimensions(vectors)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Read, then write; all writes are committed together."""
        batch = _OperationBatch(ops)
        vectors: dict[str, Vector] = {}
        if self._embeddings is not None:
            texts = self._texts_to_embed(batch)
            vectors |= zip(
                texts, await self._embeddings.aembed_documents(texts) if texts else [], strict=True
            )
            for query in batch.queries:
                vectors[query] = await self._embeddings.aembed_query(query)
        return await self._database_loop.call(
            lambda db: self._run_batch(db, batch, self._check_dimensions(vectors))
        )

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; how many there were."""
        return self._database_loop.run(self._sweep)

    async def asweep_ttl(self) -> int:
        """Remove the items whose time is over; how many there were."""
        return await self._database_loop.call(self._sweep)

    def close(self) -> None:
        """Close the database, if it was opened here."""
        self._database_loop.close()

    async def aclose(self) -> None:
        """Close the database, if it was opened here."""
        await asyncio.to_thread(self._database_loop.close)

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

    def _texts_to_embed(self, batch: "_OperationBatch") -> list[str]:
        """Every text that has to be embedded, once."""
        texts = [text for op in batch.puts.values() for text in self._texts_of(op).values()]
        return list(dict.fromkeys(texts))

    def _texts_of(self, op: PutOp) -> dict[str, str]:
        """The texts of a value that are found by meaning, by their paths."""
        if op.value is None or op.index is False or self._embeddings is None:
            return {}
        texts_by_path: dict[str, str] = {}
        for path in self._fields if op.index is None else op.index:
            texts = get_text_at_path(op.value, "$" if path == "$" else tokenize_path(path))
            texts_by_path |= {
                f"{path}.{number}" if len(texts) > 1 else path: text for number, text in enumerate(texts)
            }
        return texts_by_path

    def _check_dimensions(self, vectors: dict[str, Vector]) -> dict[str, Vector]:
        for vector in vectors.values():
            if self._dimensions is not None and len(vector) != self._dimensions:
                raise InvalidArgument(
                    problem=f"The index has {self._dimensions} dimensions; "
                    f"a text was embedded in {len(vector)}."
                )
        return vectors

    def _now(self, db: Database) -> int:
        """The time by the clock that was given, or by the one that all who write to the database share."""
        return db.store.now() if self._clock is None else self._clock()

    # Doing.

    async def _run_batch(
        self, db: Database, batch: "_OperationBatch", vectors: Mapping[str, Vector]
    ) -> list[Result]:
        now = self._now(db)
        results: list[Result] = []
        for op in batch.ops:
            match op:
                case GetOp():
                    results.append(await self._get_item(db, op, now))
                case SearchOp():
                    results.append(await self._search(db, op, vectors, now))
                case ListNamespacesOp():
                    results.append(await self._list_namespaces(db, op, now))
                case PutOp():
                    results.append(None)
        if batch.puts:
            await db.commit([await self._write_of(db, op, vectors, now) for op in batch.puts.values()])
        return results

    async def _get_item(self, db: Database, op: GetOp, now: int) -> Item | None:
        record = await _find_record(db, op.namespace, op.key)
        if record is None or not (item := stored_item(record)).is_alive(now):
            return None
        if op.refresh_ttl:
            await self._refresh_ttl(db, [record], now)
        return langgraph_item(item)

    async def _search(
        self, db: Database, op: SearchOp, vectors: Mapping[str, Vector], now: int
    ) -> list[SearchItem]:
        end = op.offset + op.limit
        query = vectors.get(op.query) if op.query else None
        records: dict[str, Record] = {}
        async for record in _records_below(db, op.namespace_prefix):
            item = stored_item(record)
            if item.is_alive(now) and passes_filter(item.value, op.filter):
                records[record.id] = record
            if query is None and len(records) >= end:
                break
        items = [stored_item(record) for record in records.values()]
        order = rank_items(items, query) if query is not None else [(kept, None) for kept in items]
        page = order[op.offset : end]
        if op.refresh_ttl:
            ids = [record_id(kept.namespace, kept.key) for kept, _ in page]
            await self._refresh_ttl(db, [records[id] for id in ids], now)
        return [search_item(kept, score) for kept, score in page]

    async def _list_namespaces(self, db: Database, op: ListNamespacesOp, now: int) -> list[Namespace]:
        conditions = op.match_conditions or ()
        plain = [c.path for c in conditions if c.match_type == "prefix" and WILDCARD not in c.path]
        namespaces: set[Namespace] = set()
        async for record in _records_below(db, tuple(plain[0]) if plain else ()):
            item = stored_item(record)
            if item.is_alive(now) and all(matches_namespace(item.namespace, c) for c in conditions):
                namespaces.add(item.namespace[: op.max_depth] if op.max_depth is not None else item.namespace)
        return sorted(namespaces)[op.offset : op.offset + op.limit]

    async def _write_of(self, db: Database, op: PutOp, vectors: Mapping[str, Vector], now: int) -> Write:
        if op.value is None:
            return Drop(kind=KIND, id=record_id(op.namespace, op.key))
        before = await _find_record(db, op.namespace, op.key)
        old = stored_item(before) if before is not None else None
        life = _ttl_ms(op.ttl)
        item = StoredItem(
            namespace=op.namespace,
            key=op.key,
            value=dict(op.value),
            created=old.created if old is not None and old.is_alive(now) else now,
            updated=now,
            life=life,
            expires=now + life if life is not None else None,
            vectors={path: encode_vector(vectors[text]) for path, text in self._texts_of(op).items()},
        )
        return Put(record=record_of_item(item))

    async def _refresh_ttl(self, db: Database, records: Sequence[Record], now: int) -> None:
        """Let items that were read live on; one that was written meanwhile lives on as written."""
        for record in records:
            item = stored_item(record)
            if item.life is not None:
                new_item = msgspec.structs.replace(item, expires=now + item.life)
                try:
                    await db.records.put(record_of_item(new_item), expect=record.revision)
                except RevisionConflict:
                    continue

    async def _sweep(self, db: Database) -> int:
        now, count = self._now(db), 0
        async for record in _find_records(
            db, RecordQuery(kind=KIND, tags=(EXPIRING_TAG,), limit=RECORDS_PER_PAGE)
        ):
            if not stored_item(record).is_alive(now):
                try:
                    await db.records.drop(KIND, record.id, expect=record.revision)
                except RevisionConflict:
                    continue
                count += 1
        return count


class _OperationBatch:
    """Operations to be done together: of several puts of one item, the last counts."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops = list(ops)
        for op in self.ops:
            validate_op_namespace(op)
        self.puts = {(op.namespace, op.key): op for op in self.ops if isinstance(op, PutOp)}
        self.queries = {op.query for op in self.ops if isinstance(op, SearchOp) and op.query}


def _ttl_ms(minutes: float | None) -> int | None:
    """A time to live in milliseconds."""
    if minutes is not None and not 0 < minutes < MOST_MINUTES:
        raise InvalidArgument(problem=f"{minutes} minutes are no time to live.")
    return round(minutes * MINUTE_MS) if minutes is not None else None


async def _find_record(db: Database, namespace: Namespace, key: str) -> Record | None:
    try:
        return await db.records.get(KIND, record_id(namespace, key))
    except RecordNotFound:
        return None


def _records_below(db: Database, prefix: Namespace) -> AsyncIterator[Record]:
    return _find_records(db, RecordQuery(kind=KIND, tags=prefix_tags(prefix), limit=RECORDS_PER_PAGE))


async def _find_records(db: Database, query: RecordQuery) -> AsyncIterator[Record]:
    """Everything that a query finds, page by page."""
    while page := await db.records.find(query):
        for record in page:
            yield record
        if len(page) < query.limit:
            return
        query = msgspec.structs.replace(query, after=(page[-1].sort, page[-1].id))
