"""Legal holds: what is planned before somebody is held does not happen once they are."""

from __future__ import annotations

from functools import partial

import pytest

import clew
from clew.core.erasure import subject
from clew.core.erasure.receipts import Receipt, subject_of
from clew.core.log.commit import Plan
from clew.core.log.holds import HOLD_KIND, hold_id
from clew.core.log.rows import CheckRecord
from clew.core.values import Scope

SUBJECT = subject_of("ann", None)


@pytest.mark.promise("B-07")
async def test_an_erasure_is_bound_to_there_being_no_hold_when_it_commits() -> None:
    async with clew.open("memory://") as db:
        await db.create("one", owner="ann")
        erasure = await db.erase(owner="bob")
        receipt = Receipt(id=erasure.id, time=0, what="owner", subject="", salt=erasure.salt)
        planning = partial(subject.plan_erase_threads, SUBJECT, receipt, ["one"], db.store.limits)
        plan: Plan = await db.store.change(Scope(), planning)

    assert [effect for effect in plan.writes if isinstance(effect, CheckRecord)] == [
        CheckRecord(kind=HOLD_KIND, id=hold_id("owner", "ann"), before=0),
        CheckRecord(kind=HOLD_KIND, id=hold_id("thread", "one"), before=0),
    ]
