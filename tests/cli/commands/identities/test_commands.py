"""Commands about identities, as an operator types them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from clew.core.errors import Unauthenticated
from clew.server.identity.api_keys import KeyAuthentication
from clew.server.identity.directory import Directory

Say = Callable[..., Any]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'server.db'}"


@pytest.fixture
def say(db: str, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a command and gives its JSON; its error's, if it is to fail."""

    def run_command(*words: str, fails: bool = False) -> Any:
        code = run([*words, "--db", db, "--json"])
        out, err = capsys.readouterr()
        assert code == (1 if fails else 0), out + err
        return json.loads(err)["error"] if fails else json.loads(out)

    return run_command


@pytest.fixture
def acme(say: Say) -> str:
    say("tenants", "create", "acme", "--name", "Acme Ltd.")
    say("users", "create", "alice", "--tenant", "acme")
    return "acme"


@pytest.mark.promise("F-12")
def test_a_tenant_is_entered_listed_disabled_and_enabled(say: Say) -> None:
    entry = say("tenants", "create", "acme", "--name", "Acme Ltd.", "--external", "tid-1")
    off = say("tenants", "disable", "acme")
    entries = say("tenants", "list")["found"]
    on = say("tenants", "enable", "acme")

    assert (entry["id"], entry["name"], entry["external"], entry["enabled"]) == (
        "acme",
        "Acme Ltd.",
        "tid-1",
        True,
    )
    assert entries == [off]
    assert (off["enabled"], on) == (False, entry)


@pytest.mark.parametrize("what", ["users", "workspaces"])
@pytest.mark.promise("F-12")
def test_users_and_workspaces_are_entered_listed_disabled_and_enabled(say: Say, acme: str, what: str) -> None:
    entry = say(what, "create", "one", "--name", "One", "--tenant", acme)
    off = say(what, "disable", "one", "--tenant", acme)
    on = say(what, "enable", "one", "--tenant", acme)
    entries = {each["id"]: each for each in say(what, "list", "--tenant", acme)["found"]}

    assert (off["enabled"], on) == (False, entry)
    assert entries["one"] == entry


def test_entering_again_changes_nothing_and_otherwise_is_refused(say: Say, acme: str) -> None:
    before = say("users", "list", "--tenant", acme)
    say("users", "create", "alice", "--tenant", acme)
    error = say("users", "create", "alice", "--name", "Another", "--tenant", acme, fails=True)

    assert say("users", "list", "--tenant", acme) == before
    assert error["code"] == "invalid_argument"


@pytest.mark.promise("F-12")
def test_members_are_set_listed_and_removed(say: Say, acme: str) -> None:
    say("members", "set", "alice", "--role", "admin", "--role", "auditor", "--tenant", acme)
    entries = say("members", "list", "--tenant", acme)["found"]
    say("users", "create", "alice", "--tenant", acme)
    entries_after = say("members", "list", "--tenant", acme)["found"]
    say("members", "remove", "alice", "--tenant", acme)

    assert [(each["user"], each["roles"]) for each in entries] == [("alice", ["admin", "auditor"])]
    assert entries_after == entries
    assert say("members", "list", "--tenant", acme)["found"] == []


def test_a_user_is_taken_out_in_two_steps(say: Say, acme: str) -> None:
    say("keys", "create", "--tenant", acme, "--user", "alice")
    preview = say("users", "remove", "alice", "--tenant", acme)
    before = say("users", "list", "--tenant", acme)["found"]
    result = say("users", "remove", "alice", "--tenant", acme, "--yes")
    after = say("users", "list", "--tenant", acme)["found"]

    assert (preview["removed"], result["removed"]) == (False, True)
    assert preview["entries"] == result["entries"]
    assert "hash" not in str(preview)
    assert (len(before), after) == (1, [])
    assert say("keys", "list", "--tenant", acme)["found"] == []


async def user_of_key(db: str, text: str) -> str | None:
    async with clew.open(db) as database:
        return (await KeyAuthentication(Directory(database))({"x-api-key": text})).user


@pytest.mark.promise("F-12")
def test_a_key_is_shown_once_and_its_hash_never(say: Say, acme: str) -> None:
    key = say("keys", "create", "--tenant", acme, "--user", "alice", "--lasts", "90d", "--scope", "read")
    keys = say("keys", "list", "--tenant", acme)["found"]
    own = say("keys", "list", "--tenant", acme, "--user", "nobody")["found"]

    assert key["text"].startswith(f"clew_{key['id']}_")
    assert key["expires"] - key["created"] == pytest.approx(90 * 86_400_000, abs=60_000)
    assert keys == [{name: value for name, value in key.items() if name != "text"}]
    assert "hash" not in key
    assert own == []


async def test_a_key_that_was_made_lets_in_until_it_is_revoked(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_command(*words: str) -> Any:
        assert run([*words, "--db", db, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    await asyncio.to_thread(run_command, "tenants", "create", "acme")
    key = await asyncio.to_thread(run_command, "keys", "create", "--tenant", "acme")
    user = await user_of_key(db, key["text"])
    await asyncio.to_thread(run_command, "keys", "revoke", key["id"])

    assert user is None
    with pytest.raises(Unauthenticated, match="revoked"):
        await user_of_key(db, key["text"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["tenants", "create", "$server"], "invalid_id"),
        (["tenants", "create", "a/b"], "invalid_id"),
        (["tenants", "disable", "nobody"], "record_not_found"),
        (["users", "create", "bob", "--tenant", "nobody"], "record_not_found"),
        (["users", "list", "--tenant", "$server"], "invalid_id"),
        (["threads", "--tenant", "$server"], "invalid_id"),
        (["keys", "create", "--tenant", "acme", "--user", "bob"], "record_not_found"),
        (["keys", "create", "--tenant", "acme", "--lasts", "ever"], "invalid_argument"),
        (["keys", "create", "--tenant", "acme", "--scope", "all"], "invalid_argument"),
        (["keys", "revoke", "0000"], "record_not_found"),
        (["members", "set", "alice", "--tenant", "acme", "--role", "king"], "invalid_argument"),
        (["members", "remove", "bob", "--tenant", "acme"], "record_not_found"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_code(say: Say, acme: str, words: list[str], code: str) -> None:
    assert say(*words, fails=True)["code"] == code


def test_a_key_fits_on_a_line_and_tables_fit_on_a_screen(
    db: str, say: Say, acme: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(["keys", "create", "--tenant", acme, "--user", "alice", "--db", db])
    key = capsys.readouterr().out.splitlines()[0]
    for words in (["tenants", "list"], ["users", "list"], ["members", "list"], ["keys", "list"]):
        assert run([*words, "--tenant", acme, "--db", db]) == 0
    output = capsys.readouterr().out

    assert len(key) < 80
    assert key.startswith("clew_")
    assert max(map(len, output.splitlines())) <= 80
    assert all(word in output for word in ("acme", "alice", "member", "read, write"))


def test_a_server_says_what_stands_against_its_start(
    say: Say, monkeypatch: pytest.MonkeyPatch, db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_ENV", "production")
    monkeypatch.delenv("CLEW_SERVER_SECRET", raising=False)
    code = run(["serve", "--check", "--host", "0.0.0.0", "--cors", "*", "--db", db, "--json"])
    codes = [danger["code"] for danger in json.loads(capsys.readouterr().out)["dangers"]]
    code_of_start = run(["serve", "--host", "0.0.0.0", "--db", db])
    text = " ".join(capsys.readouterr().err.split())

    assert code == code_of_start == 1
    assert codes == [
        "dev_auth_in_production",
        "dev_auth_not_on_loopback",
        "wildcard_cors",
        "no_tls",
        "database_required",
        "secret_missing",
    ]
    assert "unsafe_settings" in text
    assert "AUTH_MODE=dev lets anybody in" in text
