"""The server's own records: who there is, kept in a tenant that nobody can name."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from clew.core.errors import Forbidden, InvalidArgument, RecordNotFound, RevisionConflict
from clew.core.log.rows import AskRecordsById, ask
from clew.core.values import Drop, Put, Record, RecordQuery, Scope
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.server.identity.entries import (
    DEFAULT_WORKSPACE,
    ApiKey,
    DirectoryEntry,
    E,
    Login,
    Membership,
    Tenant,
    User,
    Workspace,
    entry_of,
    record_of,
    tag_of,
)
from clew.server.identity.identity import Identity
from clew.server.identity.roles import ADMIN

SERVER_TENANT: Final = "$server"
"""The tenant of the server's own records."""

EntryKey: TypeAlias = tuple[str, str]
"""The kind of an entry, and the id of its record."""

RECORDS_PER_PAGE = 200
CACHE_SIZE = 10_000
"""For how many credentials it is remembered where they lead to."""


class EntrySet:
    """Entries that one question has found."""

    def __init__(self, records: Mapping[tuple[str, str], Record]) -> None:
        self._records = records

    def get(self, kind: type[E], *names: str) -> E | None:
        """The entry of a kind and some names, if it was found."""
        record = self._records.get((kind.kind, "/".join(names)))
        return None if record is None else entry_of(kind, record)


class EntryKeyCache:
    """Where credentials lead to, which never changes: so all that is to be looked at is known beforehand.

    Whether they hold is looked up each time all the same.
    """

    def __init__(self) -> None:
        self._entry_keys: OrderedDict[str, tuple[EntryKey, ...]] = OrderedDict()

    def get(self, id: str) -> tuple[EntryKey, ...]:
        """What to look at for some credentials; none if they were not seen yet."""
        return self._entry_keys.get(id, ())

    def put(self, id: str, entry_keys: tuple[EntryKey, ...]) -> None:
        """Keep them for the next time."""
        self._entry_keys[id] = entry_keys
        self._entry_keys.move_to_end(id)
        if len(self._entry_keys) > CACHE_SIZE:
            self._entry_keys.popitem(last=False)


class Directory:
    """Tenants, workspaces, users, memberships, logins and keys."""

    def __init__(self, db: Database, now: Callable[[], int] | None = None) -> None:
        self.db = Database(db.store, Scope(tenant=SERVER_TENANT))
        self.now = now or db.store.now

    async def add(self, entry: E) -> E:
        """Enter somebody; what is there already in the same words stays. A tenant comes with a workspace.

        Raises:
            InvalidArgument: It is there already in other words.
            RecordNotFound: Whom it belongs to is not there.
        """
        await self._check_parents(entry)
        entries: list[DirectoryEntry] = [entry]
        if isinstance(entry, Tenant):
            await self._check_external(entry)
            entries.append(Workspace(tenant=entry.id, id=DEFAULT_WORKSPACE))
        new_entries = [msgspec.structs.replace(each, created=self.now()) for each in entries]
        try:
            await self.db.commit([Put(record=record_of(each), expect=0) for each in new_entries])
        except RevisionConflict:
            return await self._same_entry(entry)
        return entry_of(type(entry), record_of(new_entries[0]))

    async def get(self, kind: type[E], *names: str) -> E:
        """An entry by its names.

        Raises:
            RecordNotFound: There is none.
        """
        return entry_of(kind, await self.db.records.get(kind.kind, "/".join(names)))

    async def entries(self, kind: type[E], **fields: str) -> AsyncIterator[E]:
        """All entries of a kind, the oldest first."""
        tags = tuple(tag_of(field, value) for field, value in fields.items())
        after: tuple[int, str] | None = None
        while True:
            page = await self.db.records.find(
                RecordQuery(kind=kind.kind, tags=tags, limit=RECORDS_PER_PAGE, after=after)
            )
            for record in page:
                yield entry_of(kind, record)
            if len(page) < RECORDS_PER_PAGE:
                return
            after = (page[-1].sort, page[-1].id)

    async def change(self, entry: E, **fields: object) -> E:
        """The entry with some fields changed, whoever else changes it at the same moment."""
        id = record_of(entry).id
        attempts = Attempts()
        while True:
            record = await self.db.records.get(entry.kind, id)
            new_entry = msgspec.structs.replace(entry_of(type(entry), record), **fields)
            try:
                await self.db.records.put(record_of(new_entry), expect=record.revision)
            except RevisionConflict as conflict:
                attempts.count(conflict)
                continue
            return new_entry

    async def put(self, entry: E) -> E:
        """Enter somebody in place of what was said before.

        Raises:
            RecordNotFound: Whom it belongs to is not there.
        """
        await self._check_parents(entry)
        new_entry = msgspec.structs.replace(entry, created=self.now())
        await self.db.records.put(record_of(new_entry))
        return new_entry

    async def drop(self, entry: DirectoryEntry) -> None:
        """Take an entry out. Whatever belongs to the tenant or the user elsewhere stays where it is."""
        await self.db.records.drop(entry.kind, record_of(entry).id)

    async def admit(
        self, *, tenant: str, user: str | None, workspace: str, scopes: frozenset[str]
    ) -> Identity:
        """The identity of somebody whose credentials hold; see ``identity_from``."""
        entries = await self.read_entries(*required_entries(tenant, user, workspace))
        return identity_from(entries, tenant=tenant, user=user, workspace=workspace, scopes=scopes)

    async def read_entries(self, *entry_keys: EntryKey) -> EntrySet:
        """Those entries that are there of some kinds and names, in one question."""
        records = await self.db.store.read(Scope(tenant=SERVER_TENANT), ask(AskRecordsById(entry_keys)))
        return EntrySet({(record.kind, record.id): record for record in records})

    async def entries_of_user(self, user: User) -> list[DirectoryEntry]:
        """A user, with the memberships, logins and keys that go with them."""
        entries: list[DirectoryEntry] = [user]
        for kind in (Membership, Login, ApiKey):
            entries += [entry async for entry in self.entries(kind, tenant=user.tenant, user=user.id)]
        return entries

    async def remove_user(self, user: User) -> list[DirectoryEntry]:
        """Take a user out, with all that goes with them; what is gone."""
        entries = await self.entries_of_user(user)
        await self.db.commit([Drop(kind=entry.kind, id=record_of(entry).id) for entry in entries])
        return entries

    async def _same_entry(self, entry: E) -> E:
        """What is there already, if it says the same."""
        current = entry_of(type(entry), await self.db.records.get(entry.kind, record_of(entry).id))
        if msgspec.structs.replace(entry, created=current.created) != current:
            raise InvalidArgument(
                problem=f"The {entry.kind} {record_of(entry).id!r} is there already and says otherwise."
            )
        return current

    async def _check_parents(self, entry: DirectoryEntry) -> None:
        for kind, id in _parent_keys(entry):
            await self.db.records.get(kind, id)

    async def _check_external(self, tenant: Tenant) -> None:
        if tenant.external is None:
            return
        async for other in self.entries(Tenant, external=tenant.external):
            if other.id != tenant.id:
                raise InvalidArgument(
                    problem=f"Tenant {other.id!r} is {tenant.external!r} at the issuer already."
                )


def _parent_keys(entry: DirectoryEntry) -> list[tuple[str, str]]:
    """What must be there before an entry can be."""
    match entry:
        case Tenant():
            return []
        case Workspace() | User():
            return [("tenant", entry.tenant)]
        case Membership():
            return [
                ("workspace", f"{entry.tenant}/{entry.workspace}"),
                ("user", f"{entry.tenant}/{entry.user}"),
            ]
        case Login():
            return [("user", f"{entry.tenant}/{entry.user}")]
        case ApiKey(user=None):
            return [("workspace", f"{entry.tenant}/{entry.workspace}")]
        case ApiKey():
            return [("membership", f"{entry.tenant}/{entry.workspace}/{entry.user}")]


def required_entries(tenant: str, user: str | None, workspace: str) -> tuple[EntryKey, ...]:
    """What must be there for somebody to be let in."""
    tenant_keys = ((Tenant.kind, tenant), (Workspace.kind, f"{tenant}/{workspace}"))
    if user is None:
        return tenant_keys
    return (*tenant_keys, (User.kind, f"{tenant}/{user}"), (Membership.kind, f"{tenant}/{workspace}/{user}"))


def identity_from(
    entries: EntrySet, *, tenant: str, user: str | None, workspace: str, scopes: frozenset[str]
) -> Identity:
    """The identity of somebody whose credentials hold, if they are still welcome.

    An administrator is who has both the scope and the role. A key of the tenant as a whole needs the
    scope alone.

    Raises:
        Forbidden: The tenant, the workspace or the user is disabled, or the user is no member.
    """
    member_roles = _roles(entries, tenant, user, workspace)
    roles = scopes & {ADMIN} if user is None else member_roles
    missing = {ADMIN} - (scopes & roles)
    return Identity(
        tenant=tenant, user=user, workspace=workspace, roles=roles - missing, scopes=scopes - missing
    )


def _roles(entries: EntrySet, tenant: str, user: str | None, workspace: str) -> frozenset[str]:
    """What somebody is in a workspace, once everything above it is found enabled."""
    _check_enabled(entries, Tenant, tenant)
    _check_enabled(entries, Workspace, f"{tenant}/{workspace}")
    if user is None:
        return frozenset()
    _check_enabled(entries, User, f"{tenant}/{user}")
    membership = entries.get(Membership, tenant, workspace, user)
    if membership is None:
        raise Forbidden(problem=f"User {user!r} is no member of the workspace {workspace!r}.")
    return frozenset(membership.roles)


def _check_enabled(entries: EntrySet, kind: type[Tenant | Workspace | User], id: str) -> None:
    entry = entries.get(kind, id)
    if entry is None:
        raise Forbidden(problem=f"There is no {kind.kind} {id!r} here.")
    if not entry.enabled:
        raise Forbidden(problem=f"The {kind.kind} {id!r} is disabled.")


async def find_entry(directory: Directory, kind: type[E], *names: str) -> E | None:
    """An entry by its names, if there is one."""
    try:
        return await directory.get(kind, *names)
    except RecordNotFound:
        return None
