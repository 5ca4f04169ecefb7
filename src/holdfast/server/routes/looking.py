"""Search, feedback and jobs over HTTP."""

import hashlib
import secrets
from typing import Annotated, Any, Literal

from litestar import Request, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from holdfast.client.bodies import NewFeedback
from holdfast.client.values import FeedbackView, FoundPage, FoundView, JobPage, JobView
from holdfast.core.encoding import JSON
from holdfast.core.errors import RevisionConflict
from holdfast.core.values import Record
from holdfast.runtime.ending import FEEDBACK
from holdfast.runtime.episodes import active_episode
from holdfast.runtime.settings import now_ms
from holdfast.server.callers import ADMIN, Calling, named
from holdfast.server.repeating import KEY
from holdfast.server.routes.threads import Limit
from holdfast.server.wire import job_view


@get("/search", operation_id="search")
async def search(
    caller: Calling,
    q: Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="Words to look for.")],
    limit: Limit = 20,
    any: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    thread: FromQuery[str | None] = None,
    log: FromQuery[str | None] = None,
) -> FoundPage:
    """Visible items that hold all of the words, the best first; with ``any``, any of them."""
    found = await caller.db.search(q, any=any, thread=thread, log=log, limit=limit)
    return FoundPage(
        found=[
            FoundView(**{name: getattr(each, name) for name in FoundView.__struct_fields__}) for each in found
        ]
    )


@post("/feedback", operation_id="give_feedback")
async def give_feedback(
    data: JSONBody[NewFeedback], caller: Calling, request: Request[Any, Any, Any]
) -> FeedbackView:
    """What a user thought of a session so far: a label, never text. With one key it is recorded once."""
    head = await caller.db.thread(data.thread).head()
    episode = await active_episode(caller.db, data.thread)
    said = request.headers.get(KEY) or secrets.token_hex(16)
    about = episode.id if episode is not None else data.thread
    now = now_ms()
    body: dict[str, JSON] = {
        "label": data.label,
        "source": "http",
        "modality": episode.modality if episode is not None else "text",
        "turns": episode.turns if episode is not None else 0,
        "recorded": now,
        "thread": data.thread,
    }
    id = hashlib.sha256(f"{about}\0{said}".encode()).hexdigest()
    record = Record(kind=FEEDBACK, id=id, owner=head.owner, sort=now, body=body)
    try:
        await caller.db.records.put(record, expect=0)
    except RevisionConflict:
        body = (await caller.db.records.get(FEEDBACK, id)).body
    return FeedbackView(id=id, thread=body["thread"], label=body["label"], recorded=body["recorded"])


@get("/jobs", operation_id="list_jobs")
async def list_jobs(
    caller: Calling,
    status: FromQuery[Literal["waiting", "running", "dead"] | None] = None,
    limit: Limit = 100,
) -> JobPage:
    """Jobs by the time they are due: what is yet to be done, and what was given up."""
    return JobPage(jobs=[job_view(job) for job in await caller.db.jobs.list(status=status, limit=limit)])


@post("/jobs/{job:str}/retry", operation_id="retry_job", status_code=200)
async def retry_job(job: FromPath[str], caller: Calling) -> JobView:
    """Let a job that was given up be tried again at once. Needs the role admin."""
    caller.need(ADMIN)
    return job_view(await caller.db.jobs.retry(named(job)))


LOOKING = [search, give_feedback, list_jobs, retry_job]
