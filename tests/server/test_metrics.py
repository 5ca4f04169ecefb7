"""Metrics: what is counted, by which names, and that the workers of one server give one sum."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import httpx
import psutil
import pytest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.parser import text_string_to_metric_families

import clew
from clew.api.route import API_PREFIX
from clew.api.threads import NewItem
from clew.core.errors import VersionConflict
from clew.runtime.telemetry.observer import CommitEnd, JobEnd, StepEnd, TurnEnd
from clew.server.metrics import DIRECTORY_VARIABLE, MOST_VALUES, LabelBound, Metrics, forget_dead_workers
from tests.cli.commands.test_serve import command, free_port
from tests.server.conftest import Users, clients_of
from tests.server.http.test_sse import client_at, up
from tests.server.metered_agent import make_runtime

Numbers: TypeAlias = Mapping[tuple[str, tuple[str, ...]], float]
"""The value of each sample by its name and the values of its labels, in the order of the labels' names."""
PAGE = Path(__file__).parents[2] / "docs/how-to/observe.md"


def numbers_of(text: str) -> Numbers:
    """The samples of a text."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def numbers_at(address: str) -> Numbers:
    """The metrics of a server, over a connection of its own, so that any worker may answer."""
    async with httpx.AsyncClient() as http:
        return numbers_of((await http.get(f"{address}{API_PREFIX}/metrics")).text)


async def run_turn_at(address: str, thread: str) -> None:
    """Run a turn over a connection of its own."""
    async with client_at(address) as alice:
        await alice.run_turn(thread, "hi")


def workers_of(parent: int) -> list[psutil.Process]:
    """The workers of a server: those of its children that serve."""
    children = [each for each in psutil.Process(parent).children() if each.status() != psutil.STATUS_ZOMBIE]
    return [child for child in children if any("spawn_main" in part for part in child.cmdline())]


def is_counter(name: str) -> bool:
    """Whether a sample may only grow."""
    return name.endswith(("_total", "_count", "_bucket", "_sum"))


def turns_in(directory: Path, worker: int) -> float:
    """The turns that one worker has counted."""
    file = directory / f"counter_{worker}.db"
    if not file.exists():
        return 0.0
    values = MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]  # it has no types
    return sum(float(value) for key, value, *_ in values if "clew_turns_total" in key)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.promise("B-19")
async def test_whichever_worker_is_asked_gives_the_sum_also_after_one_was_killed(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{(port := free_port())}"
    options = ["--db", f"sqlite:///{tmp_path}/a.db", "--port", str(port), "--workers", "2"]
    with command(*options, "--agent", "tests.server.metered_agent:make_runtime") as server:
        await up(address)
        async with asyncio.timeout(60):
            while len(workers := workers_of(server.pid)) < 2:  # noqa: ASYNC110  # no event tells of a start
                await asyncio.sleep(0.05)
        directory = Path(workers[0].environ()[DIRECTORY_VARIABLE])
        turns = 0
        while turns < 6 or not all(turns_in(directory, worker.pid) for worker in workers):
            await run_turn_at(address, f"t{turns}")
            turns += 1
        before = [await numbers_at(address) for _ in range(6)]
        async with AsyncExitStack() as stack:
            for _ in range(6):
                http = await stack.enter_async_context(httpx.AsyncClient())
                await stack.enter_async_context(
                    http.stream("GET", f"{address}{API_PREFIX}/threads/t0/events")
                )
            open_streams = {(await numbers_at(address))[("clew_streams_open", ())] for _ in range(4)}
            os.kill(workers[0].pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while {worker.pid for worker in workers_of(server.pid)} & {workers[0].pid}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await up(address)
            while (await numbers_at(address))[("clew_streams_open", ())]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await run_turn_at(address, "after")
        after = [await numbers_at(address) for _ in range(6)]

    turn, tool = (
        ("clew_turns_total", ("desk", "natural")),
        ("clew_tool_calls_total", ("desk", "ok", "look_up")),
    )
    model = ("clew_model_calls_total", ("desk", "acme:talker", "ok"))
    assert {(each[turn], each[tool], each[model]) for each in before} == {(turns, turns, 2 * turns)}
    assert {(each[turn], each[tool], each[model]) for each in after} == {
        (turns + 1, turns + 1, 2 * turns + 2)
    }
    assert open_streams == {6.0}
    assert [name for name, value in before[0].items() if is_counter(name[0]) and after[0][name] < value] == []
    assert not os.path.exists(directory)  # noqa: ASYNC240, PTH110  # the server is gone, and nothing waits


@pytest.mark.promise("B-19")
async def test_a_turn_is_counted_with_its_calls_tokens_cost_and_appends(db: clew.Database) -> None:
    async with clients_of(db, make_runtime=make_runtime) as users:
        await users().run_turn("t", "hi")
        numbers = numbers_of((await users().metrics()).decode())

    turn = "clew_turn_seconds_count", ("desk",)
    tokens = {key[1]: value for key, value in numbers.items() if key[0] == "clew_model_tokens_total"}
    assert numbers["clew_turns_total", ("desk", "natural")] == numbers[turn] == 1
    assert numbers["clew_model_calls_total", ("desk", "acme:talker", "ok")] == 2
    assert tokens == {("desk", "input", "acme:talker"): 20, ("desk", "output", "acme:talker"): 10}
    assert numbers["clew_model_cost_dollars_total", ("desk", "acme:talker")] == pytest.approx(40 / 1_000_000)
    assert numbers["clew_tool_calls_total", ("desk", "ok", "look_up")] == 1
    assert numbers["clew_recalls_total", ("desk", "ok")] == 1
    assert numbers["clew_commits_total", ("desk", "ok")] == 4
    assert numbers["clew_appends_total", ("runtime",)] == 5
    assert numbers["clew_tenants_open", ()] >= 1


@pytest.mark.promise("B-19")
async def test_appends_and_conflicts_of_requests_are_counted(users: Users) -> None:
    await users().create_thread("t")
    await users().append("t", items=[NewItem(body={"content": "one"})])
    with pytest.raises(VersionConflict):
        await users().append("t", items=[NewItem(body={"content": "two"})], expect=0)
    numbers = numbers_of((await users().metrics()).decode())

    assert numbers["clew_appends_total", ("request",)] == 1
    assert numbers["clew_conflicts_total", ("request",)] == 1


@pytest.mark.promise("B-19")
async def test_no_id_of_a_thread_or_a_user_is_a_label(users: Users) -> None:
    await users("alice-7").run_turn("thread-7", "hi")
    await users("alice-7").items("thread-7")
    text = (await users().metrics()).decode()

    assert "alice-7" not in text
    assert "thread-7" not in text


def test_a_label_has_only_so_many_values() -> None:
    bound = LabelBound()
    values = {bound("tool", f"tool {number}") for number in range(MOST_VALUES + 50)}

    assert len(values) == MOST_VALUES + 1
    assert "other" in values
    assert bound("agent", "a") == "a"


def test_the_gauges_of_dead_workers_are_forgotten_and_their_counters_kept(tmp_path: Path) -> None:
    for name in ("gauge_livesum_1.db", "gauge_livesum_2.db", "counter_1.db", "histogram_1.db"):
        (tmp_path / name).touch()
    forget_dead_workers(str(tmp_path), {2})

    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["counter_1.db", "gauge_livesum_2.db", "histogram_1.db"]


def test_every_metric_is_in_the_guide() -> None:
    metrics = Metrics()
    metrics.count_request("GET", "/", 409, 0.1)
    metrics.observe_turn(TurnEnd(agent="a", termination="natural", seconds=1))
    step = StepEnd(agent="a", kind="model", name="m", outcome="ok", seconds=1, cost=1)
    for kind in ("model", "tool", "retrieval"):
        metrics.observe_step(StepEnd(agent="a", kind=kind, name="m", outcome="ok", seconds=1, cost=step.cost))
    metrics.observe_commit(CommitEnd(agent="a", outcome="ok", changesets=1))
    metrics.observe_job(JobEnd(agent="a", kind="k", outcome="ok", seconds=1))
    families = list(text_string_to_metric_families(metrics.text({"waiting": 1}).decode()))
    labels = {
        family.name: sorted({name for sample in family.samples for name in sample.labels} - {"le"})
        for family in families
        if not family.name.endswith("_created")
    }
    rows = re.findall(
        r"^\| `(clew_\w+)` \|[^|]*\| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )

    documented = {name.removesuffix("_total"): sorted(re.findall(r"`(\w+)`", names)) for name, names in rows}
    assert documented == labels
