"""The address of a client, also behind trusted proxies."""

import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

from clew.core.errors import InvalidArgument

FORWARDED_FOR = "x-forwarded-for"
MOST_HOPS = 32
"""How many proxies a request may have passed; earlier entries of the header are not read."""
IPV6_SITE = 64
"""How many bits of an IPv6 address name a site; its clients choose the others as they like."""

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Networks: TypeAlias = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def parse_networks(texts: Sequence[str]) -> Networks:
    """Parse the addresses and networks of trusted proxies.

    Raises:
        InvalidArgument: One is neither, or takes in every address there is.
    """
    return tuple(_parse_network(text) for text in texts)


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        problem = (
            f"Trusted proxy {text!r} cannot be used: {error}. Give an address, or a network as 10.0.0.0/8."
        )
        raise InvalidArgument(problem=problem) from error
    if network.prefixlen == 0:
        raise InvalidArgument(problem=f"Trusted proxy {text!r} is everybody. Name the proxies' own networks.")
    return network


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Networks) -> str:
    """Return the address of the client: the last one that is no trusted proxy.

    ``forwarded_for`` has the lines of ``X-Forwarded-For``. Each proxy adds at the right whom it was asked by,
    so it is read from there, and only as far as the hops are trusted: anybody may have written the rest.
    """
    hop = _parse_address(peer)
    if hop is None:
        return peer
    hops = ",".join(forwarded_for).rsplit(",", MOST_HOPS)[-MOST_HOPS:]
    while hops and _is_trusted(hop, trusted):
        before = _parse_address(hops.pop())
        if before is None:
            break
        hop = before
    return str(hop)


def site_of(address: str) -> str:
    """Return the address that a client is counted by; of IPv6 the network, which one client may fill."""
    ip_address = _parse_address(address)
    if not isinstance(ip_address, ipaddress.IPv6Address):
        return address if ip_address is None else str(ip_address)
    return str(ipaddress.ip_network((ip_address, IPV6_SITE), strict=False))


def _is_trusted(address: IPAddress, trusted: Networks) -> bool:
    return any(address in network for network in trusted)


def _parse_address(text: str) -> IPAddress | None:
    """Parse an address as servers and proxies write it: also with a port, or as IPv4 inside IPv6."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
