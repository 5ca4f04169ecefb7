"""Our values as the wire has them, and our errors as problems with a status."""

import base64
import logging
import math
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from clew.api.messages import EpisodeView, MessageView
from clew.api.operators import JobView
from clew.api.threads import (
    ApprovalView,
    ChangesetView,
    CommitView,
    ItemPage,
    ItemView,
    ParentView,
    Problem,
    RunView,
    ThreadDetail,
    ThreadView,
    TurnView,
    UnreadableItemView,
    UsageView,
)
from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import (
    AccessRefused,
    ClewError,
    Conflict,
    InvalidInput,
    NotFound,
    RateLimited,
    RunFailed,
    StoreFailed,
)
from clew.core.messages.plain import with_tool_names
from clew.core.messages.projection import project_item
from clew.core.values import (
    Changeset,
    Committed,
    Head,
    Item,
    Job,
    Parent,
    ThreadSummary,
    UnreadableItem,
    Window,
)
from clew.runtime.model.redaction import public_error
from clew.runtime.records.episodes import Episode
from clew.runtime.records.runs import Run
from clew.runtime.state.call_state import Approval
from clew.runtime.turn.result import TurnResult
from clew.server.http.request import NestedTooDeeply

log = logging.getLogger("clew.server")
PROBLEM_MEDIA_TYPE = "application/problem+json"
DENIAL_EXTENSION = "websocket.http.response"
"""How a server lets a WebSocket be refused with an answer."""
BODY, DATA = "body", "data"

STATUS_BY_GROUP: dict[type[ClewError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    Conflict: 409,
    StoreFailed: 503,
    RunFailed: 502,
    AccessRefused: 403,
    RateLimited: 429,
}
"""The status of each group of errors. Those that differ from their group stand in ``STATUS_BY_CODE``."""

STATUS_BY_CODE: dict[str, int] = {
    "too_large": 413,
    "document_too_large": 413,
    "unsupported_media_type": 415,
    "unauthenticated": 401,
    "server_full": 503,
    "issuer_unavailable": 503,
    "storage_full": 507,
    "newer_format": 500,
    "newer_schema": 500,
    "not_migrated": 500,
    "store_damaged": 500,
    "artifact_damaged": 500,
    "deadline_exceeded": 504,
    "tool_conflict": 500,
    "guardrail_tripped": 422,
    "unsafe_settings": 500,
    "missing_extra": 500,
    "unknown_url": 500,
    "error": 500,
}

CODE_BY_STATUS: dict[int, str] = {404: "not_found", 409: "conflict", 413: "too_large", 429: "rate_limited"}
"""What an error of the framework is called; any other is an ``invalid_input``, or an ``error`` of ours."""


def status_of(kind: type[ClewError]) -> int:
    """The HTTP status of an error."""
    if kind.code in STATUS_BY_CODE:
        return STATUS_BY_CODE[kind.code]
    return next((status for group, status in STATUS_BY_GROUP.items() if issubclass(kind, group)), 500)


def problem_of(error: ClewError) -> Problem:
    """An error as the wire has it. What a store says about itself stays here, in the log."""
    error = public_error(error)
    return _problem(error.code, status_of(type(error)), str(error), as_json(error.facts()))


def _problem(code: str, status: int, detail: str, facts: dict[str, JSON] | None = None) -> Problem:
    return Problem(
        type=f"urn:clew:error:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        facts=facts or {},
    )


def error_response(request: Request[Any, Any, Any], error: ClewError) -> Response[Problem]:
    """The answer to a request that one of our errors ended."""
    problem = problem_of(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, RateLimited):
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return _problem_response(problem, _error_headers(error))


def denial_messages(error: ClewError) -> list[Any]:
    """The answer to a request for a WebSocket that one of our errors ended, before there was one."""
    problem = problem_of(error)
    body = encode(problem)
    header_texts = {
        "content-type": PROBLEM_MEDIA_TYPE,
        "content-length": str(len(body)),
        **_error_headers(error),
    }
    headers = [(name.lower().encode(), value.encode()) for name, value in header_texts.items()]
    return [
        {"type": f"{DENIAL_EXTENSION}.start", "status": problem.status, "headers": headers},
        {"type": f"{DENIAL_EXTENSION}.body", "body": body, "more_body": False},
    ]


def http_exception_response(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """The answer to a request that the framework refused: no such route, a body that does not fit."""
    status = 422 if isinstance(error, ValidationException) else error.status_code
    is_server_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    code = CODE_BY_STATUS.get(status, "error" if is_server_fault else "invalid_input")
    detail = _detail(error, status)
    return _problem_response(
        _problem(code, status, detail, _http_exception_facts(request, error, status)), _allow_header(error)
    )


def _allow_header(error: HTTPException) -> dict[str, str]:
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return {name: value for name, value in headers.items() if name == "allow"}


def _http_exception_facts(
    request: Request[Any, Any, Any], error: HTTPException, status: int
) -> dict[str, JSON]:
    if isinstance(error, ValidationException):
        return {"problems": _reasons(error)}
    if status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return {}
    size = request.headers.get("content-length", "0")
    limit = request.route_handler.resolve_request_max_body_size()
    return {"what": "request", "size": int(size) if size.isdecimal() else 0, "limit": limit or 0}


def failure_response(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """The answer when the server itself is wrong: nothing of it is told, all of it is logged."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem_response(failure_problem(), {})


def failure_problem() -> Problem:
    """What is told when the server itself is wrong."""
    return _problem("error", 500, "The server failed. Its log says why.")


def _detail(error: HTTPException, status: int) -> str:
    if isinstance(error, ValidationException):
        reasons = "; ".join(_reasons(error))
        return f"The request cannot be used: {reasons}." if reasons else "The request cannot be used."
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return "The body is larger than this server takes. Send less at once."
    if status == HTTPStatus.NOT_FOUND:
        return "There is nothing here."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(sorted(_allow_header(error).get("allow", "").split(", ")))
        return f"This cannot be asked here in that way. Ask with one of: {methods}."
    if status == HTTPStatus.BAD_REQUEST:
        advice = "" if isinstance(error, NestedTooDeeply) else " Send valid JSON."
        return f"The body cannot be read: {error.detail}.{advice}"
    return f"{HTTPStatus(status).phrase}: {error.detail}".rstrip(": ")


def _reasons(error: ValidationException) -> list[str]:
    extra: Iterable[Any] = error.extra if isinstance(error.extra, list) else ()
    reasons = [
        _reason(each.get("key", BODY), each.get("message", "")) for each in extra if isinstance(each, dict)
    ]
    return reasons or [error.detail]


def _reason(key: str, message: str) -> str:
    """What is wrong with a part of a request. The framework calls the body data, and one that lacks too."""
    text = "it is missing" if message == repr(key) else message
    return f"{BODY if key == DATA else key}: {text}"


def _error_headers(error: ClewError) -> dict[str, str]:
    wait_ms = error.facts().get("retry_after_ms")
    if error.code == "unauthenticated":
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(max(1, math.ceil(wait_ms / 1000)))} if isinstance(wait_ms, int) else {}


def _problem_response(problem: Problem, headers: dict[str, str]) -> Response[Problem]:
    return Response(problem, status_code=problem.status, media_type=PROBLEM_MEDIA_TYPE, headers=headers)


# Values.


def parent_view(parent: Parent | None) -> ParentView | None:
    """Where a fork comes from."""
    return ParentView(thread=parent.thread, version=parent.version) if parent is not None else None


def thread_view(summary: ThreadSummary, last: str | None = None) -> ThreadView:
    """A thread in a list, with what was said last if that was asked for."""
    return ThreadView(
        id=summary.id,
        owner=summary.owner,
        version=summary.version,
        created=summary.created,
        updated=summary.updated,
        title=summary.title,
        labels=list(summary.labels),
        parent=parent_view(summary.parent),
        items=summary.items,
        last=last,
    )


def thread_detail(head: Head) -> ThreadDetail:
    """A thread at one version."""
    about = head.state.get("$thread")
    labels = about.get("labels", []) if isinstance(about, dict) else []
    return ThreadDetail(
        id=head.id,
        owner=head.owner,
        version=head.version,
        created=head.created,
        updated=head.updated,
        hash=head.hash.hex(),
        title=head.title,
        labels=labels if isinstance(labels, list) else [],
        parent=parent_view(head.parent),
        logs={name: size.length for name, size in head.counters.logs.items()},
        open_calls=list(head.counters.open),
    )


def item_view(item: Item) -> ItemView:
    """An item; bytes are told as base64."""
    body = base64.b64encode(item.body).decode() if isinstance(item.body, bytes) else item.body
    fields = {name: getattr(item, name) for name in ItemView.__struct_fields__}
    return ItemView(**{**fields, "body": body})


def unreadable_item_view(item: UnreadableItem) -> UnreadableItemView:
    """An entry that cannot be read."""
    return UnreadableItemView(log=item.log, place=item.place, version=item.version, problem=item.problem)


def item_page(thread: str, window: Window, next: str | None) -> ItemPage:
    """Some items."""
    return ItemPage(
        thread=thread,
        version=window.version,
        items=[item_view(item) for item in window],
        next=next,
        broken=[unreadable_item_view(entry) for entry in window.broken],
    )


def message_views(items: Sequence[Item]) -> list[MessageView]:
    """What items say, whatever their formats."""
    pairs = [(item, message) for item in items for message in project_item(item)]
    messages = with_tool_names(message for _, message in pairs)
    return [
        msgspec.convert(
            as_json(message)
            | {
                name: getattr(item, name)
                for name in ("place", "version", "time", "id", "format", "run", "visibility")
            }
            | {"meta": _application_meta(item)},
            MessageView,
        )
        for (item, _), message in zip(pairs, messages, strict=True)
    ]


def _application_meta(item: Item) -> JSON:
    """What an application stamped on an item of our own format."""
    meta = item.body.get("meta") if item.format == "clew" and isinstance(item.body, dict) else None
    return meta if isinstance(meta, dict) else {}


def changeset_view(change: Changeset) -> ChangesetView:
    """One change."""
    return ChangesetView(
        version=change.version,
        time=change.time,
        hash=change.hash.hex(),
        reason=change.reason,
        items=[item_view(item) for item in change.items],
        patches=as_json(change.patches),
        cuts=as_json(change.cuts),
        snapshot=change.snapshot,
        state_actions=list(change.state_actions),
        run_id=change.run_id,
        parent_run_id=change.parent_run_id,
        run_meta=change.run_meta,
        author=change.author,
        erased=bool(change.erased),
    )


def commit_view(commit: Committed) -> CommitView:
    """Where a thread stands."""
    return CommitView(
        thread=commit.thread,
        version=commit.version,
        time=commit.time,
        hash=commit.hash.hex(),
        repeated=commit.repeated,
    )


def approval_view(approval: Approval) -> ApprovalView:
    """A call that waits."""
    return msgspec.convert(as_json(approval), ApprovalView)


def turn_view(result: TurnResult[Any]) -> TurnView:
    """A turn that is over."""
    return TurnView(
        thread=result.thread,
        run=result.run,
        version=result.version,
        text=result.text,
        output=as_json(result.output),
        termination=result.termination,
        waiting=[approval_view(each) for each in result.waiting],
        usage=msgspec.convert(as_json(result.usage), UsageView),
    )


def run_view(run: Run, approvals: Iterable[Approval] = ()) -> RunView:
    """A run; what its state waits for is known to its thread."""
    return RunView(
        id=run.id,
        thread=run.thread,
        status=run.status,
        origin=run.origin,
        started=run.started,
        parent=run.parent,
        user=run.user,
        ended=run.ended,
        termination=run.termination,
        problem=run.problem,
        usage=msgspec.convert(as_json(run.usage), UsageView),
        waiting=[approval_view(each) for each in approvals],
        in_doubt=list(run.in_doubt),
    )


def episode_view(episode: Episode) -> EpisodeView:
    """An episode without what was noticed in it."""
    fields = {name: getattr(episode, name) for name in EpisodeView.__struct_fields__ if name != "session"}
    return EpisodeView(session=episode.thread, **fields)


def job_view(job: Job, problem: str | None) -> JobView:
    """A job without its body, which may be anybody's, and with what may be told of its problem."""
    fields = {name: getattr(job, name) for name in JobView.__struct_fields__}
    return JobView(**{**fields, "problem": problem})
