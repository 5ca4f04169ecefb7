"""Named SQL: a file of statements, each under a ``-- name:`` line, as a mapping."""

import re

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def parse_queries(text: str) -> dict[str, str]:
    """The statements of a ``queries.sql``, by name, in order."""
    parts = _NAME.split(text)[1:]
    return {name: _statement(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _statement(body: str) -> str:
    lines = [line for line in body.strip().splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
