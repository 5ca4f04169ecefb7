"""Checks before a server starts: each danger has a code, and a sentence that says what to change."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from clew.core.addresses import is_loopback
from clew.core.errors import ClewError, InvalidArgument, UnsafeSettings
from clew.core.ports import StoreReport
from clew.server.identity.identity import AuthSettings, auth_settings, is_setting_on
from clew.urls import open_store

SHORTEST_SECRET = 32
FEWEST_LETTERS = 10
"""How many different characters a secret has at least; fewer were typed, and are not random."""

PLACEHOLDERS = ("change", "default", "example", "clew", "password", "placeholder", "secret", "replace")


class StartupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decide whether a start is safe. Without a ``secret`` each start makes one up."""

    production: bool
    auth: AuthSettings
    host: str
    url: str
    database_required: bool
    cors: tuple[str, ...] = ()
    secret: str | None = None
    tls_elsewhere: bool = False


class Danger(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a server must not start like this."""

    code: str
    sentence: str


def startup_settings(
    environment: Mapping[str, str], *, host: str, url: str, cors: tuple[str, ...], secret: str | None
) -> StartupSettings:
    """Return the settings of a start, from the environment and the server's own settings.

    Raises:
        InvalidArgument: A variable has no valid value.
    """
    stage = environment.get("CLEW_ENV", "development").strip().lower()
    if stage not in ("development", "production"):
        raise InvalidArgument(problem=f"CLEW_ENV={stage!r} is not known; say development or production.")
    production = stage == "production"
    return StartupSettings(
        production=production,
        auth=auth_settings(environment),
        host=host,
        url=url,
        database_required=is_setting_on(environment, "DATABASE_REQUIRED", default=production),
        cors=cors,
        secret=secret,
        tls_elsewhere=is_setting_on(environment, "CLEW_TLS_ELSEWHERE", default=False),
    )


async def check_startup(start: StartupSettings, report: StoreReport | None = None) -> None:
    """Refuse a start that is not safe, with all its dangers.

    Raises:
        UnsafeSettings: There are some.
    """
    if dangers := await startup_dangers(start, report):
        raise UnsafeSettings(problems=[f"{danger.sentence} ({danger.code})" for danger in dangers])


async def startup_dangers(start: StartupSettings, report: StoreReport | None = None) -> list[Danger]:
    """Return the dangers of a start: of its settings, and of the role that it has in the database.

    The report of an open store is used as it is; without one, the store is opened to be asked.
    """
    dangers = dangers_of_settings(start)
    if report is not None:
        return [*dangers, *dangers_of_role(start, report)]
    if not start.url.startswith("postgres"):
        return dangers
    try:
        store = await open_store(start.url)
    except ClewError as error:
        return [
            *dangers,
            Danger(code="database_unavailable", sentence=f"The database does not answer: {error}"),
        ]
    try:
        return [*dangers, *dangers_of_role(start, await store.report())]
    finally:
        await store.close()


def dangers_of_settings(start: StartupSettings) -> list[Danger]:
    """Return the dangers of a start that its settings show."""
    return [
        *_access_dangers(start),
        *_issuer_dangers(start),
        *_network_dangers(start),
        *_database_dangers(start),
        *(_secret_dangers(start.secret) if start.production else ()),
    ]


def dangers_of_role(start: StartupSettings, report: StoreReport) -> list[Danger]:
    """Return the dangers of the database role: what it could do beyond what the server needs."""
    role = report.facts.get("role")
    advice = "Connect as a member of clew_app and of nothing else."
    if not start.production:
        return []
    if report.facts.get("bypasses_row_security"):
        sentence = f"Role {role!r} can bypass row-level security. {advice}"
        return [Danger(code="role_bypasses_row_security", sentence=sentence)]
    if report.facts.get("sees_every_tenant"):
        sentence = f"Role {role!r} is one of clew_owner or clew_maintenance, which see all. {advice}"
        return [Danger(code="role_sees_every_tenant", sentence=sentence)]
    return []


def _access_dangers(start: StartupSettings) -> Iterator[Danger]:
    if start.auth.mode != "dev":
        return
    if start.production:
        yield Danger(
            code="dev_auth_in_production",
            sentence="AUTH_MODE=dev lets anybody in. In production set it to keys, entra or oidc.",
        )
    if not is_loopback(start.host):
        yield Danger(
            code="dev_auth_not_on_loopback",
            sentence=f"AUTH_MODE=dev serves this machine alone, and {start.host!r} is open to others. "
            "Listen on 127.0.0.1, or set AUTH_MODE.",
        )


def _issuer_dangers(start: StartupSettings) -> Iterator[Danger]:
    if start.auth.issuer is None:
        return
    url = urlsplit(start.auth.issuer.keys_url)
    if url.scheme != "https" and not is_loopback(url.hostname):
        yield Danger(
            code="issuer_keys_not_https",
            sentence="The issuer's keys come over a connection that others can change. Give "
            "CLEW_OIDC_KEYS_URL as https.",
        )


def _network_dangers(start: StartupSettings) -> Iterator[Danger]:
    if not start.production:
        return
    if any("*" in origin or origin == "null" for origin in start.cors):
        yield Danger(
            code="wildcard_cors",
            sentence="CORS lets every site send requests for its visitors. Name the origins one by one.",
        )
    if not is_loopback(start.host) and not start.tls_elsewhere:
        yield Danger(
            code="no_tls",
            sentence=f"Keys and tokens would come to {start.host!r} in clear text. Put a proxy that ends TLS "
            "before the server, and say so with CLEW_TLS_ELSEWHERE=true.",
        )


def _database_dangers(start: StartupSettings) -> Iterator[Danger]:
    if start.database_required and not start.url.startswith("postgres"):
        yield Danger(
            code="database_required",
            sentence="DATABASE_REQUIRED is true, as it is in production, and there is no PostgreSQL. Give a "
            "URL that begins with postgresql://, or set DATABASE_REQUIRED=false.",
        )


def _secret_dangers(secret: str | None) -> Iterator[Danger]:
    if not secret:
        yield Danger(
            code="secret_missing",
            sentence="CLEW_SERVER_SECRET is not set, so every start would make up its own. Set it to 64 "
            "random hexadecimal digits.",
        )
    elif len(secret) < SHORTEST_SECRET:
        yield Danger(
            code="secret_short",
            sentence=f"CLEW_SERVER_SECRET has {len(secret)} characters and needs {SHORTEST_SECRET}.",
        )
    elif len(set(secret)) < FEWEST_LETTERS or any(word in secret.lower() for word in PLACEHOLDERS):
        yield Danger(
            code="secret_default",
            sentence="CLEW_SERVER_SECRET looks like one from an example. Make a random one.",
        )
