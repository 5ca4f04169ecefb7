"""The first changeset of a turn: what an earlier run left is cleaned away, and the new run is named."""

from collections.abc import Mapping, Sequence

from clew.core.encoding import JSON
from clew.core.ops import Document
from clew.core.values import Changeset, Head, Item
from clew.runtime.records.runs import Run
from clew.runtime.state.run_state import RunState
from clew.runtime.state.schema import Schema
from clew.runtime.state.thread_agent import agent_ops
from clew.runtime.state.upgrades import Upgrade, check_not_newer, replacement_state, upgrade_ops

INTERRUPTED_CALLS = "The run was interrupted before the tool answered."


def build_inbound(
    head: Head | None,
    run: Run,
    items: Sequence[Item],
    *,
    inputs: Mapping[str, JSON],
    stage: str | None = None,
    agent: str,
    replace: Document | None,
    schema: Schema,
    upgrades: Mapping[int, Upgrade],
) -> Changeset:
    """Build the first changeset of a run: upgrades, clean-up, the run itself, repairs, and its items.

    The first run on a thread names its agent.

    Raises:
        NewerSchema: A newer program wrote the state; it is left as it is.
    """
    before = head.state if head is not None else {}
    check_not_newer(run.thread, before, schema)
    snapshot = None if replace is None else replacement_state(replace, before, schema)
    base = before if snapshot is None else snapshot
    open_calls = head.counters.open if head is not None else {}
    # Which of the open calls are in doubt is known to the state before, also where another replaces it.
    run_state = RunState.of(before)
    repairs = run_state.closing_items(open_calls, INTERRUPTED_CALLS)
    if snapshot is not None:
        run_state = RunState.of(snapshot)
    return Changeset(
        items=(*repairs, *items),
        patches=(
            *upgrade_ops(run.thread, base, schema, upgrades),
            *agent_ops(head, agent),
            *run_state.start_ops(run, inputs, stage),
        ),
        snapshot=snapshot,
        run_id=run.id,
        parent_run_id=run.parent,
    )
