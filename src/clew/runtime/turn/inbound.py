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
from clew.runtime.state.upgrades import Upgrades, check_known, replaced, upgraded
from clew.runtime.turn.approvals import closing
from clew.runtime.turn.draft import CALLS, RUN


class Standing(msgspec.Struct, frozen=True, kw_only=True):
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


def standing(state: Document) -> Standing:
    """Which run the state names."""
    found = state.get(RUN)
    return msgspec.convert(found, Standing) if isinstance(found, dict) else Standing()


def spent(run: Run, now: Standing) -> Run:
    """A run with all that it has cost: its record may be older than its last checkpoint."""
    if now.id != run.id or now.usage.calls <= run.usage.calls:
        return run
    return msgspec.structs.replace(run, usage=now.usage)


def inbound(
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
    check_known(run.thread, before, schema)
    snapshot = None if replace is None else replaced(replace, before, schema)
    base = before if snapshot is None else snapshot
    patches = [*upgraded(run.thread, base, schema, upgrades), *_cleaned(base)]
    patches.append(patch.set([RUN], _marked(run, inputs, stage)))
    open = head.counters.open if head is not None else {}
    broken = [closing(open, before, "The run was interrupted before the tool answered.")] if open else []
    return Inbound(
        items=(*broken, *items),
        patches=tuple(patches),
        snapshot=snapshot,
        state=ops.apply(base, patches),
    )


def _marked(run: Run, inputs: Mapping[str, JSON], stage: str | None) -> Document:
    """What the state says of a run that begins: enough to go on with it in another process."""
    marked: Document = {"id": run.id, "epoch": run.epoch, "status": run.status}
    if stage is not None:
        marked["stage"] = stage
    return {**marked, "inputs": dict(inputs)} if inputs else marked


def _cleaned(state: Document) -> list[Op]:
    return [patch.delete([key]) for key in (RUN, CALLS) if key in state]
