"""Erasures on a busy machine: a fixture for tests of them, wherever they are."""

from __future__ import annotations

import pytest

from clew.stores.sqlite import vacuum


@pytest.fixture
def long_lock_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an erasure wait long for its own writer, which may be moving the log to a slow disk just then.

    For others it would give up after two seconds and say that it is pending. Tests of that say how long.
    """
    monkeypatch.setattr(vacuum, "LOCK_WAIT_SECONDS", 60.0)
