"""Creation, forks and deletion of threads: planned here, applied by each store."""

import msgspec

from clew.core.errors import ThreadExists
from clew.core.log import chain
from clew.core.log.commit import Plan, PlanContext, ThreadHead, new_thread_row, version_conflict, with_title
from clew.core.log.holds import read_hold_guards
from clew.core.log.owners import check_named_owner, memory_thread_id
from clew.core.log.reader import (
    check_version,
    read_state,
    read_thread,
    read_version_facts,
    upto_by_key,
    version_spans,
)
from clew.core.log.rows import (
    AddThread,
    AskRecord,
    AskThread,
    CopyLineage,
    DropRecord,
    DropThread,
    Segment,
    StoreRead,
    StoreWrite,
    ThreadRow,
    ask,
)
from clew.core.values import ACTIVE_EPISODE_KIND, Expectation

MAX_DEPTH = 16


def plan_create(id: str, owner: str | None, context: PlanContext) -> StoreRead[Plan]:
    """Plan a new thread at version 0."""
    existing = yield from ask(AskThread(id))
    if existing is not None:
        raise ThreadExists(thread=id)
    row = new_thread_row(id, owner, context)
    return Plan(writes=[AddThread(row)], heads={id: ThreadHead(row, {})})


def plan_fork(id: str, new_id: str, at: int | None, context: PlanContext) -> StoreRead[Plan]:
    """Plan a new thread on another's versions, without copying them."""
    source = yield from read_thread(id)
    check_named_owner(new_id, source.owner)
    existing = yield from ask(AskThread(new_id))
    if existing is not None:
        raise ThreadExists(thread=new_id)
    version = check_version(source, at)
    segments = tuple(
        msgspec.structs.replace(segment, upto=upto)
        for segment, after, upto in version_spans(source, version)
        # A fork at an inherited version belongs to the ancestor that holds it, so forks that never
        # wrote anything make no lineage deeper.
        if upto > after or not after
    )
    hash, counters, _ = yield from read_version_facts(source, version)
    key = context.new_key()
    own_segment = Segment(key, version, new_id, source.owner, context.now)
    lineage = upto_by_key(source, version)
    is_deep = len(lineage) > MAX_DEPTH
    row = ThreadRow(
        key=key,
        id=new_id,
        owner=source.owner,
        created=context.now,
        updated=context.now,
        version=version,
        hash=chain.start_hash(own_segment, segments[-1], hash),
        counters=counters,
        segments=tuple(msgspec.structs.replace(segment, key=key) for segment in segments)
        if is_deep
        else segments,
        parent_key=None if is_deep else segments[-1].key,
        title=source.title,
        labels=source.labels,
    )
    if version < source.version and (source.title is not None or source.labels):
        state = yield from read_state(source, version)
        row = with_title(row, state)
    sources = tuple(segment for segment in segments if segment.upto == lineage[segment.key])
    # Copied once under the new key, a deep lineage is shallow again: a window asks few keys for rows.
    copies: list[StoreWrite] = [CopyLineage(key=key, owner=source.owner, segments=sources)] if is_deep else []
    return Plan(writes=[AddThread(row), *copies], heads={new_id: ThreadHead(row)})


def plan_delete(id: str, expect: Expectation) -> StoreRead[Plan]:
    """Plan to delete a thread, if it is where it is expected and not held; forks of it stay whole.

    The memory of a thread without a user goes with it, and the episode with what it noted for that memory:
    another thread of this id would know what was said in it.
    """
    row = yield from read_thread(id)
    conflict = version_conflict(row, expect)
    if conflict is not None:
        raise conflict
    rows = [row]
    memory = yield from ask(AskThread(memory_thread_id(id, of_thread=True)))
    if memory is not None and memory.owner == row.owner:
        rows.append(memory)
    writes: list[StoreWrite] = []
    for each in rows:
        guards = yield from read_hold_guards(each)
        writes += [*guards, DropThread(row=each)]
    episode = None if row.owner is not None else (yield from ask(AskRecord(ACTIVE_EPISODE_KIND, id)))
    if episode is not None:
        writes.append(DropRecord(kind=episode.kind, id=episode.id, before=episode.revision))
    return Plan(writes=writes, heads={each.id: None for each in rows})
