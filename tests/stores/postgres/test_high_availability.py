"""PostgreSQL under Patroni while its servers are killed and paused, as ``make ha`` runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import clew
from tests.support.ha.cluster import Cluster
from tests.support.ha.faults import FULL, SHORT, report_table, run_faults
from tests.support.ha.history import check_history, longest_gap
from tests.support.ha.load import Load, read_appends

pytestmark = [pytest.mark.ha, pytest.mark.promise("B-18")]

LINES_PER_FAULT = 4
"""Two from each pool: the server is away, the server is back."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that is whole."""
    with Cluster() as cluster:
        yield cluster


class TestCluster:
    store_name = "postgres"

    @pytest.mark.timeout(3000)
    async def test_faults_under_load_lose_and_double_nothing(
        self, cluster: Cluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        async with clew.open(cluster.url) as first, clew.open(cluster.url) as second:
            load = Load([first, second])
            await load.start()
            spans = await run_faults(cluster, load, SHORT if os.environ.get("SHORT") else FULL)
            await load.stop()
            stored = await read_appends(first, load.names())
        verdict = check_history(load.operations, stored)
        failures = ", ".join(f"{count} × {code}" for code, count in sorted(load.failures.items()))
        with capsys.disabled():
            print(f"\n{report_table(spans, load.operations, stored)}")  # noqa: T201
            print(f"Answered otherwise: {failures}. Lines in the log: {len(caplog.records)}.")  # noqa: T201
        gaps = [
            (span.name, longest_gap(load.operations, span.began, span.ended), span.most_gap) for span in spans
        ]

        assert verdict.is_sound
        assert len(caplog.records) <= LINES_PER_FAULT * len(spans)
        assert [gap for gap in gaps if gap[1] > gap[2]] == []
