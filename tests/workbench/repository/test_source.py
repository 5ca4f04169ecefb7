"""What a session may say about its repository: every trick with a URL, a ref or a path is refused by name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clew.core.errors import InvalidArgument, RepositoryFailed
from clew.core.manifest.document import InterpreterState
from clew.core.ops import apply_ops
from clew.workbench.repository.source import (
    RemoteHost,
    RepositorySource,
    check_ref,
    check_source,
    context_problems,
    host_of,
    repository_of,
    repository_ops,
)

pytestmark = pytest.mark.security

COMMIT = "d2b40796bfd001dc47d3c33e45e83c5f3e7af1ba"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://github.com/acme/tea", RemoteHost("github.com")),
        ("https://GitHub.com/acme/tea.git", RemoteHost("github.com")),
        ("https://git.example.org:8443/a/b%20c", RemoteHost("git.example.org", 8443)),
        ("https://127.0.0.1:8443/tea", RemoteHost("127.0.0.1", 8443)),
        ("https://[::1]/tea", RemoteHost("::1")),
        ("https://[0:0::0:1]:8443/tea", RemoteHost("::1", 8443)),
        ("https://xn--bcher-kva.example/tea", RemoteHost("xn--bcher-kva.example")),
    ],
)
def test_a_plain_url_has_its_host(url: str, host: RemoteHost) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tea",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://git.example.org/tea",
        "HTTPS://git.example.org/tea",
        "git://git.example.org/tea",
        "ssh://git.example.org/tea",
        "git@git.example.org:tea",
        "ftp://git.example.org/tea",
        "ext::sh -c touch% /tmp/owned",
        "fd::17",
        "https::https://git.example.org/tea",
        "--upload-pack=touch /tmp/owned",
        "-u",
        "https://user@git.example.org/tea",
        "https://user:secret@git.example.org/tea",
        "https://git.example.org@evil.example/tea",
        "https://evil.example\\@git.example.org/tea",
        "https://git.example.org%40evil.example/tea",
        "https://git.example.org%2eevil.example/tea",
        "https://%6c%6fcalhost/tea",
        "https://git.example.org#@evil.example/tea",
        "https://git.example.org?@evil.example/tea",
        "https://git.example.org/tea?service=x",
        "https://git.example.org/tea#fragment",
        "https://git.example.org/../tea",
        "https://git.example.org/tea%00",
        "https://git.example.org/tea%0a",
        "https://git.example.org/tea%",
        "https://git.example.org/tea\nHost: evil.example",
        "https://git.example.org/tea\t",
        " https://git.example.org/tea",
        "https://git.example.org/te a",
        "https://git.example.org/téa",
        "https://git.example.org/$(touch)`x`",
        'https://git.example.org/\'; touch "x"',
        "https://git.example.org",
        "https://git.example.org/",
        "https:///tea",
        "https://:443/tea",
        "https://git.example.org:/tea",
        "https://git.example.org:0/tea",
        "https://git.example.org:65536/tea",
        "https://git.example.org:443:444/tea",
        "https://git.example.org./tea",
        "https://.git.example.org/tea",
        "https://-git.example.org/tea",
        "https://git..example.org/tea",
        "https://git_example.org/tea",
        "https://bücher.example/tea",
        "https://2130706433/tea",
        "https://0x7f000001/tea",
        "https://0x7f.0.0.1/tea",
        "https://0177.0.0.1/tea",
        "https://127.1/tea",
        "https://127.0.0.1./tea",
        "https://127.0.0.01/tea",
        "https://localhost.0x/tea",
        "https://１２７.0.0.1/tea",
        "https://127。0。0。1/tea",
        "https://::1/tea",
        "https://[::1/tea",
        "https://[127.0.0.1]/tea",
        "https://[fe80::1%25eth0]/tea",
        "https://[fe80::1%eth0]/tea",
        "https://[v1.fe80]/tea",
        "https://git.example.org/" + "a" * 2000,
    ],
)
def test_a_url_that_is_a_trick_is_refused(url: str) -> None:
    with pytest.raises(RepositoryFailed) as error:
        host_of(url)

    assert error.value.reason == "invalid_url"


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(RepositoryFailed) as error:
        host_of("https://ada:secret@git.example.org/tea")

    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "ref",
    [None, "main", "feature/tea#1", "v1.0", "refs/heads/main", "grün", COMMIT, "a@b", "release-2026.01"],
)
def test_a_name_of_a_ref_is_taken(ref: str | None) -> None:
    check_ref(RepositorySource(url="https://git.example.org/tea", ref=ref))


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "-",
        "--upload-pack=touch /tmp/owned",
        "-b",
        "+main",
        "main:refs/heads/evil",
        "a b",
        "a\nb",
        "a\tb",
        "a\0b",
        "a\x7fb",
        "a..b",
        "../main",
        "/main",
        "main/",
        "a//b",
        ".hidden",
        "a/.b",
        "main.",
        "main.lock",
        "a.lock/b",
        "main~1",
        "main^",
        "main^{tree}",
        "@",
        "@{upstream}",
        "a@{1}",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "a\u202eb",
        "a\ud800b",
        "a" * 251,
    ],
)
def test_a_ref_that_git_would_take_for_something_else_is_refused(ref: str) -> None:
    with pytest.raises(RepositoryFailed) as error:
        check_ref(RepositorySource(url="https://git.example.org/tea", ref=ref))

    assert error.value.reason == "invalid_ref"


@pytest.mark.parametrize("path", ["docs", "docs/", "docs/a b.md", ".github/workflows", "größe.md", "aux.c"])
def test_a_path_below_the_repository_is_taken(path: str) -> None:
    assert context_problems([path]) == {}


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../../b",
        "a/..",
        "/etc/passwd",
        "//etc",
        "~/x",
        "~root",
        "a//b",
        "./a",
        "a\0b",
        "a\nb",
        ".git",
        ".git/config",
        "a/.GIT/config",
        "a\\b",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    assert list(context_problems([path])) == [path]


def test_more_context_paths_than_anybody_reads_are_refused() -> None:
    assert list(context_problems([f"f{number}" for number in range(102)])) == ["f100", "f101"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (RepositorySource(url="http://git.example.org/tea"), "https"),
        (RepositorySource(url="https://git.example.org/tea", ref="-x"), "-x"),
        (RepositorySource(url="https://git.example.org/tea", context_paths=("../x",)), "../x"),
        (RepositorySource(ref="main"), "URL"),
        (RepositorySource(context_paths=("docs",)), "URL"),
    ],
)
def test_a_repository_that_cannot_be_used_is_not_set(source: RepositorySource, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        check_source(source)
    with pytest.raises(InvalidArgument, match=words):
        repository_ops(source)


def test_a_repository_replaces_another_and_none_removes_it() -> None:
    state = {"interpreter_state": {"sandbox_id": "box"}}
    first = RepositorySource(url="https://git.example.org/tea", ref="main", context_paths=("docs",))
    second = RepositorySource(url="https://git.example.org/coffee")
    after_first = apply_ops(state, repository_ops(first))
    after_second = apply_ops(after_first, repository_ops(second))
    after_none = apply_ops(after_second, repository_ops(RepositorySource()))

    assert [repository_of(each) for each in (after_first, after_second)] == [first, second]
    assert after_none == state


@pytest.mark.parametrize(
    "entry", ["text", {"repository_url": 7}, {"context_paths": "docs"}, ["https://git.example.org/tea"]]
)
def test_what_is_no_entry_of_an_interpreter_names_no_repository(entry: Sequence[str]) -> None:
    assert repository_of({"interpreter_state": entry}) == RepositorySource()


def test_the_fields_are_those_of_the_manifest() -> None:
    fields = InterpreterState.__struct_fields__

    assert {"repository_url", "repository_ref", "context_paths"} <= set(fields)
