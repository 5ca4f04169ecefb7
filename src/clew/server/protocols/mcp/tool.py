"""A tool as MCP lists and calls it; its schemas are made from the types of its arguments and its reply."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.server.http.callers import Caller
from clew.server.identity.roles import READ


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: what it takes and gives, the scope that it needs, and the function that does it.

    A tool that needs no more than the scope ``read`` changes nothing. One that is ``destructive`` takes
    something away, one that is ``idempotent`` does the same once or twice. One that ``runs_turn`` may go on
    as a task, for clients that know tasks.
    """

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    reply: type[msgspec.Struct]
    call: Callable[[Caller, Any], Awaitable[msgspec.Struct]]
    scope: str = READ
    destructive: bool = False
    idempotent: bool = False
    runs_turn: bool = False

    def parse_arguments(self, arguments: dict[str, JSON] | None) -> msgspec.Struct:
        """Return the arguments of a call.

        Raises:
            InvalidArgument: They are not what the tool takes.
        """
        try:
            msgspec.json.encode(arguments)  # half of a surrogate pair is text in Python, and nowhere else
            return msgspec.convert(arguments or {}, self.arguments)
        except (msgspec.ValidationError, UnicodeEncodeError, OverflowError, RecursionError) as error:
            raise InvalidArgument(problem=f"The arguments of {self.name} are not valid: {error}.") from error


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct, with an object at its root as MCP wants it."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = parts.pop(root["$ref"].rpartition("/")[2])
    return {**schema, "$defs": parts} if parts else schema
