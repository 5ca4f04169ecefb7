"""The URL of a database: what libpq is told, and what the pool is.

``postgresql://user@host/database?pool_max=20`` — ``pool_min`` and ``pool_max`` bound the connections that are
kept (1 and 10), ``pool_timeout`` is how many seconds a call waits for one (30). ``pooler=transaction`` says
that a transaction pooler stands between that does not know prepared statements; without them an append
takes about half as long again. Everything else is libpq's.
"""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from holdfast.core.errors import InvalidArgument


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database is, and how to connect to it."""

    conninfo: str
    pool_min: int = 1
    pool_max: int = 10
    pool_timeout: float = 30.0
    pooler: str | None = None

    @property
    def prepares(self) -> bool:
        """Whether statements may be prepared."""
        return self.pooler is None


def parse(url: str) -> Address:
    """The parts of a URL.

    Raises:
        InvalidArgument: One of our own parameters makes no sense.
    """
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    own = {name: given.pop(name) for name in Address.__struct_fields__[1:] if name in given}
    conninfo = urlunsplit(parts._replace(query=urlencode(given)))
    try:
        address = msgspec.convert({"conninfo": conninfo, **own}, Address, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"The URL's parameters cannot be used: {error}.") from error
    if not 0 <= address.pool_min <= max(1, address.pool_max) or address.pool_max < 1:
        raise InvalidArgument(problem="The URL asks for a pool with more connections at least than at most.")
    if address.pooler not in (None, "transaction"):
        raise InvalidArgument(problem=f"pooler={address.pooler!r} is not known; say pooler=transaction.")
    return address
