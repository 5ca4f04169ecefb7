"""The settings of a server."""

import re
import secrets
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from clew.core.errors import InvalidArgument

PREFIX = "CLEW_SERVER_"
"""Every field can be set by a variable of its name, for the workers of one server: CLEW_SERVER_URL."""
LISTS = ("cors", "trusted_proxies")
"""Fields that are lists; in a variable their parts are divided by commas."""

PositiveCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65535)]
WorkerCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=256)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server. Sizes are bytes, times are seconds.

    ``secret`` signs cursors, so all processes of one server share it. ``streams`` bounds what is open at once
    in a process, ``user_streams``, ``turns`` and ``requests`` what one user has open, what one user runs at
    once, and what one user asks in a minute; ``failures`` how often a client may fail to authenticate in a
    minute before it is told to wait, ``guests`` how many users may be incognito at once.
    ``trusted_proxies`` are the addresses and networks of proxies that say truly whom they pass on.
    ``pinned`` is false where requests may reach another server as well, so that no thread can be incognito.
    ``agent`` is the name of an installed agent, or ``module:attribute``. ``embedder`` and
    ``search_provider`` are names of what it may use, and ``skills`` is a folder of texts for its prompts.
    ``voice_model`` is a realtime model for calls, at a provider that speaks OpenAI's protocol.
    ``volume`` is the folder of documents, artifacts and files, and of every manifest that is exported.
    ``prices`` is a file that says what models cost. Traces are exported if the environment names a collector;
    with ``telemetry`` it must, and without nothing is exported. ``telemetry_content`` and ``telemetry_users``
    let spans hold what was said, and who said it.
    """

    url: str = "memory://"
    host: str = "127.0.0.1"
    port: Port = 8100
    workers: WorkerCount = 1
    secret: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))
    agent: str | None = None
    model: str | None = None
    embedder: str | None = None
    search_provider: str | None = None
    skills: str | None = None
    voice_model: str | None = None
    voice_url: str = "https://api.openai.com/v1"
    voice: str = "marin"
    cors: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    body: PositiveCount = 4 * 1024 * 1024
    archive: PositiveCount = 64 * 1024 * 1024
    streams: PositiveCount = 1_000
    user_streams: PositiveCount = 100
    turns: PositiveCount = 8
    requests: PositiveCount = 6_000
    failures: PositiveCount = 120
    guests: PositiveCount = 1_000
    pinned: bool = True
    tenants: PositiveCount = 256
    sweep_seconds: Seconds = 30.0
    drain_seconds: Seconds = 20.0
    ping_seconds: Seconds = 15.0
    key_hours: Seconds = 24.0
    volume: str | None = None
    prices: str | None = None
    json_logs: bool = False
    access_log: bool = True
    telemetry: bool | None = None
    telemetry_content: bool = False
    telemetry_users: bool = False


def from_variables(variables: Mapping[str, str]) -> ServerSettings:
    """Return the settings of the environment.

    Raises:
        InvalidArgument: One of them is not valid.
    """
    texts = {
        name: variables[PREFIX + name.upper()]
        for name in ServerSettings.__struct_fields__
        if PREFIX + name.upper() in variables
    }
    values = {name: _parts(value) if name in LISTS else value for name, value in texts.items()}
    try:
        return msgspec.convert(values, ServerSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=_problem_sentence(str(error), texts)) from error


def _parts(text: str) -> list[str]:
    """Return the parts of a list that are divided by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _problem_sentence(error: str, texts: Mapping[str, str]) -> str:
    """Return what is wrong with the settings, with the name of the variable."""
    match = re.fullmatch(r"(.*) - at `\$\.(\w+)`", error)
    if match is None or match[2] not in texts:
        return f"The server's settings cannot be read: {error}."
    return f"{PREFIX}{match[2].upper()}={texts[match[2]]!r} cannot be used: {match[1]}."


def as_variables(settings: ServerSettings) -> dict[str, str]:
    """Return settings as variables of the environment, for another process."""
    variables: dict[str, str] = {}
    for name in ServerSettings.__struct_fields__:
        value = getattr(settings, name)
        if value is None:
            continue
        variables[PREFIX + name.upper()] = ",".join(value) if isinstance(value, tuple) else _text(value)
    return variables


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
