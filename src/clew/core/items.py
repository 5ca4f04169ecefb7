"""Items in our own format, ready to append."""

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, Id
from clew.core.log.tool_calls import CALL, REPAIR, RESULT
from clew.core.values import Item


@check_arguments
def user(text: JSON, *, id: Id | None = None, run: Id | None = None) -> Item:
    """A message of a person."""
    return Item(role="user", body={"content": text}, id=id, run=run)


@check_arguments
def assistant(text: JSON, *, id: Id | None = None, run: Id | None = None) -> Item:
    """A message of the agent."""
    return Item(role="assistant", body={"content": text}, id=id, run=run)


@check_arguments
def system(text: JSON, *, id: Id | None = None, run: Id | None = None) -> Item:
    """An instruction to the agent."""
    return Item(role="system", body={"content": text}, id=id, run=run)


@check_arguments
def call(call: Id, name: str, arguments: JSON, *, id: Id | None = None, run: Id | None = None) -> Item:
    """A tool call by the agent; it stays open until its result is appended."""
    body = {"name": name, "arguments": arguments}
    return Item(role="assistant", kind=CALL, call=call, body=body, id=id, run=run)


@check_arguments
def result(call: Id, output: JSON, *, id: Id | None = None, run: Id | None = None) -> Item:
    """The output of a tool for a call."""
    return Item(role="tool", kind=RESULT, call=call, body={"output": output}, id=id, run=run)


def repair(calls: dict[str, str | None], reason: str) -> Item:
    """An item that closes calls which will never be answered, and says why."""
    return Item(role="tool", kind=REPAIR, body={"calls": calls, "content": reason})
