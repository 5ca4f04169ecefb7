"""What a server is told when it starts."""

import secrets
from collections.abc import Mapping

import msgspec

from holdfast.core.errors import InvalidArgument

PREFIX = "HOLDFAST_SERVER_"
"""Every field can be set by a variable of its name, for the workers of one server: HOLDFAST_SERVER_URL."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is set up. Sizes are bytes, times are seconds.

    ``secret`` signs cursors, so all processes of one server share it. ``streams`` bounds what is open at once
    in a process, ``user_streams``, ``turns`` and ``requests`` what one user has open, what one user runs at
    once, and what one user asks in a minute; ``failures`` how often credentials from one address may fail in
    a minute, ``guests`` how many users may be incognito at once.
    ``volume`` is a folder that keeps every manifest that is exported.
    """

    url: str = "memory://"
    host: str = "127.0.0.1"
    port: int = 8100
    workers: int = 1
    secret: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))
    model: str | None = None
    cors: tuple[str, ...] = ()
    body: int = 4 * 1024 * 1024
    archive: int = 64 * 1024 * 1024
    streams: int = 1_000
    user_streams: int = 100
    turns: int = 8
    requests: int = 6_000
    failures: int = 120
    guests: int = 1_000
    tenants: int = 256
    sweep_seconds: float = 30.0
    drain_seconds: float = 20.0
    ping_seconds: float = 15.0
    key_hours: float = 24.0
    volume: str | None = None
    json_logs: bool = False


def from_variables(variables: Mapping[str, str]) -> ServerSettings:
    """The settings that variables of the environment say.

    Raises:
        InvalidArgument: One of them is no such value.
    """
    given = {
        name: variables[PREFIX + name.upper()]
        for name in ServerSettings.__struct_fields__
        if PREFIX + name.upper() in variables
    }
    values = {name: value.split(",") if name == "cors" else value for name, value in given.items()}
    if values.get("cors") == [""]:
        values["cors"] = []
    try:
        return msgspec.convert(values, ServerSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"The server's settings cannot be read: {error}.") from error


def as_variables(settings: ServerSettings) -> dict[str, str]:
    """Variables that say these settings, for another process."""
    said: dict[str, str] = {}
    for name in ServerSettings.__struct_fields__:
        value = getattr(settings, name)
        if value is None:
            continue
        said[PREFIX + name.upper()] = ",".join(value) if isinstance(value, tuple) else _text(value)
    return said


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
