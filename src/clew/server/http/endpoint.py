"""The function that serves a route, bound to the route's description in ``clew.api``."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.response import Stream

from clew.api.route import Route

T = TypeVar("T")
Endpoint: TypeAlias = Callable[..., Awaitable[T | Response[T] | Stream]]

ROUTE = "route"
"""The option of an endpoint that holds its description."""
OPEN_TO_ALL = "open_to_all"
"""The option of an endpoint that needs no credentials; middleware is left out by an option."""
REQUIRED_SCOPE = "required_scope"
"""The option of an endpoint beside the API that names the scope which its credentials need."""
COMMITS_KEY = "commits_key"
"""The option of an endpoint whose idempotency key commits with its change."""


def endpoint(
    route: Route[T], *, responses: Mapping[int, ResponseSpec] | None = None
) -> Callable[[Endpoint[T]], HTTPRouteHandler]:
    """Return a decorator that serves a route with a function, whose reply has the type of the route.

    ``responses`` are for the OpenAPI document, where the annotation of the function does not say it all.
    """
    options: dict[str, Any] = {ROUTE: route}
    if route.open_to_all:
        options[OPEN_TO_ALL] = True
    if route.commits_key:
        options[COMMITS_KEY] = True
    return HTTPRouteHandler(
        re.sub(r"{(\w+)}", r"{\1:str}", route.path),
        http_method=route.method,
        operation_id=route.name,
        status_code=route.status,
        media_type=route.media_type,
        opt=options,
        responses=responses,
    )


def route_of(handler: HTTPRouteHandler) -> Route[Any] | None:
    """Return the description of an endpoint; None for one beside the API, like a page of the Studio."""
    route: Route[Any] | None = handler.opt.get(ROUTE)
    return route
