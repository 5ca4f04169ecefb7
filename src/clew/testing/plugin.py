"""For pytest: what the contract's marks mean. ``pytest_plugins = ["clew.testing.plugin"]``."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known, for those who allow no others."""
    config.addinivalue_line("markers", "promise(*ids): the promises of Clew that a test shows to be kept")
