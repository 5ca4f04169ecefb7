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

    def said(*words: str, fails: bool = False) -> Any:
        code = run([*words, "--db", db, "--json"])
        out, err = capsys.readouterr()
        assert code == (1 if fails else 0), out + err
        return json.loads(err)["error"] if fails else json.loads(out)

    return said


@pytest.fixture
def acme(say: Say) -> str:
    say("tenants", "create", "acme", "--name", "Acme Ltd.")
    say("users", "create", "alice", "--tenant", "acme")
    return "acme"


@pytest.mark.promise("F-12")
def test_a_tenant_is_entered_listed_disabled_and_enabled(say: Say) -> None:
    made = say("tenants", "create", "acme", "--name", "Acme Ltd.", "--external", "tid-1")
    off = say("tenants", "disable", "acme")
    listed = say("tenants", "list")["found"]
    on = say("tenants", "enable", "acme")

    assert (made["id"], made["name"], made["external"], made["enabled"]) == (
        "acme",
        "Acme Ltd.",
        "tid-1",
        True,
    )
    assert listed == [off]
    assert (off["enabled"], on) == (False, made)


@pytest.mark.parametrize("what", ["users", "workspaces"])
@pytest.mark.promise("F-12")
def test_users_and_workspaces_are_entered_listed_disabled_and_enabled(say: Say, acme: str, what: str) -> None:
    made = say(what, "create", "one", "--name", "One", "--tenant", acme)
    off = say(what, "disable", "one", "--tenant", acme)
    on = say(what, "enable", "one", "--tenant", acme)
    listed = {each["id"]: each for each in say(what, "list", "--tenant", acme)["found"]}

    assert (off["enabled"], on) == (False, made)
    assert listed["one"] == made


def test_entering_again_changes_nothing_and_otherwise_is_refused(say: Say, acme: str) -> None:
    before = say("users", "list", "--tenant", acme)
    say("users", "create", "alice", "--tenant", acme)
    error = say("users", "create", "alice", "--name", "Another", "--tenant", acme, fails=True)

    assert say("users", "list", "--tenant", acme) == before
    assert error["code"] == "invalid_argument"


@pytest.mark.promise("F-12")
def test_members_are_set_listed_and_removed(say: Say, acme: str) -> None:
    say("members", "set", "alice", "--role", "admin", "--role", "auditor", "--tenant", acme)
    listed = say("members", "list", "--tenant", acme)["found"]
    say("users", "create", "alice", "--tenant", acme)
    kept = say("members", "list", "--tenant", acme)["found"]
    say("members", "remove", "alice", "--tenant", acme)

    assert [(each["user"], each["roles"]) for each in listed] == [("alice", ["admin", "auditor"])]
    assert kept == listed
    assert say("members", "list", "--tenant", acme)["found"] == []


def test_a_user_is_taken_out_in_two_steps(say: Say, acme: str) -> None:
    say("keys", "create", "--tenant", acme, "--user", "alice")
    shown = say("users", "remove", "alice", "--tenant", acme)
    before = say("users", "list", "--tenant", acme)["found"]
    done = say("users", "remove", "alice", "--tenant", acme, "--yes")
    after = say("users", "list", "--tenant", acme)["found"]

    assert (shown["removed"], done["removed"]) == (False, True)
    assert shown["entries"] == done["entries"]
    assert "hash" not in str(shown)
    assert (len(before), after) == (1, [])
    assert say("keys", "list", "--tenant", acme)["found"] == []


async def entered(db: str, text: str) -> str | None:
    async with clew.open(db) as opened:
        return (await KeyAuthentication(Directory(opened))({"x-api-key": text})).user


@pytest.mark.promise("F-12")
def test_a_key_is_shown_once_and_its_hash_never(say: Say, acme: str) -> None:
    made = say("keys", "create", "--tenant", acme, "--user", "alice", "--lasts", "90d", "--scope", "read")
    listed = say("keys", "list", "--tenant", acme)["found"]
    own = say("keys", "list", "--tenant", acme, "--user", "nobody")["found"]

    assert made["text"].startswith(f"clew_{made['id']}_")
    assert made["expires"] - made["created"] == pytest.approx(90 * 86_400_000, abs=60_000)
    assert listed == [{name: value for name, value in made.items() if name != "text"}]
    assert "hash" not in made
    assert own == []


async def test_a_key_that_was_made_lets_in_until_it_is_revoked(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> Any:
        assert run([*words, "--db", db, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    await asyncio.to_thread(said, "tenants", "create", "acme")
    made = await asyncio.to_thread(said, "keys", "create", "--tenant", "acme")
    user = await entered(db, made["text"])
    await asyncio.to_thread(said, "keys", "revoke", made["id"])

    assert user is None
    with pytest.raises(Unauthenticated, match="revoked"):
        await entered(db, made["text"])


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
    shown = capsys.readouterr().out

    assert len(key) < 80
    assert key.startswith("clew_")
    assert max(map(len, shown.splitlines())) <= 80
    assert all(word in shown for word in ("acme", "alice", "member", "read, write"))


def test_a_server_says_what_stands_against_its_start(
    say: Say, monkeypatch: pytest.MonkeyPatch, db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEW_ENV", "production")
    monkeypatch.delenv("CLEW_SERVER_SECRET", raising=False)
    code = run(["serve", "--check", "--host", "0.0.0.0", "--cors", "*", "--db", db, "--json"])
    found = [danger["code"] for danger in json.loads(capsys.readouterr().out)["dangers"]]
    started = run(["serve", "--host", "0.0.0.0", "--db", db])
    said = " ".join(capsys.readouterr().err.split())

    assert code == started == 1
    assert found == [
        "dev_auth_in_production",
        "dev_auth_not_on_loopback",
        "wildcard_cors",
        "no_tls",
        "database_required",
        "secret_missing",
    ]
    assert "unsafe_settings" in said
    assert "AUTH_MODE=dev lets anybody in" in said
