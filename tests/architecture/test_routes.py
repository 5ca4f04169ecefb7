"""A route is described once, in ``clew.api``: the server serves that description, and the client calls it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import BaseRoute, HTTPRoute

import clew.api
from clew.api.route import API_PREFIX, Route
from clew.server.app import create_app
from clew.server.http.endpoint import route_of
from tests.architecture.source import ROOT, modules

BESIDE_THE_API = {
    "/": "leads to the Studio",
    "/studio": "a page",
    "/studio/{path:path}": "pages and their files",
    "/mcp": "MCP, whose messages its specification describes",
    f"{API_PREFIX}/ws": "a WebSocket, whose messages are described in clew.api.turns",
    f"{API_PREFIX}/openapi": "the OpenAPI document",
    f"{API_PREFIX}/openapi/openapi.json": "the OpenAPI document",
    f"{API_PREFIX}/openapi/{{path:str}}": "the OpenAPI document",
}
FOR_OTHER_CLIENTS = "it speaks a protocol that has clients of its own"
WITHOUT_CALL = {
    "post_turn_on": "the client names the thread in the path",
    "post_chat": FOR_OTHER_CLIENTS,
    "resume_chat": FOR_OTHER_CLIENTS,
    "list_chat_messages": FOR_OTHER_CLIENTS,
    "run_ag_ui": FOR_OTHER_CLIENTS,
}
PLACES = ("src/clew/api", "src/clew/server/routes", "src/clew/client")
"""The three places that a new route touches."""
COMPANION_API = "clew_companion.api"
"""An agent brings routes of its own, which are described in its own distribution."""
DOCUMENTS = {
    "Receipt": "the same in the database, in an archive and on the wire: its hash is over these fields",
    "RetainedRecords": "a part of a receipt",
    "Hold": "the same in the database and on the wire",
    "RetentionRule": "the same in the database and on the wire",
}
"""Types on the wire that the core defines, and why."""


def described_routes() -> dict[str, Route[Any]]:
    """Every description of a route, also those of the companion, by the name of its constant."""
    names = [info.name for info in pkgutil.iter_modules(clew.api.__path__, "clew.api.")]
    names.append(COMPANION_API)
    return {
        name: value
        for module in map(importlib.import_module, names)
        for name, value in vars(module).items()
        if isinstance(value, Route)
    }


ROUTES = described_routes()


def served_handlers() -> Iterator[tuple[BaseRoute, HTTPRouteHandler | None]]:
    """Every function that the server serves something with, and its path; None for a WebSocket."""
    for route in create_app().routes:
        if not isinstance(route, HTTPRoute):
            yield route, None
            continue
        for handler in route.route_handlers:
            if handler.fn.__name__ != "options_handler":
                yield route, handler


ROUTE_HANDLERS = [
    (route, handler) for route, handler in served_handlers() if route.path not in BESIDE_THE_API
]
HANDLERS = dict(
    sorted((handler.handler_name, handler) for _, handler in ROUTE_HANDLERS if handler is not None)
)


def names_in(folder: str) -> Counter[str]:
    """The names that the code of a folder uses, as often as it does; imports do not count."""
    return Counter(
        node.id
        for module in modules(folder)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def structs_in(kind: Any) -> set[type]:
    """Every struct that a type is made of, however deep."""
    parts: set[type] = set()
    remaining = [kind]
    while remaining:
        part = remaining.pop()
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in parts:
            parts.add(part)
            remaining += typing.get_type_hints(part, include_extras=True).values()
        remaining += typing.get_args(part)
    return parts


def undescribed_paths(text: str) -> list[str]:
    """The paths that a source of routes writes itself, where it should name a description."""
    return [
        str(node.args[0].value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"get", "post", "put", "delete", "patch", "websocket"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]


def test_every_route_of_the_server_is_described() -> None:
    assert [
        route.path for route, handler in ROUTE_HANDLERS if handler is None or route_of(handler) is None
    ] == []


def test_every_description_is_served_once() -> None:
    counts = Counter(route.name for _, handler in ROUTE_HANDLERS if handler and (route := route_of(handler)))

    assert counts == Counter(route.name for route in ROUTES.values())


def test_a_description_is_called_as_its_route() -> None:
    assert {name: route.name for name, route in ROUTES.items() if name.lower() != route.name} == {}


def test_every_description_has_a_call_in_the_client() -> None:
    names = names_in("src/clew/client") + names_in("companion/src")
    missing = {route.name for name, route in ROUTES.items() if name not in names}

    assert missing == WITHOUT_CALL.keys()


def test_a_route_has_modules_of_one_name_in_the_api_the_server_and_the_client() -> None:
    def users(folder: str, name: str) -> set[str]:
        return {
            PurePath(module.name).stem
            for module in modules(folder)
            if module.mentions([name]) and re.search(rf"\b{name}\b", module.text)
        }

    homes = {
        name: [users(folder, name) for folder in PLACES]
        for name, route in ROUTES.items()
        if route.name not in WITHOUT_CALL and users(PLACES[0], name)
    }

    assert {name: home for name, home in homes.items() if not set.intersection(*home)} == {}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS.keys())
def test_a_route_takes_the_body_that_its_description_names(handler: HTTPRouteHandler) -> None:
    route = route_of(handler)
    data = handler.parsed_fn_signature.parameters.get("data")

    assert route is not None
    assert (data.annotation if data is not None else None) == route.body


def test_every_type_on_the_wire_is_defined_in_the_api() -> None:
    parts = [part for route in ROUTES.values() for part in (route.reply, route.body)]
    kinds = {kind for part in parts for kind in structs_in(part)}
    elsewhere = {
        kind.__name__ for kind in kinds if not kind.__module__.startswith(("clew.api.", COMPANION_API))
    }

    assert elsewhere == DOCUMENTS.keys()


def test_no_handler_of_the_api_writes_its_own_path() -> None:
    paths = {
        path
        for module in modules("src/clew/server/routes")
        for path in undescribed_paths(module.text)
        if f"{API_PREFIX}{path}" not in BESIDE_THE_API and path not in BESIDE_THE_API
    }

    assert paths == set()


def test_the_example_for_contributors_is_the_code() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = text.partition("## Add a route")[2].partition("```diff\n")[2].partition("```")[0]
    files = {part.partition("\n")[0]: part.partition("\n")[2] for part in example.split("--- ")[1:]}
    missing = [
        line
        for name, lines in files.items()
        for line in lines.replace("\n+", "\n").removeprefix("+").splitlines()
        if line not in (ROOT / name).read_text(encoding="utf-8").splitlines()
    ]

    assert [PurePath(name).parent.as_posix() for name in files] == list(PLACES)
    assert missing == []


def test_a_path_that_is_written_by_hand_is_found() -> None:
    assert undescribed_paths('@get("/threads")\nasync def threads(): ...') == ["/threads"]
    assert undescribed_paths("@endpoint(LIST_THREADS)\nasync def threads(): ...") == []


def test_a_struct_inside_another_is_found() -> None:
    class Inner(msgspec.Struct):
        text: str

    class Outer(msgspec.Struct):
        parts: list[Inner]

    Outer.__annotations__["parts"] = list[Inner]

    assert structs_in(dict[str, Outer]) == {Outer, Inner}
