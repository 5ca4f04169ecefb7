"""What every test can use or must keep to: a PostgreSQL server, marks that name promises, no thread left."""

from __future__ import annotations

import signal

from hypothesis import settings

pytest_plugins = [
    "tests.support.left_behind",
    "tests.support.lock_wait",
    "tests.support.promises",
    "tests.support.shared_postgres",
    "tests.support.suites",
]


def pytest_configure() -> None:
    """Let children be interrupted, also where these tests run in the background of a shell and cannot be."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes says more about what else the machine does than about the code.
    settings.register_profile("clew", deadline=None)
    settings.load_profile("clew")
