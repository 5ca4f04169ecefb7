"""Damage to stored bytes, done by a test behind the store's back."""

from typing import Protocol


class Damage(Protocol):
    """Changes rows without telling the store. Threads are those of the default tenant."""

    async def rewrite(self, thread: str, log: str, place: int, body: bytes) -> None:
        """Put other bytes in the place of an item's body."""
        ...

    async def spoil(self, thread: str) -> None:
        """Make unreadable what a thread's head, and with it a list, says of its size."""
        ...

    async def drop(self, thread: str, version: int) -> None:
        """Remove the row of a changeset."""
        ...

    async def swap(self, thread: str, first: int, second: int) -> None:
        """Exchange what two changesets are and say."""
        ...
