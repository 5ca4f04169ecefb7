"""A log as a stage sees it: its length is known, its entries are read when asked for."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class StateLog(Generic[T]):
    """The entries of a field that only grows."""

    __slots__ = ("_length", "_read")

    def __init__(self, length: int, read: Callable[[int | None], Awaitable[Sequence[T]]]) -> None:
        self._length = length
        self._read = read

    @classmethod
    def empty(cls) -> "StateLog[T]":
        """A log without entries."""
        return cls(0, _nothing)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"StateLog({self._length} entries)"

    async def tail(self, count: int) -> Sequence[T]:
        """The newest entries, oldest first."""
        return await self._read(count)

    async def all(self) -> Sequence[T]:
        """Every entry, oldest first. It costs as much as the log is long."""
        return await self._read(None)


async def _nothing(count: int | None) -> Sequence[T]:
    return ()
