"""All commands together, and the last line of defence behind them."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import clew
from clew.agents.discovery import usable_agents
from clew.cli.command import CommandFunction, add_commands, command_group, consoles, show_error
from clew.cli.commands import (
    admin,
    approvals,
    archive,
    artifacts,
    backup,
    core_memory,
    datasets,
    documents,
    erasure,
    experiments,
    feedback,
    jobs,
    memory,
    projects,
    runs,
    serve,
    sessions,
    threads,
)
from clew.cli.commands import work as commands_work
from clew.cli.commands.agents import agents
from clew.cli.commands.chat import chat
from clew.cli.commands.demo import demo
from clew.cli.commands.identities import keys, members, tenants, users, workspaces
from clew.cli.commands.mcp import mcp
from clew.cli.commands.search import search

COMMANDS: tuple[CommandFunction, ...] = (
    demo,
    projects.new,
    chat,
    commands_work.work,
    commands_work.sandboxes,
    serve.serve,
    mcp,
    threads.show,
    threads.log,
    threads.diff,
    search,
    admin.fork,
    archive.verify,
    archive.export,
    archive.import_,
    backup.backup,
    backup.restore,
    erasure.erase,
    erasure.receipts,
    erasure.hold,
    erasure.release,
    erasure.holds,
    erasure.retain,
    admin.migrate,
    admin.doctor,
    agents,
)
DEFAULTS: dict[str, CommandFunction] = {"threads": threads.threads, "approvals": approvals.approvals}
"""Commands that are the first word of a group alone."""
GROUPS: dict[str, tuple[str, tuple[CommandFunction, ...]]] = {
    "threads": ("List threads, the newest first; or hand one over.", (threads.adopt,)),
    "memory": (
        "What is remembered of a person: see it, correct it, forget it.",
        (
            memory.list_,
            memory.show,
            memory.correct,
            memory.forget,
            memory.undo,
            memory.recall,
            memory.export,
            memory.audit,
        ),
    ),
    "session": (
        "One session as a document: write it, or put another in its place.",
        (sessions.export, sessions.import_),
    ),
    "documents": (
        "What a thread reads: files on its volume, part by part.",
        (
            documents.add,
            documents.load,
            documents.list_,
            documents.read,
            documents.find,
            documents.switch,
            documents.unload,
        ),
    ),
    "artifacts": (
        "What a thread made: files with a type and a checksum.",
        (artifacts.list_, artifacts.get, artifacts.add, artifacts.delete),
    ),
    "core-memory": (
        "Short texts that a thread's model always has before it.",
        (core_memory.show, core_memory.put, core_memory.append, core_memory.replace),
    ),
    "feedback": (
        "What users thought of their sessions.",
        (feedback.list_, feedback.export),
    ),
    "jobs": (
        "Work that is left to do, and what was given up.",
        (jobs.list_, jobs.show, jobs.retry),
    ),
    "runs": (
        "What was executed on threads, step by step.",
        (runs.list_, runs.show),
    ),
    "approvals": (
        "Calls that wait for a person: look at them, approve or refuse them.",
        (approvals.show, approvals.approve, approvals.refuse),
    ),
    "datasets": (
        "Examples made from threads, to hold models and agents against.",
        (
            datasets.make,
            datasets.list_,
            datasets.show,
            datasets.export,
            datasets.import_,
            datasets.delete,
        ),
    ),
    "experiments": (
        "How well a model or an agent answers a data set.",
        (experiments.run, experiments.list_, experiments.show, experiments.compare, experiments.delete),
    ),
    "tenants": (
        "Who is served: enter, list and disable tenants.",
        (tenants.create, tenants.list_, tenants.disable, tenants.enable),
    ),
    "workspaces": (
        "The parts of a tenant that some of its users share.",
        (workspaces.create, workspaces.list_, workspaces.disable, workspaces.enable),
    ),
    "users": (
        "The users of a tenant.",
        (users.create, users.list_, users.disable, users.enable, users.remove),
    ),
    "members": (
        "What users are in a workspace.",
        (members.set_, members.list_, members.remove),
    ),
    "keys": (
        "API keys: make, list and revoke them.",
        (keys.create, keys.list_, keys.revoke),
    ),
}
"""Commands of two words: the first one, what it is about, and the second ones."""


def build_app() -> typer.Typer:
    """The command with its subcommands."""
    app = typer.Typer(
        name="clew",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help="Durable threads for AI agents.")(_root_options)
    add_commands(app, COMMANDS)
    for name, (description, commands) in GROUPS.items():
        app.add_typer(command_group(commands, DEFAULTS.get(name)), name=name, help=description)
    for agent in usable_agents():
        if agent.commands is not None:
            _add_agent_commands(app, agent.commands())
    return app


def _add_agent_commands(app: typer.Typer, agent_app: typer.Typer) -> None:
    """Add the commands and groups of an agent. The words that Clew has itself are not taken over."""
    words = {each.name for each in app.registered_commands} | {each.name for each in app.registered_groups}
    app.registered_commands += [each for each in agent_app.registered_commands if each.name not in words]
    app.registered_groups += [each for each in agent_app.registered_groups if each.name not in words]


def _print_version(is_set: bool) -> None:  # noqa: FBT001 - typer calls it so
    if is_set:
        typer.echo(f"clew {clew.__version__}")
        raise typer.Exit


def _root_options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options before any subcommand."""


def run(arguments: Sequence[str]) -> int:
    """The exit code of one run: 0 for success, 1 for trouble found, 2 for a command that makes no sense."""
    try:
        build_app()(list(arguments), prog_name="clew")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:  # the last one to see it: a person gets a sentence, not a traceback
        if os.environ.get("CLEW_DEBUG"):
            raise
        show_error(consoles()[1], error, as_json="--json" in arguments)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
