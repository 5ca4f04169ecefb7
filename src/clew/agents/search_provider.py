"""Search providers: what an agent may look things up with, by the name that an option gives."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

import msgspec

from clew.agents.references import ReferenceKind, open_reference
from clew.core.addresses import is_loopback
from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument, ModelFailed
from clew.runtime.memory.vectors.embedders import import_httpx
from clew.runtime.model.redaction import is_transient

SEARXNG = "searxng"
SEARCH_PROVIDERS = "searxng:URL or module:attribute"
ACCEPTED = (
    "Give an object with a name and an async method search(query, limit), or a function that makes one."
)
SEARCH_SECONDS = 8.0
"""How long an answer may take; a person waits for it."""
MOST_BYTES = 1024 * 1024
"""The largest answer that is read."""
LONGEST_QUERY, LONGEST_TITLE, LONGEST_TEXT = 400, 200, 2_000


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a search found."""

    title: str
    url: str
    text: str


class SearchProvider(Protocol):
    """Whatever can look something up."""

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    def search(self, query: str, limit: int) -> Awaitable[Sequence[Finding]]:
        """The results, the best first.

        Raises:
            ModelFailed: It could not be reached.
        """
        ...


SEARCH_PROVIDER_REFERENCE = ReferenceKind(
    noun="search provider",
    option="--search-provider",
    accepted=ACCEPTED,
    matches=lambda value: (
        isinstance(getattr(value, "name", None), str) and callable(getattr(value, "search", None))
    ),
)


class _SearxngResult(msgspec.Struct, frozen=True):
    url: str | None = None
    title: str | None = None
    content: str | None = None


class _SearxngAnswer(msgspec.Struct, frozen=True):
    results: list[_SearxngResult]


@check_methods
class SearxngProvider:
    """A search at an instance of SearXNG, whose settings must allow the format ``json``.

    Use it as an async context manager, so that its connections are closed in the end. No redirect is
    followed, and an answer that is too large or too slow is none.

    Raises:
        InvalidArgument: The address is neither https nor on this machine.
    """

    def __init__(
        self, url: str, *, timeout_seconds: float = SEARCH_SECONDS, most_bytes: int = MOST_BYTES
    ) -> None:
        self.name = f"{SEARXNG}:{_host_of(url)}"
        self._timeout_seconds = timeout_seconds
        self._most_bytes = most_bytes
        self._http = import_httpx()
        # A compressed answer could be many times as large as what is counted.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        self._client = self._http.AsyncClient(
            base_url=url.rstrip("/") + "/", headers=headers, timeout=None, follow_redirects=False
        )

    def __repr__(self) -> str:
        return f"SearxngProvider({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def search(self, query: str, limit: int) -> Sequence[Finding]:
        """The results, the best first.

        Raises:
            ModelFailed: It could not be reached, or its answer cannot be used.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                content = await self._request_results(query)
        except TimeoutError:
            raise self._failure(f"it has not answered within {self._timeout_seconds} seconds") from None
        except self._http.HTTPError as error:
            # Words of the error may hold the address, and that a password.
            problem = f"it could not be reached or broke off ({type(error).__name__})"
            raise self._failure(problem, retry=True) from None
        try:
            answer = msgspec.json.decode(content, type=_SearxngAnswer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._failure(f"its answer is not in SearXNG's JSON format: {error}") from None
        findings = [_finding(result) for result in answer.results]
        return [finding for finding in findings if finding is not None][:limit]

    async def _request_results(self, query: str) -> bytes:
        parameters = {"q": query[:LONGEST_QUERY], "format": "json"}
        async with self._client.stream("GET", "search", params=parameters) as answer:
            if answer.status_code != 200:
                raise self._status_failure(answer.status_code)
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise self._failure("its answer is compressed, though that was not asked for")
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > self._most_bytes:
                    raise self._failure(f"its answer has more than {self._most_bytes} bytes")
            return bytes(content)

    def _status_failure(self, status: int) -> ModelFailed:
        if 300 <= status < 400:
            return self._failure(
                f"it answered {status}, and redirects are not followed; name its own address"
            )
        if status == 403:
            return self._failure("it answered 403; allow the format json in its settings (search.formats)")
        return self._failure(f"it answered {status}", retry=is_transient(status))

    def _failure(self, problem: str, *, retry: bool = False) -> ModelFailed:
        return ModelFailed(model=self.name, problem=problem, retry=retry)


def _host_of(url: str) -> str:
    """Return the host of an address that something may be asked at.

    Raises:
        InvalidArgument: It is no such address. It is not repeated, since a part of it may be a password.
    """
    problem = "A search provider has an address such as searxng:https://search.example.org."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidArgument(problem=problem) from None
    if not host or parts.query or parts.fragment or parts.scheme not in ("http", "https"):
        raise InvalidArgument(problem=problem)
    if parts.scheme == "http" and not is_loopback(host):
        problem = f"The search provider at {host!r} must be asked over https: what people ask goes there."
        raise InvalidArgument(problem=problem)
    return host if port is None else f"{host}:{port}"


def _finding(result: _SearxngResult) -> Finding | None:
    """Return a result that can be named as a source; None if it has no address or says nothing."""
    url, text = (result.url or "").strip(), _plain_text(result.content, LONGEST_TEXT)
    if not text or urlsplit(url).scheme not in ("http", "https") or not url.isprintable() or " " in url:
        return None
    return Finding(title=_plain_text(result.title, LONGEST_TITLE) or url, url=url, text=text)


def _plain_text(text: str | None, longest: int) -> str:
    """Return a text on one line, without control characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text or "")
    return " ".join(printable.split())[:longest]


@asynccontextmanager
async def open_search_provider(name: str | None) -> AsyncIterator[SearchProvider | None]:
    """Open the search provider that a setting names: ``searxng:URL``, ``module:attribute``, or none.

    Raises:
        InvalidArgument: There is no such provider.
        MissingExtra: What it needs is not installed.
    """
    kind, _, url = (name or "none").partition(":")
    if kind == "none":
        yield None
    elif kind == SEARXNG:
        async with SearxngProvider(url) as provider:
            yield provider
    elif not url:
        raise InvalidArgument(problem=f"There is no search provider {name!r}. Use {SEARCH_PROVIDERS}.")
    else:
        async with open_reference(f"{kind}:{url}", SEARCH_PROVIDER_REFERENCE) as value:
            yield cast("SearchProvider", value)
