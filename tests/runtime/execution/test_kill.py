"""A turn killed at every checkpoint and between them: the next turn starts, or the run goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

import clew
from clew.core.errors import DecisionRefused, InvalidArgument, NotFound
from clew.database.database import Database
from clew.runtime.records.runs import ProcessIdentity, Run, is_gone, run_of
from clew.runtime.state.call_state import Decision, Replay, UseResult
from clew.runtime.tools.effects import external_effects
from tests.runtime.execution.killed_turns import (
    BOOK,
    FINAL,
    LOOK,
    PAY,
    POINTS,
    World,
    decide,
    travel,
    travel_runtime,
)
from tests.support.child_process import ChildProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]

AT_ONCE = 10.0
"""Seconds that a turn after a kill may take, well below the fifteen of a lease."""
TOGETHER = 3


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that other processes can open."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database").url)
    return f"sqlite:///{tmp_path / 'agent.db'}"


def world_of(tmp_path: Path, point: str) -> Path:
    return tmp_path / f"world {point}"


def kill_each(url: str, tmp_path: Path, points: Iterable[str], question: str = "Travel") -> None:
    """A turn for each point, on a thread of that name, in a process that is killed there."""
    rest = list(points)
    while rest:
        some, rest = rest[:TOGETHER], rest[TOGETHER:]
        processes = [
            ChildProcess(travel, url, point, world_of(tmp_path, point), question, point) for point in some
        ]
        for point, process in zip(some, processes, strict=True):
            process.process.join(60)
            process.end()
            assert process.process.exitcode == -signal.SIGKILL, f"it never came to {point!r}"


async def whole(db: Database, id: str) -> list[str]:
    """What is wrong with a thread: its chain, its versions, what its calls left behind."""
    thread = db.thread(id)
    verdict = await thread.verify()
    versions = [change.version for change in await thread.changesets()]
    head = await thread.head()
    wrong = [str(problem) for problem in verdict.problems]
    wrong += [] if versions == list(range(1, head.version + 1)) else [f"versions {versions}"]
    wrong += [f"call {call} left its state" for call in head.state.get("$calls", {})]
    return wrong + [f"call {call} is open" for call in head.counters.open]


async def dead_run(db: Database, id: str) -> Run:
    """The run that was killed."""
    first = (await db.thread(id).changesets(limit=1))[0]
    return run_of(await db.records.get("run", first.run_id or ""))


def model_calls_at(point: str) -> int:
    """How often the model is asked in all: again only if its answer was not yet kept."""
    unkept = ("before change 2", "before change 4", "before change 6")
    return 4 if point in unkept or point.startswith("in model") else 3


def tool_calls_at(point: str) -> tuple[int, int, int]:
    """How often looking, paying and booking are begun in all: again only if the results were not yet kept."""
    again = point in ("before change 3", "after pay")
    looked_before = point == "before pay"
    return (2 if again or looked_before else 1, 2 if again else 1, 1)


async def problems_after_resume(db: Database, tmp_path: Path, point: str) -> list[str]:
    """What is wrong after a killed run was resumed."""
    world = World(world_of(tmp_path, point))
    async with travel_runtime(db, world) as runtime, asyncio.timeout(AT_ONCE):
        try:
            text = (await runtime.resume(point)).text
        except (InvalidArgument, NotFound) as error:
            text = type(error).__name__
        counts = world.counts()
        outcome = {"before change 1": "ThreadNotFound", "after change 6": "InvalidArgument"}.get(point, FINAL)
        wrong = [] if text == outcome else [f"it said {text!r}"]
        if outcome == "ThreadNotFound":
            return wrong
        wrong += await whole(db, point)
        if counts["model"] != model_calls_at(point):
            wrong.append(f"{counts['model']} model calls")
        if (counts[LOOK], counts[PAY], counts[BOOK]) != tool_calls_at(point):
            wrong.append(f"tools: {counts}")
        wrong += [] if len(set(world.keys(PAY))) == 1 else ["paid under two keys"]
        lasting = [(effect.tool, effect.in_doubt) for effect in await external_effects(db.thread(point))]
        wrong += [] if lasting == [(PAY, False), (BOOK, False)] else [f"effects {lasting}"]
        return wrong + await problems_after_greeting(runtime, db, point, repairs=0)


async def problems_after_greeting(
    runtime: clew.Runtime, db: Database, point: str, *, repairs: int
) -> list[str]:
    """What is wrong with the next two turns."""
    before = world_lines = await texts(db, point)
    replies = [(await runtime.run_turn(point, "Hello")).text for _ in range(2)]
    wrong = [] if replies == ["Hello back."] * 2 else [f"the next turns said {replies}"]
    kinds = [item.kind for item in await db.thread(point).items()]
    if kinds.count("repair") != repairs:
        wrong.append(f"{kinds.count('repair')} repairs")
    after = await texts(db, point)
    if after[: len(before)] != world_lines or after.count("Travel") != (1 if before else 0):
        wrong.append(f"messages {after}")
    return wrong + await whole(db, point)


async def texts(db: Database, point: str) -> list[str]:
    """What was said on a thread."""
    try:
        items = await db.thread(point).items()
    except NotFound:
        return []
    return [str(item.body.get("content")) for item in items if item.kind == "message"]


OPEN = {
    **{point: ["c2"] for point in ("after change 2", "before change 3", "before pay", "after pay")},
    **{point: ["c3"] for point in ("after change 4", "before change 5", "before book", "after book")},
}
"""The calls that may have had their effect, by where the turn was killed."""


async def problems_after_next_turn(db: Database, tmp_path: Path, point: str) -> list[str]:
    """What is wrong after a killed run was followed by another turn."""
    world = World(world_of(tmp_path, point))
    lines = world.lines()
    async with travel_runtime(db, world) as runtime, asyncio.timeout(AT_ONCE):
        wrong = await problems_after_greeting(runtime, db, point, repairs=1 if point in OPEN else 0)
    wrong += [] if world.lines() == lines else ["something happened again"]
    if point == "before change 1":
        return wrong
    run = await dead_run(db, point)
    termination = "natural" if point == "after change 6" else "interrupted"
    if (run.status, run.termination, list(run.in_doubt)) != ("done", termination, OPEN.get(point, [])):
        wrong.append(f"run {run.status} {run.termination} {run.in_doubt}")
    repairs = [item.body["content"] for item in await db.thread(point).items() if item.kind == "repair"]
    if any(call not in repair for repair in repairs for call in OPEN.get(point, ())):
        wrong.append(f"repair {repairs}")
    return wrong


@pytest.mark.promise("B-04", "B-05", "R-24", "T-17")
async def test_a_run_killed_anywhere_is_resumed_and_repeats_nothing_that_was_kept(
    url: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(kill_each, url, tmp_path, POINTS)
    async with clew.open(url) as db:
        wrong = {point: await problems_after_resume(db, tmp_path, point) for point in POINTS}

    assert {point: problems for point, problems in wrong.items() if problems} == {}


@pytest.mark.promise("B-04", "B-05", "R-24", "T-17")
async def test_after_a_kill_anywhere_the_next_turn_starts_at_once_on_a_whole_thread(
    url: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(kill_each, url, tmp_path, POINTS)
    async with clew.open(url) as db:
        wrong = {point: await problems_after_next_turn(db, tmp_path, point) for point in POINTS}

    assert {point: problems for point, problems in wrong.items() if problems} == {}


@pytest.mark.promise("B-04", "B-05")
async def test_a_run_that_is_killed_again_and_again_comes_to_its_end(url: str, tmp_path: Path) -> None:
    world = World(world_of(tmp_path, "after pay"))
    await asyncio.to_thread(kill_each, url, tmp_path, ["after pay"])
    for point in ("after change 1", "before change 2", "after change 2", "before book", "after book"):
        again = ChildProcess(decide, url, "after pay", world_of(tmp_path, "after pay"), {}, point)
        await asyncio.to_thread(again.process.join, 60)
        again.end()
        assert again.process.exitcode == -signal.SIGKILL, f"it never came to {point!r}"
    async with clew.open(url) as db, travel_runtime(db, world) as runtime:
        result = await runtime.resume("after pay")

        assert (result.text, await whole(db, "after pay")) == (FINAL, [])
        assert (world.counts()["model"], world.counts()[BOOK], len(set(world.keys(PAY)))) == (3, 1, 1)


@pytest.mark.promise("B-04")
@pytest.mark.parametrize("point", ["before send", "after send"])
async def test_an_effect_that_nobody_can_tell_is_never_silently_repeated(
    url: str, tmp_path: Path, point: str
) -> None:
    await asyncio.to_thread(kill_each, url, tmp_path, [point], "send")
    world = World(world_of(tmp_path, point))
    count = world.counts()["send"]
    async with clew.open(url) as db, travel_runtime(db, world) as runtime:
        results = [await runtime.resume(point) for _ in range(2)]

        [waiting] = results[0].waiting
        assert results[0].waiting == results[1].waiting
        assert (waiting.tool, waiting.why, waiting.question) == ("send", "in doubt", {"in_doubt": "send"})
        assert world.counts()["send"] == count == (1 if point == "after send" else 0)


@pytest.mark.promise("B-04", "T-16")
async def test_a_person_decides_what_is_in_doubt(url: str, tmp_path: Path) -> None:
    points: dict[str, Decision] = {
        "after send": Replay(),
        "before send": Replay(),
        "after change 2": UseResult("it arrived"),
    }
    await asyncio.to_thread(kill_each, url, tmp_path, points, "send")
    outcomes: dict[str, tuple[str, int, object]] = {}
    async with clew.open(url) as db:
        for point, decision in points.items():
            world = World(world_of(tmp_path, point))
            async with travel_runtime(db, world) as runtime:
                await runtime.resume(point)
                result = await runtime.resume(point, {"c1": decision})
            outputs = [
                item.body["output"] for item in await db.thread(point).items() if item.kind == "result"
            ]
            outcomes[point] = (result.text, world.counts()["send"], outputs)
            assert len(set(world.keys("send"))) <= 1

    assert outcomes == {
        "after send": (FINAL, 2, ["send is done"]),
        "before send": (FINAL, 1, ["send is done"]),
        "after change 2": (FINAL, 0, ["it arrived"]),
    }


@pytest.mark.promise("B-04", "T-16")
async def test_an_approval_sent_again_after_a_kill_does_not_repeat_the_effect(
    url: str, tmp_path: Path
) -> None:
    world = World(world_of(tmp_path, "a"))
    yes = {"c1": Replay()}
    async with clew.open(url) as db, travel_runtime(db, world) as runtime:
        await runtime.run_turn("a", "wire")
        child = ChildProcess(decide, url, "a", world_of(tmp_path, "a"), yes, "after wire")
        await asyncio.to_thread(child.process.join, 60)
        child.end()
        question = await runtime.resume("a", yes)
        with pytest.raises(DecisionRefused):
            await runtime.resume("a", yes)
        once = world.counts()["wire"]
        result = await runtime.resume("a", {"c1": Replay(asked=2)})

    assert [(waiting.why, waiting.asked) for waiting in question.waiting] == [("in doubt", 2)]
    assert (once, result.text, world.counts()["wire"]) == (1, FINAL, 2)
    assert len(set(world.keys("wire"))) == 1


@pytest.mark.promise("B-04", "B-05")
async def test_a_new_turn_names_what_is_in_doubt_once(url: str, tmp_path: Path) -> None:
    await asyncio.to_thread(kill_each, url, tmp_path, ["after send"], "send")
    world = World(world_of(tmp_path, "after send"))
    async with clew.open(url) as db, travel_runtime(db, world) as runtime:
        await runtime.run_turn("after send", "Hello")
        await runtime.run_turn("after send", "Hello")
        repairs = [item for item in await db.thread("after send").items() if item.kind == "repair"]
        [effect] = await external_effects(db.thread("after send"))

        assert [item.body["content"] for item in repairs] == [
            "The run was interrupted before the tool answered."
            " Whether these had their effect is not known: send (c1)."
        ]
        assert list((await dead_run(db, "after send")).in_doubt) == ["c1"]
        assert (effect.tool, effect.in_doubt, effect.key) == ("send", True, world.keys("send")[0])


@pytest.mark.promise("B-04")
async def test_of_two_that_resume_a_killed_run_one_does(url: str, tmp_path: Path) -> None:
    await asyncio.to_thread(kill_each, url, tmp_path, ["after change 4"])
    world = World(world_of(tmp_path, "after change 4"))
    async with (
        clew.open(url) as db,
        clew.open(url) as other,
        travel_runtime(db, world) as runtime,
        travel_runtime(other, world) as rival,
    ):
        both = await asyncio.gather(
            runtime.resume("after change 4"), rival.resume("after change 4"), return_exceptions=True
        )

    replies = [
        result.code if isinstance(result, clew.ClewError) else getattr(result, "text", result)
        for result in both
    ]
    assert FINAL in replies
    assert set(replies) <= {FINAL, "turn_busy", "invalid_argument"}
    assert (world.counts()[BOOK], world.counts()["model"]) == (1, 3)


def test_a_process_that_was_killed_is_gone_before_anybody_asks_how_it_ended() -> None:
    program = "import msgspec, time; from clew.runtime.records.runs import this_process;"
    program += "print(msgspec.json.encode(this_process()).decode(), flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        holder = msgspec.json.decode(child.stdout.readline(), type=ProcessIdentity)
        alive = not is_gone(holder)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert (alive, is_gone(holder)) == (True, True)
