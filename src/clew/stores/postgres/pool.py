"""The pool of our own: it knows when its server is away, and asks for it for as long as it is."""

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode
from weakref import WeakSet

import msgspec
import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from clew.core.errors import InvalidArgument
from clew.core.redaction import HIDDEN
from clew.stores.postgres.errors import first_line

log = logging.getLogger("clew")
driver_log = logging.getLogger("psycopg.pool")

SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The parameters for libpq that must not be shown."""
DAY_SECONDS = 86_400
UNREADABLE = (
    "The URL of the database cannot be read. Write it as postgresql://user:password@host:port/database, and "
    "the signs % @ : / ? # of a name or a password as %25 %40 %3A %2F %3F %23."
)


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a database, and how to connect to it."""

    conninfo: str
    pool_min: int = 1
    pool_max: int = 10
    pool_timeout: float = 30.0
    answer_timeout: float | None = None
    pooler: str | None = None

    def __repr__(self) -> str:
        return f"Address({HIDDEN})"  # it holds a password, and may get into a log or a traceback

    @property
    def prepares(self) -> bool:
        """True if statements may be prepared."""
        return self.pooler is None

    @property
    def secrets(self) -> dict[str, str]:
        """The passwords in it, by libpq's names for them."""
        options = conninfo_to_dict(self.conninfo)
        return {name: str(options[name]) for name in SECRETS if options.get(name)}

    @property
    def public_conninfo(self) -> str:
        """Everything but the passwords: what may be seen by others on the machine."""
        options = conninfo_to_dict(self.conninfo)
        return make_conninfo("", **{name: each for name, each in options.items() if name not in SECRETS})


def parse_url(url: str) -> Address:
    """The parts of a URL.

    Raises:
        InvalidArgument: It cannot be read, or one of our own parameters makes no sense.
    """
    conninfo, own = _split(url)
    # What libpq, or Python, says of a URL that it cannot read may be a part of the password. So neither is
    # repeated, nor kept as the cause of the error that is raised.
    if conninfo is None:
        raise InvalidArgument(problem=UNREADABLE)
    try:
        address = msgspec.convert({"conninfo": conninfo, **own}, Address, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"The URL's parameters cannot be used: {error}.") from error
    if not 0 <= address.pool_min <= max(1, address.pool_max) or address.pool_max < 1:
        raise InvalidArgument(problem="The URL asks for a pool with more connections at least than at most.")
    if address.answer_timeout is not None and not 0 < address.answer_timeout <= DAY_SECONDS:
        raise InvalidArgument(problem="The URL's answer_timeout is not between 0 seconds and a day.")
    if address.pooler not in (None, "transaction"):
        raise InvalidArgument(problem=f"pooler={address.pooler!r} is not known; say pooler=transaction.")
    return address


def _split(url: str) -> tuple[str | None, dict[str, str]]:
    """The parameters for libpq, or None if it cannot read them; and our own."""
    try:
        place, _, query = url.partition("?")
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        own = {name: parameters.pop(name) for name in Address.__struct_fields__[1:] if name in parameters}
        conninfo = f"{place}?{urlencode(parameters)}"
        options = conninfo_to_dict(conninfo)
    except (ValueError, psycopg.Error):
        return None, {}
    return (conninfo if _is_plain(url, str(options.get("port") or "")) else None), own


def _is_plain(url: str, port: str) -> bool:
    """Return whether no part of a password can have been taken for a host, a port or a database.

    An ``@``, ``/``, ``?`` or ``#`` that is not escaped ends a password early, and libpq would name the rest
    of it in its errors.
    """
    rest = url.partition("://")[2]
    ends = [rest.find(sign) for sign in "/?#" if sign in rest]
    login, at, beyond = rest.partition("@")
    is_whole = not at or ("@" not in beyond and all(len(login) < end for end in ends))
    return is_whole and all(number.isdecimal() for number in port.split(",") if number)


AGAIN_SECONDS = 1.0
"""Seconds that the pool tries by itself, with pauses twice as long each time; then it begins anew.

So it asks about once a second: a fail-over is over in a moment, and every pause after it is time lost."""
AWAY_SECONDS = 3.0
"""Seconds that a call waits for a connection while the server is away."""
AT_ONCE = 0.01
PROBE_SECONDS = 2.0
"""Seconds that a connection at rest has to show that it works before another is made in its place."""
AWAY = (
    "PostgreSQL cannot be reached (%s). Calls fail with store_unavailable or outcome_unknown until it is "
    "back; repeat them with the same keys. It is asked for again every second. If no fail-over "
    "is under way, check that the server runs and that the URL names every node of its cluster."
)
BACK = "PostgreSQL can be reached again, about %.0f s after it was first missed. There is nothing to do."


class DriverNoise(logging.Filter):
    """Lets the driver speak of a pool of ours only where somebody looks for faults, at level DEBUG.

    It writes several lines for each connection and each attempt, hundreds in a fail-over; the pool itself
    writes two. What it says of the pools of others is left alone.
    """

    def __init__(self, pool_name: str) -> None:
        super().__init__()
        self.connections: WeakSet[AsyncConnection[Any]] = WeakSet()
        self.last_problem = "no connection can be made"
        self._pool_name = pool_name

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a line about our pool or one of its connections."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        if not any(self._is_ours(each) for each in arguments):
            return True
        errors = [each for each in arguments if isinstance(each, psycopg.Error)]
        if errors:
            self.last_problem = first_line(errors[0])
        return driver_log.isEnabledFor(logging.DEBUG)

    def _is_ours(self, argument: object) -> bool:
        if isinstance(argument, AsyncConnection):
            return argument in self.connections
        return argument == self._pool_name


def cut_connection(connection: AsyncConnection[Any]) -> None:
    """Have whoever waits for an answer over a connection find it broken, without asking the server."""
    if not connection.closed:
        # Cancelling the call instead would ask the server to stop it, and wait for that answer in turn.
        with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


class Pool(AsyncConnectionPool[AsyncConnection[Any]]):
    """Connections to one database.

    Left alone, a pool doubles its pauses for five minutes: a server that had been away for two was found
    again after two more, and callers meanwhile waited for the whole timeout each time.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(
            address.conninfo,
            min_size=address.pool_min,
            max_size=address.pool_max,
            timeout=address.pool_timeout,
            reconnect_timeout=AGAIN_SECONDS,
            reconnect_failed=self._on_reconnect_failed,
            configure=self._on_connect,
            open=False,
            name=f"clew-{id(self):x}",  # so that each pool tells its own lines in the driver's log
            kwargs={"autocommit": True, "prepare_threshold": 0 if address.prepares else None},
        )
        self.is_away = False
        self.answer_timeout = address.answer_timeout
        self._away_since = 0.0
        self._noise = DriverNoise(self.name)

    async def open(self, wait: bool = False, timeout: float = 30.0) -> None:  # noqa: FBT001, FBT002 - as the driver has it
        """Begin to connect, and have the driver be quiet about it."""
        driver_log.addFilter(self._noise)
        await super().open(wait, timeout)

    async def close(self, timeout: float = 5.0) -> None:
        """Close every connection."""
        await super().close(timeout)
        driver_log.removeFilter(self._noise)

    @staticmethod
    async def check_connection(conn: AsyncConnection[Any]) -> None:
        """Raise if a connection does not work, or does not answer soon."""
        timer = asyncio.get_running_loop().call_later(PROBE_SECONDS, cut_connection, conn)
        try:
            await AsyncConnectionPool.check_connection(conn)
        finally:
            timer.cancel()

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:
        """A connection, waited for as long as the address says; while the server is away, not so long."""
        full_timeout = self.timeout if timeout is None else timeout
        first = min(full_timeout, AWAY_SECONDS)
        try:
            return await super().getconn(first)
        except PoolTimeout:
            if self.is_away or full_timeout <= first:
                raise
        return await super().getconn(full_timeout - first)

    async def _on_connect(self, connection: AsyncConnection[Any]) -> None:
        self._noise.connections.add(connection)
        if self.is_away:
            log.warning(BACK, time.monotonic() - self._away_since + AGAIN_SECONDS)
        self.is_away = False

    async def _on_reconnect_failed(self, pool: AsyncConnectionPool[Any]) -> None:
        """Have it try again from the beginning, which a pool does only if a connection is asked for."""
        if not self.is_away:
            self._away_since = time.monotonic()
            log.warning(AWAY, self._noise.last_problem)
        self.is_away = True
        with suppress(PoolTimeout, PoolClosed):
            await self.putconn(await super().getconn(AT_ONCE))
