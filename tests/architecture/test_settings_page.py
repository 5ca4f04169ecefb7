"""The page of settings has every variable, option and limit with its default, and nothing else."""

from __future__ import annotations

import re
from functools import cache

import msgspec
import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from clew.cli.app import build_app
from clew.core.values import DEFAULT_TENANT, Limits
from clew.server.identity.identity import auth_settings
from clew.server.settings import PREFIX, ServerSettings
from clew.server.startup_checks import startup_settings
from clew.stores.postgres.pool import Address
from clew.workbench.repository.settings import VARIABLES, RepositorySettings
from tests.architecture.source import ROOT, SOURCES, modules

PAGE = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("\n## Environment variables\n")[2].partition("\n## ")[0]
ROWS = {
    name: (option, default)
    for name, option, default in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", TABLE, re.MULTILINE)
}
OTHERS = {"AUTH_MODE", "DATABASE_REQUIRED", "OTEL_EXPORTER_OTLP_ENDPOINT", "PROMETHEUS_MULTIPROC_DIR"}
"""Variables that others have named."""
OF_SERVER = {f"{PREFIX}{name.upper()}": name for name in ServerSettings.__struct_fields__}
OPTIONS_OF_SERVER = {"url": "--db", "trusted_proxies": "--trusted-proxy"}
"""The options of ``clew serve`` that are not called like their fields."""
OIDC = {
    "AUTH_MODE": "oidc",
    "CLEW_OIDC_ISSUER": "https://issuer.example",
    "CLEW_OIDC_AUDIENCE": "clew",
    "CLEW_OIDC_TENANTS": "acme",
}


def shown(value: object) -> str:
    """A default as the page shows it."""
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return (
        f"`{value}`" if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def is_shown(value: object, cell: str) -> bool:
    """Whether a cell shows a default; a size may be said in other words too."""
    return re.sub(r"(?<=\d),(?=\d)| \(\d+ [KMG]iB\)$", "", cell) == shown(value)


@cache
def commands() -> list[TyperCommand]:
    """All commands, also those below a group."""
    pending: list[object] = [get_group(build_app())]
    leaves: list[TyperCommand] = []
    while pending:
        command = pending.pop()
        if isinstance(command, TyperGroup):
            pending += command.commands.values()
        elif isinstance(command, TyperCommand):
            leaves.append(command)
    return leaves


def options_by_variable() -> dict[str, set[str]]:
    """The options that each variable stands for, in whatever command."""
    options: dict[str, set[str]] = {}
    for parameter in (parameter for command in commands() for parameter in command.params):
        names = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or []
        for name in names:
            options.setdefault(name, set()).update(parameter.opts[:1])
    return options


def serve_options() -> set[str]:
    """The options of the command that serves."""
    (serve,) = (command for command in commands() if command.name == "serve")
    return {name for parameter in serve.params for name in parameter.opts}


def defaults() -> dict[str, object]:
    """The defaults of variables, as the code has them."""
    start = startup_settings({}, host="127.0.0.1", url="memory://", cors=(), secret=None)
    issuer = auth_settings(OIDC).issuer
    assert issuer is not None
    fields = {field.name: field for field in msgspec.structs.fields(ServerSettings)}
    server = {name: fields[field].default for name, field in OF_SERVER.items() if field != "secret"}
    repository = {name: getattr(RepositorySettings(), field) for name, field in VARIABLES.items()}
    return {
        **server,
        **repository,
        "CLEW_TENANT": DEFAULT_TENANT,
        "CLEW_ENV": "production" if start.production else "development",
        "AUTH_MODE": start.auth.mode,
        "CLEW_TLS_ELSEWHERE": start.tls_elsewhere,
        "CLEW_OIDC_TENANT_CLAIM": issuer.tenant_claim,
        "CLEW_OIDC_LEEWAY": issuer.leeway_s,
        "CLEW_OIDC_FIRST_SIGHT": issuer.first_sight,
    }


def test_the_table_has_every_variable_and_nothing_else() -> None:
    literals = {
        name for module in modules(*SOURCES) for name in re.findall(r"[\"'](CLEW_[A-Z_]+)[\"']", module.text)
    }

    assert set(ROWS) == (literals - {PREFIX}) | set(OF_SERVER) | set(options_by_variable()) | OTHERS


@pytest.mark.parametrize(("name", "default"), defaults().items())
def test_a_variable_has_its_default(name: str, default: object) -> None:
    assert is_shown(default, ROWS[name][1]), (shown(default), ROWS[name][1])


@pytest.mark.parametrize(("name", "options"), options_by_variable().items())
def test_a_variable_of_a_command_names_its_option(name: str, options: set[str]) -> None:
    assert {f"`{option}`" for option in options} == {ROWS[name][0]}


@pytest.mark.parametrize("name", OF_SERVER)
def test_a_variable_of_a_server_names_its_option_if_it_has_one(name: str) -> None:
    field = OF_SERVER[name]
    option = OPTIONS_OF_SERVER.get(field, f"--{field.replace('_', '-')}")

    assert ROWS[name][0] == (f"`{option}`" if option in serve_options() else "–")


def test_every_variable_is_named_only_where_it_exists() -> None:
    assert set(re.findall(r"CLEW_[A-Z_]*[A-Z]\b", PAGE)) <= set(ROWS) | {"CLEW_SERVER"}


@pytest.mark.parametrize("kind", [Limits, Address], ids=lambda kind: str(kind.__name__))
def test_a_limit_and_a_parameter_have_their_defaults(kind: type[msgspec.Struct]) -> None:
    cells = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    fields = [field for field in msgspec.structs.fields(kind) if not field.required]

    assert [field.name for field in fields if not is_shown(field.default, cells[field.name])] == []
