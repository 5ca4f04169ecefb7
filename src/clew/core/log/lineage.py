"""How threads begin, branch off and end: planned here, applied by each store."""

from clew.core.errors import ThreadExists
from clew.core.log import chain
from clew.core.log.commit import Known, Plan, Setting, misplaced, new_thread, titled
from clew.core.log.holds import free
from clew.core.log.owners import check_named_owner
from clew.core.log.reader import check_version, reach, read_mark, read_state, read_thread, spans
from clew.core.log.rows import (
    AddThread,
    Asking,
    AskThread,
    CopyLineage,
    DropThread,
    Effect,
    Key,
    Segment,
    ThreadRow,
    ask,
)
from clew.core.values import Expect

MAX_DEPTH = 16


def plan_create(id: str, owner: str | None, setting: Setting) -> Asking[Plan]:
    """A new thread at version 0."""
    found = yield from ask(AskThread(id))
    if found is not None:
        raise ThreadExists(thread=id)
    row = new_thread(id, owner, setting)
    return Plan(effects=[AddThread(row)], results=[], known={id: Known(row, {})})


def plan_fork(id: str, new_id: str, at: int | None, setting: Setting) -> Asking[Plan]:
    """A new thread that stands on another's versions, without copying them."""
    source = yield from read_thread(id)
    check_named_owner(new_id, source.owner)
    taken = yield from ask(AskThread(new_id))
    if taken is not None:
        raise ThreadExists(thread=new_id)
    version = check_version(source, at)
    segments = tuple(
        Segment(segment.key, upto, segment.id, segment.owner, segment.created)
        for segment, after, upto in spans(source, version)
        if upto > after or not after
    )
    hash, counters, _ = yield from read_mark(source, version)
    key = setting.new_key()
    own = Segment(key, version, new_id, source.owner, setting.now)
    lineage = reach(source, version)
    deep = len(lineage) > MAX_DEPTH
    row = ThreadRow(
        key=key,
        id=new_id,
        owner=source.owner,
        created=setting.now,
        updated=setting.now,
        version=version,
        hash=chain.start_of(own, segments[-1], hash),
        counters=counters,
        segments=tuple(_moved(segment, key) for segment in segments) if deep else segments,
        parent_key=None if deep else segments[-1].key,
        title=source.title,
        labels=source.labels,
    )
    if version < source.version and (source.title is not None or source.labels):
        state = yield from read_state(source, version)
        row = titled(row, state)
    sources = tuple(segment for segment in segments if segment.upto == lineage[segment.key])
    copies: list[Effect] = [CopyLineage(key=key, owner=source.owner, segments=sources)] if deep else []
    return Plan(effects=[AddThread(row), *copies], results=[], known={new_id: Known(row)})


def _moved(segment: Segment, key: Key) -> Segment:
    return Segment(key, segment.upto, segment.id, segment.owner, segment.created)


def plan_delete(id: str, expect: Expect) -> Asking[Plan]:
    """The end of a thread, if it is where it is expected and not held; forks of it stay whole."""
    row = yield from read_thread(id)
    conflict = misplaced(row, expect)
    if conflict is not None:
        raise conflict
    guards = yield from free(row)
    return Plan(effects=[*guards, DropThread(row=row)], results=[], known={id: None})
