"""The roles of members and the scopes of credentials."""

from typing import Final

MEMBER: Final = "member"
AUDITOR: Final = "auditor"
ADMIN: Final = "admin"
"""The name of a role, and of a scope: an administrator has both."""
ROLES: Final = frozenset({ADMIN, AUDITOR, MEMBER})
"""The roles in a workspace: a member works there, an auditor reads the audit, an admin decides."""

READ: Final = "read"
WRITE: Final = "write"
OPERATOR: Final = "operator"
SCOPES: Final = frozenset({READ, WRITE, ADMIN})
"""The scopes of a token: what it may read, what it may change, what it may decide."""
KEY_SCOPES: Final = SCOPES | {OPERATOR}
"""The scopes of a key. With ``operator`` it reads the metrics of the whole server, of all tenants."""
