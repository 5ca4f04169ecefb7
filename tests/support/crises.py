"""Rows of the crisis log as they are stored, for tests that need some."""

from __future__ import annotations

from clew.core.encoding import as_json
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.values import Record
from clew_companion.crisis.log import CRISIS_TAG, Crisis

NOT_IN_BODY = ("id", "keep_until", "extended")


def crisis_record(crisis: Crisis, owner: str | None = None) -> Record:
    """The record that a row is stored as."""
    body = {name: value for name, value in as_json(crisis).items() if name not in NOT_IN_BODY}
    tags = (CRISIS_TAG, f"level:{crisis.level}", f"thread:{crisis.thread}")
    return Record(kind=RETAINED_KIND, id=crisis.id, owner=owner, tags=tags, sort=crisis.keep_until, body=body)
