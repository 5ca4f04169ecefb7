"""What operators do over HTTP: erasure with receipts, holds, rules, the crisis log, and its audit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

import clew
from clew.client import AsyncClient
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.errors import Forbidden, InvalidArgument, InvalidId, LegalHold, NotFound
from clew.core.values import Record
from clew.runtime.model.messages import Message
from clew.runtime.records.episodes import Episode, EpisodeResult
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.server.identity.api_keys import KeyAuthentication, create_key
from clew.server.identity.directory import Directory
from clew.server.identity.entries import ApiKey, Membership, Tenant, User
from clew.server.identity.identity import Identity
from clew.testing import ScriptedModel
from clew_companion.client import AsyncCrisisClient
from clew_companion.crisis.log import Crisis
from tests.server.conftest import Users, clients_of
from tests.support.crises import crisis_record


class Roles:
    """Lets everybody in as the user and with the roles that they say."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant

    async def __call__(self, headers: dict[str, str]) -> Identity:
        """Whose request it is."""
        return Identity(
            tenant=self._tenant,
            user=headers["x-clew-user"],
            workspace=headers.get("x-workspace", "default"),
            roles=frozenset(headers.get("x-roles", "member").split()),
            scopes=frozenset({"read", "write", "admin"}),
        )


OPERATING = [
    ("POST", "/erasures"),
    ("GET", "/receipts"),
    ("POST", "/holds"),
    ("DELETE", "/holds"),
    ("PUT", "/retention/r"),
    ("POST", "/retention/apply"),
    ("GET", "/crises"),
    ("GET", "/crises/export"),
    ("POST", "/crises/purge"),
    ("GET", "/threads/t/stored-state"),
    ("GET", "/feedback"),
    ("GET", "/feedback/export"),
    ("GET", "/audit"),
]
BODIES = {
    "/holds": {"reason": "a case", "owner": "x"},
    "/retention/r": {"days": 1},
    "/erasures": {"owner": "x"},
}


@pytest.mark.promise("F-09")
@pytest.mark.parametrize(
    ("roles", "workspace"),
    [("member", "default"), ("admin member", "side")],
    ids=["member", "admin of another workspace"],
)
async def test_only_an_admin_of_the_first_workspace_operates(roles: str, workspace: str) -> None:
    headers = {"X-Clew-User": "mallory", "X-Roles": roles, "X-Workspace": workspace}
    async with clew.open("memory://") as db, clients_of(db, authenticate=Roles("default")) as users:  # type: ignore[arg-type]  # headers are a dict here
        answers = [
            await users.http.request(
                method,
                f"/api/v1{path}",
                headers=headers,
                json=BODIES.get(path, {}) if method in ("POST", "PUT") else None,
            )
            for method, path in OPERATING
        ]

    assert [answer.status_code for answer in answers] == [403] * len(OPERATING)


async def test_an_auditor_sees_the_audit_and_no_crisis_log() -> None:
    headers = {"X-Clew-User": "vera", "X-Roles": "auditor"}
    async with clew.open("memory://") as db, clients_of(db, authenticate=Roles("default")) as users:  # type: ignore[arg-type]  # headers are a dict here
        vera = AsyncClient("http://127.0.0.1", headers=headers, http=users.http)
        audit = await vera.operator.audit()
        with pytest.raises(Forbidden):
            await AsyncCrisisClient(vera).crises()

    assert audit.entries == []


@pytest.mark.promise("F-11")
@pytest.mark.parametrize("owner", ["alice", None])
async def test_an_operator_reads_the_state_of_any_thread_at_any_version_and_that_is_audited(
    db: clew.Database, owner: str | None
) -> None:
    thread = await db.create("t", owner=owner)
    await thread.append(patches=[clew.set(["mood"], "calm")])
    await thread.append(patches=[clew.set(["mood"], "wild")])
    headers = {"X-Clew-User": "olga", "X-Roles": "admin"}
    async with clients_of(db, authenticate=Roles(db.tenant)) as users:  # type: ignore[arg-type]  # headers are a dict here
        olga = AsyncClient("http://127.0.0.1", headers=headers, http=users.http)
        newest, first = await olga.operator.stored_state("t"), await olga.operator.stored_state("t", at=1)
        with pytest.raises(NotFound):
            await olga.operator.stored_state("none")
        with pytest.raises(NotFound):
            await olga.state("t")
        with pytest.raises(Forbidden):
            await users("alice").operator.stored_state("t")
        entries = (await olga.operator.audit(thread="t")).entries

    assert [(view.version, view.state["mood"]) for view in (newest, first)] == [(2, "wild"), (1, "calm")]
    assert [(entry.action, entry.user, entry.facts) for entry in entries] == [
        ("read state", "olga", {"version": 1}),
        ("read state", "olga", {"version": 2}),
    ]


@pytest.mark.promise("B-07")
async def test_a_person_is_erased_with_a_receipt(users: Users, db: clew.Database) -> None:
    await users("bob").run_turn("bobs", "lantern")
    await users("carol").run_turn("carols", "hello")
    operator = users("ada").operator
    preview = await operator.erase(owner="bob", dry_run=True)
    there = await users("bob").threads()
    result = await operator.erase(owner="bob", key="once")
    again = await operator.erase(owner="bob", key="once")
    page = await operator.receipts()

    assert preview.receipt.counts["threads"] >= 1
    assert [thread.id for thread in there.threads] == ["bobs"]
    assert result.receipt.counts["threads"] >= 1
    assert again == result
    assert [receipt.id for receipt in page.receipts] == [result.receipt.id]
    assert (await users("bob").threads()).threads == []
    assert [thread.id for thread in (await users("carol").threads()).threads] == ["carols"]


@pytest.mark.parametrize(
    ("roles", "workspace", "problem"),
    [
        ("member", "default", "the server's log says more"),
        ("admin member", "default", "RuntimeError: hunter2 was refused"),
        ("admin member", "another", "the server's log says more"),
    ],
    ids=["member", "admin", "admin of another workspace"],
)
async def test_what_went_wrong_in_a_job_is_told_to_who_decides_for_the_tenant(
    roles: str, workspace: str, problem: str
) -> None:
    async def fail(db: clew.Database, episode: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        raise RuntimeError("hunter2 was refused")

    def make(db: clew.Database) -> clew.Runtime:
        return clew.Runtime(
            db,
            model=ScriptedModel("Hello."),
            finalize=fail,
            config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False)),
        )

    headers = {"X-Clew-User": "alice", "X-Roles": roles, "X-Workspace": workspace}
    authenticate = Roles("default")
    async with (
        clew.open("memory://") as db,
        clients_of(db, make_runtime=make, authenticate=authenticate) as users,  # type: ignore[arg-type]  # headers are a dict here
    ):
        await users.http.post("/api/v1/threads/t/turns", json={"message": "hi"}, headers=headers)
        await users.http.post("/api/v1/sessions/t/end", json={}, headers=headers)
        jobs = (await users.http.get("/api/v1/jobs", headers=headers)).json()["jobs"]
        status = (await users.http.get("/api/v1/sessions/t/status", headers=headers)).json()

    assert [job["problem"] for job in jobs] == [problem]
    assert [each["problem"] for each in status["unfinished"]] == [problem]


async def test_receipts_come_in_pages_the_newest_first(users: Users) -> None:
    operator = users("ada").operator
    ids = []
    for number in range(3):
        await users("bob").create_thread(f"t{number}")
        ids.append((await operator.erase(thread=f"t{number}")).receipt.id)
    first = await operator.receipts(limit=2)
    second = await operator.receipts(limit=2, cursor=first.next)

    assert [each.id for each in (*first.receipts, *second.receipts)] == ids[::-1]
    assert second.next is None


async def test_holds_and_rules_come_in_pages(users: Users) -> None:
    operator = users("ada").operator
    for name in ("a", "b", "c"):
        await operator.hold(owner=name, reason="case 12")
        await operator.set_rule(name, days=3)
    holds = [await operator.holds(limit=2)]
    rules = [await operator.rules(limit=2)]
    holds.append(await operator.holds(limit=2, cursor=holds[0].next))
    rules.append(await operator.rules(limit=2, cursor=rules[0].next))

    assert sorted([each.name for page in holds for each in page.holds]) == ["a", "b", "c"]
    assert [[each.name for each in page.rules] for page in rules] == [["a", "b"], ["c"]]
    assert (len(holds[0].holds), holds[1].next, rules[1].next) == (2, None, None)


async def test_a_cursor_of_holds_is_none_of_rules(users: Users) -> None:
    operator = users("ada").operator
    for name in ("a", "b"):
        await operator.hold(owner=name, reason="case 12")
    cursor = (await operator.holds(limit=1)).next

    with pytest.raises(InvalidArgument):
        await operator.rules(cursor=cursor)


async def test_what_is_held_is_not_erased(users: Users) -> None:
    await users("bob").create_thread("bobs")
    operator = users("ada").operator
    hold = await operator.hold(owner="bob", reason="case 12")
    with pytest.raises(LegalHold):
        await operator.erase(owner="bob", identities=True)
    with pytest.raises(LegalHold):
        await users("bob").delete_thread("bobs")
    page = await operator.holds()
    await operator.release(owner="bob")
    await operator.erase(owner="bob")

    assert page.holds == [hold]
    assert (await operator.holds()).holds == []


async def test_rules_let_go_of_what_is_old(users: Users) -> None:
    await users("bob").create_thread("fresh", labels=["draft"])
    operator = users("ada").operator
    rule = await operator.set_rule("drafts", days=0.000000001, label="draft")
    preview = await operator.apply_rules(dry_run=True)
    result = await operator.apply_rules()
    page = await operator.rules()
    await operator.drop_rule("drafts")

    assert page.rules == [rule]
    assert preview.rules[0].threads == result.rules[0].threads == ["fresh"]
    assert result.rules[0].receipt is not None
    assert (await users("bob").threads()).threads == []
    with pytest.raises(NotFound):
        await operator.drop_rule("drafts")


async def test_no_rule_lets_go_of_the_audit(users: Users, db: clew.Database) -> None:
    operator = users("ada").operator
    await operator.set_rule("all", days=0.000000001)
    result = await operator.apply_rules()
    audit = await operator.audit()

    assert result.rules[0].threads == []
    assert {entry.action for entry in audit.entries} == {"set rule", "apply rules"}


async def _record_crisis(db: clew.Database, number: int, *, owner: str = "bob", due: int = 1 << 50) -> None:
    row = Crisis(id=f"row-{number}", thread=f"t{number % 2}", run="r", time=number, keep_until=due, level=2)
    await db.records.put(crisis_record(row, owner))


@pytest.mark.promise("R-22")
async def test_the_crisis_log_is_read_by_operators_and_each_look_is_noted(
    users: Users, db: clew.Database
) -> None:
    for number in range(5):
        await _record_crisis(db, number)
    crisis_log = AsyncCrisisClient(users("ada"))
    first = await crisis_log.crises(limit=3)
    second = await crisis_log.crises(limit=3, cursor=first.next)
    of_thread = await crisis_log.crises(thread="t1", since=2)
    lines = (await crisis_log.export_crises(owner="bob")).splitlines()
    audit = await users("ada").operator.audit()

    assert sorted(row.id for row in (*first.rows, *second.rows)) == [f"row-{n}" for n in range(5)]
    assert [row.id for row in of_thread.rows] == ["row-3"]
    assert len(lines) == 5
    assert msgspec.json.decode(lines[0])["level"] == 2
    assert [(entry.action, entry.user) for entry in audit.entries] == [
        ("export crises", "ada"),
        *[("read crises", "ada")] * 3,
    ]


@pytest.mark.promise("R-22")
async def test_an_export_of_the_crisis_log_with_a_wrong_filter_is_refused_before_it_begins(
    users: Users,
) -> None:
    with pytest.raises(InvalidId):
        await AsyncCrisisClient(users("ada")).export_crises(owner="")


@pytest.mark.promise("R-22")
async def test_rows_of_the_crisis_log_are_extended_and_purged(users: Users, db: clew.Database) -> None:
    for number in range(4):
        await _record_crisis(db, number, due=1)
    crisis_log = AsyncCrisisClient(users("ada"))
    extension = await crisis_log.extend_crises(1 << 50, thread="t0", key="k")
    preview = await crisis_log.purge_crises(dry_run=True)
    result = await crisis_log.purge_crises()
    page = await crisis_log.crises()

    assert (extension.rows, preview.rows, result.rows) == (2, 2, 2)
    assert sorted(row.id for row in page.rows) == ["row-0", "row-2"]


@pytest.mark.promise("B-07")
async def test_the_audit_says_who_and_what_and_names_nobody_it_is_about(
    users: Users, db: clew.Database
) -> None:
    await users("bob").create_thread("bobs-diary")
    ada, eda = users("ada").operator, users("eda").operator
    await ada.hold(owner="bob", reason="case 12")
    await eda.release(owner="bob")
    await ada.erase(owner="bob")
    audit = await ada.audit()
    about_bob = await ada.audit(owner="bob")
    of_eda = await ada.audit(user="eda")
    changes = await db.thread("clew/audit").changesets()

    assert [(entry.action, entry.user) for entry in audit.entries] == [
        ("erase", "ada"),
        ("release", "eda"),
        ("hold", "ada"),
    ]
    assert about_bob == audit
    assert [entry.action for entry in of_eda.entries] == ["release"]
    assert (await ada.audit(owner="carol")).entries == []
    assert b"bob" not in msgspec.json.encode([change.items for change in changes])
    assert (await db.thread("clew/audit").verify()).ok


async def test_the_audit_comes_in_pages(users: Users) -> None:
    operator = users("ada").operator
    for number in range(5):
        await operator.set_rule(f"r{number}", days=1)
    await AsyncCrisisClient(users("ada")).purge_crises()
    first = await operator.audit(limit=2, action="set rule")
    second = await operator.audit(limit=9, action="set rule", cursor=first.next)

    assert [entry.facts["rule"] for entry in (*first.entries, *second.entries)] == [
        f"r{number}" for number in reversed(range(5))
    ]


async def test_the_audit_and_the_receipts_are_no_threads_to_anybody(users: Users) -> None:
    everybody = users("*")
    await AsyncCrisisClient(everybody).purge_crises()
    await everybody.create_thread("t")
    await everybody.operator.erase(thread="t")
    for thread in ("clew/audit", "clew/receipts"):
        for call in (
            everybody.items(thread),
            everybody.delete_thread(thread),
            everybody.export_archive(thread),
        ):
            with pytest.raises(NotFound):
                await call
        with pytest.raises(NotFound):
            await everybody.operator.erase(thread=thread)

    assert [entry.action for entry in (await everybody.operator.audit()).entries] == ["erase", "purge crises"]


@pytest.mark.promise("F-10")
async def test_an_archive_brings_nothing_that_is_the_operators(users: Users, db: clew.Database) -> None:
    alice = users("alice")
    await alice.run_turn("mine", "hello")
    whole = (await alice.export_archive("mine")).splitlines(keepends=True)
    record = Record(kind=RETAINED_KIND, id="forged", owner="alice", body={})
    line = {"clew": "record", "kind": record.kind, "id": record.id, "owner": "alice", "body": {}}
    with_record = b"".join([whole[0], msgspec.json.encode(line) + b"\n", *whole[1:]])
    with_audit_id = b"".join(whole).replace(b'"mine"', b'"clew/audit"')
    for archive in (with_record, with_audit_id):
        with pytest.raises(InvalidArgument):
            await alice.import_sessions(archive)

    with pytest.raises(NotFound):
        await db.thread("clew/audit").head()


@pytest.mark.promise("B-07")
async def test_an_operator_erases_a_persons_identities_with_them(db: clew.Database) -> None:
    directory = Directory(db)
    await directory.add(Tenant(id=db.tenant))
    for user, role in (("ada", "admin"), ("bob", "member")):
        await directory.add(User(tenant=db.tenant, id=user))
        await directory.add(Membership(tenant=db.tenant, workspace="default", user=user, roles=(role,)))
    scopes = ("admin", "read", "write")
    keys = {
        user: (await create_key(directory, tenant=db.tenant, user=user, scopes=scopes))[1]
        for user in ("ada", "bob")
    }
    async with clients_of(db, authenticate=KeyAuthentication(directory)) as users:
        clients = {
            user: AsyncClient("http://127.0.0.1", token=text, http=users.http) for user, text in keys.items()
        }
        await clients["bob"].run_turn("bobs", "hello")
        operator = clients["ada"].operator
        preview = await operator.erase(owner="bob", identities=True, dry_run=True)
        result = await operator.erase(owner="bob", identities=True)
        with pytest.raises(clew.ClewError) as error:
            await clients["bob"].threads()
    keys_after = [key async for key in directory.entries(ApiKey, tenant=db.tenant)]

    assert preview.identities == result.identities == {"user": 1, "membership": 1, "key": 1}
    assert error.value.code == "unauthenticated"
    assert [key.user for key in keys_after] == ["ada"]
