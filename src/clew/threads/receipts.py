"""Receipts as they are read: for operators, from the thread that keeps their lines."""

from collections.abc import Sequence

from clew.core import receipts
from clew.core.errors import Forbidden, ThreadNotFound
from clew.core.holding import RECEIPTS
from clew.core.ports import Store
from clew.core.reading import read_thread, read_window
from clew.core.rows import Asking
from clew.core.values import Item, ItemQuery, Scope, Window


def check_operator(scope: Scope) -> None:
    """Refuse a database that is used for one user.

    Raises:
        Forbidden: It is. A receipt belongs to no user, so erasing is for operators.
    """
    if scope.user is not None:
        raise Forbidden(problem="Erasing, holds and receipts are for operators. Use the tenant's database.")


async def read_lines(store: Store, scope: Scope) -> Sequence[Item]:
    """The lines of the thread of receipts; none if nothing was erased yet."""
    check_operator(scope)
    try:
        return await store.read(scope, _lines())
    except ThreadNotFound:
        return ()


def _lines() -> Asking[Window]:
    row = yield from read_thread(RECEIPTS)
    return (yield from read_window(row, ItemQuery(log=receipts.LOG)))
