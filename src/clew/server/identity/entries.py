"""The entries of the directory: tenants, workspaces, users, memberships, logins and keys."""

from typing import ClassVar, TypeAlias, TypeVar

import msgspec

from clew.core.encoding import RESERVED_TENANT_PREFIX, as_json, check_id
from clew.core.errors import InvalidArgument, InvalidId, StoreDamaged
from clew.core.values import Record
from clew.server.identity.roles import MEMBER, READ, WRITE

DEFAULT_WORKSPACE = "default"
NAME_BYTES = 128


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One customer of the server. ``external`` is its name at the issuer of tokens."""

    kind: ClassVar[str] = "tenant"
    id_fields: ClassVar[tuple[str, ...]] = ("id",)
    tag_fields: ClassVar[tuple[str, ...]] = ("external",)
    id: str
    name: str = ""
    external: str | None = None
    enabled: bool = True
    created: int = 0


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a tenant that some of its users share."""

    kind: ClassVar[str] = "workspace"
    id_fields: ClassVar[tuple[str, ...]] = ("tenant", "id")
    tag_fields: ClassVar[tuple[str, ...]] = ("tenant",)
    tenant: str
    id: str
    name: str = ""
    enabled: bool = True
    created: int = 0


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person, or a program, of a tenant."""

    kind: ClassVar[str] = "user"
    id_fields: ClassVar[tuple[str, ...]] = ("tenant", "id")
    tag_fields: ClassVar[tuple[str, ...]] = ("tenant",)
    tenant: str
    id: str
    name: str = ""
    enabled: bool = True
    created: int = 0


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """The roles of a user in a workspace."""

    kind: ClassVar[str] = "membership"
    id_fields: ClassVar[tuple[str, ...]] = ("tenant", "workspace", "user")
    tag_fields: ClassVar[tuple[str, ...]] = ("tenant", "user")
    tenant: str
    workspace: str
    user: str
    roles: tuple[str, ...] = (MEMBER,)
    created: int = 0


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The user that a subject of an issuer is. ``id`` is made of both."""

    kind: ClassVar[str] = "login"
    id_fields: ClassVar[tuple[str, ...]] = ("id",)
    tag_fields: ClassVar[tuple[str, ...]] = ("tenant", "user")
    id: str
    issuer: str
    subject: str
    tenant: str
    user: str
    created: int = 0


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key: its public part, and the hash of the part that only its holder has.

    ``used`` is when it was last used, to the hour.
    """

    kind: ClassVar[str] = "key"
    id_fields: ClassVar[tuple[str, ...]] = ("id",)
    tag_fields: ClassVar[tuple[str, ...]] = ("tenant", "user")
    id: str
    tenant: str
    user: str | None
    hash: str
    workspace: str = DEFAULT_WORKSPACE
    label: str = ""
    scopes: tuple[str, ...] = (READ, WRITE)
    created: int = 0
    expires: int | None = None
    revoked: int | None = None
    used: int | None = None


DirectoryEntry: TypeAlias = Tenant | Workspace | User | Membership | Login | ApiKey
E = TypeVar("E", bound=DirectoryEntry)


def record_of(entry: DirectoryEntry) -> Record:
    """Return an entry as a record, with its names checked."""
    names = [check_name(getattr(entry, field), entry.kind) for field in entry.id_fields]
    tags = (
        tag_of(field, value) for field in entry.tag_fields if (value := getattr(entry, field)) is not None
    )
    body = as_json(entry)
    return Record(kind=entry.kind, id="/".join(names), body=body, tags=tuple(tags), sort=entry.created)


def entry_of(kind: type[E], record: Record) -> E:
    """Return the entry of a record."""
    try:
        return msgspec.convert(record.body, kind)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"the {kind.kind} {record.id!r}", problem=str(error)) from error


def tag_of(field: str, value: str) -> str:
    """Return the tag by which an entry is found."""
    return f"{field} {value}"


def check_name(name: str, what: str) -> str:
    """Return a name that can be part of the id of an entry.

    Raises:
        InvalidId: It is too long, holds a slash, or is the server's own.
    """
    check_id(name, what)
    if len(name.encode()) > NAME_BYTES:
        raise InvalidId(what=what, problem=f"it is longer than {NAME_BYTES} bytes")
    if "/" in name:
        raise InvalidId(what=what, problem="it holds a slash")
    if name.startswith(RESERVED_TENANT_PREFIX):
        raise InvalidId(
            what=what, problem=f"names that begin with {RESERVED_TENANT_PREFIX} are the server's own"
        )
    return name


def check_among(words: tuple[str, ...], vocabulary: frozenset[str], what: str) -> tuple[str, ...]:
    """Return some of the known words, each once and in order.

    Raises:
        InvalidArgument: One is not known, or there is none.
    """
    if unknown := sorted(set(words) - vocabulary):
        raise InvalidArgument(
            problem=f"{unknown[0]!r} is no {what}; there are {', '.join(sorted(vocabulary))}."
        )
    if not words:
        raise InvalidArgument(problem=f"At least one {what} is needed: {', '.join(sorted(vocabulary))}.")
    return tuple(sorted(set(words)))
