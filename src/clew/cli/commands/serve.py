"""The command that serves: the HTTP API over a database, in one process or several."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.text import Text

from clew.agents.agent import Agent
from clew.cli.agent_options import (
    ServedEmbedderOption,
    ServedSearchProviderOption,
    ServedSkillsOption,
)
from clew.cli.command import CommandCall, CommandResult
from clew.core.errors import InvalidArgument, MissingExtra, UnsafeSettings
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
ServedAgentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        envvar=["CLEW_SERVER_AGENT", "CLEW_AGENT"],
        metavar="NAME",
        help="An agent: an installed one, or module:attribute; repeatable, the first is the default.",
    ),
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
ServerVolume = Annotated[
    str | None,
    typer.Option(
        "--volume",
        envvar=["CLEW_SERVER_VOLUME", "CLEW_VOLUME"],
        metavar="FOLDER",
        help="The durable volume; without it no documents, artifacts or files.",
    ),
]
JsonLogs = Annotated[bool | None, typer.Option("--json-logs", help="Log in JSON, one object a line.")]
AccessLog = Annotated[
    bool | None,
    typer.Option("--access-log/--no-access-log", show_default="on", help="Log a line for every request."),
]
TelemetryOption = Annotated[
    bool | None,
    typer.Option(
        "--telemetry/--no-telemetry",
        show_default="if OTEL_EXPORTER_OTLP_ENDPOINT is set",
        help="Export traces to an OpenTelemetry collector.",
    ),
]
Reload = Annotated[
    bool, typer.Option("--reload", help="Restart when a Python file here changes. For development.")
]
Check = Annotated[bool, typer.Option("--check", help="Report what prevents a start, and do not start.")]


async def serve(
    call: CommandCall,
    *,
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    agent: ServedAgentsOption = None,
    model: Model = None,
    embedder: ServedEmbedderOption = None,
    search_provider: ServedSearchProviderOption = None,
    skills: ServedSkillsOption = None,
    cors: Cors = None,
    trusted_proxy: TrustedProxies = None,
    volume: ServerVolume = None,
    json_logs: JsonLogs = None,
    access_log: AccessLog = None,
    telemetry: TelemetryOption = None,
    reload: Reload = False,
    check: Check = False,
) -> CommandResult:
    """Serve the HTTP API and the Studio until stopped with Ctrl-C.

    On this machine alone, without credentials, unless AUTH_MODE says otherwise.

    Example: clew serve --db sqlite:///agent.db --port 8100
    """
    from clew.server import process
    from clew.server.tenants.agent import find_agents

    url = call.url if is_database_named(context, os.environ) else None
    options = {"url": url, "host": host, "port": port, "workers": workers, "json_logs": json_logs}
    options |= {"access_log": access_log, "telemetry": telemetry, "skills": skills, "volume": volume}
    names = {"agent": joined_agents(agent), "model": model, "embedder": embedder}
    names |= {"search_provider": search_provider}
    settings = server_settings(cors=cors, trusted_proxies=trusted_proxy, **options, **names)
    check_reload(settings, reload=reload)
    dangers = await process.dangers_of_start(settings, os.environ)
    if check:
        return check_result(dangers)
    if dangers:
        raise UnsafeSettings(problems=danger_lines(dangers))
    await process.check_prerequisites(settings)
    with process.open_listener(settings) as listener:
        access = os.environ.get("AUTH_MODE", "dev")
        # Lines are not wrapped, so that an address or a path can be copied whole.
        call.err.print(Text(banner(settings, find_agents(settings), access)), soft_wrap=True)
        await process.serve(settings, listener, reload=reload)
    return CommandResult(value={"stopped": True}, display=Text("Stopped."), to_stderr=True)


def joined_agents(agents: "Sequence[str] | None") -> str | None:
    """The agents as one setting has them."""
    return ",".join(agents or ()) or None


def check_reload(settings: "ServerSettings", *, reload: bool) -> None:
    """Refuse to follow files with several processes.

    Raises:
        InvalidArgument: There are several.
    """
    if reload and settings.workers > 1:
        raise InvalidArgument(problem="--reload serves with one process. Leave out --workers, or --reload.")


def check_result(dangers: "Sequence[Danger]") -> CommandResult:
    """The objections to a start, if there are any."""
    display = Text("\n".join(danger_lines(dangers)) or "Nothing prevents a start.")
    return CommandResult(value={"dangers": dangers}, display=display, ok=not dangers)


def is_database_named(context: typer.Context, environment: Mapping[str, str]) -> bool:
    """Return whether a command names its database; the variable for servers goes before the general one."""
    from clew.server.settings import PREFIX

    source = context.get_parameter_source("db")
    is_typed = source is not None and source.name == "COMMANDLINE"
    return is_typed or f"{PREFIX}URL" not in environment


def server_settings(**options: object) -> "ServerSettings":
    """The settings of the environment, but for those that are given and not None.

    Raises:
        MissingExtra: The server is not installed.
    """
    try:
        from clew.server.settings import from_variables
    except ImportError as error:
        raise MissingExtra(extra="server", package=error.name or "litestar") from error
    options = {name: value for name, value in options.items() if value not in (None, [])}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return msgspec.structs.replace(from_variables(os.environ), **values)


def danger_lines(dangers: "Sequence[Danger]") -> list[str]:
    """Dangers in words."""
    return [f"{danger.sentence} ({danger.code})" for danger in dangers]


def banner(settings: "ServerSettings", agents: Sequence[Agent], access: str) -> str:
    """The banner of a server: what is served, where, and how."""
    own_model = "the agent's own" if agents[0].brings_model else "offline; --model names one"
    return "\n".join(
        [
            f"Clew serves http://{settings.host}:{settings.port}/api/v1",
            f"  studio   http://{settings.host}:{settings.port}/studio",
            f"  store    {without_password(settings.url)}",
            f"  access   {access}" + (": this machine alone, no credentials" if access == "dev" else ""),
            f"  agent    {', '.join((settings.agent or agents[0].name).split(','))}",
            f"  model    {settings.model or own_model}",
            *_option_lines(settings, agents),
            f"  workers  {settings.workers}",
            f"  volume   {settings.volume or 'none; --volume names one'}",
        ]
    )


def _option_lines(settings: "ServerSettings", agents: Sequence[Agent]) -> list[str]:
    """Lines about the rest that the agents get, and whether any uses it."""
    names = {
        "embedder": settings.embedder,
        "search_provider": settings.search_provider and without_password(settings.search_provider),
        "skills": settings.skills,
    }
    return [
        f"  {name.partition('_')[0]:<8} {value}"
        + ("" if any(name in agent.uses for agent in agents) else "; the agent does not use it")
        for name, value in names.items()
        if value
    ]
