"""Tenants, workspaces, users and memberships: entered once, listed, disabled, and kept where nobody looks."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import clew
from clew.core.errors import Forbidden, InvalidArgument, InvalidId, RecordNotFound, StoreDamaged
from clew.core.values import RecordQuery
from clew.server.identity.directory import Directory, Grant, find_entry
from clew.server.identity.entries import (
    DEFAULT_WORKSPACE,
    ApiKey,
    DirectoryEntry,
    Login,
    Membership,
    Tenant,
    User,
    Workspace,
)
from clew.server.identity.identity import Identity
from clew.testing import Clock


def entries(tenant: str) -> list[DirectoryEntry]:
    """One of each kind, each after what it belongs to."""
    return [
        Tenant(id=tenant, name="Acme", external=f"at the issuer: {tenant}"),
        Workspace(tenant=tenant, id="research"),
        User(tenant=tenant, id="alice", name="Alice"),
        Membership(tenant=tenant, workspace="research", user="alice", roles=("admin",)),
        Login(id=tenant, issuer="https://issuer.example", subject="a|1", tenant=tenant, user="alice"),
        ApiKey(id=f"key-{tenant}", tenant=tenant, user="alice", workspace="research", hash="0" * 64),
    ]


@pytest.mark.promise("F-12")
async def test_what_is_entered_of_each_kind_is_read_again(directory: Directory, tenant: str) -> None:
    entries_before = [await directory.add(entry) for entry in entries(tenant)]
    entries_again = [
        await directory.get(type(entry), *(getattr(entry, name) for name in entry.id_fields))
        for entry in entries(tenant)
    ]

    assert entries_again == entries_before
    assert {entry.created for entry in entries_again} == {directory.now()}


@pytest.mark.promise("F-12")
@pytest.mark.parametrize("kind", [Workspace, User, Membership, Login, ApiKey])
async def test_each_kind_is_listed_by_its_tenant(
    directory: Directory, tenant: str, kind: type[DirectoryEntry]
) -> None:
    for entry in [*entries(tenant), *entries(f"{tenant}-b")]:
        await directory.add(entry)
    entry_list = [entry async for entry in directory.entries(kind, tenant=tenant)]

    assert {getattr(entry, "tenant") for entry in entry_list} == {tenant}  # noqa: B009 - no tenant has one


async def test_entering_somebody_again_changes_nothing(
    directory: Directory, tenant: str, clock: Clock
) -> None:
    first = await directory.add(Tenant(id=tenant, name="Acme"))
    clock.advance(1000)

    assert await directory.add(Tenant(id=tenant, name="Acme")) == first
    assert await directory.get(Tenant, tenant) == first


async def test_entering_somebody_again_in_other_words_is_refused(directory: Directory, acme: str) -> None:
    with pytest.raises(InvalidArgument, match="says otherwise"):
        await directory.add(Tenant(id=acme, name="Somebody else"))


async def test_two_who_enter_the_same_at_once_both_find_it(directory: Directory, tenant: str) -> None:
    tenants = await asyncio.gather(*(directory.add(Tenant(id=tenant)) for _ in range(5)))

    assert len(set(map(msgspec.json.encode, tenants))) == 1


async def test_a_tenant_comes_with_its_first_workspace(directory: Directory, acme: str) -> None:
    assert (await directory.get(Workspace, acme, DEFAULT_WORKSPACE)).enabled


async def test_nobody_is_entered_below_what_is_not_there(directory: Directory, tenant: str) -> None:
    orphans: list[DirectoryEntry] = entries(tenant)[1:]
    for orphan in orphans:
        with pytest.raises(RecordNotFound):
            await directory.add(orphan)


async def test_two_tenants_are_not_the_same_one_at_the_issuer(directory: Directory, tenant: str) -> None:
    await directory.add(Tenant(id=tenant, external=f"x {tenant}"))

    with pytest.raises(InvalidArgument, match="already"):
        await directory.add(Tenant(id=f"{tenant}-b", external=f"x {tenant}"))


@pytest.mark.parametrize("id", ["$server", "$", "a/b", "", "x" * 129, "line\nbreak"])
async def test_a_name_that_could_be_taken_for_another_is_refused(directory: Directory, id: str) -> None:
    with pytest.raises(InvalidId):
        await directory.add(Tenant(id=id))


async def test_more_than_a_page_is_listed_in_order(directory: Directory, acme: str, clock: Clock) -> None:
    for number in range(205):
        clock.advance(1)
        await directory.add(Workspace(tenant=acme, id=f"w{number}"))
    ids = [each.id async for each in directory.entries(Workspace, tenant=acme)]

    assert ids == [DEFAULT_WORKSPACE, *(f"w{number}" for number in range(205))]


async def test_changes_at_the_same_moment_are_all_kept(directory: Directory, acme: str) -> None:
    user = await directory.get(User, acme, "alice")
    await asyncio.gather(directory.change(user, name="Alice"), directory.change(user, enabled=False))
    entry = await directory.get(User, acme, "alice")

    assert (entry.name, entry.enabled) == ("Alice", False)


async def test_what_a_user_is_can_be_said_anew_and_taken_back(directory: Directory, acme: str) -> None:
    membership = Membership(tenant=acme, workspace=DEFAULT_WORKSPACE, user="alice", roles=("auditor",))
    entry = await directory.put(membership)
    member = await directory.get(Membership, acme, DEFAULT_WORKSPACE, "alice")
    await directory.drop(entry)

    assert member.roles == ("auditor",)
    assert await find_entry(directory, Membership, acme, DEFAULT_WORKSPACE, "alice") is None


async def test_a_user_is_taken_out_with_all_that_goes_with_them(directory: Directory, tenant: str) -> None:
    for entry in [*entries(tenant), User(tenant=tenant, id="bob")]:
        await directory.add(entry)
    await directory.add(Membership(tenant=tenant, workspace="research", user="bob"))
    entries_out = await directory.remove_user(await directory.get(User, tenant, "alice"))
    kinds = [
        entry.kind
        for kind in (User, Membership, Login, ApiKey)
        async for entry in directory.entries(kind, tenant=tenant)
    ]

    assert [entry.kind for entry in entries_out] == ["user", "membership", "login", "key"]
    assert kinds == ["user", "membership"]


# Who is let in.


async def test_a_member_is_let_in_with_their_roles(directory: Directory, acme: str) -> None:
    identity = await directory.admit(
        Grant(tenant=acme, user="alice", workspace="default", scopes=frozenset({"read"}))
    )

    assert identity == Identity(
        tenant=acme,
        user="alice",
        workspace="default",
        roles=frozenset({"member"}),
        scopes=frozenset({"read"}),
    )


@pytest.mark.parametrize(
    ("user", "scope", "is_admin"),
    [
        ("alice", "admin", False),
        ("ada", "admin", True),
        ("ada", "read", False),
        (None, "admin", True),
        (None, "read", False),
    ],
)
async def test_an_administrator_has_both_the_scope_and_the_role(
    directory: Directory, acme: str, user: str | None, scope: str, *, is_admin: bool
) -> None:
    identity = await directory.admit(
        Grant(tenant=acme, user=user, workspace="default", scopes=frozenset({scope}))
    )

    assert ("admin" in identity.scopes, "admin" in identity.roles) == (is_admin, is_admin)


@pytest.mark.parametrize("kind", [Tenant, Workspace, User])
async def test_whoever_is_disabled_is_not_let_in(
    directory: Directory, acme: str, kind: type[Tenant | Workspace | User]
) -> None:
    names = {"tenant": [acme], "workspace": [acme, "default"], "user": [acme, "alice"]}[kind.kind]
    await directory.change(await directory.get(kind, *names), enabled=False)

    with pytest.raises(Forbidden, match="disabled"):
        await directory.admit(Grant(tenant=acme, user="alice", workspace="default", scopes=frozenset()))


@pytest.mark.parametrize(
    ("user", "workspace"), [("bob", "default"), ("alice", "research"), ("alice", "nowhere")]
)
async def test_whoever_is_no_member_is_not_let_in(
    directory: Directory, acme: str, user: str, workspace: str
) -> None:
    await directory.add(Workspace(tenant=acme, id="research"))

    with pytest.raises(Forbidden):
        await directory.admit(Grant(tenant=acme, user=user, workspace=workspace, scopes=frozenset()))


async def test_a_damaged_entry_is_named(directory: Directory, acme: str) -> None:
    record = await directory.db.records.get("user", f"{acme}/alice")
    await directory.db.records.put(msgspec.structs.replace(record, body={"id": 7}))

    with pytest.raises(StoreDamaged, match="alice"):
        await directory.get(User, acme, "alice")
    with pytest.raises(StoreDamaged, match="alice"):
        await directory.admit(Grant(tenant=acme, user="alice", workspace="default", scopes=frozenset()))


# The server's own tenant.


@pytest.mark.promise("F-10")
async def test_the_servers_own_tenant_can_be_named_by_nobody(db: clew.Database) -> None:
    with pytest.raises(InvalidId, match="own"):
        db.scope(tenant="$server")
    with pytest.raises(Forbidden, match="own"):
        Identity(tenant="$server", user="alice", workspace="default")


@pytest.mark.promise("F-10")
async def test_no_tenant_sees_who_there_is(db: clew.Database, acme: str) -> None:
    inside = db.scope(tenant=acme)

    for kind in ("tenant", "workspace", "user", "membership", "login", "key"):
        assert await inside.records.find(RecordQuery(kind=kind)) == []
