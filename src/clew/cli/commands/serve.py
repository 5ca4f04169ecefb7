"""The command that serves: the HTTP API over a database, in one process or several."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.text import Text

from clew.cli.command import Answer, Call
from clew.core.errors import MissingExtra, UnsafeSettings
from clew.core.redaction import without_password

if TYPE_CHECKING:
    from clew.server.settings import ServerSettings
    from clew.server.startup_checks import Danger

Host = Annotated[
    str | None, typer.Option("--host", show_default="127.0.0.1", help="The address to listen on.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, show_default="8100", help="The port to listen on."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=256, show_default="1", help="How many processes serve.")
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="PROVIDER:NAME", help="The model; offline without one.")
]
Cors = Annotated[
    list[str] | None, typer.Option("--cors", metavar="ORIGIN", help="A site whose pages may ask; repeatable.")
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDRESS",
        help="A proxy, or a network of proxies, whose X-Forwarded-For is true; repeatable.",
    ),
]
JsonLogs = Annotated[bool | None, typer.Option("--json-logs", help="Log in JSON, one object a line.")]
Check = Annotated[bool, typer.Option("--check", help="Say what stands against a start, and do not start.")]


async def serve(
    call: Call,
    *,
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    model: Model = None,
    cors: Cors = None,
    trusted_proxy: TrustedProxies = None,
    json_logs: JsonLogs = None,
    check: Check = False,
) -> Answer:
    """Serve the HTTP API and the Studio until stopped with Ctrl-C.

    On this machine alone, without credentials, unless AUTH_MODE says otherwise.

    Example: clew serve --db sqlite:///agent.db --port 8100
    """
    from clew.server import process

    url = call.url if names_database(context, os.environ) else None
    listening = {"url": url, "host": host, "port": port, "workers": workers, "json_logs": json_logs}
    told = settings(model=model, cors=cors, trusted_proxies=trusted_proxy, **listening)
    dangers = await process.check(told, os.environ)
    if check:
        return checked(dangers)
    if dangers:
        raise UnsafeSettings(problems=said(dangers))
    await process.try_out(told)
    with process.listening(told) as listener:
        call.err.print(Text(banner(told, os.environ.get("AUTH_MODE", "dev"))))
        await process.serve(told, listener)
    return Answer(value={"stopped": True}, shown=Text("Stopped."), aside=True)


def checked(dangers: "Sequence[Danger]") -> Answer:
    """What stands against a start, if anything does."""
    shown = Text("\n".join(said(dangers)) or "Nothing stands against it.")
    return Answer(value={"dangers": dangers}, shown=shown, ok=not dangers)


def names_database(context: typer.Context, environment: Mapping[str, str]) -> bool:
    """Whether a command says which database; a variable for servers goes before the one for all commands."""
    from clew.server.settings import PREFIX

    source = context.get_parameter_source("db")
    typed = source is not None and source.name == "COMMANDLINE"
    return typed or f"{PREFIX}URL" not in environment


def settings(**given: object) -> "ServerSettings":
    """The settings of the environment, but for those that are given and not None.

    Raises:
        MissingExtra: The server is not installed.
    """
    try:
        from clew.server.settings import from_variables
    except ImportError as error:
        raise MissingExtra(extra="server", package=error.name or "litestar") from error
    options = {name: value for name, value in given.items() if value not in (None, [])}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return msgspec.structs.replace(from_variables(os.environ), **values)


def said(dangers: "Sequence[Danger]") -> list[str]:
    """Dangers in words."""
    return [f"{danger.sentence} ({danger.code})" for danger in dangers]


def banner(told: "ServerSettings", access: str) -> str:
    """What is served, where, and how."""
    model = told.model or "offline: the companion answers simply; --model names a real one"
    return "\n".join(
        [
            f"Clew serves http://{told.host}:{told.port}/api/v1",
            f"  studio   http://{told.host}:{told.port}/studio",
            f"  store    {without_password(told.url)}",
            f"  access   {access}" + (": this machine alone, no credentials" if access == "dev" else ""),
            f"  model    {model}",
            f"  workers  {told.workers}",
        ]
    )
