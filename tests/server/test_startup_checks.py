"""Starting a server: what is fine at home is refused in production, each thing in its own words."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import sql

from clew.core.errors import InvalidArgument, UnsafeSettings
from clew.server.identity.identity import ENTRA_ISSUER, ENTRA_KEYS, AuthSettings, auth_settings
from clew.server.startup_checks import (
    StartupSettings,
    check_startup,
    dangers_of_settings,
    startup_dangers,
    startup_settings,
)
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.security

SAFE = StartupSettings(
    production=True,
    auth=AuthSettings(mode="keys"),
    host="127.0.0.1",
    url="postgresql://app@db/agents",
    database_required=True,
    secret=secrets.token_hex(32),
)
ENTRA = {"AUTH_MODE": "entra", "CLEW_OIDC_AUDIENCE": "api://a, api://b", "CLEW_OIDC_TENANTS": "t1,t2"}
HOME = replace(
    SAFE, production=False, auth=AuthSettings(), url="memory://", database_required=False, secret=None
)


def codes(start: StartupSettings) -> list[str]:
    return [danger.code for danger in dangers_of_settings(start)]


def test_a_safe_start_is_let_through() -> None:
    assert codes(SAFE) == []


def test_what_one_has_at_home_is_let_through() -> None:
    assert codes(HOME) == []


@pytest.mark.promise("F-09")
def test_production_refuses_dev_authentication() -> None:
    assert codes(replace(SAFE, auth=AuthSettings(mode="dev"))) == ["dev_auth_in_production"]


@pytest.mark.promise("F-09")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "agents.example", ""])
def test_dev_authentication_serves_this_machine_alone_everywhere(host: str) -> None:
    assert codes(replace(HOME, host=host)) == ["dev_auth_not_on_loopback"]


@pytest.mark.promise("F-09")
@pytest.mark.parametrize("origin", ["*", "https://*.example", "null"])
def test_production_refuses_every_site_as_an_origin(origin: str) -> None:
    assert codes(replace(SAFE, cors=("https://agents.example", origin))) == ["wildcard_cors"]
    assert codes(replace(HOME, cors=(origin,))) == []


@pytest.mark.promise("F-08")
@pytest.mark.parametrize("url", ["memory://", "sqlite:///agents.db"])
def test_a_required_database_is_postgresql(url: str) -> None:
    assert codes(replace(SAFE, url=url)) == ["database_required"]
    assert codes(replace(HOME, url=url, database_required=True)) == ["database_required"]
    assert codes(replace(SAFE, url=url, database_required=False)) == []


@pytest.mark.promise("F-08")
def test_the_database_is_required_in_production_unless_said_otherwise() -> None:
    def is_required(**variables: str) -> bool:
        variables_of = {"AUTH_MODE": "keys", **variables}
        return startup_settings(
            variables_of, host="localhost", url="memory://", cors=(), secret=None
        ).database_required

    assert is_required(CLEW_ENV="production")
    assert not is_required(CLEW_ENV="production", DATABASE_REQUIRED="false")
    assert not is_required()
    assert is_required(DATABASE_REQUIRED="true")


@pytest.mark.parametrize(
    ("secret", "code"),
    [
        (None, "secret_missing"),
        ("", "secret_missing"),
        ("9f40ca8be4c3f6971a716ae605f7ce", "secret_short"),
        ("a" * 64, "secret_default"),
        ("abab" * 16, "secret_default"),
        ("changeme-changeme-changeme-0123456789", "secret_default"),
        ("THE-SECRET-OF-THE-EXAMPLE-IN-THE-DOCS", "secret_default"),
    ],
)
def test_production_refuses_a_secret_that_is_none(secret: str | None, code: str) -> None:
    assert codes(replace(SAFE, secret=secret)) == [code]
    assert codes(replace(HOME, secret=secret)) == []


def test_production_wants_tls_before_an_address_that_others_reach() -> None:
    assert codes(replace(SAFE, host="0.0.0.0")) == ["no_tls"]
    assert codes(replace(SAFE, host="0.0.0.0", tls_elsewhere=True)) == []


@pytest.mark.parametrize(
    ("url", "is_unsafe"),
    [("http://issuer.example/keys", True), ("http://127.0.0.1:1/keys", False), (ENTRA_KEYS, False)],
)
def test_the_issuers_keys_come_over_tls(url: str, *, is_unsafe: bool) -> None:
    auth = auth_settings({**ENTRA, "CLEW_OIDC_KEYS_URL": url})

    assert codes(replace(SAFE, auth=auth)) == (["issuer_keys_not_https"] if is_unsafe else [])


async def test_all_that_is_wrong_is_said_at_once() -> None:
    start = replace(HOME, production=True, host="0.0.0.0", cors=("*",), database_required=True)
    with pytest.raises(UnsafeSettings) as error:
        await check_startup(start)
    text = str(error.value)

    assert [danger.code for danger in await startup_dangers(start)] == [
        "dev_auth_in_production",
        "dev_auth_not_on_loopback",
        "wildcard_cors",
        "no_tls",
        "database_required",
        "secret_missing",
    ]
    assert all(danger.sentence in text for danger in dangers_of_settings(start))


def test_a_secret_is_never_said() -> None:
    secret = "the secret of an example " * 3

    assert secret not in str(dangers_of_settings(replace(SAFE, secret=secret)))


# The settings.


def test_the_settings_of_entra_need_an_audience_and_tenants() -> None:
    issuer = auth_settings(ENTRA).issuer

    assert issuer is not None
    assert (issuer.issuer, issuer.keys_url, issuer.user_claim) == (ENTRA_ISSUER, ENTRA_KEYS, "oid")
    assert (issuer.audience, sorted(issuer.tenants)) == (("api://a", "api://b"), ["t1", "t2"])
    for missing in ("CLEW_OIDC_AUDIENCE", "CLEW_OIDC_TENANTS"):
        with pytest.raises(InvalidArgument, match=missing):
            auth_settings({**ENTRA, missing: " "})


def test_another_issuer_must_be_named() -> None:
    with pytest.raises(InvalidArgument, match="CLEW_OIDC_ISSUER"):
        auth_settings({**ENTRA, "AUTH_MODE": "oidc"})


@pytest.mark.parametrize(
    "variables",
    [
        {"AUTH_MODE": "none"},
        {"CLEW_ENV": "prod"},
        {"DATABASE_REQUIRED": "perhaps"},
        {**ENTRA, "CLEW_OIDC_LEEWAY": "-1"},
        {**ENTRA, "CLEW_OIDC_LEEWAY": "86400"},
        {**ENTRA, "CLEW_OIDC_FIRST_SIGHT": "sometimes"},
    ],
)
def test_a_setting_that_makes_no_sense_is_named(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=list(variables)[-1]):
        startup_settings(variables, host="localhost", url="memory://", cors=(), secret=None)


# What only the database can tell.


@pytest.fixture
def role(postgres_database: PostgresDatabase) -> Iterator[str]:
    """A role that may log in, and nothing else yet."""
    name = f"server_{uuid4().hex}"
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def become(database: PostgresDatabase, role: str, command: str) -> StartupSettings:
    """A start in production as a role that was given something."""
    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute(sql.SQL(command).format(sql.Identifier(role)))
    return replace(SAFE, url=database.url_for(role))


@pytest.mark.postgres
class TestRoles:
    store_name = "postgres"

    @pytest.mark.promise("F-09", "F-10")
    async def test_a_member_of_the_app_may_serve(
        self, postgres_database: PostgresDatabase, role: str
    ) -> None:
        await check_startup(become(postgres_database, role, "GRANT clew_app TO {}"))

    @pytest.mark.promise("F-09", "F-10")
    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ("ALTER ROLE {} SUPERUSER", "role_bypasses_row_security"),
            ("ALTER ROLE {} BYPASSRLS; GRANT clew_app TO {}", "role_bypasses_row_security"),
            ("GRANT postgres TO {}", "role_bypasses_row_security"),
            ("GRANT clew_owner TO {}", "role_sees_every_tenant"),
            ("GRANT clew_maintenance, clew_app TO {}", "role_sees_every_tenant"),
        ],
    )
    async def test_a_role_that_can_get_around_the_policies_may_not(
        self, postgres_database: PostgresDatabase, role: str, command: str, code: str
    ) -> None:
        start = None
        for part in command.split("; "):
            start = become(postgres_database, role, part)
        assert start is not None

        assert [danger.code for danger in await startup_dangers(start)] == [code]
        assert await startup_dangers(replace(start, production=False)) == []

    @pytest.mark.promise("F-08")
    async def test_a_database_that_does_not_answer_stops_the_start(self) -> None:
        start = replace(SAFE, url="postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1&pool_timeout=1")

        with pytest.raises(UnsafeSettings, match="database_unavailable"):
            await check_startup(start)
