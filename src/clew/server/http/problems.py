"""Errors as problems with an HTTP status."""

import logging
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from clew.api.problems import PROBLEM_MEDIA_TYPE, Problem, choices_sentence
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
from clew.runtime.model.redaction import public_error
from clew.server.http.endpoint import route_of
from clew.server.http.request import NestedTooDeeply

log = logging.getLogger("clew.server")
DENIAL_EXTENSION = "websocket.http.response"
"""The extension of ASGI with which a WebSocket is refused with a response."""
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
"""The status of each group of errors. Those that differ from their group are in ``STATUS_BY_CODE``."""

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
    "source_unreadable": 500,
    "missing_extra": 500,
    "unknown_url": 500,
    "error": 500,
}

CODE_BY_STATUS: dict[int, str] = {
    404: "not_found",
    409: "conflict",
    413: "too_large",
    429: "rate_limited",
    431: "too_large",
}
"""The codes of errors that have a status only; any other is ``invalid_input``, or ``error`` from 500 on."""


def status_of(kind: type[ClewError]) -> int:
    """Return the HTTP status of an error."""
    if kind.code in STATUS_BY_CODE:
        return STATUS_BY_CODE[kind.code]
    return next((status for group, status in STATUS_BY_GROUP.items() if issubclass(kind, group)), 500)


def problem_of(error: ClewError) -> Problem:
    """Return an error as the wire has it. What a store says about itself stays here, in the log."""
    error = public_error(error)
    return _problem(error.code, status_of(type(error)), str(error), as_json(error.facts()))


def problem_with_status(status: int, detail: str, facts: dict[str, JSON] | None = None) -> Problem:
    """Return the problem of an error that has a status and no class of ours."""
    default = "error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_input"
    return _problem(CODE_BY_STATUS.get(status, default), status, detail, facts)


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
    """Return the response to a request that one of our errors ended."""
    problem = problem_of(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, RateLimited):
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return _problem_response(problem, _error_headers(error))


def denial_messages(error: ClewError) -> list[Any]:
    """Return the ASGI messages that refuse a WebSocket with one of our errors, before it is accepted."""
    problem = problem_of(error)
    texts, body = encode_problem(problem, _error_headers(error))
    headers = [(name.lower().encode(), value.encode()) for name, value in texts.items()]
    return [
        {"type": f"{DENIAL_EXTENSION}.start", "status": problem.status, "headers": headers},
        {"type": f"{DENIAL_EXTENSION}.body", "body": body, "more_body": False},
    ]


def encode_problem(problem: Problem, headers: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a response that is sent without the framework."""
    body = encode(problem)
    return {"content-type": PROBLEM_MEDIA_TYPE, "content-length": str(len(body)), **headers}, body


def http_exception_response(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """Return the response to a request that the framework refused: no such route, a body that is invalid."""
    status = 422 if isinstance(error, ValidationException) else error.status_code
    if isinstance(error, ValidationException):
        problem = _validation_problem(request, error, status)
    else:
        facts = _http_exception_facts(request, status)
        problem = problem_with_status(status, _detail(error, status), facts)
    return _problem_response(problem, _allow_header(error))


def _validation_problem(request: Request[Any, Any, Any], error: ValidationException, status: int) -> Problem:
    route = route_of(request.route_handler)
    reasons = _reasons(error, None if route is None else route.body)
    return problem_with_status(
        status, f"The request is not valid: {'; '.join(reasons)}.", {"problems": list(reasons)}
    )


def _allow_header(error: HTTPException) -> dict[str, str]:
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return {name: value for name, value in headers.items() if name == "allow"}


def _http_exception_facts(request: Request[Any, Any, Any], status: int) -> dict[str, JSON]:
    if status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return {}
    size = request.headers.get("content-length", "0")
    limit = request.route_handler.resolve_request_max_body_size()
    return {"what": "request", "size": int(size) if size.isdecimal() else 0, "limit": limit or 0}


def failure_response(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """Return the response to an unforeseen error: it says nothing of the error, and the log has all of it."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem_response(failure_problem(), {})


def failure_problem() -> Problem:
    """Return the problem of an unforeseen error."""
    return _problem("error", 500, "The server failed. Its log says why.")


def _detail(error: HTTPException, status: int) -> str:
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return "The request body is too large. Send less at once."
    if status == HTTPStatus.NOT_FOUND:
        return "There is no such route. The OpenAPI document lists them all."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(sorted(_allow_header(error).get("allow", "").split(", ")))
        return f"Method not allowed. Use one of: {methods}."
    if status == HTTPStatus.BAD_REQUEST:
        advice = "" if isinstance(error, NestedTooDeeply) else " Send valid JSON."
        return f"The request body cannot be read: {error.detail}.{advice}"
    return f"{HTTPStatus(status).phrase}: {error.detail}".rstrip(": ")


def _reasons(error: ValidationException, body: Any) -> list[str]:
    extra: Iterable[Any] = error.extra if isinstance(error.extra, list) else ()
    reasons = [
        _reason(each.get("key", BODY), each.get("message", ""), body)
        for each in extra
        if isinstance(each, dict)
    ]
    return reasons or [error.detail]


def _reason(key: str, message: str, body: Any) -> str:
    """Return what is wrong with a part of a request; the framework calls the body ``data``."""
    text = "it is missing" if message == repr(key) else message
    advice = choices_sentence(body, key)
    return f"{BODY if key == DATA else key}: {text}" + (f". {advice}" if advice else "")


def _error_headers(error: ClewError) -> dict[str, str]:
    wait_ms = error.facts().get("retry_after_ms")
    if error.code == "unauthenticated":
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(max(1, math.ceil(wait_ms / 1000)))} if isinstance(wait_ms, int) else {}


def _problem_response(problem: Problem, headers: dict[str, str]) -> Response[Problem]:
    return Response(problem, status_code=problem.status, media_type=PROBLEM_MEDIA_TYPE, headers=headers)
