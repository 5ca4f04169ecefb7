"""All of the companion's commands, as the command line takes them."""

import typer

from clew.cli.command import add_commands, command_group
from clew_companion.cli import crises
from clew_companion.cli.evaluate import evaluate


def make_commands() -> typer.Typer:
    """The commands of the companion."""
    app = typer.Typer()
    add_commands(app, [evaluate])
    description = "The crisis log, for operators: see it, keep it for longer, purge it."
    commands = (crises.list_, crises.export, crises.extend, crises.purge)
    app.add_typer(command_group(commands), name="crises", help=description)
    return app
