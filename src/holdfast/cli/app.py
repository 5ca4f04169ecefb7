"""All commands together, and the last line of defence behind them."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from holdfast.cli import keeping, looking, tending
from holdfast.cli.demo import demo
from holdfast.cli.frame import Work, complain, consoles, framed

COMMANDS: tuple[Work, ...] = (
    demo,
    looking.threads,
    looking.show,
    looking.log,
    looking.diff,
    looking.search,
    tending.fork,
    keeping.verify,
    keeping.export,
    keeping.import_,
    keeping.backup,
    keeping.restore,
    tending.migrate,
    tending.doctor,
)


def build() -> typer.Typer:
    """The command with its subcommands."""
    app = typer.Typer(
        name="holdfast",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help="Durable threads for AI agents.")(_about)
    for work in COMMANDS:
        entry, words, example = framed(work)
        app.command(work.__name__.rstrip("_"), help=words, epilog=example)(entry)
    return app


def _say_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"holdfast {version('holdfast')}")
        raise typer.Exit


def _about(
    *,
    shown: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """What stands before any subcommand."""


def run(arguments: Sequence[str]) -> int:
    """The exit code of one run: 0 for success, 1 for trouble found, 2 for a command that makes no sense."""
    try:
        build()(list(arguments), prog_name="holdfast")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:  # the last one to see it: a person is told in words, not by a traceback
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        complain(consoles()[1], error, as_json="--json" in arguments)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
