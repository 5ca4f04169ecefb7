"""Addresses of this machine, told from those that others reach."""

from __future__ import annotations

import pytest

from clew.core.addresses import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "a.localhost"])
def test_an_address_of_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "example", "10.0.0.1", None])
def test_an_address_that_others_reach_is_not_loopback(host: str | None) -> None:
    assert not is_loopback(host)
