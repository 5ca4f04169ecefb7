"""Parts shared by the commands about identities: showing entries, switching them on and off."""

from collections.abc import Sequence

import msgspec
from rich.text import Text

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import E, Tenant, User, Workspace

SECRET_FIELDS = {"hash"}
"""What is kept of an entry and is nobody's business."""


async def switch_entry(
    call: CommandCall, kind: type[Tenant | Workspace | User], names: tuple[str, ...], *, enabled: bool
) -> CommandResult:
    """Let an entry in, or let it in no more, and say so."""
    async with call.database() as db:
        directory = Directory(db)
        entry = await directory.get(kind, *names)
        owner = names[-1] if kind is User else None
        action = f"{'enable' if enabled else 'disable'} {kind.kind}"
        facts = {"workspace": names[-1]} if kind is Workspace else {}
        await audit_action(db, action, tenant=names[0], owner=owner, **facts)
        new_entry = await directory.change(entry, enabled=enabled)
    words = f"{kind.kind.capitalize()} {values.clean(names[-1])} is {'enabled' if enabled else 'disabled'}."
    return entry_result(new_entry, words)


def entry_result(entry: msgspec.Struct, words: str) -> CommandResult:
    """An answer of a sentence about one entry."""
    return CommandResult(value=entry_value(entry), display=Text(words))


def table_result(entries: Sequence[E], columns: tuple[str, ...]) -> CommandResult:
    """An answer of a table."""
    table = values.empty_table(*columns)
    for entry in entries:
        table.add_row(*(_cell_text(column, getattr(entry, column)) for column in columns))
    display = table if entries else Text("There are none.")
    return CommandResult(value={"found": [entry_value(entry) for entry in entries]}, display=display)


def entry_value(entry: msgspec.Struct) -> dict[str, object]:
    """An entry for JSON, without what nobody should see."""
    return {name: value for name, value in msgspec.to_builtins(entry).items() if name not in SECRET_FIELDS}


def _cell_text(column: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return values.utc_time(value)
    return values.clean(", ".join(value) if isinstance(value, tuple) else str(value))
