"""The hosts that an operator lists, and the addresses that they lead to."""

from __future__ import annotations

import ipaddress

import pytest

from clew.core.errors import InvalidArgument
from clew.workbench.repository.settings import RepositorySettings, is_public, repository_settings
from clew.workbench.repository.source import RemoteHost

pytestmark = pytest.mark.security


def test_nothing_is_listed_unless_an_operator_does() -> None:
    settings = repository_settings({})

    assert settings == RepositorySettings()
    assert not settings.lists(RemoteHost("github.com"))


def test_variables_of_the_environment_set_it() -> None:
    variables = {
        "CLEW_REPOSITORY_HOSTS": "GitHub.com, git.example.org:8443 ,[::1]",
        "CLEW_REPOSITORY_CA_FILE": "/etc/ca.pem",
        "CLEW_REPOSITORY_BYTES": "1000",
        "CLEW_REPOSITORY_SECONDS": "1.5",
    }
    settings = repository_settings(variables)

    assert (settings.ca_file, settings.bytes, settings.seconds) == ("/etc/ca.pem", 1000, 1.5)
    assert settings.lists(RemoteHost("github.com"))
    assert settings.lists(RemoteHost("git.example.org", 8443))
    assert settings.lists(RemoteHost("::1"))
    assert not settings.lists(RemoteHost("git.example.org"))
    assert not settings.lists(RemoteHost("api.github.com"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOSTS", "*"),
        ("HOSTS", "*.example.org"),
        ("HOSTS", "https://github.com"),
        ("HOSTS", "github.com/acme"),
        ("HOSTS", "10.0.0.0/8"),
        ("HOSTS", "127.1"),
        ("BYTES", "many"),
        ("BYTES", "0"),
        ("SECONDS", "-1"),
    ],
)
def test_a_variable_that_cannot_be_used_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument):
        repository_settings({f"CLEW_REPOSITORY_{name}": value})


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "2002:7f00:1::",
        "2002:a00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2001:0:7f00:1::",
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_not_reached(address: str) -> None:
    settings = RepositorySettings(hosts=("git.example.org",))

    assert not settings.reaches(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["140.82.121.3", "2606:50c0:8000::153", "::ffff:140.82.121.3"])
def test_a_public_address_is_reached(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_an_address_that_is_listed_itself_is_reached_and_no_other() -> None:
    settings = RepositorySettings(hosts=("git.corp.example", "10.0.0.7"))

    assert settings.reaches(ipaddress.ip_address("10.0.0.7"))
    assert not settings.reaches(ipaddress.ip_address("10.0.0.8"))
    assert not settings.reaches(ipaddress.ip_address("127.0.0.1"))


def test_localhost_is_this_machine_alone() -> None:
    settings = RepositorySettings(hosts=("localhost:8443",))

    assert settings.reaches(ipaddress.ip_address("127.0.0.1"))
    assert settings.reaches(ipaddress.ip_address("::1"))
    assert not settings.reaches(ipaddress.ip_address("127.0.0.2"))
