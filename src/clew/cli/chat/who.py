"""Who talks on which thread, as the options of the command say and as it is where they say nothing."""

import enum
from collections.abc import Callable

import msgspec

from clew.core.encoding import check_id
from clew.runtime.context import MemoryMode
from clew.runtime.inputs import free_id


class Mode(enum.StrEnum):
    """Whether what is said is kept."""

    GUEST = "guest"
    PERSISTENT = "persistent"


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """A thread, the user on whose behalf it goes on if there is one, and whether it is kept.

    Without a user what is learned belongs to the thread. A guest has no user, whatever was given.
    """

    thread: str
    user: str | None = None
    mode: Mode = Mode.PERSISTENT

    @property
    def is_guest(self) -> bool:
        """Whether nothing is kept."""
        return self.mode is Mode.GUEST

    @property
    def memory_mode(self) -> MemoryMode | None:
        """What the runtime is told about it."""
        return MemoryMode.INCOGNITO if self.is_guest else None

    def on(self, thread: str) -> "Who":
        """The same person on another thread.

        Raises:
            InvalidId: No conversation can have that id.
        """
        return msgspec.structs.replace(self, thread=free_id(thread))


def who_talks(*, thread: str | None, user: str | None, mode: Mode, new_id: Callable[[], str]) -> Who:
    """Who talks; a thread that was not named gets an id of its own, which is never made from the user's.

    Raises:
        InvalidId: An id cannot be one.
    """
    whose = None if mode is Mode.GUEST or not user else check_id(user, "user")
    return Who(thread=free_id(thread or new_id()), user=whose, mode=mode)
