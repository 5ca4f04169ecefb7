"""All that a store holds, across tenants, on every store."""

from __future__ import annotations

from uuid import uuid4

import pytest

import clew
from clew.core.values import Enqueue, Job, Put, Record, Scope
from clew.database import inventory
from clew.database.inventory import list_tenants, list_threads
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


@pytest.mark.promise("F-14")
async def test_every_tenant_that_has_something_is_listed(db: clew.Database) -> None:
    names = [uuid4().hex for _ in range(4)]
    await db.scope(tenant=names[0]).create("s-1")
    await db.scope(tenant=names[1]).commit([Put(record=Record(kind="note", id="n", body={}))])
    await db.scope(tenant=names[2]).commit([Enqueue(job=Job(id="j", kind="k"))])
    await db.scope(tenant=names[3]).threads()

    tenants = await list_tenants(db.store)

    assert [name in tenants for name in names] == [True, True, True, False]
    assert tenants == sorted(set(tenants))


async def test_every_thread_is_listed_once(
    db: clew.Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "THREADS_PER_PAGE", 2)
    for number in range(5):
        await db.create(f"s-{number}")

    rows = await list_threads(db.store, Scope(tenant=tenant))

    assert sorted(row.id for row in rows) == [f"s-{number}" for number in range(5)]
