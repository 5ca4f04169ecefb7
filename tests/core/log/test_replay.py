"""Replay: any log folds to the head, whatever anchors were left on the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.encoding import encode
from clew.core.errors import ClewError
from clew.core.log import commit
from clew.core.ops import apply_ops
from clew.core.values import Changeset
from clew.database.database import Database
from clew.stores.memory import MemoryStore
from clew.testing import machine


@pytest.mark.promise("T-13", "T-06")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(machine.changesets, min_size=1, max_size=15), st.sampled_from([0, 60, 4096]), st.integers(0, 15)
)
def test_replaying_a_log_gives_every_version(changes: list[Changeset], weight: int, fork_at: int) -> None:
    async def check() -> None:
        db = Database(MemoryStore())
        thread = await db.create("thread")
        for number, change in enumerate(changes):
            if number == fork_at:
                thread = await thread.fork("fork")
            with suppress(ClewError):
                await thread.append(change)
        state: dict[str, object] = {}
        for change in await thread.changesets(limit=100):
            state = apply_ops(state if change.snapshot is None else change.snapshot, change.patches)
            assert encode(await thread.state(at=change.version)) == encode(state)
        assert encode(await thread.state()) == encode(state)
        assert (await thread.verify()).problems == ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "MIN_ANCHOR_BYTES", weight)
        asyncio.run(check())
