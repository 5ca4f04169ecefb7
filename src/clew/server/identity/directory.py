"""The server's own records: who there is, kept in a tenant that nobody can name."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from clew.core.errors import Forbidden, InvalidArgument, RecordNotFound, RevisionConflict
from clew.core.log.rows import AskRecordsNamed, ask
from clew.core.values import Drop, Put, Record, RecordQuery, Scope
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.server.identity.entries import (
    DEFAULT_WORKSPACE,
    E,
    Entry,
    Key,
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

SERVER: Final = "$server"
"""The tenant of the server's own records."""

ADMIN: Final = frozenset({"admin"})
"""The role, and the scope, of administrators."""

Named: TypeAlias = tuple[str, str]
"""The kind of an entry, and the id of its record."""

PAGE = 200
REMEMBERED = 10_000
"""For how many credentials it is remembered where they lead to."""


class Looked:
    """Entries that one question has found."""

    def __init__(self, records: Mapping[tuple[str, str], Record]) -> None:
        self._records = records

    def get(self, kind: type[E], *names: str) -> E | None:
        """The entry of a kind and some names, if it was found."""
        record = self._records.get((kind.kind, "/".join(names)))
        return None if record is None else entry_of(kind, record)


class Whereabouts:
    """Where credentials lead to, which never changes: so all that is to be looked at is known beforehand.

    Whether they hold is looked up each time all the same.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Named, ...]] = OrderedDict()

    def of(self, id: str) -> tuple[Named, ...]:
        """What to look at for some credentials; none if they were not seen yet."""
        return self._known.get(id, ())

    def note(self, id: str, names: tuple[Named, ...]) -> None:
        """Keep them for the next time."""
        self._known[id] = names
        self._known.move_to_end(id)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


class Directory:
    """Tenants, workspaces, users, memberships, logins and keys."""

    def __init__(self, db: Database, now: Callable[[], int] | None = None) -> None:
        self.db = Database(db.store, Scope(tenant=SERVER))
        self.now = now or db.store.now

    async def add(self, entry: E) -> E:
        """Enter somebody; what is there already in the same words stays. A tenant comes with a workspace.

        Raises:
            InvalidArgument: It is there already in other words.
            RecordNotFound: Whom it belongs to is not there.
        """
        await self._check_parents(entry)
        entries: list[Entry] = [entry]
        if isinstance(entry, Tenant):
            await self._check_external(entry)
            entries.append(Workspace(tenant=entry.id, id=DEFAULT_WORKSPACE))
        created = [msgspec.structs.replace(each, created=self.now()) for each in entries]
        try:
            await self.db.commit([Put(record=record_of(each), expect=0) for each in created])
        except RevisionConflict:
            return await self._same(entry)
        return entry_of(type(entry), record_of(created[0]))

    async def get(self, kind: type[E], *names: str) -> E:
        """An entry by its names.

        Raises:
            RecordNotFound: There is none.
        """
        return entry_of(kind, await self.db.records.get(kind.kind, "/".join(names)))

    async def every(self, kind: type[E], **found_by: str) -> AsyncIterator[E]:
        """All entries of a kind, the oldest first."""
        tags = tuple(tag_of(field, value) for field, value in found_by.items())
        after: tuple[int, str] | None = None
        while True:
            page = await self.db.records.find(RecordQuery(kind=kind.kind, tags=tags, limit=PAGE, after=after))
            for record in page:
                yield entry_of(kind, record)
            if len(page) < PAGE:
                return
            after = (page[-1].sort, page[-1].id)

    async def change(self, entry: E, **fields: object) -> E:
        """The entry with some fields changed, whoever else changes it at the same moment."""
        id = record_of(entry).id
        attempts = Attempts()
        while True:
            kept = await self.db.records.get(entry.kind, id)
            changed = msgspec.structs.replace(entry_of(type(entry), kept), **fields)
            try:
                await self.db.records.put(record_of(changed), expect=kept.revision)
            except RevisionConflict as conflict:
                attempts.count(conflict)
                continue
            return changed

    async def put(self, entry: E) -> E:
        """Enter somebody in place of what was said before.

        Raises:
            RecordNotFound: Whom it belongs to is not there.
        """
        await self._check_parents(entry)
        written = msgspec.structs.replace(entry, created=self.now())
        await self.db.records.put(record_of(written))
        return written

    async def drop(self, entry: Entry) -> None:
        """Take an entry out. Whatever belongs to the tenant or the user elsewhere stays where it is."""
        await self.db.records.drop(entry.kind, record_of(entry).id)

    async def admit(
        self, *, tenant: str, user: str | None, workspace: str, scopes: frozenset[str]
    ) -> Identity:
        """The identity of somebody whose credentials hold; see ``admitted``."""
        looked = await self.look(*places(tenant, user, workspace))
        return admitted(looked, tenant=tenant, user=user, workspace=workspace, scopes=scopes)

    async def look(self, *names: Named) -> Looked:
        """Those entries that are there of some kinds and names, in one question."""
        found = await self.db.store.read(Scope(tenant=SERVER), ask(AskRecordsNamed(names)))
        return Looked({(record.kind, record.id): record for record in found})

    async def about(self, user: User) -> list[Entry]:
        """A user, with the memberships, logins and keys that go with them."""
        found: list[Entry] = [user]
        for kind in (Membership, Login, Key):
            found += [entry async for entry in self.every(kind, tenant=user.tenant, user=user.id)]
        return found

    async def remove(self, user: User) -> list[Entry]:
        """Take a user out, with all that goes with them; what is gone."""
        gone = await self.about(user)
        await self.db.commit([Drop(kind=entry.kind, id=record_of(entry).id) for entry in gone])
        return gone

    async def _same(self, entry: E) -> E:
        """What is there already, if it says the same."""
        there = entry_of(type(entry), await self.db.records.get(entry.kind, record_of(entry).id))
        if msgspec.structs.replace(entry, created=there.created) != there:
            raise InvalidArgument(
                problem=f"The {entry.kind} {record_of(entry).id!r} is there already and says otherwise."
            )
        return there

    async def _check_parents(self, entry: Entry) -> None:
        for kind, id in _parents(entry):
            await self.db.records.get(kind, id)

    async def _check_external(self, tenant: Tenant) -> None:
        if tenant.external is None:
            return
        async for other in self.every(Tenant, external=tenant.external):
            if other.id != tenant.id:
                raise InvalidArgument(
                    problem=f"Tenant {other.id!r} is {tenant.external!r} at the issuer already."
                )


def _parents(entry: Entry) -> list[tuple[str, str]]:
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
        case Key(user=None):
            return [("workspace", f"{entry.tenant}/{entry.workspace}")]
        case Key():
            return [("membership", f"{entry.tenant}/{entry.workspace}/{entry.user}")]


def places(tenant: str, user: str | None, workspace: str) -> tuple[Named, ...]:
    """What must be there for somebody to be let in."""
    of_tenant = ((Tenant.kind, tenant), (Workspace.kind, f"{tenant}/{workspace}"))
    if user is None:
        return of_tenant
    return (*of_tenant, (User.kind, f"{tenant}/{user}"), (Membership.kind, f"{tenant}/{workspace}/{user}"))


def admitted(
    looked: Looked, *, tenant: str, user: str | None, workspace: str, scopes: frozenset[str]
) -> Identity:
    """The identity of somebody whose credentials hold, if they are still welcome.

    An administrator is who has both the scope and the role. A key of the tenant as a whole needs the
    scope alone.

    Raises:
        Forbidden: The tenant, the workspace or the user is disabled, or the user is no member.
    """
    found = _roles(looked, tenant, user, workspace)
    roles = scopes & ADMIN if user is None else found
    lacking = ADMIN - (scopes & roles)
    return Identity(
        tenant=tenant, user=user, workspace=workspace, roles=roles - lacking, scopes=scopes - lacking
    )


def _roles(looked: Looked, tenant: str, user: str | None, workspace: str) -> frozenset[str]:
    """What somebody is in a workspace, once everything above it is found enabled."""
    _check_enabled(looked, Tenant, tenant)
    _check_enabled(looked, Workspace, f"{tenant}/{workspace}")
    if user is None:
        return frozenset()
    _check_enabled(looked, User, f"{tenant}/{user}")
    membership = looked.get(Membership, tenant, workspace, user)
    if membership is None:
        raise Forbidden(problem=f"User {user!r} is no member of the workspace {workspace!r}.")
    return frozenset(membership.roles)


def _check_enabled(looked: Looked, kind: type[Tenant | Workspace | User], id: str) -> None:
    found = looked.get(kind, id)
    if found is None:
        raise Forbidden(problem=f"There is no {kind.kind} {id!r} here.")
    if not found.enabled:
        raise Forbidden(problem=f"The {kind.kind} {id!r} is disabled.")


async def known(directory: Directory, kind: type[E], *names: str) -> E | None:
    """An entry by its names, if there is one."""
    try:
        return await directory.get(kind, *names)
    except RecordNotFound:
        return None
