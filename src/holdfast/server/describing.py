"""What each route answers when something is wrong, for the OpenAPI document."""

from http import HTTPStatus

from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.plugins import ReceiveRoutePlugin
from litestar.routes import BaseRoute, HTTPRoute

from holdfast.client.values import Problem
from holdfast.server.callers import OPEN
from holdfast.server.wire import PROBLEM

ANY = (400, 401, 403, 422, 429, 500, 503)
"""What any request may come to."""
CHANGING = (409, 413)
"""What one that changes something may come to besides."""


def statuses(handler: HTTPRouteHandler, path: str) -> tuple[int, ...]:
    """The statuses of the problems that a route may answer with."""
    if handler.opt.get(OPEN):
        return (500, 503)
    named = (404,) if "{" in path or not handler.http_methods <= {"GET"} else ()
    return (*ANY, *named, *(() if handler.http_methods <= {"GET"} else CHANGING))


class Problems(ReceiveRoutePlugin):
    """Adds to each route the problems that it may answer with."""

    def receive_route(self, route: BaseRoute) -> None:
        """Look at a route as it is made known to the application."""
        if not isinstance(route, HTTPRoute):
            return
        for handler in route.route_handlers:
            told = {status: _spec(status) for status in sorted(statuses(handler, route.path))}
            handler.responses = {**told, **(handler.responses or {})}


def _spec(status: int) -> ResponseSpec:
    return ResponseSpec(
        Problem, generate_examples=False, description=HTTPStatus(status).phrase, media_type=PROBLEM
    )
