"""Whose address counts where proxies stand between: the last one that nobody vouches for."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from clew.cli.app import build_app
from clew.core.errors import InvalidArgument
from clew.server.http.client_address import client_address, parse_networks, site_of
from clew.server.process import uvicorn_config
from clew.server.settings import ServerSettings, from_variables

pytestmark = pytest.mark.promise("F-09")

PROXIES = parse_networks(["10.0.0.0/8", "192.0.2.1", "fd00::/8"])
CLIENT = "203.0.113.7"


@pytest.mark.parametrize(
    ("peer", "lines", "expected"),
    [
        (CLIENT, [], CLIENT),
        (CLIENT, ["198.51.100.1"], CLIENT),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [CLIENT], CLIENT),
        ("10.0.0.1", [f"198.51.100.1, {CLIENT}"], CLIENT),
        ("10.0.0.1", [f"198.51.100.1, {CLIENT}, 192.0.2.1"], CLIENT),
        ("10.0.0.1", ["198.51.100.1", CLIENT], CLIENT),
        ("10.0.0.1", ["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        ("10.0.0.1", [f"{CLIENT}:4711"], CLIENT),
        ("10.0.0.1", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("10.0.0.1", ["2001:db8::7"], "2001:db8::7"),
        ("fd00::1", [CLIENT], CLIENT),
        ("::ffff:10.0.0.1", [CLIENT], CLIENT),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", [f"{CLIENT}, unknown"], "10.0.0.1"),
        ("10.0.0.1", [f"{CLIENT}, "], "10.0.0.1"),
        ("10.0.0.1", [", ".join([CLIENT, *["10.0.0.2"] * 100])], "10.0.0.2"),
        ("testclient", [CLIENT], "testclient"),
        ("", [CLIENT], ""),
    ],
)
def test_the_client_is_the_last_hop_that_is_no_trusted_proxy(
    peer: str, lines: list[str], expected: str
) -> None:
    assert client_address(peer, lines, PROXIES) == expected


@pytest.mark.parametrize(
    ("address", "site"),
    [
        (CLIENT, CLIENT),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_clients_of_one_ipv6_site_are_counted_together(address: str, site: str) -> None:
    assert site_of(address) == site


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "10.0.0.0/33", "", "0.0.0.0/0", "::/0"])
def test_what_is_no_network_of_proxies_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="Trusted proxy"):
        parse_networks([text])


def test_a_variable_names_the_trusted_proxies() -> None:
    settings = from_variables({"CLEW_SERVER_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1"})

    assert settings.trusted_proxies == ("10.0.0.0/8", "192.0.2.1")


def test_the_command_refuses_a_proxy_that_has_no_address() -> None:
    result = CliRunner().invoke(build_app(), ["serve", "--trusted-proxy", "proxy.example", "--check"])

    assert result.exit_code != 0
    assert "proxy.example" in result.stderr


def test_the_program_that_serves_believes_no_proxy_by_itself() -> None:
    assert uvicorn_config(ServerSettings()).proxy_headers is False
