"""Whose something is: the owner of what is new, and what stands in the way unseen."""

from collections.abc import Iterable
from hashlib import sha256
from typing import TypeVar
from urllib.parse import quote

import msgspec

from holdfast.core.encoding import check_id
from holdfast.core.errors import Conflict, InvalidArgument, InvalidInput, StoreBusy, ThreadExists
from holdfast.core.rows import AddThread, Effect, Restore, SaveRecord
from holdfast.core.values import MEMORY, Job, Record, Scope

Owned = TypeVar("Owned", Record, Job)
LONGEST = 400
OF_THREAD = "@"
"""What the memory of a thread is told by: no user's name begins with it once it is quoted."""


def owner_for(scope: Scope, owner: str | None, what: str) -> str | None:
    """The owner of something new: the one given, or the user on whose behalf it is made.

    Raises:
        InvalidArgument: A user would make something that belongs to somebody else.
    """
    if owner is None:
        return scope.user
    check_id(owner, "owner")
    if scope.user not in (None, owner):
        raise InvalidArgument(problem=f"User {scope.user!r} cannot make a {what} owned by {owner!r}.")
    return owner


def owned(scope: Scope, thing: Owned, what: str) -> Owned:
    """A record or a job with its owner filled in."""
    return msgspec.structs.replace(thing, owner=owner_for(scope, thing.owner, what))


def memory_thread(owner: str, *, of_thread: bool = False) -> str:
    """The id of the thread that holds what is known of a user, or of a thread without one.

    No user and no thread share one, whatever letters are in their ids.
    """
    mark = OF_THREAD if of_thread else ""
    name = quote(owner, safe="").replace("~", "%7E")
    return f"{MEMORY}{mark}{name if len(name) <= LONGEST else '~' + sha256(owner.encode()).hexdigest()}"


def check_memory_owner(id: str, owner: str | None) -> None:
    """Refuse a memory to everybody but the user that it is about.

    The memory of a thread is not bound to one user: it belongs to nobody, or to the user of its database.

    Raises:
        InvalidArgument: The thread is the memory of another user.
    """
    if not id.startswith(MEMORY) or id.startswith(f"{MEMORY}{OF_THREAD}"):
        return
    if owner is None or memory_thread(owner) != id:
        raise InvalidArgument(
            problem=f"Thread {id!r} is the memory of a user, and belongs to that user alone."
        )


def obstacle(effects: Iterable[Effect]) -> Conflict | InvalidInput | StoreBusy:
    """Why a plan on fresh rows cannot be applied: an id is taken, out of the scope's sight."""
    for effect in effects:
        match effect:
            case AddThread() | Restore():
                return ThreadExists(thread=effect.row.id)
            case SaveRecord(before=0):
                kind, id = effect.record.kind, effect.record.id
                return InvalidArgument(
                    problem=f"The {kind} {id!r} belongs to somebody else. Choose another id."
                )
    return StoreBusy(store="The store")
