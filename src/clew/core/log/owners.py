"""Owners: of what is new, of threads that name one, and of what a scope cannot see."""

from collections.abc import Iterable
from hashlib import sha256
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from clew.core.encoding import check_id
from clew.core.errors import Conflict, InvalidArgument, InvalidInput, StoreBusy, ThreadExists, UserMissing
from clew.core.log.rows import AddThread, RestoreThread, SaveRecord, StoreWrite
from clew.core.values import MEMORY_PREFIX, Job, Record, Scope

RecordOrJob = TypeVar("RecordOrJob", Record, Job)
MOST_NAME_LENGTH = 400
ADK = "adk/"
"""The prefix of the ids of threads that the session service of ADK keeps: app, user and session follow."""
OF_THREAD, HASHED = "@", "~"
"""The prefixes of the memory of a thread, and of a hashed name: no quoted name of a user has one."""


def owner_for(scope: Scope, owner: str | None, what: str) -> str | None:
    """The owner of something new: the one given, or the user on whose behalf it is made.

    Raises:
        InvalidArgument: A user would make something that belongs to another.
    """
    if owner is None:
        return scope.user
    check_id(owner, "owner")
    if scope.user not in (None, owner):
        raise InvalidArgument(problem=f"User {scope.user!r} cannot make a {what} owned by {owner!r}.")
    return owner


def with_owner(scope: Scope, thing: RecordOrJob, what: str) -> RecordOrJob:
    """A record or a job with its owner filled in."""
    return msgspec.structs.replace(thing, owner=owner_for(scope, thing.owner, what))


def check_user_named(thread: str, owner: str | None, user: str | None) -> None:
    """Refuse to act for nobody on a thread that belongs to a user.

    Otherwise what nobody said would be learned of that user, or what the user said be kept as nobody's. The
    other way round needs no check: a user does not see a thread that is nobody's.

    Raises:
        UserMissing: The thread has an owner, and no user is named.
    """
    if owner is not None and user is None:
        raise UserMissing(thread=thread)


def memory_thread_id(owner: str, *, of_thread: bool = False) -> str:
    """The id of the thread that holds what is known of a user, or of a thread without one.

    No user and no thread share one, whatever letters are in their ids.
    """
    mark = OF_THREAD if of_thread else ""
    name = quote(owner, safe="").replace("~", "%7E")
    if len(name) > MOST_NAME_LENGTH:
        name = HASHED + sha256(owner.encode()).hexdigest()
    return f"{MEMORY_PREFIX}{mark}{name}"


def is_memory_of(id: str, owner: str | None) -> bool:
    """Return whether a thread is a memory of a user: ours, or one that a guest framework keeps of them.

    All of their ids end with the quoted name of the user. A name too long for that is hashed.
    """
    if owner is None or not id.startswith(MEMORY_PREFIX):
        return False
    last = id.rpartition("/")[2]
    return id == memory_thread_id(owner) or (not last.startswith(HASHED) and unquote(last) == owner)


def is_memory_thread(id: str, owner: str | None) -> bool:
    """Return whether a thread of an owner is a memory that Clew keeps, and no guest framework."""
    return id.startswith(f"{MEMORY_PREFIX}{OF_THREAD}") if owner is None else id == memory_thread_id(owner)


def check_named_owner(id: str, owner: str | None) -> None:
    """Refuse a thread whose id names a user, unless that user owns it.

    Otherwise another user could make it first, and read what is written there later. The memory of a thread
    is not bound to one user: it has no owner, or the user of its database.

    Raises:
        InvalidArgument: The thread is the memory, or the ADK state, of another user or of an app.
    """
    is_of_user = id.startswith(MEMORY_PREFIX) and not id.startswith(f"{MEMORY_PREFIX}{OF_THREAD}")
    if is_of_user and not is_memory_of(id, owner):
        raise InvalidArgument(problem=f"Thread {id!r} is the memory of a user, and can only be that user's.")
    if id.startswith(ADK) and _adk_user(id) != owner:
        raise InvalidArgument(
            problem=f"Thread {id!r} is kept by ADK, and can only belong to the user that it names."
        )


def _adk_user(id: str) -> str | None:
    """The user in the id of a thread of ADK's; None if it is of an app, for all of its users."""
    names = id.removeprefix(ADK).split("/")
    return unquote(names[1]) if len(names) > 1 else None


def hidden_conflict(writes: Iterable[StoreWrite]) -> Conflict | InvalidInput | StoreBusy:
    """The error of a plan on fresh rows that cannot be applied: an id is taken, out of the scope's sight."""
    for write in writes:
        match write:
            case AddThread() | RestoreThread():
                return ThreadExists(thread=write.row.id)
            case SaveRecord(before=0):
                kind, id = write.record.kind, write.record.id
                return InvalidArgument(
                    problem=f"The {kind} {id!r} belongs to another owner. Choose another id."
                )
    return StoreBusy(store="The store")
