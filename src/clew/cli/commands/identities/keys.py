"""Commands about API keys."""

import re
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.identities.output import entry_result, entry_value, table_result
from clew.cli.render import values
from clew.core.errors import InvalidArgument
from clew.server.identity import api_keys
from clew.server.identity.directory import Directory
from clew.server.identity.entries import DEFAULT_WORKSPACE, ApiKey

WorkspaceId = Annotated[str, typer.Option("--workspace", metavar="ID", help="In which workspace.")]
SPAN_PATTERN = re.compile(r"([1-9][0-9]{0,5})([hdw])")
MS_PER_UNIT = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


async def create(
    call: CommandCall,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option("--scope", help="read, write, admin, operator")] = None,
    lasts: Annotated[str | None, typer.Option("--lasts", metavar="SPAN", help="12h, 90d or 4w.")] = None,
    workspace: WorkspaceId = DEFAULT_WORKSPACE,
) -> CommandResult:
    """Make an API key for a user, or for a tenant as a whole.

    Without --user it is for the tenant that --tenant names. The key is shown
    now and never again: only its hash is kept.

    Example: clew keys create --tenant acme --user alice --lasts 90d
    """
    async with call.database() as db:
        await audit_action(db, "create key", owner=call.scope.user, scopes=list(scope or ("read", "write")))
        key, text = await api_keys.create_key(
            Directory(db),
            tenant=call.scope.tenant,
            user=call.scope.user,
            workspace=workspace,
            label=label,
            scopes=tuple(scope or ("read", "write")),
            lifetime_ms=_span_ms(lasts),
        )
    display = Group(Text(text, style="bold"), Text("Keep it now: it is not shown again.", style="dim"))
    return CommandResult(value={**entry_value(key), "text": text}, display=display)


async def list_(call: CommandCall) -> CommandResult:
    """List the API keys of a tenant, or of one of its users.

    Example: clew keys list --tenant acme
    """
    fields = {"tenant": call.scope.tenant}
    if call.scope.user is not None:
        fields["user"] = call.scope.user
    async with call.database() as db:
        keys = [each async for each in Directory(db).entries(ApiKey, **fields)]
    return table_result(keys, ("id", "user", "label", "scopes", "expires", "revoked", "used"))


async def revoke(call: CommandCall, id: Annotated[str, typer.Argument(metavar="ID")]) -> CommandResult:
    """End an API key at once. Ending it again changes nothing.

    Example: clew keys revoke 1f0c9a52d1b7e3a4
    """
    async with call.database() as db:
        key = await Directory(db).get(ApiKey, id)
        await audit_action(db, "revoke key", tenant=key.tenant, owner=key.user, key=id)
        entry = await api_keys.revoke_key(Directory(db), id)
    return entry_result(entry, f"Key {values.clean(id)} is revoked.")


def _span_ms(text: str | None) -> int | None:
    """The number of milliseconds that a key lasts."""
    if text is None:
        return None
    match = SPAN_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidArgument(problem=f"{text!r} is no span of time; say 12h, 90d or 4w.")
    return int(match[1]) * MS_PER_UNIT[match[2]]
