"""Addresses of hosts: those that are this machine itself."""

import ipaddress


def is_loopback(host: str | None) -> bool:
    """Return whether a host is this machine itself, by its address or as ``localhost``."""
    if host is None:
        return False
    if host in ("127.0.0.1", "localhost") or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
