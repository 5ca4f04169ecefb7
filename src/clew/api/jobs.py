"""Jobs: work that waits, runs or was given up."""

import msgspec

from clew.api.route import Route


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Work to be done later."""

    id: str
    kind: str
    status: str
    due: int
    attempts: int
    limit: int
    owner: str | None = None
    problem: str | None = None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs, by the time they are due."""

    jobs: list[JobView]
    next: str | None = None


LIST_JOBS = Route("list_jobs", "GET", "/jobs", JobPage)
RETRY_JOB = Route("retry_job", "POST", "/jobs/{job}/retry", JobView, audit="retry job")
