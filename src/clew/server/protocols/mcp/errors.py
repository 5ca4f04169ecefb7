"""Errors as MCP has them: a tool's in its result, where a model reads them, and the rest in the protocol."""

import logging
from collections.abc import Mapping

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent

from clew.api.problems import Problem
from clew.core.encoding import JSON, as_json
from clew.core.errors import ClewError
from clew.server.http.problems import failure_problem, problem_of

log = logging.getLogger("clew.server")


def tool_error(problem: Problem) -> CallToolResult:
    """Return the result of a tool that failed, with the stable code of its error."""
    text = TextContent(type="text", text=f"{problem.code}: {problem.detail}")
    return CallToolResult(content=[text], structured_content=as_json(problem), is_error=True)


def protocol_error(error: ClewError, facts: Mapping[str, JSON]) -> MCPError:
    """Return an error of ours outside of a tool, as an error of the protocol that carries its problem.

    ``facts`` are those that the protocol wants beside the problem.
    """
    problem = problem_of(error)
    is_fault_of_client = problem.status < 500
    if not is_fault_of_client:
        log.warning("An MCP request failed: %s", error)
    code = INVALID_PARAMS if is_fault_of_client else INTERNAL_ERROR
    return MCPError(code=code, message=problem.detail, data={**as_json(problem), **facts})


def failure_error() -> MCPError:
    """Return an unforeseen error: it says nothing of what happened, and the log has all of it."""
    problem = failure_problem()
    return MCPError(code=INTERNAL_ERROR, message=problem.detail, data=as_json(problem))
