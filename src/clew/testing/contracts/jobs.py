"""Jobs: leased, retried with back-off, given up in sight of everybody."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio

import pytest

from clew.core.errors import ClaimLost, InvalidArgument, RecordNotFound
from clew.core.values import Job
from clew.database.database import Database
from clew.testing.clock import Clock
from clew.testing.fixtures import StoreFixtures, StoreOpener

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class JobsContract(StoreFixtures):
    """Tests of jobs."""

    @pytest.mark.promise("T-14")
    async def test_a_job_comes_back_as_it_was_enqueued(self, db: Database, clock: Clock) -> None:
        job = Job(
            id="j", kind="mail", body={"to": ["a", None]}, owner="alice", key="once", due=clock.now, limit=3
        )
        await db.jobs.enqueue(job)
        (running_job,) = await db.jobs.claim(["mail"], lease_ms=500)

        assert (
            running_job.id,
            running_job.kind,
            running_job.body,
            running_job.owner,
            running_job.key,
            running_job.limit,
        ) == (
            "j",
            "mail",
            {"to": ["a", None]},
            "alice",
            "once",
            3,
        )
        assert (running_job.status, running_job.attempts, running_job.until) == (
            "running",
            1,
            clock.now + 500,
        )
        assert running_job.token

    @pytest.mark.promise("T-14")
    async def test_a_job_is_claimed_by_one(self, db: Database) -> None:
        for n in range(6):
            await db.jobs.enqueue(Job(id=f"j{n}", kind="work"))
        claims = await asyncio.gather(*(db.jobs.claim(["work"], limit=2) for _ in range(8)))

        ids = [job.id for claim in claims for job in claim]
        tokens = {job.token for claim in claims for job in claim}
        assert sorted(ids) == [f"j{n}" for n in range(6)]
        assert len(tokens) == 6

    @pytest.mark.promise("T-14")
    async def test_jobs_are_claimed_by_kind_in_the_order_they_are_due(
        self, db: Database, clock: Clock
    ) -> None:
        for id, kind, due in [
            ("a", "x", 30),
            ("b", "x", 10),
            ("c", "y", 20),
            ("d", "x", 10),
            ("e", "x", clock.now + 1),
        ]:
            await db.jobs.enqueue(Job(id=id, kind=kind, due=due))
        jobs = await db.jobs.claim(["x", "z"], limit=10)

        assert [job.id for job in jobs] == ["b", "d", "a"]

    @pytest.mark.promise("T-14")
    async def test_a_job_is_not_claimed_before_it_is_due(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work", due=clock.now + 100))
        early = await db.jobs.claim(["work"])
        clock.advance(100)
        late = await db.jobs.claim(["work"])

        assert (early, [job.id for job in late]) == ([], ["j"])

    @pytest.mark.promise("T-14")
    async def test_a_lease_that_ran_out_lets_another_claim(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        (first,) = await db.jobs.claim(["work"], lease_ms=100)
        clock.advance(99)
        meanwhile = await db.jobs.claim(["work"])
        clock.advance(1)
        (second,) = await db.jobs.claim(["work"], lease_ms=100)

        assert (meanwhile, second.attempts, second.token != first.token) == ([], 2, True)

    @pytest.mark.promise("T-14")
    async def test_a_worker_that_lost_the_lease_can_do_nothing(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        (first,) = await db.jobs.claim(["work"], lease_ms=100)
        clock.advance(100)
        (second,) = await db.jobs.claim(["work"], lease_ms=100)

        for attempt in (db.jobs.finish(first), db.jobs.extend(first), db.jobs.fail(first, "late")):
            with pytest.raises(ClaimLost):
                await attempt
        await db.jobs.finish(second)
        assert await db.jobs.list() == []

    @pytest.mark.promise("T-14")
    async def test_a_lease_can_be_extended(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        (job,) = await db.jobs.claim(["work"], lease_ms=100)
        clock.advance(90)
        longer = await db.jobs.extend(job, lease_ms=100)
        clock.advance(90)
        others = await db.jobs.claim(["work"])
        await db.jobs.finish(longer)

        assert (longer.until, others, await db.jobs.list()) == (clock.now + 10, [], [])

    @pytest.mark.promise("T-14")
    async def test_a_finished_job_is_gone(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        (job,) = await db.jobs.claim(["work"])
        await db.jobs.finish(job)

        with pytest.raises(ClaimLost):
            await db.jobs.finish(job)
        assert await db.jobs.list() == []

    @pytest.mark.promise("T-14")
    async def test_a_failed_job_waits_longer_each_time(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work", limit=5))
        waits = []
        for _ in range(4):
            (job,) = await db.jobs.claim(["work"])
            waiting_job = await db.jobs.fail(job, "no luck")
            waits.append(waiting_job.due - clock.now)
            assert await db.jobs.claim(["work"]) == []
            clock.advance(waits[-1])

        assert waits == [1000, 2000, 4000, 8000]

    @pytest.mark.promise("T-14")
    async def test_a_job_that_failed_too_often_is_dead_and_in_sight(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work", limit=2))
        for _ in range(2):
            (job,) = await db.jobs.claim(["work"])
            await db.jobs.fail(job, "no luck")
            clock.advance(3_600_000)

        (dead,) = await db.jobs.list(status="dead")
        assert (dead.id, dead.attempts, dead.problem, dead.token) == ("j", 2, "no luck", None)
        assert await db.jobs.claim(["work"]) == []

    @pytest.mark.promise("T-14")
    async def test_a_job_that_keeps_ending_its_worker_is_given_up(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="k", limit=2))
        for _ in range(2):
            await db.jobs.claim(["k"], lease_ms=1_000)
            clock.advance(1_000)

        assert await db.jobs.claim(["k"]) == []
        (dead,) = await db.jobs.list(status="dead")
        assert (dead.id, dead.attempts, dead.token) == ("j", 2, None)

    @pytest.mark.promise("T-14")
    async def test_jobs_with_one_key_wait_once(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="a", kind="work", key="same"))
        await db.jobs.enqueue(Job(id="b", kind="work", key="same"))
        await db.jobs.enqueue(Job(id="c", kind="work", key="other"))
        await db.jobs.enqueue(Job(id="d", kind="work"))
        await db.jobs.enqueue(Job(id="e", kind="work"))

        assert sorted(job.id for job in await db.jobs.list()) == ["a", "c", "d", "e"]

    @pytest.mark.promise("T-14")
    async def test_a_key_is_free_when_its_job_is_done_or_dead(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="a", kind="work", key="same", limit=1))
        (job,) = await db.jobs.claim(["work"])
        await db.jobs.enqueue(Job(id="b", kind="work", key="same"))
        running = [job.id for job in await db.jobs.list()]
        await db.jobs.fail(job, "no luck")
        await db.jobs.enqueue(Job(id="c", kind="work", key="same"))
        dead = sorted(job.id for job in await db.jobs.list())
        (job,) = await db.jobs.claim(["work"])
        await db.jobs.finish(job)
        await db.jobs.enqueue(Job(id="d", kind="work", key="same"))

        assert (running, dead) == (["a"], ["a", "c"])
        assert sorted(job.id for job in await db.jobs.list()) == ["a", "d"]

    @pytest.mark.promise("T-14")
    async def test_a_job_enqueued_twice_is_there_once(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="a", kind="work", body=1))
        await db.jobs.enqueue(Job(id="a", kind="work", body=2))

        assert [job.body for job in await db.jobs.list()] == [1]

    @pytest.mark.promise("F-13", "T-14")
    async def test_a_claim_by_a_clock_that_ran_ahead_is_not_believed(
        self, db: Database, clock: Clock
    ) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        clock.advance(DAY_MS)
        (ahead,) = await db.jobs.claim(["work"])
        clock.advance(-DAY_MS)
        (job,) = await db.jobs.claim(["work"])

        assert (job.id, job.attempts, job.until) == ("j", 2, clock.now + 30_000)
        with pytest.raises(ClaimLost):
            await db.jobs.finish(ahead)

    @pytest.mark.promise("F-13", "T-14")
    @pytest.mark.parametrize("way", ["fail", "release"])
    async def test_a_job_given_back_by_a_clock_that_ran_ahead_does_not_wait_for_it(
        self, db: Database, clock: Clock, way: str
    ) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        (job,) = await db.jobs.claim(["work"])
        clock.advance(DAY_MS)
        await (db.jobs.fail(job, "no luck") if way == "fail" else db.jobs.release(job))
        clock.advance(-DAY_MS)
        claimed = await db.jobs.claim(["work"])

        assert [job.id for job in claimed] == ["j"]

    @pytest.mark.promise("F-13")
    async def test_a_job_for_later_waits_for_its_time_however_far_off(
        self, db: Database, clock: Clock
    ) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work", due=clock.now + DAY_MS))

        assert await db.jobs.claim(["work"]) == []
        clock.advance(DAY_MS)
        assert [job.id for job in await db.jobs.claim(["work"])] == ["j"]

    @pytest.mark.promise("F-13")
    async def test_a_lease_is_an_hour_at_most(self, db: Database, clock: Clock) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        with pytest.raises(InvalidArgument):
            await db.jobs.claim(["work"], lease_ms=HOUR_MS + 1)
        await db.jobs.claim(["work"], lease_ms=HOUR_MS)

        assert await db.jobs.claim(["work"]) == []
        clock.advance(HOUR_MS)
        assert [job.id for job in await db.jobs.claim(["work"])] == ["j"]

    @pytest.mark.promise("T-14")
    async def test_jobs_are_there_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            await db.jobs.enqueue(Job(id="a", kind="work"))
            await db.jobs.enqueue(Job(id="b", kind="work", due=1))
            (job,) = await db.jobs.claim(["work"], lease_ms=100)
        async with self.reopen(opening, clock) as db:
            (other,) = await db.jobs.claim(["work"], limit=5)
            await db.jobs.finish(job)
            left = await db.jobs.list()

        assert ([job.id, other.id], [job.id for job in left]) == (["a", "b"], ["b"])

    @pytest.mark.promise("T-14")
    async def test_jobs_given_up_are_in_nobodys_way(self, db: Database, clock: Clock) -> None:
        for n in range(3):
            await db.jobs.enqueue(Job(id=f"lost-{n}", kind="k", limit=1))
        await db.jobs.claim(["k"], limit=3, lease_ms=10)
        clock.advance(20)
        await db.jobs.enqueue(Job(id="next", kind="k", due=clock.now))
        jobs = await db.jobs.claim(["k"])

        assert [job.id for job in jobs] == ["next"]
        assert len(await db.jobs.list(status="dead")) == 3

    @pytest.mark.promise("T-14")
    async def test_a_failure_may_say_what_is_no_text(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="j", kind="k"))
        (job,) = await db.jobs.claim(["k"])
        waiting_job = await db.jobs.fail(job, "half \ud800 and \x00")

        assert waiting_job.problem == "half ? and \x00"
        assert [job.problem for job in await db.jobs.list()] == [waiting_job.problem]

    @pytest.mark.promise("T-14")
    async def test_a_job_given_back_untried_can_be_taken_at_once(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        (first,) = await db.jobs.claim(["work"])
        back = await db.jobs.release(first)
        (second,) = await db.jobs.claim(["work"])

        assert (back.status, back.attempts, back.token) == ("waiting", 0, None)
        assert (second.attempts, second.token != first.token) == (1, True)
        with pytest.raises(ClaimLost):
            await db.jobs.release(first)

    @pytest.mark.promise("T-14")
    async def test_a_dead_job_can_be_tried_again(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work", limit=1, key="same"))
        (job,) = await db.jobs.claim(["work"])
        await db.jobs.fail(job, "no luck")
        again = await db.jobs.retry("j")
        (second,) = await db.jobs.claim(["work"])

        assert (again.status, again.attempts, again.problem) == ("waiting", 0, "no luck")
        assert (second.id, second.attempts) == ("j", 1)

    @pytest.mark.promise("T-14")
    async def test_only_a_job_that_nobody_is_at_can_be_tried_again(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="held", kind="work"))
        await db.jobs.claim(["work"])
        await db.jobs.enqueue(Job(id="dead", kind="work", limit=1, key="same"))
        (job,) = await db.jobs.claim(["work"])
        await db.jobs.fail(job, "no luck")
        await db.jobs.enqueue(Job(id="next", kind="work", key="same"))

        for id, refusal in (("held", InvalidArgument), ("dead", InvalidArgument), ("none", RecordNotFound)):
            with pytest.raises(refusal):
                await db.jobs.retry(id)

    @pytest.mark.promise("T-14")
    async def test_a_job_is_found_by_its_id_until_it_is_done(self, db: Database) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work", body=1))
        waiting_job = await db.jobs.get("j")
        (job,) = await db.jobs.claim(["work"])
        await db.jobs.finish(job)

        assert (waiting_job.body, waiting_job.status) == (1, "waiting")
        with pytest.raises(RecordNotFound):
            await db.jobs.get("j")
