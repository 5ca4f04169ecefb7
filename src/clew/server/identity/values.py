"""Who is asking, and how a request says so."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from clew.core.encoding import RESERVED, check_id
from clew.core.errors import Forbidden


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a request is made, and how far it reaches.

    Without a ``user`` it speaks for the tenant as a whole. A server's own tenant cannot be named.
    """

    tenant: str
    user: str | None
    workspace: str
    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for value, what in ((self.tenant, "tenant"), (self.workspace, "workspace")):
            check_id(value, what)
        if self.user is not None:
            check_id(self.user, "user")
        if self.tenant.startswith(RESERVED):
            raise Forbidden(problem=f"Tenant {self.tenant!r} is the server's own.")


class Authenticate(Protocol):
    """How a request proves whose it is."""

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Whose request this is, by its headers; their names are in lower case.

        Raises:
            Unauthenticated: There are no credentials, or none that hold.
            Forbidden: They hold, but not here.
            IssuerUnavailable: They cannot be checked now.
        """
        ...
