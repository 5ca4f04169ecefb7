"""Jobs: claimed, failed, tried again after a while, and given up in the end."""

import msgspec

from clew.core.log.leases import LONGEST_LEASE_MS, is_over
from clew.core.values import Job

FIRST_DELAY_MS = 1_000
LONGEST_DELAY_MS = LONGEST_LEASE_MS


def delay_ms(attempts: int) -> int:
    """The pause after so many attempts: doubled each time, up to an hour."""
    return int(min(FIRST_DELAY_MS << min(attempts - 1, 20), LONGEST_DELAY_MS))


def claim_job(job: Job, token: str, until: int) -> Job:
    """A job held by a claim."""
    return msgspec.structs.replace(job, status="running", token=token, until=until, attempts=job.attempts + 1)


def fail_job(job: Job, problem: str, now: int) -> Job:
    """A job after a failure: waiting for its next attempt, or dead, and kept for an operator to see."""
    dead = job.attempts >= job.limit
    return msgspec.structs.replace(
        job,
        status="dead" if dead else "waiting",
        token=None,
        until=0,
        due=now if dead else now + delay_ms(job.attempts),
        problem=problem.encode(errors="replace").decode(),  # an error may say what is no text
    )


def release_job(job: Job, now: int) -> Job:
    """A job that its worker has given back, as if it had not been tried."""
    return msgspec.structs.replace(
        job, status="waiting", token=None, until=0, due=min(job.due, now), attempts=max(job.attempts - 1, 0)
    )


def retry_job(job: Job, now: int) -> Job:
    """A job that is due at once, with all of its attempts before it. What went wrong last stays with it."""
    return msgspec.structs.replace(job, status="waiting", due=now, attempts=0)


WORKER_LOST = "Its worker ended without a result."


def is_exhausted(job: Job) -> bool:
    """Return whether a job that may be claimed was tried as often as it may be."""
    return job.status == "running" and job.attempts >= job.limit


def claim_or_give_up(job: Job, token: str, until: int, now: int) -> Job:
    """A job that may be claimed, held by a claim; or dead if its last one ran out."""
    if is_exhausted(job):
        return fail_job(job, WORKER_LOST, now)
    return claim_job(job, token, until)


def latest_ms(now: int) -> int:
    """The time after which no claim made by now ends, and no pause after a failure.

    What says otherwise was written by a clock that ran ahead, and counts for nothing.
    """
    return now + LONGEST_LEASE_MS


def is_due(job: Job, now: int) -> bool:
    """Return whether a job may be claimed: it waits and its time has come, or its claim ran out."""
    if job.status == "waiting":
        return job.due <= now or (job.attempts > 0 and job.due > latest_ms(now))
    return job.status == "running" and is_over(job.until, now)
