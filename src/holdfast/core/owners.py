"""Whose something is: the owner of what is new, and what stands in the way unseen."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from holdfast.core.encoding import check_id
from holdfast.core.errors import Conflict, InvalidArgument, InvalidInput, StoreBusy, ThreadExists
from holdfast.core.rows import AddThread, Effect, Restore, SaveRecord
from holdfast.core.values import Job, Record, Scope

Owned = TypeVar("Owned", Record, Job)


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
