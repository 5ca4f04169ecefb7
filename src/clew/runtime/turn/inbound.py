"""How a turn begins: what is cleaned away, what comes in, and who holds the thread from then on."""

from collections.abc import Mapping, Sequence

import msgspec

from clew.core import ops, patch
from clew.core.encoding import JSON
from clew.core.ops import Document, Op
from clew.core.values import Head, Item
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import DONE, Run
from clew.runtime.state.schema import Schema
from clew.runtime.state.upgrades import Upgrades, check_not_newer, replacement_state, upgrade_ops
from clew.runtime.turn.approvals import closing_item
from clew.runtime.turn.draft import CALLS, RUN


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a thread's state names, and how far it came."""

    id: str = ""
    epoch: int = 1
    status: str = DONE
    stage: str | int | None = None
    inputs: dict[str, JSON] = {}
    usage: Usage = Usage()


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """What the first changeset of a turn holds."""

    items: tuple[Item, ...]
    patches: tuple[Op, ...]
    snapshot: Document | None
    state: Document


def run_state_of(state: Document) -> RunState:
    """Which run the state names."""
    document = state.get(RUN)
    return msgspec.convert(document, RunState) if isinstance(document, dict) else RunState()


def with_latest_usage(run: Run, run_state: RunState) -> Run:
    """A run with all that it has cost: its record may be older than its last checkpoint."""
    if run_state.id != run.id or run_state.usage.calls <= run.usage.calls:
        return run
    return msgspec.structs.replace(run, usage=run_state.usage)


def build_inbound(
    head: Head | None,
    run: Run,
    items: Sequence[Item],
    *,
    inputs: Mapping[str, JSON],
    stage: str | None = None,
    replace: Document | None,
    schema: Schema,
    upgrades: Upgrades,
) -> Inbound:
    """The first changeset: what an earlier run left is cleaned, then the run is marked, then the items.

    Raises:
        NewerSchema: A newer program wrote the state; it is left as it is.
    """
    before = head.state if head is not None else {}
    check_not_newer(run.thread, before, schema)
    snapshot = None if replace is None else replacement_state(replace, before, schema)
    base = before if snapshot is None else snapshot
    patches = [*upgrade_ops(run.thread, base, schema, upgrades), *_cleanup_ops(base)]
    patches.append(patch.set([RUN], _run_document(run, inputs, stage)))
    open_calls = head.counters.open if head is not None else {}
    repairs = (
        [closing_item(open_calls, before, "The run was interrupted before the tool answered.")]
        if open_calls
        else []
    )
    return Inbound(
        items=(*repairs, *items),
        patches=tuple(patches),
        snapshot=snapshot,
        state=ops.apply_ops(base, patches),
    )


def _run_document(run: Run, inputs: Mapping[str, JSON], stage: str | None) -> Document:
    """What the state says of a run that begins: enough to go on with it in another process."""
    document: Document = {"id": run.id, "epoch": run.epoch, "status": run.status}
    if stage is not None:
        document["stage"] = stage
    return {**document, "inputs": dict(inputs)} if inputs else document


def _cleanup_ops(state: Document) -> list[Op]:
    return [patch.delete([key]) for key in (RUN, CALLS) if key in state]
