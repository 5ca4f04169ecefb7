"""What tools did to the world between two versions of a thread: a rewind or a fork does not undo it."""

from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec

from clew.core import ops
from clew.core.arguments import check_arguments
from clew.core.encoding import JSON
from clew.core.ops import Document
from clew.core.values import Changeset
from clew.database.thread import CHANGESETS_PER_PAGE, Thread
from clew.runtime.model.messages import REPAIR, RESULT
from clew.runtime.turn.approvals import SUSPENDED, CallState, UseResult, call_states_of
from clew.runtime.turn.draft import CALLS


class ExternalEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A call that touched the world, or may have.

    ``version`` is where its result was kept. If it is ``in_doubt`` there is no output: its result was never
    kept, and ``version`` is where it was given up, or 0 while it is open.
    """

    tool: str
    call: str
    key: str
    run: str | None
    version: int = 0
    output: JSON = None
    in_doubt: bool = False


@check_arguments
async def external_effects(
    thread: Thread, *, after: int = 0, upto: int | None = None
) -> list[ExternalEffect]:
    """What calls did that were answered, given up or left open after a version, oldest first.

    It reads the changesets between the two versions.
    """
    calls: Document = {CALLS: (await thread.state(at=after)).get(CALLS, {})} if after else {}
    effects: list[ExternalEffect] = []
    run: str | None = None
    async for change in _changes(thread, after, upto):
        effects += _effects_in(change, call_states_of(calls))
        calls, run = _calls_after(calls, change), change.run_id or run
    doubtful = {call: entry for call, entry in call_states_of(calls).items() if entry.in_doubt}
    return [*effects, *(_doubtful_effect(call, entry, run, 0) for call, entry in doubtful.items())]


async def _changes(thread: Thread, after: int, upto: int | None) -> AsyncIterator[Changeset]:
    while changes := await thread.changesets(after=after, upto=upto, limit=CHANGESETS_PER_PAGE):
        for change in changes:
            yield change
        after = changes[-1].version


def _effects_in(change: Changeset, call_states: Mapping[str, CallState]) -> Iterator[ExternalEffect]:
    """The effects of calls that end in a changeset, as the state before it knows them."""
    for item in change.items:
        if item.kind == RESULT and item.call is not None and item.call in call_states:
            entry = call_states[item.call]
            if entry.key is not None and _was_called(entry):
                yield ExternalEffect(
                    tool=entry.tool,
                    call=item.call,
                    key=entry.key,
                    run=item.run,
                    version=change.version,
                    output=item.body.get("output") if isinstance(item.body, dict) else None,
                )
        elif item.kind == REPAIR:
            runs = item.body.get("calls", {}) if isinstance(item.body, dict) else {}
            for call, entry in call_states.items():
                if entry.in_doubt:
                    yield _doubtful_effect(call, entry, runs.get(call), change.version)


def _was_called(entry: CallState) -> bool:
    return entry.status != SUSPENDED and not isinstance(entry.decision, UseResult)


def _doubtful_effect(call: str, entry: CallState, run: str | None, version: int) -> ExternalEffect:
    key = entry.key or ""
    return ExternalEffect(tool=entry.tool, call=call, key=key, run=run, version=version, in_doubt=True)


def _calls_after(calls: Document, change: Changeset) -> Document:
    """What the state knows of calls after a changeset."""
    if change.snapshot is not None:
        calls = {CALLS: change.snapshot.get(CALLS, {})}
    return ops.apply_ops(calls, [op for op in change.patches if op.path[:1] == (CALLS,)])
