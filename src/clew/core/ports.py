"""The interface of a store. It answers questions, applies writes and reports; it decides nothing."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from clew.core.erasure.receipts import FileSelection
from clew.core.log.commit import Plan, Planner
from clew.core.log.rows import StoreRead
from clew.core.values import Job, Limits, ProvisionalText, Scope

T = TypeVar("T")


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """A store's report of its format, health and facts."""

    store: str
    format: int
    healthy: bool
    facts: dict[str, str | int | bool | None] = {}
    problems: tuple[str, ...] = ()


class ScrubResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scrub.

    ``waiting`` says what still keeps traces and may let go of them later; ``beyond`` names places that the
    store cannot reach.
    """

    waiting: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()


class Reader(Protocol):
    """A store, or one connection to it, that answers the questions of a reading."""

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""
        ...


class Store(Protocol):
    """Threads, records and jobs on one medium.

    ``read`` answers the questions of a reading. ``change`` asks for a plan, answers its questions and
    applies its writes, all or none; if something the plan assumed has changed, it asks for a new plan
    with ``context.fresh``. What it returns is durable.
    """

    name: str
    limits: Limits

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""
        ...

    async def change(self, scope: Scope, planner: Planner) -> Plan:
        """The plan that was applied.

        Raises:
            ClewError: What the plan raised, or what the medium said; nothing was changed then.
            OutcomeUnknown: The medium broke off while committing.
        """
        ...

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Claim jobs that are due, each for so long; no other worker gets them meanwhile."""
        ...

    async def wait_for_change(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        ...

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """Return a number other than ``after`` once any thread may have changed, or when the time is over.

        Begin with zero, and then pass the number of the call before: between two calls nothing is missed.
        """
        ...

    def now(self) -> int:
        """The time by the clock that all who write to the medium share, in milliseconds since 1970."""
        ...

    async def report(self) -> StoreReport:
        """Report the store's health."""
        ...

    async def scrub(self) -> ScrubResult:
        """Leave no trace of rows that were removed, as far as the medium lets one."""
        ...

    async def close(self) -> None:
        """Give back what this store opened. Calls under way end first."""
        ...


class ProvisionalTexts(Protocol):
    """The texts of running answers, one a thread, apart from the log.

    Nothing waits for a disk: they outlive the process that wrote them, and need not outlive the machine. What
    is not of the scope is not there.
    """

    async def begin(self, scope: Scope, text: ProvisionalText, most: int) -> bool:
        """Keep a text in place of the one that its thread has.

        Return False if it is not kept: there are as many others as there may be.
        """
        ...

    async def extend(self, scope: Scope, text: ProvisionalText, part: bytes) -> bool:
        """Add a part to a text; return False if it is no longer there."""
        ...

    async def read(self, scope: Scope, thread: str) -> ProvisionalText | None:
        """The text of a thread, if it has one."""
        ...

    async def headers(self, scope: Scope) -> list[ProvisionalText]:
        """Every text, without its parts."""
        ...

    async def drop(self, scope: Scope, thread: str, text: ProvisionalText | None = None) -> bool:
        """Drop the text of a thread, or only a given one; return whether there was one."""
        ...


@runtime_checkable
class KeepsProvisionalTexts(Protocol):
    """A store that keeps the texts of running answers. Those that do not are stores all the same."""

    provisional: ProvisionalTexts


class OwnedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that belongs to an owner, with its path in their part of a volume."""

    path: str
    content: bytes


class Files(Protocol):
    """Files that are kept beside a database, by tenant, owner and thread.

    What is erased is first put aside under a receipt and a number, then counted in the receipt, and then
    removed. So it is counted once, even if the erasure is interrupted and begun again.
    """

    beyond: tuple[str, ...]
    """Places with copies that cannot be reached."""

    async def count(self, tenant: str, selection: FileSelection) -> dict[str, int]:
        """Count the files and bytes of a selection, by kind."""
        ...

    async def put_aside(
        self, tenant: str, selection: FileSelection, receipt: str, number: int
    ) -> dict[str, int]:
        """Put files aside under a number; count files and bytes under it, by kind."""
        ...

    async def remove(self, tenant: str, receipt: str, number: int) -> None:
        """Remove what was put aside under a number, or under one before it."""
        ...

    async def remove_thread(self, tenant: str, thread: str) -> None:
        """Remove what is kept of a thread that was deleted."""
        ...

    def files_of(self, tenant: str, owner: str) -> AsyncIterator[OwnedFile]:
        """Every file of an owner."""
        ...

    async def add(self, tenant: str, owner: str, file: OwnedFile) -> None:
        """Keep a file for an owner.

        Raises:
            VolumeFileChanged: There is another one already.
            VolumePathRefused: Its path cannot be used.
        """
        ...
