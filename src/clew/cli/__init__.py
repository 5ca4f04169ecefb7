"""The command: ``clew``."""

import sys

from clew.core.errors import MissingExtra


def main() -> None:
    """Run the command and end the process with its exit code."""
    try:
        import rich  # noqa: F401 - asked for here, so that its absence gets a sentence
        import typer  # noqa: F401 - likewise
    except ImportError as error:
        missing = MissingExtra(extra="cli", package=error.name or "typer")
        sys.exit(f"error: {missing} ({missing.code})")
    try:
        from clew.cli.app import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
