"""What the OpenAPI document says beyond types: problems, credentials, keys, versions, odd bodies."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any

from litestar import Response, Router
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import (
    Components,
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    Parameter,
    RequestBody,
    Schema,
    SecurityScheme,
)
from litestar.openapi.spec.enums import OpenAPIType
from litestar.plugins import ReceiveRoutePlugin
from litestar.routes import BaseRoute, HTTPRoute

from clew.api.threads import Problem
from clew.server.http.callers import OPEN_TO_ALL
from clew.server.http.views import PROBLEM_MEDIA_TYPE

COMMON_STATUSES = (400, 401, 403, 404, 422, 429, 500, 503)
"""What any request may come to."""
WRITE_STATUSES = (409, 413, 507)
"""What one that changes something may come to besides."""
READING_JSON = (415,)
"""What one that takes JSON may come to besides."""
RUN_STATUSES = (502, 504)
"""What one that lets a model or a tool work may come to besides."""

RUNS_MODEL = "lets a model or a tool work"
OTHER_MEDIA_TYPES = "answers in these media types too"
BODY_MEDIA_TYPE = "takes a body of this media type"
HAS_ETAG = "says the version of a thread"
"""Marks of routes: the second and third have a value."""

TEXT_SCHEMA = Schema(type=OpenAPIType.STRING)
SECURITY_SCHEMES = {
    "bearer": SecurityScheme(
        type="http",
        scheme="bearer",
        description="An API key, or a token of the issuer that the server trusts.",
    ),
    "key": SecurityScheme(
        type="apiKey", name="X-API-Key", security_scheme_in="header", description="An API key."
    ),
}
KEY_PARAMETER = Parameter(
    name="Idempotency-Key",
    param_in="header",
    schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=512),
    description="Makes it safe to repeat: the first answer comes again, and nothing is done twice.",
)
ETAG_HEADER = OpenAPIHeader(schema=TEXT_SCHEMA, description="The version of the thread, in quotes.")


def openapi_config(path: str) -> OpenAPIConfig:
    """The document, as JSON and nothing else: no page that would load scripts of other sites."""
    return OpenAPIConfig(
        title="Clew",
        version="1",
        description="Durable threads for AI agents. A server in dev mode needs no credentials.",
        components=Components(security_schemes=dict(SECURITY_SCHEMES)),
        security=[{name: []} for name in SECURITY_SCHEMES],
        openapi_router=Router(
            path, route_handlers=[], include_in_schema=False, after_request=_raise_not_found
        ),
        render_plugins=[JsonRenderPlugin()],
        use_handler_docstrings=True,
    )


async def _raise_not_found(response: Response[Any]) -> Response[Any]:
    """The framework answers with a page of its own where it knows no file."""
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise NotFoundException
    return response


def problem_statuses(handler: HTTPRouteHandler) -> tuple[int, ...]:
    """The statuses of the problems that a route may answer with."""
    if handler.opt.get(OPEN_TO_ALL):
        return (500, 503)
    more = [
        WRITE_STATUSES if handler.http_methods - {"GET"} else (),
        READING_JSON if "data" in handler.parsed_fn_signature.parameters else (),
        RUN_STATUSES if handler.opt.get(RUNS_MODEL) else (),
    ]
    return (*COMMON_STATUSES, *chain.from_iterable(more))


class OpenApiPlugin(ReceiveRoutePlugin):
    """Adds to each route what its types do not say."""

    def receive_route(self, route: BaseRoute) -> None:
        """Look at a route as it is made known to the application."""
        if not isinstance(route, HTTPRoute):
            return
        for handler in route.route_handlers:
            problems = {status: _problem_spec(status) for status in sorted(problem_statuses(handler))}
            handler.responses = {**problems, **(handler.responses or {})}
            handler.operation_class = _operation_class(handler)


def _problem_spec(status: int) -> ResponseSpec:
    return ResponseSpec(
        Problem, generate_examples=False, description=HTTPStatus(status).phrase, media_type=PROBLEM_MEDIA_TYPE
    )


def _operation_class(handler: HTTPRouteHandler) -> type[Operation]:
    marks, is_post = handler.opt, "POST" in handler.http_methods

    @dataclass
    class RouteOperation(Operation):
        """One route in the document."""

        def __post_init__(self) -> None:
            if is_post:
                self.parameters = [*(self.parameters or ()), KEY_PARAMETER]
            if BODY_MEDIA_TYPE in marks:
                content = {marks[BODY_MEDIA_TYPE]: OpenAPIMediaType(schema=TEXT_SCHEMA)}
                self.request_body = RequestBody(content=content, required=True)
            if OPEN_TO_ALL in marks:
                self.security = [{}]
            for answer in _success_responses(self):
                _describe_answer(answer, marks)

    return RouteOperation


def _success_responses(operation: Operation) -> list[OpenAPIResponse]:
    responses = operation.responses or {}
    return [
        answer
        for status, answer in responses.items()
        if status.startswith("2") and isinstance(answer, OpenAPIResponse)
    ]


def _describe_answer(answer: OpenAPIResponse, marks: Mapping[str, Any]) -> None:
    for kind in marks.get(OTHER_MEDIA_TYPES, ()):
        answer.content = {**(answer.content or {}), kind: OpenAPIMediaType(schema=Schema())}
    if marks.get(HAS_ETAG):
        answer.headers = {**(answer.headers or {}), "ETag": ETAG_HEADER}
