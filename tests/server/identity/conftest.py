"""A directory of identities on each store; every test has tenants of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import clew
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Membership, Tenant, User
from clew.testing import Clock
from tests.support.issuer import Issuer, issuing
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


@pytest.fixture
def clock() -> Clock:
    """The time, which stands still unless a test moves it."""
    return Clock(1_800_000_000_000)


@pytest.fixture
def directory(db: clew.Database, clock: Clock) -> Directory:
    """The server's own records on each store."""
    return Directory(db, now=clock)


@pytest.fixture
async def in_memory() -> AsyncIterator[Directory]:
    """The server's own records on one store, for what does not depend on it."""
    async with clew.open("memory://") as db:
        yield Directory(db)


@pytest.fixture
async def acme(directory: Directory, tenant: str) -> str:
    """A tenant with a member, alice, and an administrator, ada."""
    await directory.add(Tenant(id=tenant))
    for user, role in (("alice", "member"), ("ada", "admin")):
        await directory.add(User(tenant=tenant, id=user))
        await directory.add(Membership(tenant=tenant, workspace="default", user=user, roles=(role,)))
    return tenant


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    """An issuer of tokens on loopback."""
    async with issuing() as issuer:
        yield issuer
