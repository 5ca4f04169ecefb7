"""Receipts as they are read: for operators, from the thread that keeps their lines."""

from collections.abc import Sequence

from holdfast.core import receipts
from holdfast.core.errors import Forbidden, ThreadNotFound
from holdfast.core.holding import RECEIPTS
from holdfast.core.ports import Store
from holdfast.core.reading import read_thread, read_window
from holdfast.core.rows import Asking
from holdfast.core.values import Item, ItemQuery, Scope, Window


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
