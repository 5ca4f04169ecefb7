"""What stands in files beside a database, and goes with an erasure: counted in its receipt exactly once."""

from functools import partial

from clew.core import erasing
from clew.core.blanking import read_family
from clew.core.ports import Files, Store
from clew.core.receipts import Receipt, Sought, Subject, files_of
from clew.core.values import Scope
from clew.threads.receipts import read_lines

NOT_NAMED = "files on a volume, if there is one: none was named"


class FilesBeside:
    """The files beside a store, as one erasure sees them. It remembers threads after they are gone."""

    def __init__(self, store: Store, scope: Scope, files: Files | None) -> None:
        self._store = store
        self._scope = scope
        self._files = files
        self._seen: dict[str, None] = {}

    @property
    def beyond(self) -> tuple[str, ...]:
        """Places with copies that cannot be reached."""
        return (NOT_NAMED,) if self._files is None else self._files.beyond

    async def found(self, subject: Subject) -> dict[str, int]:
        """How much of a subject there is."""
        if self._files is None:
            return {}
        return await self._files.found(self._scope.tenant, await self._sought(subject))

    async def erased(self, subject: Subject, receipt: Receipt) -> dict[str, int]:
        """Remove what is there of a subject; how much it was.

        Raises:
            LegalHold: The subject, or one of its threads, is held by now.
        """
        if self._files is None:
            return {}
        sought = await self._sought(subject)
        await self._store.read(self._scope, erasing.check_free(subject, sought.threads))
        return await self._removed(self._files, sought, receipt.id)

    async def blanked(self, thread: str, receipt: Receipt) -> None:
        """Remove the manifests of a thread of which a part was erased, and of all that may share it.

        They hold what the thread held. The next checkpoint writes them anew.
        """
        if self._files is not None:
            family = await self._store.read(self._scope, read_family(thread))
            await self._removed(self._files, Sought(threads=tuple(family)), receipt.id)

    async def _removed(self, files: Files, sought: Sought, id: str) -> dict[str, int]:
        tenant = self._scope.tenant
        number = files_of(await read_lines(self._store, self._scope), id)
        counts = await files.put_aside(tenant, sought, id, number + 1)
        if counts:
            planning = partial(erasing.plan_files, id, number + 1, counts, self._store.limits)
            await self._store.change(self._scope, planning)
        await files.remove(tenant, id, number + 1)
        return counts

    async def _sought(self, subject: Subject) -> Sought:
        ids = await self._store.read(self._scope, erasing.read_members(subject))
        self._seen |= dict.fromkeys(ids)
        return await self._store.read(self._scope, erasing.read_sought(subject, tuple(self._seen)))
