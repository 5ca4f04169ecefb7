"""Parameters that several routes take: pages, versions, times and users."""

import re
from typing import Annotated

from litestar.params import HeaderParameter, QueryParameter

from clew.api.route import LAST_EVENT_ID
from clew.api.turns import MemoryModeName
from clew.core.errors import InvalidArgument
from clew.core.values import AnyVersion, Exact, Expectation
from clew.runtime.context import MemoryMode

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, QueryParameter(description="Where the page before ended.")]
SearchQuery = Annotated[str | None, QueryParameter(description="Part of an id, a title or a label.")]
UserQuery = Annotated[
    str | None, QueryParameter(description="Whose memory, where the credentials name no user.")
]
MemoryThreadQuery = Annotated[
    str | None, QueryParameter(description="The thread whose memory it is, if it is nobody's.")
]
MemoryTime = Annotated[
    str | None,
    QueryParameter(max_length=40, description="A year, a month, a day or a moment: 2026-05, 2026-05-15."),
]
TimeQuery = Annotated[int | None, QueryParameter(ge=0, le=1 << 53, description="A time, itself included.")]
Version = Annotated[
    int | None, QueryParameter(ge=0, le=1 << 53, description="A version instead of the newest.")
]
IfMatch = Annotated[
    str | None, HeaderParameter(name="If-Match", description="Only if the thread is at this version.")
]
IfNoneMatch = Annotated[
    str | None, HeaderParameter(name="If-None-Match", description="Not if the thread is at this version.")
]
LastEvent = Annotated[
    str | None,
    HeaderParameter(name=LAST_EVENT_ID, description="The last event that was seen; go on behind it."),
]
AfterQuery = Annotated[str | None, QueryParameter(description="The same as Last-Event-ID.")]
ETAG_PATTERN = re.compile(r'"[^"]*"')


def etag(version: int) -> dict[str, str]:
    """Return the header with the version of a thread."""
    return {"ETag": f'"{version}"'}


def parse_if_match(if_match: str | None) -> Expectation:
    """Return the version at which a thread must be, as a request says.

    Raises:
        InvalidArgument: The header is no version in quotes.
    """
    if if_match is None or if_match.strip() == "*":
        return AnyVersion()
    version = if_match.strip().removeprefix("W/").strip('"')
    if not (version.isascii() and version.isdecimal() and len(version) < 16):
        raise InvalidArgument(problem='If-Match must be a version in quotes, like "12".')
    return Exact(int(version))


def has_etag(if_none_match: str | None, version: int) -> bool:
    """Return whether a request names the version of a thread as one that it has already."""
    return etag(version)["ETag"] in ETAG_PATTERN.findall(if_none_match or "")


def memory_mode(name: MemoryModeName | None) -> MemoryMode | None:
    """Return the mode that a request asks for; None for the default one."""
    return None if name is None else MemoryMode[name.upper()]
