"""The OpenAPI document, beyond types: problems, credentials, keys, versions, bodies that are no JSON."""

from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any

from litestar import Response, Router
from litestar.exceptions import NotFoundException
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

from clew.api.problems import PROBLEM_MEDIA_TYPE, Problem
from clew.api.route import IDEMPOTENCY_KEY, JSON_TYPE, Route
from clew.server.http.endpoint import route_of

COMMON_STATUSES = (400, 401, 403, 404, 422, 429, 500, 503)
"""Statuses of problems that any request may get."""
WRITE_STATUSES = (409, 413, 507)
"""Those that a change may get besides."""
JSON_STATUSES = (415,)
"""Those that a JSON body may get besides."""
RUN_STATUSES = (502, 504)
"""Those that the work of a model or a tool may get besides."""

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
    name=IDEMPOTENCY_KEY,
    param_in="header",
    schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=512),
    description="Makes it safe to repeat: the first answer comes again, and nothing is done twice.",
)
ETAG_HEADER = OpenAPIHeader(schema=TEXT_SCHEMA, description="The version of the thread, in quotes.")


def openapi_config(path: str) -> OpenAPIConfig:
    """Return the settings of the document: JSON only, and no page that would load scripts of other sites."""
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
    """Raise where the framework would reply with a page of its own."""
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise NotFoundException
    return response


def problem_statuses(route: Route[Any]) -> tuple[int, ...]:
    """Return the statuses of the problems that a route may reply with."""
    if route.open_to_all:
        return (500, 503)
    more = [
        WRITE_STATUSES if route.method != "GET" else (),
        JSON_STATUSES if route.body is not None else (),
        RUN_STATUSES if route.runs_model else (),
    ]
    return (*COMMON_STATUSES, *chain.from_iterable(more))


class OpenApiPlugin(ReceiveRoutePlugin):
    """Adds to each endpoint what its types do not say, from the description of its route."""

    def receive_route(self, route: BaseRoute) -> None:
        """Complete the endpoints of a path as it is made known to the application."""
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            description = route_of(handler)  # None for a route that an agent serves in its own way
            statuses = COMMON_STATUSES if description is None else problem_statuses(description)
            problems = {status: _problem_spec(status) for status in sorted(statuses)}
            handler.responses = {**problems, **(handler.responses or {})}
            if description is not None:
                handler.operation_class = _operation_class(description)


def _problem_spec(status: int) -> ResponseSpec:
    return ResponseSpec(
        Problem, generate_examples=False, description=HTTPStatus(status).phrase, media_type=PROBLEM_MEDIA_TYPE
    )


def _operation_class(route: Route[Any]) -> type[Operation]:
    @dataclass
    class RouteOperation(Operation):
        """One route in the document."""

        def __post_init__(self) -> None:
            if route.method == "POST":
                self.parameters = [*(self.parameters or ()), KEY_PARAMETER]
            if route.body_type != JSON_TYPE:
                content = {route.body_type: OpenAPIMediaType(schema=TEXT_SCHEMA)}
                self.request_body = RequestBody(content=content, required=True)
            if route.open_to_all:
                self.security = [{}]
            for response in _success_responses(self):
                _describe_response(response, route)

    return RouteOperation


def _success_responses(operation: Operation) -> list[OpenAPIResponse]:
    responses = operation.responses or {}
    return [
        response
        for status, response in responses.items()
        if status.startswith("2") and isinstance(response, OpenAPIResponse)
    ]


def _describe_response(response: OpenAPIResponse, route: Route[Any]) -> None:
    for media_type in route.other_media_types:
        response.content = {**(response.content or {}), media_type: OpenAPIMediaType(schema=Schema())}
    if route.has_etag:
        response.headers = {**(response.headers or {}), "ETag": ETAG_HEADER}
