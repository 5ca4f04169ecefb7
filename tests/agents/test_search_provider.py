"""A search at an instance of SearXNG: what it finds, and all that may go wrong with a server of others."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest

from clew.agents.search_provider import (
    LONGEST_QUERY,
    LONGEST_TEXT,
    Finding,
    SearxngProvider,
    open_search_provider,
)
from clew.core.errors import InvalidArgument, ModelFailed
from tests.support.openai_server import refusing_url
from tests.support.searxng_server import NORWAY, SearchAnswer, results_answer, searxng_server

FINDING = Finding(
    title="Norway", url="https://example.org/norway", text="About 5.6 million people live in Norway."
)


async def failure_of(answer: SearchAnswer, *, timeout_seconds: float = 30.0) -> ModelFailed:
    """The failure of a search that gets such an answer."""
    async with (
        searxng_server(answer) as server,
        SearxngProvider(server.url, timeout_seconds=timeout_seconds, most_bytes=100_000) as provider,
    ):
        with pytest.raises(ModelFailed) as caught:
            await provider.search("norway", 5)
    return caught.value


async def test_results_are_findings_in_their_order_up_to_the_limit() -> None:
    answer = results_answer(NORWAY, NORWAY | {"title": "Again"}, NORWAY)
    async with searxng_server(answer) as server, SearxngProvider(server.url) as provider:
        findings = await provider.search("How many people live in Norway?", 2)

    assert [finding.title for finding in findings] == ["Norway", "Again"]
    assert findings[0] == FINDING
    assert server.queries == [{"q": "How many people live in Norway?", "format": "json"}]


async def test_an_instance_may_be_below_a_path() -> None:
    async with searxng_server() as server, SearxngProvider(f"{server.url}/searxng/") as provider:
        await provider.search("norway", 5)

    assert server.paths == ["/searxng/search"]


async def test_no_query_is_endless() -> None:
    async with searxng_server() as server, SearxngProvider(server.url) as provider:
        await provider.search("x" * 10_000, 5)

    assert len(server.queries[0]["q"]) == LONGEST_QUERY


@pytest.mark.parametrize(
    "result",
    [
        NORWAY | {"url": "javascript:alert(1)"},
        NORWAY | {"url": None},
        NORWAY | {"url": "https://example.org/a\nb"},
        NORWAY | {"content": ""},
        NORWAY | {"content": None},
        {},
    ],
    ids=["script", "no address", "two lines", "no text", "null", "nothing"],
)
async def test_what_cannot_be_a_source_is_left_out(result: dict[str, object]) -> None:
    async with (
        searxng_server(results_answer(result, NORWAY)) as server,
        SearxngProvider(server.url) as provider,
    ):
        assert await provider.search("norway", 5) == [FINDING]


async def test_texts_of_others_are_one_line_without_control_characters_and_not_endless() -> None:
    result = NORWAY | {"title": "No\x1b[31mrway\n", "content": "x\r\n" + "y" * 10_000}
    async with searxng_server(results_answer(result)) as server, SearxngProvider(server.url) as provider:
        (finding,) = await provider.search("norway", 5)

    assert finding.title == "No [31mrway"
    assert finding.text == ("x " + "y" * 10_000)[:LONGEST_TEXT]


@pytest.mark.parametrize(
    ("answer", "problem", "retry"),
    [
        (SearchAnswer(status=500), "it answered 500", True),
        (SearchAnswer(status=429), "it answered 429", True),
        (SearchAnswer(status=404), "it answered 404", False),
        (SearchAnswer(status=403), "allow the format json in its settings", False),
        (
            SearchAnswer(status=302, headers={"location": "https://elsewhere.example/search"}),
            "redirects are not followed",
            False,
        ),
        (SearchAnswer(body=b"<html>"), "not in SearXNG's JSON format", False),
        (SearchAnswer(body=b'{"results": 3}'), "not in SearXNG's JSON format", False),
        (SearchAnswer(body=b"\xff\xfe"), "not in SearXNG's JSON format", False),
        (SearchAnswer(body=b"x" * 50, cut=20), "could not be reached or broke off", True),
        (SearchAnswer(body=b"x" * 100_001), "more than 100000 bytes", False),
        (SearchAnswer(is_endless=True), "more than 100000 bytes", False),
        (
            SearchAnswer(body=gzip.compress(b" " * 1_000_000), headers={"content-encoding": "gzip"}),
            "compressed",
            False,
        ),
    ],
    ids=[
        "500",
        "429",
        "404",
        "403",
        "redirect",
        "html",
        "other",
        "bytes",
        "cut",
        "large",
        "endless",
        "compressed",
    ],
)
async def test_an_answer_that_cannot_be_used_is_a_failure_that_says_why(
    answer: SearchAnswer, problem: str, *, retry: bool
) -> None:
    failure = await failure_of(answer)

    assert problem in failure.problem
    assert failure.retry is retry


async def test_an_instance_that_does_not_answer_is_given_up_in_time() -> None:
    failure = await failure_of(SearchAnswer(before=asyncio.Event()), timeout_seconds=0.05)

    assert failure.problem == "it has not answered within 0.05 seconds"
    assert not failure.retry


async def test_nobody_who_listens_is_a_failure_without_the_address() -> None:
    async with SearxngProvider(refusing_url().replace("127.0.0.1", "user:secret@127.0.0.1")) as provider:
        with pytest.raises(ModelFailed) as caught:
            await provider.search("norway", 5)

    assert caught.value.retry
    assert "secret" not in f"{caught.value} {provider!r}"


@pytest.mark.security
@pytest.mark.parametrize(
    "url",
    [
        "",
        "search.example.org",
        "http://search.example.org",
        "http://10.0.0.7",
        "http://localhost.example.org",
        "file:///etc/passwd",
        "ftp://127.0.0.1",
        "https://",
        "https://search.example.org/?key=secret",
        "https://search.example.org/#secret",
        "https://[",
        "https://user:secret@search.example.org:port",
    ],
)
def test_an_address_must_be_https_or_on_this_machine(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        SearxngProvider(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", [None, "", "none"])
async def test_without_a_name_there_is_no_provider(name: str | None) -> None:
    async with open_search_provider(name) as provider:
        assert provider is None


async def test_an_instance_is_named_by_its_address() -> None:
    async with searxng_server() as server, open_search_provider(f"searxng:{server.url}") as provider:
        assert provider is not None
        findings = await provider.search("norway", 5)

    assert (provider.name, list(findings)) == (server.url.replace("http://", "searxng:"), [FINDING])


ALMANAC = """
closed = []

class Almanac:
    name = "almanac"

    async def search(self, query, limit):
        return []

class OpenAlmanac(Almanac):
    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        closed.append(self.name)

almanac = Almanac()
number = 3

def make_nothing():
    return None

def fail():
    raise ValueError("no key")
"""


@pytest.fixture
def almanac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory."""
    name = f"almanac_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(ALMANAC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.mark.parametrize("attribute", ["almanac", "Almanac", "OpenAlmanac"])
async def test_a_provider_of_ones_own_is_named_by_module_and_attribute(almanac: str, attribute: str) -> None:
    async with open_search_provider(f"{almanac}:{attribute}") as provider:
        assert provider is not None
        assert provider.name == "almanac"


async def test_a_provider_that_is_made_here_is_closed_here(almanac: str) -> None:
    async with open_search_provider(f"{almanac}:OpenAlmanac"):
        pass

    assert __import__(almanac).closed == ["almanac"]


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ("number", "is of type int. Give an object with a name and an async method search(query, limit)"),
        ("make_nothing", "made an object of type NoneType. Give an object with a name"),
        ("fail", "made no search provider: ValueError: no key"),
        ("almanach", "has no attribute 'almanach'. It has the search provider "),
    ],
)
async def test_what_is_no_provider_is_refused_with_what_is_one(
    almanac: str, attribute: str, problem: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        async with open_search_provider(f"{almanac}:{attribute}"):
            pass
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["bing", "searxng:", "searxng", ":almanac", "nowhere_at_all:almanac"])
async def test_a_name_that_leads_to_no_provider_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        async with open_search_provider(name):
            pass
