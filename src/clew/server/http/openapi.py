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
from clew.server.http.callers import OPEN
from clew.server.http.views import PROBLEM

ANY = (400, 401, 403, 404, 422, 429, 500, 503)
"""What any request may come to."""
CHANGING = (409, 413, 507)
"""What one that changes something may come to besides."""
READING_JSON = (415,)
"""What one that takes JSON may come to besides."""
RUNNING = (502, 504)
"""What one that lets a model or a tool work may come to besides."""

WORKS = "lets a model or a tool work"
ALSO = "answers in these media types too"
TAKES = "takes a body of this media type"
VERSIONED = "says the version of a thread"
"""Marks of routes: the second and third have a value."""

TEXT = Schema(type=OpenAPIType.STRING)
CREDENTIALS = {
    "bearer": SecurityScheme(
        type="http",
        scheme="bearer",
        description="An API key, or a token of the issuer that the server trusts.",
    ),
    "key": SecurityScheme(
        type="apiKey", name="X-API-Key", security_scheme_in="header", description="An API key."
    ),
}
KEY = Parameter(
    name="Idempotency-Key",
    param_in="header",
    schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=512),
    description="Makes it safe to repeat: the first answer comes again, and nothing is done twice.",
)
ETAG = OpenAPIHeader(schema=TEXT, description="The version of the thread, in quotes.")


def description(path: str) -> OpenAPIConfig:
    """The document, as JSON and nothing else: no page that would load scripts of other sites."""
    return OpenAPIConfig(
        title="Clew",
        version="1",
        description="Durable threads for AI agents. A server in dev mode needs no credentials.",
        components=Components(security_schemes=dict(CREDENTIALS)),
        security=[{name: []} for name in CREDENTIALS],
        openapi_router=Router(path, route_handlers=[], include_in_schema=False, after_request=_as_problem),
        render_plugins=[JsonRenderPlugin()],
        use_handler_docstrings=True,
    )


async def _as_problem(response: Response[Any]) -> Response[Any]:
    """The framework answers with a page of its own where it knows no file."""
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise NotFoundException
    return response


def statuses(handler: HTTPRouteHandler) -> tuple[int, ...]:
    """The statuses of the problems that a route may answer with."""
    if handler.opt.get(OPEN):
        return (500, 503)
    more = [
        CHANGING if handler.http_methods - {"GET"} else (),
        READING_JSON if "data" in handler.parsed_fn_signature.parameters else (),
        RUNNING if handler.opt.get(WORKS) else (),
    ]
    return (*ANY, *chain.from_iterable(more))


class Describing(ReceiveRoutePlugin):
    """Adds to each route what its types do not say."""

    def receive_route(self, route: BaseRoute) -> None:
        """Look at a route as it is made known to the application."""
        if not isinstance(route, HTTPRoute):
            return
        for handler in route.route_handlers:
            told = {status: _spec(status) for status in sorted(statuses(handler))}
            handler.responses = {**told, **(handler.responses or {})}
            handler.operation_class = _operation(handler)


def _spec(status: int) -> ResponseSpec:
    return ResponseSpec(
        Problem, generate_examples=False, description=HTTPStatus(status).phrase, media_type=PROBLEM
    )


def _operation(handler: HTTPRouteHandler) -> type[Operation]:
    marks, is_post = handler.opt, "POST" in handler.http_methods

    @dataclass
    class Described(Operation):
        """One route in the document."""

        def __post_init__(self) -> None:
            if is_post:
                self.parameters = [*(self.parameters or ()), KEY]
            if TAKES in marks:
                content = {marks[TAKES]: OpenAPIMediaType(schema=TEXT)}
                self.request_body = RequestBody(content=content, required=True)
            if OPEN in marks:
                self.security = [{}]
            for answer in _successes(self):
                _describe(answer, marks)

    return Described


def _successes(operation: Operation) -> list[OpenAPIResponse]:
    found = operation.responses or {}
    return [
        answer
        for status, answer in found.items()
        if status.startswith("2") and isinstance(answer, OpenAPIResponse)
    ]


def _describe(answer: OpenAPIResponse, marks: Mapping[str, Any]) -> None:
    for kind in marks.get(ALSO, ()):
        answer.content = {**(answer.content or {}), kind: OpenAPIMediaType(schema=Schema())}
    if marks.get(VERSIONED):
        answer.headers = {**(answer.headers or {}), "ETag": ETAG}
