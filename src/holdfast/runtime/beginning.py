"""How a turn begins: what is cleaned away, what comes in, and who holds the thread from then on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.core import making, ops
from holdfast.core.encoding import JSON
from holdfast.core.errors import NewerSchema
from holdfast.core.items import repair
from holdfast.core.ops import Document, Op
from holdfast.core.values import ABOUT, Head, Item
from holdfast.runtime.draft import CALLS, RUN
from holdfast.runtime.runs import DONE, RUNNING, Run
from holdfast.runtime.suspension import doubtful

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
Upgrades: TypeAlias = Mapping[int, Upgrade]

SCHEMA = "schema"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a thread's state names, and how far it came."""

    id: str = ""
    epoch: int = 1
    status: str = DONE
    stage: int = 0
    inputs: dict[str, JSON] = {}


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


def inbound(
    head: Head | None,
    run: Run,
    items: Sequence[Item],
    *,
    inputs: Mapping[str, JSON],
    replace: Document | None,
    version: int,
    upgrades: Upgrades,
) -> Inbound:
    """The first changeset: what an earlier run left is cleaned, then the run is marked, then the items.

    Raises:
        NewerSchema: A newer program wrote the state; it is left as it is.
    """
    before = head.state if head is not None else {}
    snapshot = None if replace is None else {**replace, **{k: before[k] for k in (ABOUT,) if k in before}}
    base = before if snapshot is None else snapshot
    patches = [*_upgraded(run.thread, before, base, version, upgrades), *_cleaned(base)]
    patches.append(making.set([RUN], _marked(run, inputs)))
    open = head.counters.open if head is not None else {}
    broken = [_closing(open, doubtful(before))] if open else []
    return Inbound(
        items=(*broken, *items),
        patches=tuple(patches),
        snapshot=snapshot,
        state=ops.apply(base, patches),
    )


def _marked(run: Run, inputs: Mapping[str, JSON]) -> Document:
    """What the state says of a run that begins: enough to go on with it in another process."""
    marked: Document = {"id": run.id, "epoch": run.epoch, "status": RUNNING}
    return {**marked, "inputs": dict(inputs)} if inputs else marked


def _closing(open: dict[str, str | None], in_doubt: Sequence[str]) -> Item:
    reason = "The run was interrupted before the tool answered."
    if in_doubt:
        reason += f" Whether it had its effect is not known: {', '.join(in_doubt)}."
    return repair(open, reason)


def _cleaned(state: Document) -> list[Op]:
    return [making.delete([key]) for key in (RUN, CALLS) if key in state]


def _upgraded(thread: str, stored: Document, state: Document, version: int, upgrades: Upgrades) -> list[Op]:
    """The ops that bring an older state up to this program's schema."""
    about = stored.get(ABOUT)
    found = about.get(SCHEMA) if isinstance(about, dict) else None
    if found is None and not stored:
        found = version
        return [making.set([ABOUT, SCHEMA], version)]
    found = int(found or 1)
    if found > version:
        raise NewerSchema(thread=thread, found=found, known=version)
    if found == version:
        return []
    new: dict[str, JSON] = dict(state)
    for number in range(found, version):
        if number in upgrades:
            new = upgrades[number](new)
    return [*ops.diff(state, new), making.set([ABOUT, SCHEMA], version)]
