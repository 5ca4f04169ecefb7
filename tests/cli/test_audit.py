"""What operators do at the command line stands in the audit, as what they do over HTTP."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import clew
from clew.api.audit import AuditView
from clew.cli import audit
from clew.cli.app import run
from clew.core.values import Job
from clew.database.audit import AUDIT_THREAD
from clew.server.http.audit import AuditQuery, entries

pytestmark = pytest.mark.promise("F-12")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A database with something of alice's, and a tenant."""
    path = f"{tmp_path}/operated.db"

    async def fill() -> None:
        async with clew.open(f"sqlite:///{path}") as db:
            acme = db.scope(tenant="acme")
            for thread in ("hers", "other"):
                await acme.create(thread, owner="alice")
            await acme.create("held")
            await acme.retention.hold(thread="held", reason="case")
            await acme.jobs.enqueue(Job(id="work", kind="of a test", limit=1))

    asyncio.run(fill())
    assert run(["tenants", "create", "acme", "--db", path]) == 0
    assert run(["users", "create", "alice", "--tenant", "acme", "--db", path]) == 0
    return path


def audit_views(path: str, query: AuditQuery | None = None) -> list[AuditView]:
    """The audit of the tenant, the oldest first."""

    async def read_entries() -> list[AuditView]:
        async with clew.open(f"sqlite:///{path}") as db:
            views, _ = await entries(db.scope(tenant="acme"), query or AuditQuery(), limit=100, before=None)
            return views[::-1]

    return asyncio.run(read_entries())


COMMANDS = {
    "erase": "erase --owner alice --yes",
    "settle receipts": "receipts --settle",
    "hold": "hold --thread hers --reason case",
    "release": "release --thread held",
    "set rule": "retain --keep old --older-than 90d",
    "apply rules": "retain --yes",
    "read crises": "crises list",
    "export crises": "crises export",
    "extend crises": "crises extend --thread hers --until 2090-01-01",
    "purge crises": "crises purge",
    "retry job": "jobs retry work",
    "create key": "keys create --user alice",
    "disable user": "users disable alice",
    "remove user": "users remove alice --yes",
    "set roles": "members set alice --role admin",
    "remove member": "members remove alice",
    "create workspace": "workspaces create research",
    "disable workspace": "workspaces disable default",
    "disable tenant": "tenants disable acme",
}


@pytest.mark.parametrize("action", COMMANDS)
def test_a_command_of_an_operator_is_written_down(file: str, action: str) -> None:
    code = run([*COMMANDS[action].split(), "--tenant", "acme", "--db", file])
    views = audit_views(file)

    assert code == 0
    assert [each.action for each in views] == ["create tenant", "create user", action]
    assert views[-1].facts["by"] == "command line"
    assert views[-1].facts["account"] == audit.account()


@pytest.mark.parametrize(
    "words",
    [
        "erase --owner alice --dry-run",
        "retain --dry-run",
        "crises purge --dry-run",
        "users remove alice",
        "holds",
    ],
)
def test_what_only_looks_is_not_written_down(file: str, words: str) -> None:
    run([*words.split(), "--tenant", "acme", "--db", file])

    assert [each.action for each in audit_views(file)] == ["create tenant", "create user"]


def test_a_revoked_key_is_written_down_in_its_tenant(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["keys", "create", "--tenant", "acme", "--db", file])
    run(["keys", "list", "--tenant", "acme", "--db", file, "--json"])
    key = capsys.readouterr().out.split('"id":')[1].split('"')[1]
    code = run(["keys", "revoke", key, "--db", file])

    assert code == 0
    assert [(each.action, each.facts.get("key")) for each in audit_views(file)][-1] == ("revoke key", key)


def test_whom_it_was_about_is_found_by_who_knows_the_name_and_stands_nowhere(file: str) -> None:
    run(["hold", "--owner", "alice", "--reason", "case", "--tenant", "acme", "--db", file])
    about = audit_views(file, AuditQuery(about=("owner", "alice")))

    assert [each.action for each in about] == ["create user", "hold"]
    assert all("alice" not in (each.about or "") for each in about)


def test_the_audit_is_in_no_list_of_threads(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run(["threads", "--tenant", "acme", "--db", file])

    assert AUDIT_THREAD not in capsys.readouterr().out


def test_the_audit_needs_no_server_to_be_installed() -> None:
    command = "import sys, clew.cli.audit; print(sorted({'httpx', 'litestar', 'jwt'} & set(sys.modules)))"

    async def export() -> str:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", command, stdout=asyncio.subprocess.PIPE
        )
        return (await child.communicate())[0].decode().strip()

    assert asyncio.run(export()) == "[]"


def test_an_account_without_a_name_is_told_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("clew.cli.audit.getpass.getuser", nobody)

    assert audit.account().isdecimal()
