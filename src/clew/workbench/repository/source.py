"""The repository of a session: its URL, its ref and the paths that matter in it, each checked. Pure.

A manifest is what a user sends, so all three may be anything. What is refused here never reaches git.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from clew.core import patch
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, RepositoryFailed
from clew.core.manifest.document import INTERPRETER_KEY, InterpreterState
from clew.core.ops import Op

HTTPS_PORT: Final = 443
LONGEST_URL: Final = 2000
LONGEST_REF: Final = 250
MOST_CONTEXT_PATHS: Final = 100
URL: Final = re.compile(r"https://[A-Za-z0-9.:\[\]-]+/[A-Za-z0-9._~!$&'()*+,;=:/%-]*\Z")
"""No user, no query, no fragment; no sign that a shell, a log or git would take for something else."""
ESCAPE: Final = re.compile(r"%(?![2-7][0-9A-Fa-f]|[89A-Fa-f][0-9A-Fa-f])")
"""A percent sign that does not begin the escape of a visible sign."""
HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*\Z")
NUMBER_LIKE: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\Z")
"""A host whose last part is a number: other programs may read an address out of it, such as 0x7f.1."""
FORBIDDEN_IN_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|/\.|\.lock(/|\Z)")

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class RepositorySource(msgspec.Struct, frozen=True, kw_only=True):
    """The repository that a session works on: where it is, which ref of it, and what to read of it first.

    ``context_paths`` are files and folders in it. Without a URL the session has none.
    """

    url: str | None = None
    ref: str | None = None
    context_paths: tuple[str, ...] = ()


class RemoteHost(msgspec.Struct, frozen=True):
    """A host and a port; an address in the one form that it has."""

    name: str
    port: int = HTTPS_PORT

    @property
    def address(self) -> IPAddress | None:
        """The address that the host is; None if it is a name."""
        return address_of(self.name)


def repository_of(state: Mapping[str, JSON]) -> RepositorySource:
    """The repository that a session's state names; a malformed entry counts as none."""
    try:
        fields = msgspec.convert(state.get(INTERPRETER_KEY, {}), InterpreterState)
    except msgspec.ValidationError:
        return RepositorySource()
    return RepositorySource(
        url=fields.repository_url, ref=fields.repository_ref, context_paths=tuple(fields.context_paths)
    )


def repository_ops(source: RepositorySource) -> list[Op]:
    """The ops that make a session's state name a repository, and no other; none, without a URL.

    Raises:
        InvalidArgument: Its URL, its ref or a path cannot be used.
    """
    check_source(source)
    if source.url is None:
        names = ("repository_url", "repository_ref", "context_paths")
        return [patch.delete([INTERPRETER_KEY, name]) for name in names]
    fields: dict[str, JSON] = {
        "repository_url": source.url,
        "repository_ref": source.ref,
        "context_paths": list(source.context_paths),
    }
    return [patch.merge([INTERPRETER_KEY], fields)]


def check_source(source: RepositorySource) -> None:
    """Refuse a repository that could not be checked out, whatever hosts an operator lists.

    Raises:
        InvalidArgument: Its URL, its ref or a path cannot be used.
    """
    if source.url is None:
        if source.ref is not None or source.context_paths:
            raise InvalidArgument(problem="A ref or a context path needs the URL of a repository.")
        return
    try:
        host_of(source.url)
        check_ref(source)
    except RepositoryFailed as error:
        raise InvalidArgument(problem=f"The repository cannot be used: {error.problem}.") from error
    for path, problem in context_problems(source.context_paths).items():
        raise InvalidArgument(problem=f"The context path {path!r} cannot be used: {problem}.")


def host_of(url: str) -> RemoteHost:
    """The host of a repository's URL.

    Raises:
        RepositoryFailed: It is not a URL with which a repository may be named.
    """
    if len(url) > LONGEST_URL:
        raise RepositoryFailed(url[:80], "invalid_url", f"the URL is over {LONGEST_URL} characters long")
    if not url.startswith("https://"):
        raise RepositoryFailed(url, "invalid_url", "only https:// is taken")
    if "@" in url.split("/")[2]:
        raise RepositoryFailed(_without_user(url), "invalid_url", "a user or a password is not taken")
    if URL.match(url) is None or ESCAPE.search(url) or ".." in url.split("/"):
        raise RepositoryFailed(
            url, "invalid_url", "it is not a plain URL of a host and a path, without a query or a fragment"
        )
    try:
        parts = urlsplit(url)
        host = parse_host(parts.netloc)
    except (ValueError, InvalidArgument) as error:
        raise RepositoryFailed(url, "invalid_url", f"the host cannot be used: {error}") from error
    if not parts.path.strip("/"):
        raise RepositoryFailed(url, "invalid_url", "it names a host and no repository")
    return host


def _without_user(url: str) -> str:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def parse_host(text: str) -> RemoteHost:
    """A host with or without a port: a name, an IPv4 address, or an IPv6 address in brackets.

    Raises:
        InvalidArgument: It is none, or an address in a form that others may read otherwise.
    """
    bracketed = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::([0-9]{1,5}))?", text)
    plain = re.fullmatch(r"([^:\[\]]+)(?::([0-9]{1,5}))?", text)
    match = bracketed or plain
    if match is None:
        raise InvalidArgument(problem=f"{text!r} is no host")
    port = int(match[2] or HTTPS_PORT)
    if not 1 <= port <= 65535:
        raise InvalidArgument(problem=f"{port} is no port")
    name = match[1].lower()
    address = address_of(name)
    if address is not None and (bracketed is None) == (address.version == 4):
        return RemoteHost(str(address), port)
    if bracketed is not None or HOST_NAME.match(name) is None or NUMBER_LIKE.match(name):
        raise InvalidArgument(problem=f"{match[1]!r} is no name of a host and no address in its usual form")
    return RemoteHost(name, port)


def address_of(name: str) -> IPAddress | None:
    """The address that a text is, if it is one in its usual form."""
    try:
        return ipaddress.ip_address(name) if "%" not in name else None
    except ValueError:
        return None


def check_ref(source: RepositorySource) -> None:
    """Refuse a ref that git would not take, or would take for something else than a ref.

    Raises:
        RepositoryFailed: It is one.
    """
    ref = source.ref
    if ref is None:
        return
    is_odd = ref.startswith(("-", "+", "/", ".", "@")) or ref.endswith(("/", "."))
    is_long = len(ref.encode(errors="surrogatepass")) > LONGEST_REF
    if not ref or is_odd or is_long or FORBIDDEN_IN_REF.search(ref) or not ref.isprintable():
        raise RepositoryFailed(source.url or "", "invalid_ref", f"{ref[:80]!r} is no name of a ref")


def context_problems(paths: Sequence[str]) -> dict[str, str]:
    """The problems of paths that cannot be those of files or folders in a repository."""
    problems = {path: problem for path in paths if (problem := _path_problem(path)) is not None}
    return problems | dict.fromkeys(paths[MOST_CONTEXT_PATHS:], f"there are over {MOST_CONTEXT_PATHS}")


def _path_problem(path: str) -> str | None:
    if path.startswith(("/", "~")):
        return "it is absolute"
    parts = path.removesuffix("/").split("/")
    if ".git" in (part.lower() for part in parts):
        return "it is git's own"
    if any(part in ("", ".", "..") for part in parts):
        return "a part of it is empty, or leads elsewhere"
    if "\\" in path or not path.isprintable():
        return "it holds a character that cannot be seen, or a backslash"
    return None
