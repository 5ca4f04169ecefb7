"""Jobs: work to be done later, leased, retried with back-off, kept in sight when given up."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from clew.core.arguments import check_methods
from clew.core.encoding import Id
from clew.core.errors import ClaimLost, InvalidArgument, RecordNotFound
from clew.core.log import commit
from clew.core.log import jobs as rules
from clew.core.log.checks import check_lease, check_limit, prepare_write
from clew.core.log.commit import Plan, PlanContext
from clew.core.log.rows import AskJob, AskJobs, MoveJob, StoreRead, ask
from clew.core.ports import Store
from clew.core.values import Enqueue, Finish, Job, Scope

MOST_JOBS = 10_000
"""Jobs looked through for one with the same key."""

JobChange: TypeAlias = Callable[[Job, int], Job]
"""A function that changes a job, given the time."""


@check_methods
class Jobs:
    """The jobs of one tenant."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope

    async def enqueue(self, job: Job) -> None:
        """Add a job, unless one with its key is waiting or running."""
        write = prepare_write(Enqueue(job=job), self._store.limits)
        await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))

    async def claim(self, kinds: Sequence[str], *, limit: int = 1, lease_ms: int = 30_000) -> list[Job]:
        """Claim jobs that are due, for so long; no other worker gets them meanwhile."""
        return await self._store.claim(self._scope, kinds, check_limit(limit), check_lease(lease_ms))

    async def extend(self, job: Job, *, lease_ms: int = 30_000) -> Job:
        """Hold a claimed job for longer.

        Raises:
            ClaimLost: The lease ran out and another worker has it.
        """

        def extend_claim(current: Job, now: int) -> Job:
            return msgspec.structs.replace(current, until=now + check_lease(lease_ms))

        return await self._change_job(job, extend_claim)

    async def finish(self, job: Job) -> None:
        """End a claimed job.

        Raises:
            ClaimLost: The lease ran out and another worker has it.
        """
        write = Finish(job=job.id, token=job.token or "")
        await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))

    async def fail(self, job: Job, problem: str) -> Job:
        """Give a claimed job back: it waits for its next attempt, or is dead after the last.

        Raises:
            ClaimLost: The lease ran out and another worker has it.
        """
        return await self._change_job(job, lambda current, now: rules.fail_job(current, problem, now))

    async def release(self, job: Job) -> Job:
        """Give a claimed job back untried, for another worker to take at once.

        Raises:
            ClaimLost: The lease ran out and another worker has it.
        """
        return await self._change_job(job, rules.release_job)

    async def retry(self, id: Id) -> Job:
        """Let a job that waits or is dead be due at once, with all of its attempts before it.

        Raises:
            RecordNotFound: There is none of that id.
            InvalidArgument: A worker is at it, or another job with its key waits.
        """
        plan = await self._store.change(self._scope, lambda context: _plan_retry(id, context))
        job = plan.results[0]
        assert isinstance(job, Job)
        return job

    async def get(self, id: Id) -> Job:
        """A job.

        Raises:
            RecordNotFound: There is none of that id; it may be finished.
        """
        job: Job | None = await self._store.read(self._scope, ask(AskJob(id)))
        if job is None:
            raise RecordNotFound(kind="job", id=id)
        return job

    async def list(self, *, status: str | None = None, limit: int = 100) -> list[Job]:
        """Jobs of a status, or all, by the time they are due."""
        return await self._store.read(self._scope, ask(AskJobs(status, check_limit(limit))))

    async def _change_job(self, job: Job, change: JobChange) -> Job:
        plan = await self._store.change(self._scope, lambda context: _plan_change(job, change, context))
        result = plan.results[0]
        assert isinstance(result, Job)
        return result


def _plan_change(job: Job, change: JobChange, context: PlanContext) -> StoreRead[Plan]:
    current = yield from ask(AskJob(job.id))
    if current is None or current.token is None or current.token != job.token:
        raise ClaimLost(job=job.id)
    new_job = change(current, context.now)
    return Plan(writes=[MoveJob(job=new_job, token=job.token)], results=[new_job])


def _plan_retry(id: str, context: PlanContext) -> StoreRead[Plan]:
    job = yield from ask(AskJob(id))
    if job is None:
        raise RecordNotFound(kind="job", id=id)
    if job.status == "running":
        raise InvalidArgument(problem=f"Job {id!r} is being done; there is nothing to retry yet.")
    if job.status == "dead" and job.key is not None:
        waiting = yield from ask(AskJobs("waiting", MOST_JOBS))
        running = yield from ask(AskJobs("running", MOST_JOBS))
        if any(other.key == job.key for other in (*waiting, *running)):
            raise InvalidArgument(problem=f"Another job with the key of {id!r} waits or is being done.")
    new_job = rules.retry_job(job, context.now)
    return Plan(writes=[MoveJob(job=new_job, token=None)], results=[new_job])
