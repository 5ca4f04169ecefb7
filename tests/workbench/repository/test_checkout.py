"""Checking out a repository with git behind its walls, from a server that may be hostile, over real https."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from clew.workbench.repository import checkout
from clew.workbench.repository.checkout import CheckoutResult, check_out, checkout_news
from clew.workbench.repository.proxy import Lookup, RepositoryProxy
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import IPAddress, RemoteHost, RepositorySource
from tests.support.git_server import GitServer, commit_files, git, git_server, make_repository

pytestmark = pytest.mark.security

FILES = {"README.md": "Tea.\n", "docs/guide.md": "Pour.\n", "docs/deep/more.md": "Wait.\n"}
PUBLIC: IPAddress = ipaddress.ip_address("140.82.121.3")
LOOPBACK: IPAddress = ipaddress.ip_address("127.0.0.1")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    async with git_server(tmp_path) as server:
        make_repository(server.root, "tea", FILES)
        yield server


@pytest.fixture
def settings(server: GitServer) -> RepositorySettings:
    """The settings of an operator who lists the server."""
    return RepositorySettings(hosts=(server.host,), ca_file=str(server.certificate), seconds=60)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The working directory of a session, in a folder where nothing else is."""
    folder = tmp_path / "scratch" / "session"
    folder.mkdir(parents=True)
    return folder


async def check(
    url: str, settings: RepositorySettings, target: Path, ref: str | None = None, **options: Any
) -> CheckoutResult:
    paths = options.pop("context_paths", ())
    source = RepositorySource(url=url, ref=ref, context_paths=paths)
    result = await check_out(source, settings, target, **options)
    assert result is not None
    return result


def left_in(target: Path) -> list[str]:
    """All that is beside or in the working directory, but for the folder itself."""
    return sorted(str(path.relative_to(target.parent)) for path in target.parent.rglob("*") if path != target)


def processes_of_git() -> list[str]:
    """Every process below this one that a checkout started."""
    return [
        " ".join(process.cmdline())
        for process in psutil.Process(os.getpid()).children(recursive=True)
        if any(word in " ".join(process.cmdline()) for word in ("checkout_script", "supervisor", "git"))
    ]


# What is checked out.


@pytest.mark.promise("F-02")
async def test_a_repository_is_checked_out_at_its_usual_branch(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    result = await check(server.url("tea"), settings, target)

    assert result.commit == git(server.root / "tea", "rev-parse", "HEAD")
    assert (target / "repository/docs/guide.md").read_text() == "Pour.\n"
    assert git(target / "repository", "status", "--porcelain", "--", ".") == ""


@pytest.mark.promise("F-02")
@pytest.mark.parametrize("kind", ["branch", "tag", "commit", "full name"])
async def test_a_branch_a_tag_and_a_commit_are_checked_out(
    server: GitServer, settings: RepositorySettings, target: Path, kind: str
) -> None:
    folder = server.root / "tea"
    git(folder, "checkout", "--quiet", "-b", "old/tea")
    git(folder, "tag", "--annotate", "v1", "--message", "one")
    first = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "--quiet", "main")
    commit_files(folder, {"README.md": "Coffee.\n"})
    refs = {"branch": "old/tea", "tag": "v1", "commit": first, "full name": "refs/heads/old/tea"}
    result = await check(server.url("tea"), settings, target, refs[kind])

    assert (result.commit, (target / "repository/README.md").read_text()) == (first, "Tea.\n")


async def test_context_paths_are_looked_up_in_the_commit(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    (server.root / "tea/link").symlink_to("/etc")
    commit_files(server.root / "tea", {})
    paths = (
        "docs",
        "README.md",
        "docs/deep/",
        "none.md",
        "link",
        "link/passwd",
        "../x",
        "/etc",
        ".git/config",
    )
    result = await check(server.url("tea"), settings, target, context_paths=paths)

    assert result.context_paths == ("docs", "README.md", "docs/deep/")
    assert list(result.problems) == ["../x", "/etc", ".git/config", "none.md", "link", "link/passwd"]
    assert result.problems["link"] == "it is a link"


async def test_the_agent_is_told_what_is_there_and_nothing_that_a_server_said(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    checked_out = await check(server.url("tea"), settings, target, "main", context_paths=("docs", "none"))
    refused = await check(server.url("none"), settings, target)

    assert "`repository`" in checkout_news(checked_out)
    assert "`repository/docs`" in checkout_news(checked_out)
    assert "'none'" in checkout_news(checked_out)
    assert checkout_news(refused) == f"The repository '{server.url('none')}' is not there (clone_failed)."


async def test_another_repository_takes_the_place_of_the_first(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    make_repository(server.root, "coffee", {"README.md": "Coffee.\n"})
    await check(server.url("tea"), settings, target)
    (target / "repository/new.txt").write_text("written by code")
    await check(server.url("coffee"), settings, target)
    files = sorted(path.name for path in (target / "repository").iterdir())
    none = await check_out(RepositorySource(), settings, target)

    assert files == [".git", "README.md"]
    assert (none, left_in(target)) == (None, [])


# What is not.


async def test_it_is_off_until_an_operator_lists_a_host(server: GitServer, target: Path) -> None:
    result = await check(server.url("tea"), RepositorySettings(), target)

    assert (result.reason, server.paths) == ("repositories_off", [])
    assert left_in(target) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://127.0.0.1/tea", "host_not_listed"),
        ("https://127.0.0.1:1/tea", "host_not_listed"),
        ("https://localhost:{port}/tea", "host_not_listed"),
        ("https://[::1]:{port}/tea", "host_not_listed"),
        ("https://[::ffff:127.0.0.1]:{port}/tea", "host_not_listed"),
        ("https://2130706433:{port}/tea", "invalid_url"),
        ("https://0x7f.1:{port}/tea", "invalid_url"),
        ("https://ada@127.0.0.1:{port}/tea", "invalid_url"),
        ("http://127.0.0.1:{port}/tea", "invalid_url"),
        ("file://{root}/tea", "invalid_url"),
        ("{root}/tea", "invalid_url"),
        ("ext::git %s {root}/tea", "invalid_url"),
        ("--upload-pack=touch {root}/owned", "invalid_url"),
    ],
)
async def test_no_other_host_and_no_other_way_is_taken(
    server: GitServer, settings: RepositorySettings, target: Path, url: str, reason: str
) -> None:
    result = await check(url.format(port=server.port, root=server.root), settings, target)

    assert (result.reason, server.paths) == (reason, [])
    assert not (server.root / "owned").exists()
    assert left_in(target) == []


async def test_an_option_as_a_ref_is_no_option(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    result = await check(server.url("tea"), settings, target, f"--upload-pack=touch {server.root}/owned")

    assert (result.reason, server.paths, left_in(target)) == ("invalid_ref", [], [])


@pytest.mark.parametrize("ref", ["none", "0" * 40, "refs/heads/none"])
async def test_a_ref_that_is_not_there_is_said(
    server: GitServer, settings: RepositorySettings, target: Path, ref: str
) -> None:
    result = await check(server.url("tea"), settings, target, ref)

    assert (result.reason, left_in(target)) == ("ref_not_found", [])


async def test_a_repository_that_is_not_there_is_said(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    result = await check(server.url("none"), settings, target)

    assert (result.reason, left_in(target)) == ("clone_failed", [])
    assert "not found" in (result.problem or "")


async def test_nobody_is_asked_for_a_password(
    server: GitServer, settings: RepositorySettings, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ASKPASS", "/bin/echo")
    result = await check(server.url("shut/tea"), settings, target)

    assert (result.reason, left_in(target)) == ("clone_failed", [])
    assert server.paths == ["/shut/tea/info/refs"]


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    result = await check(server.url("tea"), msgspec.structs.replace(settings, ca_file=None), target)

    assert (result.reason, server.paths) == ("clone_failed", [])
    assert "certificate" in (result.problem or "")


# Names and redirects.


def answering(*answers: Sequence[IPAddress]) -> Lookup:
    """A lookup that gives one answer after another, and the last one from then on."""
    remaining = list(answers)

    async def look_up(host: RemoteHost) -> Sequence[IPAddress]:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return look_up


@pytest.mark.parametrize(
    "addresses",
    [
        [LOOPBACK],
        [PUBLIC, LOOPBACK],
        [ipaddress.ip_address("::ffff:127.0.0.1")],
        [ipaddress.ip_address("::1")],
    ],
    ids=["loopback", "public and loopback", "mapped", "IPv6"],
)
async def test_a_listed_name_that_leads_to_this_machine_is_refused(
    server: GitServer, target: Path, addresses: list[IPAddress]
) -> None:
    name = f"git.example.org:{server.port}"
    settings = RepositorySettings(hosts=(name,), ca_file=str(server.certificate), seconds=60)
    result = await check(f"https://{name}/tea", settings, target, lookup=answering(addresses))

    assert (result.reason, server.paths) == ("private_address", [])
    assert left_in(target) == []


async def test_a_name_leads_to_a_private_address_that_is_listed_itself(
    server: GitServer, target: Path
) -> None:
    name = f"git.example.org:{server.port}"
    settings = RepositorySettings(hosts=(name, "127.0.0.1"), ca_file=str(server.certificate), seconds=60)
    result = await check(f"https://{name}/tea", settings, target, lookup=answering([LOOPBACK]))

    assert result.reason is None
    assert (target / "repository/README.md").exists()


async def test_a_name_is_looked_up_anew_for_each_connection_and_checked_each_time(
    server: GitServer, target: Path
) -> None:
    name = f"git.example.org:{server.port}"
    hosts = (name, "127.0.0.1", "moved.example.org")
    settings = RepositorySettings(hosts=hosts, ca_file=str(server.certificate), seconds=60)
    server.redirect = "https://moved.example.org"
    metadata = ipaddress.ip_address("169.254.169.254")
    lookup = answering([LOOPBACK], [metadata])
    result = await check(f"https://{name}/moved/tea", settings, target, lookup=lookup)

    assert (result.reason, left_in(target)) == ("private_address", [])


@pytest.mark.parametrize(
    "redirect",
    [
        "https://localhost:{port}",
        "https://127.0.0.1:1",
        "https://169.254.169.254",
        "https://[::1]:{port}",
        "https://2130706434:{port}",
        "https://evil.example",
        "http://127.0.0.1:{port}",
        "file:///etc",
        "ftp://127.0.0.1",
    ],
)
async def test_a_redirect_to_a_host_that_is_not_listed_is_not_followed(
    server: GitServer, settings: RepositorySettings, target: Path, redirect: str
) -> None:
    server.redirect = redirect.format(port=server.port)
    result = await check(server.url("moved/tea"), settings, target)

    assert result.reason in ("host_not_listed", "clone_failed")
    assert server.paths == ["/moved/tea/info/refs"]
    assert left_in(target) == []


async def test_a_redirect_on_a_listed_host_is_followed(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    server.redirect = f"https://{server.host}"
    result = await check(server.url("moved/tea"), settings, target)

    assert result.reason is None


async def test_a_host_that_does_not_answer_is_said(target: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        result = await check(f"https://{host}/tea", RepositorySettings(hosts=(host,), seconds=60), target)

    assert (result.reason, left_in(target)) == ("unreachable", [])


# Size and time.


async def test_a_server_that_never_ends_is_cut_off(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    settings = msgspec.structs.replace(settings, bytes=1_000_000)
    result = await check(server.url("endless/tea"), settings, target)

    assert (result.reason, left_in(target), processes_of_git()) == ("too_large", [], [])


async def test_a_repository_that_is_larger_than_it_may_be_is_refused(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    commit_files(server.root / "tea", {"random": secrets.token_hex(500_000)})
    result = await check(server.url("tea"), msgspec.structs.replace(settings, bytes=100_000), target)

    assert (result.reason, left_in(target), processes_of_git()) == ("too_large", [], [])


async def test_files_that_are_small_on_their_way_and_large_on_disk_are_refused_before_they_are_written(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    commit_files(server.root / "tea", {"zeros": "0" * 20_000_000})
    result = await check(server.url("tea"), msgspec.structs.replace(settings, bytes=1_000_000), target)

    assert (result.reason, left_in(target)) == ("too_large", [])
    assert "its files" in (result.problem or "")


async def test_more_files_than_a_disk_can_hold_are_refused_before_they_are_written(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    folder = server.root / "tea"
    blob = git(folder, "hash-object", "-w", "README.md")
    tree = make_tree(folder, [f"100644 blob {blob}\tf{number}" for number in range(10)])
    for _ in range(9):
        tree = make_tree(folder, [f"040000 tree {tree}\td{number}" for number in range(10)])
    commit = git(folder, "commit-tree", tree, "-m", "ten thousand million files")
    git(folder, "update-ref", "refs/heads/bomb", commit)
    result = await check(server.url("tea"), settings, target, "bomb")

    assert (result.reason, left_in(target), processes_of_git()) == ("too_large", [], [])


def make_tree(folder: Path, entries: Sequence[str]) -> str:
    """Write a tree of such entries, each with the mode, the kind, the object and the name."""
    return git(folder, "mktree", input="".join(f"{entry}\n" for entry in entries))


async def test_a_server_that_is_too_slow_is_left(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    async with asyncio.timeout(60):
        result = await check(server.url("slow/tea"), msgspec.structs.replace(settings, seconds=1.0), target)

    assert (result.reason, left_in(target), processes_of_git()) == ("too_slow", [], [])


async def test_a_checkout_that_is_not_awaited_any_more_leaves_nothing(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    task = asyncio.create_task(check(server.url("slow/tea"), settings, target))
    async with asyncio.timeout(60):
        while not server.paths:  # noqa: ASYNC110  # another process asks
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (left_in(target), processes_of_git()) == ([], [])


# What a repository holds.


async def test_links_filters_and_submodules_of_a_repository_are_only_text(
    server: GitServer, settings: RepositorySettings, target: Path
) -> None:
    folder = server.root / "tea"
    (folder / "link").symlink_to("/etc/passwd")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    modules = f'[submodule "inner"]\n\tpath = inner\n\turl = {server.url("coffee")}\n'
    attributes = "*.bin filter=lfs\n*.run filter=owned\n"
    commit_files(
        folder, {"large.bin": pointer, "x.run": "x", ".gitattributes": attributes, ".gitmodules": modules}
    )
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    git(folder, "commit", "--quiet", "--message", "a submodule")
    result = await check(server.url("tea"), settings, target, context_paths=("inner",))
    checked_out = target / "repository"

    assert not (checked_out / "link").is_symlink()
    assert (checked_out / "link").read_text() == "/etc/passwd"
    assert (checked_out / "large.bin").read_text() == pointer
    assert list((checked_out / "inner").iterdir()) == []
    assert result.problems == {"inner": "it is a submodule, which is not fetched"}
    assert not [path for path in server.paths if "coffee" in path]


async def test_settings_of_this_machine_and_hooks_have_no_part_in_it(
    server: GitServer,
    settings: RepositorySettings,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook = tmp_path / "templates/hooks/post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned {target}/owned\n")
    hook.chmod(0o755)
    configuration = tmp_path / "gitconfig"
    configuration.write_text(
        f"[init]\n\ttemplateDir = {hook.parents[1]}\n[core]\n\thooksPath = {hook.parent}\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(hook.parents[1]))
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    result = await check(server.url("tea"), settings, target)

    assert result.reason is None
    assert not (tmp_path / "owned").exists()
    assert not (target / "repository/.git/hooks").exists()


# The walls.


WALL_SCRIPT = """
import json, os, socket, sys
request = json.loads(sys.argv[1])
def reach(address):
    try:
        with socket.create_connection(address, timeout=2):
            return True
    except OSError:
        return False
def ask_proxy(line):
    with socket.create_connection(("127.0.0.1", 3128), timeout=5) as connection:
        connection.sendall(line.encode() + b"\\r\\n\\r\\n")
        return connection.recv(100).split()[1].decode()
server = request["url"].split("/")[2]
os.mkdir("repository")
facts = {
    "direct": str(reach(("127.0.0.1", int(server.split(":")[1])))),
    "listed": ask_proxy(f"CONNECT {server} HTTP/1.1"),
    "other": ask_proxy("CONNECT 127.0.0.1:1 HTTP/1.1"),
    "plain": ask_proxy(f"GET http://{server}/ HTTP/1.1"),
    "files": str([path for path in ("/etc/shadow", "OUTSIDE") if os.path.exists(path)]),
    "environment": " ".join(sorted(os.environ)),
}
open("result.json", "w").write(json.dumps({"reason": "facts", "problem": json.dumps(facts)}))
"""


async def test_behind_the_walls_nothing_is_reached_but_the_listed_host(
    server: GitServer,
    settings: RepositorySettings,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(WALL_SCRIPT.replace("OUTSIDE", str(server.root)))
    monkeypatch.setattr(checkout, "SCRIPT", script)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr(RepositoryProxy, "_refuse", lambda proxy, error: None)
    result = await check(server.url("tea"), settings, target)
    facts = msgspec.json.decode((result.problem or "").encode())

    assert (facts["direct"], facts["listed"], facts["other"], facts["plain"]) == (
        "False",
        "200",
        "403",
        "403",
    )
    assert facts["files"] == "[]"
    assert facts["environment"].split() == ["HOME", "LANG", "PATH", "TMPDIR"]


async def test_nothing_runs_where_the_machine_has_no_walls(
    server: GitServer, settings: RepositorySettings, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "WALLS", frozenset())
    result = await check(server.url("tea"), settings, target)

    assert (result.reason, server.paths, left_in(target)) == ("no_walls", [], [])


async def test_a_machine_without_git_is_said(
    server: GitServer,
    settings: RepositorySettings,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkout, "PROGRAM_PATH", str(tmp_path))
    result = await check(server.url("tea"), settings, target)

    assert (result.reason, server.paths) == ("git_missing", [])


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"commit": "not a commit"}', '{"commit": 7}', "link", "folder"],
)
async def test_a_result_that_is_none_is_not_believed(
    server: GitServer,
    settings: RepositorySettings,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
) -> None:
    writes = {
        "link": "os.symlink('/etc/passwd', 'result.json')",
        "folder": "os.mkdir('result.json')",
    }
    script = tmp_path / "script.py"
    write = writes.get(content, f"open('result.json', 'w').write({content!r})")
    script.write_text(f"import os\nos.mkdir('repository')\n{write}\n")
    monkeypatch.setattr(checkout, "SCRIPT", script)
    result = await check(server.url("tea"), settings, target)

    assert (result.reason, left_in(target)) == ("clone_failed", [])
