"""The faults that a cluster has to bear, and the table of what each of them did to the load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.ha.cluster import LOOP_SECONDS, TTL_SECONDS, Cluster
from tests.support.ha.history import Operation, StoredAppend, check_history, longest_gap, longest_wait
from tests.support.ha.load import Load
from tests.support.ha.processes import ServerCommand

PAUSED_SECONDS = TTL_SECONDS + 5 * LOOP_SECONDS
"""Longer than the lease, so that there is another primary when the paused one goes on."""
GAP_SECONDS = TTL_SECONDS + 2.0
"""The longest that no append may be acknowledged."""
SILENT_SECONDS = 2.0
"""As much longer if a node is paused: before an election Patroni waits so long for that node's answer."""
BETWEEN_APPENDS = 20


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault: the server that is hit, and whether it is paused for a while or killed and started again."""

    name: str
    victim: Callable[[Cluster], ServerCommand]
    pauses: bool = False


PRIMARY_KILLED = Fault(name="primary killed", victim=Cluster.primary)
PRIMARY_PAUSED = Fault(name="primary paused, thawed", victim=Cluster.primary, pauses=True)
STANDBY_KILLED = Fault(name="synchronous standby killed", victim=Cluster.synchronous_standby)
ETCD_KILLED = Fault(name="leader of etcd killed", victim=Cluster.etcd_leader)
STANDBY_PAUSED = Fault(
    name="synchronous standby paused, thawed", victim=Cluster.synchronous_standby, pauses=True
)

SHORT = (PRIMARY_KILLED, PRIMARY_PAUSED, STANDBY_KILLED)
FULL = (PRIMARY_KILLED, STANDBY_KILLED, ETCD_KILLED, PRIMARY_PAUSED, STANDBY_PAUSED) * 4


@dataclass(frozen=True, kw_only=True)
class FaultSpan:
    """The time from a fault until all is whole again, and the longest gap that it may have."""

    name: str
    began: float
    ended: float
    most_gap: float


async def run_faults(cluster: Cluster, load: Load, faults: Sequence[Fault]) -> list[FaultSpan]:
    """Do one fault after the other, each on a cluster that is whole and has acknowledged something."""
    spans: list[FaultSpan] = []
    for fault in faults:
        await asyncio.to_thread(cluster.wait_until_whole)
        await load.progress(BETWEEN_APPENDS)
        began = time.monotonic()
        await _strike(cluster, load, fault)
        most_gap = GAP_SECONDS + (SILENT_SECONDS if fault.pauses else 0)
        spans.append(FaultSpan(name=fault.name, began=began, ended=time.monotonic(), most_gap=most_gap))
    return spans


async def _strike(cluster: Cluster, load: Load, fault: Fault) -> None:
    """Hit a server, wait until appends are acknowledged again, and bring it back."""
    victim = await asyncio.to_thread(fault.victim, cluster)
    if fault.pauses:
        await asyncio.to_thread(victim.freeze)
        await asyncio.sleep(PAUSED_SECONDS)
        await asyncio.to_thread(victim.thaw)
    else:
        await asyncio.to_thread(victim.kill)
        await load.progress(BETWEEN_APPENDS)
        await asyncio.to_thread(victim.start)
    await asyncio.to_thread(cluster.wait_until_whole)
    await load.progress(BETWEEN_APPENDS)


def report_table(
    spans: Sequence[FaultSpan], operations: Sequence[Operation], stored: Sequence[StoredAppend]
) -> str:
    """The table that `make ha` prints, in Markdown."""
    lines = [
        "| fault | acknowledged | lost | doubled | gap | longest append |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for span in spans:
        some = [one for one in operations if span.began <= one.ended <= span.ended]
        keys = {(one.thread, one.key) for one in some}
        verdict = check_history(some, [row for row in stored if (row.thread, row.key) in keys])
        gap = longest_gap(some, span.began, span.ended)
        counts = f"{verdict.acknowledged:,} | {len(verdict.lost)} | {len(verdict.doubled)}"
        lines.append(f"| {span.name} | {counts} | {gap:.1f} s | {longest_wait(some):.1f} s |")
    verdict = check_history(operations, stored)
    order = "yes" if not verdict.backward else "NO"
    lines.append(
        f"\n{len(spans)} faults: {verdict.acknowledged:,} acknowledged, {len(verdict.lost)} lost, "
        f"{len(verdict.doubled)} doubled, versions linearisable: {order}"
    )
    return "\n".join(lines)
