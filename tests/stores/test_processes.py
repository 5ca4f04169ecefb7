"""Eight processes at once: one winner for each version, none lost, none twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

import clew
from tests.stores import competing_writers as writers
from tests.stores.competing_writers import THREAD, Claim, Work, claims_at, compete, open_first
from tests.support.child_process import ChildProcess, pipe, run_in_child

pytestmark = [pytest.mark.race, pytest.mark.slow]

PROCESSES = 8


def run_all(
    url: str, amount: int, work: Work, way: Callable[..., list[Claim]] = compete
) -> list[list[Claim]]:
    """What each of eight processes was told, all begun at the same moment."""
    running = []
    for n in range(PROCESSES):
        ours, theirs = pipe()
        running.append((ChildProcess(way, url, f"writer-{n}", amount, work, theirs), ours))
        theirs.close()
    for _, start in running:
        assert start.recv() == "ready"
    for _, start in running:
        start.send("go")
    by_process = [process.result() for process, _ in running]
    for _, start in running:
        start.close()
    return by_process


async def create(url: str) -> None:
    """The thread that all will write to."""
    async with clew.open(url) as db:
        await db.create(THREAD)


class TestProcesses:
    @pytest.mark.promise("T-01", "T-02")
    def test_every_version_has_one_winner(self, shared_url: str) -> None:
        total = 160
        asyncio.run(create(shared_url))
        by_process = run_all(shared_url, total, writers.append_exactly)
        claims = sorted((one for each in by_process for one in each), key=lambda one: one.version)

        assert [one.version for one in claims] == list(range(1, total + 1))
        assert claims == run_in_child(claims_at, shared_url)
        assert sum(bool(each) for each in by_process) > 1, "only one process ever wrote"

    @pytest.mark.promise("T-02", "B-02")
    def test_writers_that_take_any_version_lose_nothing(self, shared_url: str) -> None:
        amount = 24
        asyncio.run(create(shared_url))
        by_process = run_all(shared_url, amount, writers.append_anywhere)
        claims = sorted((one for each in by_process for one in each), key=lambda one: one.version)

        assert len(claims) == amount * PROCESSES
        assert claims == run_in_child(claims_at, shared_url)

    @pytest.mark.promise("B-02")
    def test_a_key_that_all_use_at_once_commits_once(self, shared_url: str) -> None:
        amount = 24
        asyncio.run(create(shared_url))
        by_process = run_all(shared_url, amount, writers.append_shared)
        first = [one for each in by_process for one in each if not one.repeated]
        claims = {replace(one, repeated=False) for each in by_process for one in each}

        assert sorted(first, key=lambda one: one.version) == run_in_child(claims_at, shared_url)
        assert len(claims) == len(first) == amount

    @pytest.mark.promise("S-04", "T-02")
    def test_first_writers_do_not_race(self, empty_url: str) -> None:
        amount = 4
        by_process = run_all(empty_url, amount, writers.create_and_append, open_first)
        claims = [one for each in by_process for one in each]
        appends = sorted((one for one in claims if one.version), key=lambda one: one.version)

        assert sum(one.version == 0 for one in claims) == 1, "not exactly one process created the thread"
        assert len(appends) == amount * PROCESSES
        assert appends == run_in_child(claims_at, empty_url)

    @pytest.mark.promise("S-04", "T-02")
    def test_a_thread_is_created_by_one_append_only(self, shared_url: str) -> None:
        by_process = run_all(shared_url, 1, writers.append_absent, open_first)

        assert Counter(map(len, by_process)) == {0: PROCESSES - 1, 1: 1}
        assert [one for each in by_process for one in each] == run_in_child(claims_at, shared_url)
