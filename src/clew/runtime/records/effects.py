"""External effects: the calls of tools that touched the world, as they are reported."""

import msgspec

from clew.core.encoding import JSON


class ExternalEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A call that touched the world, or may have.

    ``version`` is where its result was stored. If it is ``in_doubt`` there is no output: its result was never
    stored, and ``version`` is where it was closed, or 0 while it is open.
    """

    tool: str
    call: str
    key: str
    run: str | None
    version: int = 0
    output: JSON = None
    in_doubt: bool = False
