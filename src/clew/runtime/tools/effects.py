"""The ledger of effects: what tools did to the world, which a rewind or a fork does not undo."""

from collections.abc import Iterator, Mapping

from clew.core.arguments import check_arguments
from clew.core.values import Changeset
from clew.database.thread import Thread, changesets_after
from clew.runtime.model.messages import REPAIR, RESULT
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.state.call_state import CallState
from clew.runtime.state.run_state import RunState, calls_after, calls_of


@check_arguments
async def external_effects(
    thread: Thread, *, after: int = 0, upto: int | None = None
) -> list[ExternalEffect]:
    """Return the effects of calls that were answered, closed or left open after a version, oldest first.

    It reads the changesets between the two versions.
    """
    calls = calls_of(await thread.state(at=after)) if after else calls_of({})
    effects: list[ExternalEffect] = []
    run: str | None = None
    async for change in changesets_after(thread, after, upto=upto):
        effects += _effects_in(change, RunState.of(calls).calls)
        calls, run = calls_after(calls, change), change.run_id or run
    doubtful = {call: entry for call, entry in RunState.of(calls).calls.items() if entry.in_doubt}
    return [*effects, *(_doubtful_effect(call, entry, run, 0) for call, entry in doubtful.items())]


def _effects_in(change: Changeset, call_states: Mapping[str, CallState]) -> Iterator[ExternalEffect]:
    """Yield the effects of calls that end in a changeset; ``call_states`` is from the state before it."""
    for item in change.items:
        if item.kind == RESULT and item.call is not None and item.call in call_states:
            entry = call_states[item.call]
            if entry.key is not None and entry.was_called:
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


def _doubtful_effect(call: str, entry: CallState, run: str | None, version: int) -> ExternalEffect:
    key = entry.key or ""
    return ExternalEffect(tool=entry.tool, call=call, key=key, run=run, version=version, in_doubt=True)
