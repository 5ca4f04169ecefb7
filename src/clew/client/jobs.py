"""Calls of jobs."""

from clew.api.jobs import LIST_JOBS, RETRY_JOB, JobPage, JobView
from clew.client.call import ApiCall, CallMethod, api_call


class JobMethods:
    """Calls of jobs."""

    @CallMethod
    def jobs(
        self, *, status: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> ApiCall[JobPage]:
        """Return jobs that are to be done, and jobs that were given up."""
        return api_call(LIST_JOBS, status=status, limit=limit, cursor=cursor)

    @CallMethod
    def retry_job(self, id: str, *, key: str | None = None) -> ApiCall[JobView]:
        """Let a job be tried again at once."""
        return api_call(RETRY_JOB, id, key=key)
