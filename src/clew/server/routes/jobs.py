"""Jobs over HTTP: work that waits, runs or was given up."""

from typing import Literal

from litestar.params import FromPath, FromQuery

from clew.api.jobs import LIST_JOBS, RETRY_JOB, JobPage, JobView
from clew.server.http import audit
from clew.server.http.callers import CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.http.paths import decode_path_part
from clew.server.http.views import job_view
from clew.server.identity.roles import ADMIN


@endpoint(LIST_JOBS)
async def list_jobs(
    caller: CurrentCaller,
    status: FromQuery[Literal["waiting", "running", "dead"] | None] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> JobPage:
    """List jobs by the time they are due: those yet to be done, and those that were given up."""
    pages = caller.pages(cursor, tuple[tuple[int, str], int], "jobs", status)
    end, offset = pages.start or ((-1, ""), 0)
    jobs = await caller.db.jobs.list(status=status, limit=offset + limit + 1)
    skip = sum((job.due, job.id) <= end for job in jobs)  # jobs may have come or gone since the last page
    page = jobs[skip : skip + limit]
    next = None
    if len(jobs) > min(skip, offset) + limit:
        end = (page[-1].due, page[-1].id) if page else end
        next = pages.cursor([list(end), skip + len(page)])
    return JobPage(jobs=[job_view(job, caller.visible_problem(job.problem)) for job in page], next=next)


@endpoint(RETRY_JOB)
async def retry_job(job: FromPath[str], caller: CurrentCaller) -> JobView:
    """Let a job that was given up be tried again at once. Needs the role admin."""
    caller.require_role(ADMIN)
    await audit.record_action(
        caller.resources.db.scope(tenant=caller.identity.tenant), caller.identity, RETRY_JOB.audit
    )
    record = await caller.db.jobs.retry(decode_path_part(job))
    return job_view(record, record.problem)


JOB_ROUTES = [list_jobs, retry_job]
