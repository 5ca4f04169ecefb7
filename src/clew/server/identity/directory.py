"""The server's own records of tenants, users and keys, in a tenant that no credentials can name."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
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
"""For how many credentials their entries are remembered."""


class EntrySet:
    """Entries that were read at once."""

    def __init__(self, records: Mapping[tuple[str, str], Record]) -> None:
        self._records = records

    def get(self, kind: type[E], *names: str) -> E | None:
        """Return the entry of a kind and some names; None if there is none."""
        record = self._records.get((kind.kind, "/".join(names)))
        return None if record is None else entry_of(kind, record)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant, user and workspace that valid credentials speak for, and how far they reach."""

    tenant: str
    user: str | None
    workspace: str
    scopes: frozenset[str]

    @property
    def required_entries(self) -> tuple[EntryKey, ...]:
        """The entries that must be there, and enabled, for the grant to hold."""
        tenant, workspace = self.tenant, self.workspace
        keys = ((Tenant.kind, tenant), (Workspace.kind, f"{tenant}/{workspace}"))
        if self.user is None:
            return keys
        membership = (Membership.kind, f"{tenant}/{workspace}/{self.user}")
        return (*keys, (User.kind, f"{tenant}/{self.user}"), membership)


class Directory:
    """Tenants, workspaces, users, memberships, logins and keys."""

    def __init__(self, db: Database, now: Callable[[], int] | None = None) -> None:
        self.db = Database(db.store, Scope(tenant=SERVER_TENANT))
        self.now = now or db.store.now

    async def add(self, entry: E) -> E:
        """Add an entry; one that is there already and says the same stays. A tenant comes with a workspace.

        Raises:
            InvalidArgument: It is there already and says otherwise.
            RecordNotFound: The entry that it belongs to is not there.
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
        """Return an entry by its names.

        Raises:
            RecordNotFound: There is none.
        """
        return entry_of(kind, await self.db.records.get(kind.kind, "/".join(names)))

    async def entries(self, kind: type[E], **fields: str) -> AsyncIterator[E]:
        """Iterate over all entries of a kind, the oldest first."""
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
        """Change some fields of an entry, also while others change it; return the entry."""
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
        """Add an entry in place of the one before it.

        Raises:
            RecordNotFound: The entry that it belongs to is not there.
        """
        await self._check_parents(entry)
        new_entry = msgspec.structs.replace(entry, created=self.now())
        await self.db.records.put(record_of(new_entry))
        return new_entry

    async def drop(self, entry: DirectoryEntry) -> None:
        """Remove an entry. What belongs to the tenant or the user elsewhere stays where it is."""
        await self.db.records.drop(entry.kind, record_of(entry).id)

    async def admit(self, grant: Grant) -> Identity:
        """Return the identity of a grant; see ``identity_of``."""
        return identity_of(grant, await self.read_entries(*grant.required_entries))

    async def read_entries(self, *entry_keys: EntryKey) -> EntrySet:
        """Return those entries that are there of some kinds and names, in one read."""
        records = await self.db.store.read(Scope(tenant=SERVER_TENANT), ask(AskRecordsById(entry_keys)))
        return EntrySet({(record.kind, record.id): record for record in records})

    async def entries_of_user(self, user: User) -> list[DirectoryEntry]:
        """Return a user, with the memberships, logins and keys that go with them."""
        entries: list[DirectoryEntry] = [user]
        for kind in (Membership, Login, ApiKey):
            entries += [entry async for entry in self.entries(kind, tenant=user.tenant, user=user.id)]
        return entries

    async def remove_user(self, user: User) -> list[DirectoryEntry]:
        """Remove a user with all that goes with them; return what is gone."""
        entries = await self.entries_of_user(user)
        await self.db.commit([Drop(kind=entry.kind, id=record_of(entry).id) for entry in entries])
        return entries

    async def _same_entry(self, entry: E) -> E:
        """Return the entry that is there already, if it says the same."""
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
    """Return the keys of the entries that an entry belongs to."""
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


class CredentialCache:
    """Admits credentials with one read: it remembers which entries they needed the last time.

    What credentials lead to hardly ever changes. Whether they hold is read each time all the same.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._required: OrderedDict[str, tuple[EntryKey, ...]] = OrderedDict()

    async def admit(
        self,
        name: str,
        entry_key: EntryKey,
        check_entry: Callable[[EntrySet], Awaitable[E]],
        grant_of: Callable[[E], Grant],
    ) -> tuple[E, Identity]:
        """Return the entry of some credentials, and the identity that they give.

        ``name`` is what is remembered, ``entry_key`` the key of their own entry, and ``check_entry`` finds
        that entry among those that were read, and checks it.

        Raises:
            Forbidden: They hold, but what they lead to is not enabled; see ``identity_of``.
        """
        remembered = self._required.get(name, ())
        entries = await self._directory.read_entries(entry_key, *remembered)
        entry = await check_entry(entries)
        grant = grant_of(entry)
        if remembered != grant.required_entries:
            entries = await self._directory.read_entries(*grant.required_entries)
            self._remember(name, grant.required_entries)
        return entry, identity_of(grant, entries)

    def _remember(self, name: str, required: tuple[EntryKey, ...]) -> None:
        self._required[name] = required
        self._required.move_to_end(name)
        if len(self._required) > CACHE_SIZE:
            self._required.popitem(last=False)


def identity_of(grant: Grant, entries: EntrySet) -> Identity:
    """Return the identity of a grant whose entries are there and enabled.

    An administrator has both the scope and the role. A key of the tenant as a whole needs the scope alone.

    Raises:
        Forbidden: The tenant, the workspace or the user is disabled, or the user is no member.
    """
    member_roles = _roles(entries, grant)
    roles = grant.scopes & {ADMIN} if grant.user is None else member_roles
    missing = {ADMIN} - (grant.scopes & roles)
    return Identity(
        tenant=grant.tenant,
        user=grant.user,
        workspace=grant.workspace,
        roles=roles - missing,
        scopes=grant.scopes - missing,
    )


def _roles(entries: EntrySet, grant: Grant) -> frozenset[str]:
    """Return the roles of a user in a workspace, once everything above it is found enabled."""
    tenant, user, workspace = grant.tenant, grant.user, grant.workspace
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
    """Return an entry by its names; None if there is none."""
    try:
        return await directory.get(kind, *names)
    except RecordNotFound:
        return None
