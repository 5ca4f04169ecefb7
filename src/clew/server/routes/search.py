"""Search, feedback and jobs over HTTP."""

import hashlib
import secrets
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from clew.api.memory import FeedbackView, SearchHitPage, SearchHitView
from clew.api.operators import JobPage, JobView
from clew.api.requests import NewFeedback
from clew.core.encoding import JSON
from clew.core.errors import RevisionConflict
from clew.core.values import Record
from clew.runtime.records.episodes import FEEDBACK, active_episode
from clew.runtime.search import KINDS, Search, SearchKind, search_everything
from clew.server.http import audit
from clew.server.http.callers import ADMIN, CurrentCaller, check_reachable, decode_path_part
from clew.server.http.idempotency import KEY_HEADER
from clew.server.http.views import job_view
from clew.server.routes.threads import Cursor, Limit

TimeQuery = Annotated[int | None, QueryParameter(ge=0, le=1 << 53, description="A time, itself included.")]


@get("/search", operation_id="search")
async def search(
    caller: CurrentCaller,
    q: Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="Words to look for.")],
    limit: Limit = 20,
    cursor: Cursor = None,
    kind: Annotated[list[SearchKind] | None, QueryParameter(description="Only of these kinds.")] = None,
    thread: FromQuery[str | None] = None,
    role: Annotated[str | None, QueryParameter(description="Only what this role has said.")] = None,
    since: TimeQuery = None,
    until: TimeQuery = None,
    user: Annotated[str | None, QueryParameter(description="Only what belongs to this user.")] = None,
) -> SearchHitPage:
    """What was said and what is known that bears on the words, the best first; by meaning too, if it can."""
    owner = caller.effective_user(user)
    query = Search(
        query=q,
        owner=owner,
        thread=None if thread is None else check_reachable(thread),
        kinds=tuple(each for each in KINDS if kind is None or each in kind),
        role=role,
        since=since,
        until=until,
    )
    list_name = f"search\0{msgspec.json.encode(query).decode()}"
    db = caller.database_for(owner) if owner is not None else caller.db
    async with caller.runtime() as runtime:
        page = await search_everything(
            db,
            query,
            limit=limit,
            cursor=caller.position(cursor, str, list_name),
            embedder=runtime.embedding_provider,
        )
    return SearchHitPage(
        found=[
            SearchHitView(**msgspec.structs.asdict(hit) | {"marks": list(hit.marks)}) for hit in page.hits
        ],
        next=caller.cursor(page.next, list_name) if page.next is not None else None,
        path=page.path,
        problem=page.problem,
    )


@post("/feedback", operation_id="give_feedback")
async def give_feedback(
    data: JSONBody[NewFeedback], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> FeedbackView:
    """What a user thought of a session so far: a label, never text. With one key it is recorded once."""
    head = await caller.db.thread(check_reachable(data.thread)).head()
    episode = await active_episode(caller.db, data.thread)
    key = request.headers.get(KEY_HEADER) or secrets.token_hex(16)
    subject = episode.id if episode is not None else data.thread
    now = caller.db.store.now()
    body: dict[str, JSON] = {
        "label": data.label,
        "source": "http",
        "modality": episode.modality if episode is not None else "text",
        "turns": episode.turns if episode is not None else 0,
        "recorded": now,
        "thread": data.thread,
    }
    id = hashlib.sha256(f"{subject}\0{key}".encode()).hexdigest()
    tags = (f"thread:{data.thread}",)
    record = Record(kind=FEEDBACK, id=id, owner=head.owner, tags=tags, sort=now, body=body)
    try:
        await caller.db.records.put(record, expect=0)
    except RevisionConflict:
        body = (await caller.db.records.get(FEEDBACK, id)).body
    return FeedbackView(id=id, thread=body["thread"], label=body["label"], recorded=body["recorded"])


@get("/jobs", operation_id="list_jobs")
async def list_jobs(
    caller: CurrentCaller,
    status: FromQuery[Literal["waiting", "running", "dead"] | None] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> JobPage:
    """Jobs by the time they are due: what is yet to be done, and what was given up."""
    list_name = f"jobs\0{status}"
    end, offset = caller.position(cursor, tuple[tuple[int, str], int], list_name) or ((-1, ""), 0)
    jobs = await caller.db.jobs.list(status=status, limit=offset + limit + 1)
    skip = sum((job.due, job.id) <= end for job in jobs)  # some may have come or gone since
    page = jobs[skip : skip + limit]
    next = None
    if len(jobs) > min(skip, offset) + limit:
        end = (page[-1].due, page[-1].id) if page else end
        next = caller.cursor([list(end), skip + len(page)], list_name)
    return JobPage(jobs=[job_view(job, caller.visible_problem(job.problem)) for job in page], next=next)


@post("/jobs/{job:str}/retry", operation_id="retry_job", status_code=200)
async def retry_job(job: FromPath[str], caller: CurrentCaller) -> JobView:
    """Let a job that was given up be tried again at once. Needs the role admin."""
    caller.require_role(ADMIN)
    await audit.record_action(
        caller.resources.db.scope(tenant=caller.identity.tenant), caller.identity, "retry job"
    )
    record = await caller.db.jobs.retry(decode_path_part(job))
    return job_view(record, record.problem)


SEARCH_ROUTES = [search, give_feedback, list_jobs, retry_job]
