"""Tokens of an issuer: every claim is checked, and a good token becomes a tenant and a user of ours."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import Forbidden, IssuerUnavailable, Unauthenticated
from clew.database.database import Database
from clew.server.identity.api_keys import create_key
from clew.server.identity.authentication import authentication_for
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Login, Membership, Tenant, User, Workspace
from clew.server.identity.identity import AuthSettings, Identity, IssuerSettings
from clew.server.identity.oidc import IssuerKeys, TokenAuthentication, person_of
from clew.stores.memory import MemoryStore
from clew.urls import open as open_database
from tests.support.issuer import AUDIENCE, TENANT, Issuer, issuing, rsa_key

NOW = time.time()


async def enter(directory: Directory, from_: Issuer, token: str, **options: Any) -> Identity:
    """Whom a token lets in at a server that has just started."""
    way = TokenAuthentication(directory, from_.settings(**options))
    return await way({"authorization": f"Bearer {token}"})


@pytest.fixture
def external(tenant: str) -> str:
    """A tenant of the issuer's that nobody has used before."""
    return f"tid-{tenant}"


@pytest.mark.promise("F-09")
async def test_a_good_token_becomes_a_tenant_and_a_user_of_ours(
    directory: Directory, issuer: Issuer, tenant: str, external: str
) -> None:
    await directory.add(Tenant(id=tenant, external=external))
    identity = await enter(directory, issuer, issuer.token(tid=external), tenants=frozenset({external}))

    assert identity.tenant == tenant
    assert identity.user is not None
    assert identity.user.startswith("u-")
    assert (identity.workspace, sorted(identity.roles), sorted(identity.scopes)) == (
        "default",
        ["member"],
        ["read", "write"],
    )


@pytest.mark.promise("F-09")
async def test_the_same_person_is_the_same_user_and_another_another(
    in_memory: Directory, issuer: Issuer, external: str
) -> None:
    options = {"tenants": frozenset({external})}
    alice = await enter(in_memory, issuer, issuer.token(tid=external), **options)
    again = await enter(in_memory, issuer, issuer.token(tid=external, sub="other"), **options)
    bob = await enter(in_memory, issuer, issuer.token(tid=external, oid="bob"), **options)

    assert alice == again
    assert bob.user != alice.user


async def test_the_same_subject_of_two_tenants_is_two_people(
    in_memory: Directory, issuer: Issuer, external: str
) -> None:
    options = {"tenants": frozenset({external, f"{external}-b"})}
    one = await enter(in_memory, issuer, issuer.token(tid=external), **options)
    two = await enter(in_memory, issuer, issuer.token(tid=f"{external}-b"), **options)

    assert (one.tenant, two.tenant) == (external, f"{external}-b")
    assert one.user != two.user


async def test_ten_first_requests_at_once_enter_one_user(
    directory: Directory, issuer: Issuer, external: str
) -> None:
    way = TokenAuthentication(directory, issuer.settings(tenants=frozenset({external})))
    headers = {"authorization": f"Bearer {issuer.token(tid=external)}"}
    identities = await asyncio.gather(*(way(headers) for _ in range(10)))
    users = [user async for user in directory.entries(User, tenant=external)]

    assert len(set(identities)) == 1
    assert [user.id for user in users] == [identities[0].user]
    assert issuer.request_count == 1


async def test_a_stranger_is_refused_where_users_are_entered_by_hand(
    in_memory: Directory, issuer: Issuer, tenant: str, external: str
) -> None:
    options = {"tenants": frozenset({external}), "first_sight": False}
    await in_memory.add(Tenant(id=tenant, external=external))
    with pytest.raises(Forbidden, match="not known"):
        await enter(in_memory, issuer, issuer.token(tid=external), **options)
    users = [user async for user in in_memory.entries(User, tenant=tenant)]
    logins = [login async for login in in_memory.entries(Login, tenant=tenant)]

    assert (users, logins) == ([], [])


async def test_a_disabled_user_is_refused_with_a_good_token(
    in_memory: Directory, issuer: Issuer, external: str
) -> None:
    options = {"tenants": frozenset({external})}
    identity = await enter(in_memory, issuer, issuer.token(tid=external), **options)
    user = await in_memory.get(User, external, str(identity.user))
    await in_memory.change(user, enabled=False)

    with pytest.raises(Forbidden, match="disabled"):
        await enter(in_memory, issuer, issuer.token(tid=external), **options)


async def test_what_a_user_may_do_is_said_here_and_not_by_the_token(
    in_memory: Directory, issuer: Issuer, external: str
) -> None:
    options = {"tenants": frozenset({external})}
    token = issuer.token(tid=external, roles=["admin"], scp="admin", scopes=["admin"])
    before = await enter(in_memory, issuer, token, **options)
    membership = Membership(tenant=external, workspace="default", user=str(before.user), roles=("admin",))
    await in_memory.put(membership)
    after = await enter(in_memory, issuer, token, **options)

    assert (sorted(before.roles), "admin" in before.scopes) == (["member"], False)
    assert (sorted(after.roles), "admin" in after.scopes) == (["admin"], True)


async def test_a_workspace_is_asked_for_by_a_header_and_needs_membership(
    in_memory: Directory, issuer: Issuer, external: str
) -> None:
    way = TokenAuthentication(in_memory, issuer.settings(tenants=frozenset({external})))
    headers = {"authorization": f"Bearer {issuer.token(tid=external)}"}
    user = str((await way(headers)).user)
    await in_memory.add(Workspace(tenant=external, id="research"))
    with pytest.raises(Forbidden, match="no member"):
        await way({**headers, "x-clew-workspace": "research"})
    await in_memory.put(Membership(tenant=external, workspace="research", user=user))

    assert (await way({**headers, "x-clew-workspace": "research"})).workspace == "research"


async def test_a_tenant_that_is_there_for_others_is_not_taken_over(
    in_memory: Directory, issuer: Issuer, external: str
) -> None:
    await in_memory.add(Tenant(id=external))

    with pytest.raises(Forbidden, match="cannot be added"):
        await enter(in_memory, issuer, issuer.token(tid=external), tenants=frozenset({external}))


async def test_an_issuer_without_tenants_is_a_tenant_itself(
    in_memory: Directory, issuer: Issuer, tenant: str
) -> None:
    await in_memory.add(Tenant(id=tenant, external=issuer.url))
    options = {
        "issuer": issuer.url,
        "tenants": frozenset({issuer.url}),
        "tenant_claim": "iss",
        "user_claim": "sub",
    }
    identity = await enter(in_memory, issuer, issuer.token(iss=issuer.url, tid=None), **options)

    assert identity.tenant == tenant


# Tokens that do not hold. One store is enough: none of them gets so far.


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {"exp": NOW - 120},
    "without an expiry": {"exp": None},
    "with an expiry that is no number": {"exp": "tomorrow"},
    "with an expiry that is true": {"exp": True},
    "not yet good": {"nbf": NOW + 10**7},
    "from the future": {"iat": NOW + 10**7},
    "for somebody else": {"aud": "api://other"},
    "for several others": {"aud": ["api://other", "api://third"]},
    "for nobody": {"aud": None},
    "for a number": {"aud": 7},
    "from another issuer": {"iss": "https://issuer.example/v2.0"},
    "from no issuer": {"iss": None},
    "without a tenant": {"tid": None},
    "with a list of tenants": {"tid": [TENANT]},
    "without a subject": {"oid": None},
    "with a number as its subject": {"oid": 7},
    "with an empty subject": {"oid": ""},
}


@pytest.mark.promise("F-09")
@pytest.mark.parametrize("claims", BAD_CLAIMS.values(), ids=BAD_CLAIMS.keys())
async def test_a_token_is_refused_that_is(
    in_memory: Directory, issuer: Issuer, claims: dict[str, Any]
) -> None:
    with pytest.raises(Unauthenticated):
        await enter(in_memory, issuer, issuer.token(**claims))


@pytest.mark.promise("F-09")
async def test_a_tenant_that_is_not_on_the_list_is_forbidden(in_memory: Directory, issuer: Issuer) -> None:
    with pytest.raises(Forbidden, match="no access"):
        await enter(in_memory, issuer, issuer.token(tid="somebody"))


async def test_the_tenant_must_be_the_one_in_the_issuers_name(in_memory: Directory, issuer: Issuer) -> None:
    other = issuer.template.replace("{tenantid}", "somebody")
    with pytest.raises(Unauthenticated, match="issuer"):
        await enter(in_memory, issuer, issuer.token(iss=other))


@pytest.mark.promise("F-09")
@pytest.mark.parametrize("alg", ["none", "None", "HS256", "HS384", "HS512"])
async def test_a_forged_algorithm_is_refused(in_memory: Directory, issuer: Issuer, alg: str) -> None:
    with pytest.raises(Unauthenticated):
        await enter(in_memory, issuer, issuer.forge_token(alg=alg))


@pytest.mark.promise("F-09")
async def test_a_signature_of_another_key_is_refused(in_memory: Directory, issuer: Issuer) -> None:
    claims = issuer.claims()
    token = jwt.encode(claims, rsa_key(9), algorithm="RS256", headers={"kid": "first"})
    with pytest.raises(Unauthenticated, match="signature"):
        await enter(in_memory, issuer, token)


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256"])
async def test_another_algorithm_of_the_same_key_is_refused(
    in_memory: Directory, issuer: Issuer, algorithm: str
) -> None:
    token = jwt.encode(issuer.claims(), rsa_key(1), algorithm=algorithm, headers={"kid": "first"})
    with pytest.raises(Unauthenticated, match="RS256"):
        await enter(in_memory, issuer, token)


async def test_a_key_that_a_token_brings_along_is_not_used(in_memory: Directory, issuer: Issuer) -> None:
    own = {"kty": "RSA", "n": "AQAB", "e": "AQAB"}
    headers = {"kid": "mine", "jwk": own, "jku": f"{issuer.url}/mine", "x5u": f"{issuer.url}/mine"}
    token = jwt.encode(issuer.claims(), rsa_key(9), algorithm="RS256", headers=headers)
    with pytest.raises(Unauthenticated, match="does not have"):
        await enter(in_memory, issuer, token)


@pytest.mark.parametrize("headers", [{"kid": ""}, {"crit": ["exp"]}])
async def test_a_token_must_say_its_key_and_demand_nothing_special(
    in_memory: Directory, issuer: Issuer, headers: dict[str, Any]
) -> None:
    with pytest.raises(Unauthenticated):
        await enter(in_memory, issuer, issuer.token(headers=headers))


async def test_a_changed_token_is_refused(issuer: Issuer) -> None:
    head, body, seal = issuer.token().split(".")
    other = issuer.token(oid="bob").split(".")[1]
    async with open_database("memory://") as db:
        directory = Directory(db)
        for token in (
            f"{head}.{other}.{seal}",
            f"{head}.{body}.",
            f"{head}.{body}.{seal[:-4]}",
            f"{head}.{body}",
        ):
            with pytest.raises(Unauthenticated):
                await enter(directory, issuer, token)


async def test_a_token_may_be_out_by_the_leeway_and_no_more(issuer: Issuer) -> None:
    settings = issuer.settings(leeway_s=60)
    claims = issuer.claims(exp=1000, nbf=900, iat=900)
    good = [person_of(claims, settings, now).subject for now in (840.0, 1000.0, 1059.9)]

    assert good == ["alice"] * 3
    for now in (839.9, 1060.0):
        with pytest.raises(Unauthenticated):
            person_of(claims, settings, now)


@pytest.mark.parametrize("exp", [float("nan"), float("-inf")])
def test_a_time_that_bounds_nothing_is_refused(exp: float) -> None:
    settings = IssuerSettings(issuer="i", keys_url="k", audience=("a",), tenants=frozenset({"t"}))
    with pytest.raises(Unauthenticated):
        person_of({"iss": "i", "tid": "t", "aud": "a", "sub": "s", "exp": exp}, settings, 0.0)


class NoKeys(IssuerKeys):
    """An issuer that must not be asked."""

    async def key(self, id: str) -> None:
        """Nothing, whatever is asked for."""


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=80), st.from_regex(r"[\w-]{0,40}(\.[\w-]{0,40}){0,3}", fullmatch=True)))
def test_no_text_that_is_sent_as_a_token_does_any_harm(text: str) -> None:
    async def send_token() -> None:
        settings = IssuerSettings(issuer="i", keys_url="k", audience=("a",), tenants=frozenset({"t"}))
        way = TokenAuthentication(Directory(Database(MemoryStore())), settings, NoKeys("k"))
        await way({"authorization": f"Bearer {text}"})

    with pytest.raises(Unauthenticated):
        asyncio.run(send_token())


async def test_a_giant_token_is_not_even_looked_at(in_memory: Directory, issuer: Issuer) -> None:
    with pytest.raises(Unauthenticated, match="too long"):
        await enter(in_memory, issuer, issuer.token(padding="x" * 20_000))

    assert issuer.request_count == 0


# The ways in together.


async def test_keys_and_tokens_hold_beside_each_other(issuer: Issuer) -> None:
    async with open_database("memory://") as db:
        directory = Directory(db)
        await directory.add(Tenant(id="acme", external=TENANT))
        _, text = await create_key(directory, tenant="acme")
        way = authentication_for(AuthSettings(mode="oidc", issuer=issuer.settings()), directory)
        by_key = await way({"authorization": f"Bearer {text}"})
        by_token = await way({"authorization": f"Bearer {issuer.token()}"})

        assert (by_key.tenant, by_token.tenant) == ("acme", "acme")
        with pytest.raises(Unauthenticated):
            await way({"host": "localhost"})


async def test_in_dev_mode_a_key_counts_for_more_than_being_here(issuer: Issuer) -> None:
    async with open_database("memory://") as db:
        directory = Directory(db)
        await directory.add(Tenant(id="acme"))
        _, text = await create_key(directory, tenant="acme")
        way = authentication_for(AuthSettings(mode="dev"), directory)

        assert (await way({"host": "localhost", "x-api-key": text})).tenant == "acme"
        assert (await way({"host": "localhost"})).tenant == "default"


async def test_with_keys_alone_no_token_holds(issuer: Issuer) -> None:
    async with open_database("memory://") as db:
        way = authentication_for(AuthSettings(mode="keys"), Directory(db))

        with pytest.raises(Unauthenticated):
            await way({"authorization": f"Bearer {issuer.token()}"})


async def test_keys_hold_while_the_issuer_is_down() -> None:
    async with issuing() as dead_issuer:
        settings, token = dead_issuer.settings(), dead_issuer.token()
    async with open_database("memory://") as db:
        directory = Directory(db)
        await directory.add(Tenant(id="acme"))
        _, text = await create_key(directory, tenant="acme")
        way = authentication_for(AuthSettings(mode="oidc", issuer=settings), directory)

        assert (await way({"x-api-key": text})).tenant == "acme"
        with pytest.raises(IssuerUnavailable):
            await way({"authorization": f"Bearer {token}"})
        assert AUDIENCE in settings.audience
