"""Four processes sweep one database: each expired episode is finalised once, whatever befalls them."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.runtime.maintenance.competing_sweepers import (
    Fate,
    ThreadEpisodes,
    arcs_of,
    begin,
    episodes_of,
    sum_up,
    sweep,
    visit,
)
from tests.support.child_process import ChildProcess, pipe

pytestmark = [pytest.mark.race, pytest.mark.slow]

EPISODES = 500
SESSIONS = 40
SWEEPERS = 4
VISITS = 60
VICTIM = 20
SHAKY = Fate(fails_one_in=20)


class SweeperProcesses:
    """Four processes that sweep and one that has turns, all begun at the same moment."""

    def __init__(self, url: str, place: Path, fates: dict[int, Fate], visits: list[str]) -> None:
        self.notes = [place / f"notes {number}" for number in range(SWEEPERS)]
        ends = [pipe() for _ in range(SWEEPERS + 1)]
        self.sweepers = [
            ChildProcess(sweep, url, notes, fates.get(number, Fate()), ends[number][1])
            for number, notes in enumerate(self.notes)
        ]
        self.visitor = ChildProcess(visit, url, visits, ends[-1][1])
        for ours, theirs in ends:
            theirs.close()
            assert ours.recv() == "ready"
        for ours, _ in ends:
            ours.send("go")
            ours.close()

    def episodes_of(self, number: int) -> list[str]:
        """The episodes that a process was about to finish."""
        notes = self.notes[number]
        return notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []


def wrong(threads_after: dict[str, ThreadEpisodes], episodes: dict[str, str]) -> dict[str, str]:
    """What is wrong with the episodes of each thread."""
    return {
        thread: f"{of}, visited in {episodes.get(thread)}"
        for thread, of in threads_after.items()
        if of.ends != of.finishes
        or of.arcs != len(of.ends)
        or of.active != episodes.get(thread)
        # A turn that came in time keeps the first episode going; a turn that came later began a second.
        or len(of.ends) + (of.active is not None) not in ((1,) if thread not in episodes else (1, 2))
    }


@pytest.mark.promise("R-10", "R-09")
def test_four_processes_end_each_of_500_episodes_once_and_a_turn_in_time_wins(
    shared_url: str, tmp_path: Path
) -> None:
    threads = asyncio.run(begin(shared_url, EPISODES))
    processes = SweeperProcesses(shared_url, tmp_path, {}, visits := threads[:: EPISODES // VISITS])
    episodes = processes.visitor.result()
    counts = [sweeper.result() for sweeper in processes.sweepers]
    notes = Counter(id for number in range(SWEEPERS) for id in processes.episodes_of(number))
    threads_after = episodes_of(shared_url, threads)
    ends = [id for of in threads_after.values() for id in of.ends]

    assert wrong(threads_after, episodes) == {}
    assert notes == Counter(ends)
    assert set(episodes) == set(visits)
    assert sum(counts) == len(ends) >= EPISODES - len(visits)
    assert sum(bool(each) for each in counts) > 1, "only one process ever ended an episode"


@pytest.mark.promise("R-08", "R-10", "R-12")
def test_two_processes_sum_up_each_session_of_one_user_once(shared_url: str, tmp_path: Path) -> None:
    asyncio.run(begin(shared_url, SESSIONS, user="alice"))
    ends = [pipe() for _ in range(2)]
    notes = [tmp_path / f"notes {number}" for number in range(2)]
    sweepers = [
        ChildProcess(sum_up, shared_url, each, theirs) for each, (_, theirs) in zip(notes, ends, strict=True)
    ]
    for ours, theirs in ends:
        theirs.close()
        assert ours.recv() == "ready"
    for ours, _ in ends:
        ours.send("go")
        ours.close()
    for sweeper in sweepers:
        sweeper.result()
    prompts = Counter(line for each in notes for line in each.read_text(encoding="utf-8").splitlines())

    assert (set(prompts.values()), len(prompts), arcs_of(shared_url, "alice")) == (
        {1},
        2 * SESSIONS,
        SESSIONS,
    )


@pytest.mark.promise("R-10", "R-12")
def test_with_a_process_killed_and_ends_that_fail_each_episode_is_still_ended_once(
    shared_url: str, tmp_path: Path
) -> None:
    threads = asyncio.run(begin(shared_url, EPISODES))
    fates = {0: Fate(fails_one_in=20, killed_at=VICTIM), 1: SHAKY, 2: SHAKY, 3: SHAKY}
    processes = SweeperProcesses(shared_url, tmp_path, fates, threads[:: EPISODES // VISITS])
    episodes = processes.visitor.result()
    for sweeper in processes.sweepers[1:]:
        sweeper.result()
    processes.sweepers[0].end()
    survivors = Counter(id for number in range(1, SWEEPERS) for id in processes.episodes_of(number))
    threads_after = episodes_of(shared_url, threads)
    ends = [id for of in threads_after.values() for id in of.ends]

    assert processes.sweepers[0].process.exitcode == -signal.SIGKILL
    assert len(processes.episodes_of(0)) == VICTIM
    assert wrong(threads_after, episodes) == {}
    assert set(survivors.values()) == {1}
    assert set(survivors) | set(processes.episodes_of(0)) == set(ends)
    assert set(processes.episodes_of(0)) & set(survivors), (
        "what the killed process was at was not done by another"
    )
