"""Settings of an operator: the hosts that repositories are fetched from, and how much that may take."""

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from clew.core.errors import InvalidArgument
from clew.workbench.repository.source import IPAddress, RemoteHost, parse_host

VARIABLES: Final = {
    "CLEW_REPOSITORY_HOSTS": "hosts",
    "CLEW_REPOSITORY_CA_FILE": "ca_file",
    "CLEW_REPOSITORY_BYTES": "bytes",
    "CLEW_REPOSITORY_SECONDS": "seconds",
}
"""The variables that set it, for commands. Hosts are divided by commas."""
LOOPBACK: Final = ("127.0.0.1", "::1")
NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class RepositorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that repositories may be fetched from, none by default, and the bounds of a checkout.

    A host is a name or an address, with a port if it is not 443. A name leads to public addresses alone;
    one that is private or this machine's must be listed itself. ``ca_file`` replaces the system's
    certificates. ``bytes`` bounds what is transferred, and then what is checked out.
    """

    hosts: tuple[str, ...] = ()
    ca_file: str | None = None
    bytes: Annotated[int, msgspec.Meta(ge=1)] = 256 * 1024**2
    seconds: Annotated[float, msgspec.Meta(gt=0)] = 120.0

    def __post_init__(self) -> None:
        for host in self.hosts:
            try:
                parse_host(host)
            except InvalidArgument as error:
                raise InvalidArgument(problem=f"A host of repositories cannot be used: {error}.") from error

    def lists(self, host: RemoteHost) -> bool:
        """Return whether a host is listed, with its port."""
        return host in map(parse_host, self.hosts)

    def reaches(self, address: IPAddress) -> bool:
        """Return whether connections may go to an address: a public one, or one that is listed itself."""
        return is_public(address) or str(address) in self._addresses()

    def _addresses(self) -> set[str]:
        names = {parse_host(host).name for host in self.hosts}
        return names | (set(LOOPBACK) if "localhost" in names else set())


def is_public(address: IPAddress) -> bool:
    """Return whether an address is of the public internet, also where it has another one inside."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(each is not None and not is_public(each) for each in inner):
            return False
    return address.is_global and not address.is_multicast


def repository_settings(variables: Mapping[str, str]) -> RepositorySettings:
    """The settings of the environment.

    Raises:
        InvalidArgument: One of them is not valid.
    """
    texts = {name: variables[variable] for variable, name in VARIABLES.items() if variables.get(variable)}
    hosts = [host.strip() for host in texts.pop("hosts", "").split(",")]
    values: dict[str, object] = {**texts, "hosts": [host for host in hosts if host]}
    try:
        return msgspec.convert(values, RepositorySettings, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(VARIABLES)
        raise InvalidArgument(problem=f"One of {names} cannot be used: {error}.") from error
