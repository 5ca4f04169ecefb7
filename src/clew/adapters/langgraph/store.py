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

from clew.adapters.langgraph.event_loop import Line
from clew.adapters.langgraph.layout import digest
from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument, RecordNotFound, RevisionConflict
from clew.core.values import Drop, Put, Record, RecordQuery, Write
from clew.database.database import Database

KIND: Final = "langgraph.item"
EXPIRING: Final = "expiring"
MINUTE: Final = 60_000
WILDCARD: Final = "*"

Namespace = tuple[str, ...]
Vector = Sequence[float]


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
        """Whether it has not expired."""
        return self.expires is None or self.expires > now


def record_id(namespace: Namespace, key: str) -> str:
    """The id of an item's record."""
    return digest(*namespace, key)


def prefix_tags(prefix: Namespace) -> tuple[str, ...]:
    """The tag that all items below a namespace share; none for the root, below which everything is."""
    return (f"below {digest(*prefix)}",) if prefix else ()


def record_of(item: Kept) -> Record:
    """The record of an item: found below each of its namespaces, in the order items were made."""
    tags = [tag for length in range(len(item.namespace)) for tag in prefix_tags(item.namespace[: length + 1])]
    if item.expires is not None:
        tags.append(EXPIRING)
    body = msgspec.to_builtins(msgspec.structs.replace(item, value={}))
    # As it was given: what is not JSON is refused by its path.
    body |= {"namespace": list(item.namespace), "value": item.value}
    return Record(
        kind=KIND, id=record_id(item.namespace, item.key), body=body, tags=tuple(tags), sort=item.created
    )


def kept_in(record: Record) -> Kept:
    """The item that a record keeps."""
    return msgspec.convert(record.body, Kept)


def item_of(kept: Kept) -> Item:
    """An item as LangGraph gets it."""
    return Item(
        value=kept.value,
        key=kept.key,
        namespace=kept.namespace,
        created_at=_time(kept.created),
        updated_at=_time(kept.updated),
    )


def found_of(kept: Kept, score: float | None) -> SearchItem:
    """An item as a search gives it."""
    return SearchItem(
        namespace=kept.namespace,
        key=kept.key,
        value=kept.value,
        created_at=_time(kept.created),
        updated_at=_time(kept.updated),
        score=score,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


# Filters.


def passes(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether a value has what a filter asks for."""
    return all(_equals(value.get(name), wanted) for name, wanted in (filter or {}).items())


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(str(name).startswith("$") for name in wanted):
            return all(_compares(value, operator, against) for operator, against in wanted.items())
        return isinstance(value, dict) and all(
            _equals(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_equals(part, other) for part, other in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _compares(value: Any, operator: str, against: Any) -> bool:
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


def matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as a condition says."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(wanted in (WILDCARD, label) for label, wanted in zip(part, path, strict=True))


# Vectors.


def packed(vector: Vector) -> str:
    """A vector as text: single precision, which is more than embeddings mean."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def unpacked(text: str) -> Vector:
    """The vector behind a text."""
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)


def ranked(found: Sequence[Kept], query: Vector) -> list[tuple[Kept, float | None]]:
    """Items by the nearest of their vectors; those without any come last."""
    scored = [
        (kept, max(cosine(query, unpacked(text)) for text in kept.vectors.values()))
        for kept in found
        if kept.vectors
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [*scored, *((kept, None) for kept in found if not kept.vectors)]


def cosine(one: Vector, other: Vector) -> float:
    """How alike two vectors point: 1 the same way, 0 if one of them is nothing."""
    length = math.hypot(*one) * math.hypot(*other)
    return sum(left * right for left, right in zip(one, other, strict=True)) / length if length else 0.0


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
        if record is None or not (kept := kept_in(record)).is_alive(now):
            return None
        if op.refresh_ttl:
            await self._refresh(db, [record], now)
        return item_of(kept)

    async def _search(
        self, db: Database, op: SearchOp, vectors: Mapping[str, Vector], now: int
    ) -> list[SearchItem]:
        wanted = op.offset + op.limit
        query = vectors.get(op.query) if op.query else None
        found: dict[str, Record] = {}
        async for record in _below(db, op.namespace_prefix):
            kept = kept_in(record)
            if kept.is_alive(now) and passes(kept.value, op.filter):
                found[record.id] = record
            if query is None and len(found) >= wanted:
                break
        items = [kept_in(record) for record in found.values()]
        order = ranked(items, query) if query is not None else [(kept, None) for kept in items]
        page = order[op.offset : wanted]
        if op.refresh_ttl:
            seen = [record_id(kept.namespace, kept.key) for kept, _ in page]
            await self._refresh(db, [found[id] for id in seen], now)
        return [found_of(kept, score) for kept, score in page]

    async def _list(self, db: Database, op: ListNamespacesOp, now: int) -> list[Namespace]:
        conditions = op.match_conditions or ()
        plain = [c.path for c in conditions if c.match_type == "prefix" and WILDCARD not in c.path]
        found: set[Namespace] = set()
        async for record in _below(db, tuple(plain[0]) if plain else ()):
            kept = kept_in(record)
            if kept.is_alive(now) and all(matches(kept.namespace, c) for c in conditions):
                found.add(kept.namespace[: op.max_depth] if op.max_depth is not None else kept.namespace)
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _write(self, db: Database, op: PutOp, vectors: Mapping[str, Vector], now: int) -> Write:
        if op.value is None:
            return Drop(kind=KIND, id=record_id(op.namespace, op.key))
        before = await _record(db, op.namespace, op.key)
        old = kept_in(before) if before is not None else None
        life = _life(op.ttl)
        kept = Kept(
            namespace=op.namespace,
            key=op.key,
            value=dict(op.value),
            created=old.created if old is not None and old.is_alive(now) else now,
            updated=now,
            life=life,
            expires=now + life if life is not None else None,
            vectors={path: packed(vectors[text]) for path, text in self._texts_of(op).items()},
        )
        return Put(record=record_of(kept))

    async def _refresh(self, db: Database, records: Sequence[Record], now: int) -> None:
        """Let items that were read live on; one that was written meanwhile lives on as written."""
        for record in records:
            kept = kept_in(record)
            if kept.life is not None:
                longer = msgspec.structs.replace(kept, expires=now + kept.life)
                try:
                    await db.records.put(record_of(longer), expect=record.revision)
                except RevisionConflict:
                    continue

    async def _sweep(self, db: Database) -> int:
        now, gone = self._now(db), 0
        async for record in _found(db, RecordQuery(kind=KIND, tags=(EXPIRING,), limit=PAGE)):
            if not kept_in(record).is_alive(now):
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
        return await db.records.get(KIND, record_id(namespace, key))
    except RecordNotFound:
        return None


def _below(db: Database, prefix: Namespace) -> AsyncIterator[Record]:
    return _found(db, RecordQuery(kind=KIND, tags=prefix_tags(prefix), limit=PAGE))


async def _found(db: Database, query: RecordQuery) -> AsyncIterator[Record]:
    """Everything that a query finds, page by page."""
    while page := await db.records.find(query):
        for record in page:
            yield record
        if len(page) < query.limit:
            return
        query = msgspec.structs.replace(query, after=(page[-1].sort, page[-1].id))
