"""What the commands about identities have in common: showing entries, switching them on and off."""

from collections.abc import Sequence

import msgspec
from rich.text import Text

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import E, Tenant, User, Workspace

HIDDEN = {"hash"}
"""What is kept of an entry and is nobody's business."""


async def switch(
    call: Call, kind: type[Tenant | Workspace | User], names: tuple[str, ...], *, enabled: bool
) -> Answer:
    """Let an entry in, or let it in no more, and say so."""
    async with call.database() as db:
        directory = Directory(db)
        found = await directory.get(kind, *names)
        owner = names[-1] if kind is User else None
        action = f"{'enable' if enabled else 'disable'} {kind.kind}"
        about = {"workspace": names[-1]} if kind is Workspace else {}
        await noted(db, action, tenant=names[0], owner=owner, **about)
        changed = await directory.change(found, enabled=enabled)
    words = f"{kind.kind.capitalize()} {values.clean(names[-1])} is {'enabled' if enabled else 'disabled'}."
    return one(changed, words)


def one(entry: msgspec.Struct, words: str) -> Answer:
    """An answer of a sentence about one entry."""
    return Answer(value=plain(entry), shown=Text(words))


def many(entries: Sequence[E], columns: tuple[str, ...]) -> Answer:
    """An answer of a table."""
    made = values.table(*columns)
    for entry in entries:
        made.add_row(*(_cell(column, getattr(entry, column)) for column in columns))
    shown = made if entries else Text("There are none.")
    return Answer(value={"found": [plain(entry) for entry in entries]}, shown=shown)


def plain(entry: msgspec.Struct) -> dict[str, object]:
    """An entry for JSON, without what nobody should see."""
    return {name: value for name, value in msgspec.to_builtins(entry).items() if name not in HIDDEN}


def _cell(column: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return values.when(value)
    return values.clean(", ".join(value) if isinstance(value, tuple) else str(value))
