"""API keys: shown once, kept as a hash, and no longer good once revoked, expired or disabled."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.errors import Forbidden, InvalidArgument, RecordNotFound, Unauthenticated
from clew.core.log.rows import Ask, StoreRead
from clew.core.values import RecordQuery, Scope
from clew.server.identity.api_keys import HOUR_MS, KeyAuthentication, create_key, revoke_key
from clew.server.identity.directory import Directory
from clew.server.identity.entries import ApiKey, Tenant, User
from clew.testing import Clock


@pytest.fixture
def enter(directory: Directory) -> KeyAuthentication:
    return KeyAuthentication(directory)


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_a_key_lets_its_user_in(
    directory: Directory, acme: str, enter: KeyAuthentication, header: str
) -> None:
    _, text = await create_key(directory, tenant=acme, user="alice", scopes=("read",))
    value = f"Bearer {text}" if header == "authorization" else text
    identity = await enter({header: value})

    assert (identity.tenant, identity.user, sorted(identity.scopes)) == (acme, "alice", ["read"])


async def test_a_key_without_a_user_speaks_for_the_tenant(
    directory: Directory, acme: str, enter: KeyAuthentication
) -> None:
    _, text = await create_key(directory, tenant=acme)
    identity = await enter({"x-api-key": text})

    assert (identity.tenant, identity.user, identity.roles) == (acme, None, frozenset())


async def test_a_key_is_random_and_only_its_hash_is_kept(directory: Directory, acme: str) -> None:
    one, first = await create_key(directory, tenant=acme)
    _, second = await create_key(directory, tenant=acme)
    secret = first.removeprefix(f"clew_{one.id}_")
    text = str(await directory.db.records.find(RecordQuery(kind="key", tags=(f"tenant {acme}",))))

    assert first != second
    assert len(secret) == 43
    assert secret not in text


async def test_a_revoked_key_is_refused_at_once(
    directory: Directory, acme: str, enter: KeyAuthentication, clock: Clock
) -> None:
    key, text = await create_key(directory, tenant=acme)
    await enter({"x-api-key": text})
    revocation = await revoke_key(directory, key.id)
    clock.advance(5)

    assert await revoke_key(directory, key.id) == revocation
    with pytest.raises(Unauthenticated, match="revoked"):
        await enter({"x-api-key": text})


async def test_a_key_is_refused_once_it_has_expired(
    directory: Directory, acme: str, enter: KeyAuthentication, clock: Clock
) -> None:
    _, text = await create_key(directory, tenant=acme, lifetime_ms=1000)
    clock.advance(999)
    await enter({"x-api-key": text})
    clock.advance(1)

    with pytest.raises(Unauthenticated, match="expired"):
        await enter({"x-api-key": text})


async def test_a_key_of_somebody_disabled_is_refused(
    directory: Directory, acme: str, enter: KeyAuthentication
) -> None:
    _, of_alice = await create_key(directory, tenant=acme, user="alice")
    _, of_acme = await create_key(directory, tenant=acme)
    await directory.change(await directory.get(User, acme, "alice"), enabled=False)

    with pytest.raises(Forbidden, match="disabled"):
        await enter({"x-api-key": of_alice})
    await enter({"x-api-key": of_acme})
    await directory.change(await directory.get(Tenant, acme), enabled=False)
    with pytest.raises(Forbidden, match="disabled"):
        await enter({"x-api-key": of_acme})


async def test_a_key_with_another_secret_or_public_part_is_not_known(
    directory: Directory, acme: str, enter: KeyAuthentication
) -> None:
    key, text = await create_key(directory, tenant=acme)
    other, _ = await create_key(directory, tenant=acme)
    secret = text.removeprefix(f"clew_{key.id}_")
    wrong = [
        f"clew_{other.id}_{secret}",
        f"clew_{key.id}_{secret[:-1]}",
        f"clew_{key.id}_{secret}x",
        f"clew_{key.id}_",
        f"clew_{key.id}",
        f"clew_{key.id.upper()}_{secret}",
        f"clew_{'0' * 16}_{secret}",
        f"clew_{key.id}_{key.hash}",
        f"clew_../{key.id}_{secret}",
        "clew_",
        "clew_\xff\xfe_é",
    ]
    for text in wrong:
        with pytest.raises(Unauthenticated, match="not known"):
            await enter({"x-api-key": text})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Basic clew_x"},
        {"authorization": "Bearer"},
        {"x-api-key": ""},
        {"cookie": "clew_x"},
    ],
)
async def test_without_a_key_nobody_is_let_in(enter: KeyAuthentication, headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated, match="Authentication failed: no API key"):
        await enter(headers)


async def test_when_a_key_was_used_is_noted_once_an_hour(
    directory: Directory, acme: str, enter: KeyAuthentication, clock: Clock
) -> None:
    key, text = await create_key(directory, tenant=acme)
    revisions = []
    for ms in (0, 1000, HOUR_MS):
        clock.advance(ms)
        await enter({"x-api-key": text})
        revisions.append((await directory.db.records.get("key", key.id)).revision)
    last_use = (await directory.get(ApiKey, key.id)).used

    assert revisions == [2, 2, 3]
    assert last_use == clock() // HOUR_MS * HOUR_MS


async def test_a_key_that_makes_no_sense_is_not_made(directory: Directory, acme: str) -> None:
    with pytest.raises(InvalidArgument, match="'everything' is no scope"):
        await create_key(directory, tenant=acme, scopes=("everything",))
    with pytest.raises(InvalidArgument, match="At least one scope"):
        await create_key(directory, tenant=acme, scopes=())
    with pytest.raises(InvalidArgument, match="last"):
        await create_key(directory, tenant=acme, lifetime_ms=0)
    with pytest.raises(RecordNotFound):
        await create_key(directory, tenant=acme, user="nobody")


async def test_a_key_that_was_seen_before_is_looked_up_in_one_question(
    directory: Directory, acme: str, enter: KeyAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = await create_key(directory, tenant=acme, user="alice")
    await enter({"x-api-key": text})
    store, reads = directory.db.store, []
    store_read = store.read

    def note(asking: StoreRead[Any]) -> StoreRead[Any]:
        answer = None
        try:
            while True:
                question: Ask[Any] = asking.send(answer)
                reads.append(question)
                answer = yield question
        except StopIteration as end:
            return end.value

    async def reading(scope: Scope, asking: StoreRead[Any]) -> Any:
        return await store_read(scope, note(asking))

    monkeypatch.setattr(store, "read", reading)
    again = await enter({"x-api-key": text})

    assert again.user == "alice"
    assert len(reads) == 1


@pytest.mark.promise("F-09")
async def test_what_was_seen_before_is_looked_at_anew(
    directory: Directory, acme: str, enter: KeyAuthentication
) -> None:
    key, text = await create_key(directory, tenant=acme, user="alice")
    await enter({"x-api-key": text})
    alice = await directory.get(User, acme, "alice")
    await directory.change(alice, enabled=False)
    with pytest.raises(Forbidden):
        await enter({"x-api-key": text})
    await directory.change(alice, enabled=True)
    await enter({"x-api-key": text})
    await revoke_key(directory, key.id)

    with pytest.raises(Unauthenticated):
        await enter({"x-api-key": text})
