"""No test leaves a thread of ours behind: it would be a store that nobody closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator

import pytest

PREFIX = "clew-"
PATIENCE_SECONDS = 10


def lingering_threads(before: Collection[threading.Thread], *, patience: float) -> list[str]:
    """The names of our threads that were not there before and do not end in time."""
    deadline = time.monotonic() + patience
    ours = [t for t in threading.enumerate() if t.name.startswith(PREFIX) and t not in before]
    for thread in ours:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(thread.name for thread in ours if thread.is_alive())


@pytest.fixture(autouse=True)
def leaves_no_thread() -> Iterator[None]:
    """Fail a test that leaves one behind."""
    before = set(threading.enumerate())
    yield
    if names := lingering_threads(before, patience=PATIENCE_SECONDS):
        pytest.fail(f"The test left threads behind: {', '.join(names)}. Close the store.", pytrace=False)
