"""Commands about API keys."""

import re
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.commands.identities.output import many, one, plain
from clew.cli.render import values
from clew.core.errors import InvalidArgument
from clew.server.identity import api_keys
from clew.server.identity.directory import Directory
from clew.server.identity.entries import DEFAULT_WORKSPACE, Key

WorkspaceId = Annotated[str, typer.Option("--workspace", metavar="ID", help="In which workspace.")]
SPAN = re.compile(r"([1-9][0-9]{0,5})([hdw])")
SPANS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


async def create(
    call: Call,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option("--scope", help="read, write, admin, operator")] = None,
    lasts: Annotated[str | None, typer.Option("--lasts", metavar="SPAN", help="12h, 90d or 4w.")] = None,
    workspace: WorkspaceId = DEFAULT_WORKSPACE,
) -> Answer:
    """Make an API key for a user, or for a tenant as a whole.

    Without --user it is for the tenant that --tenant names. The key is shown
    now and never again: only its hash is kept.

    Example: clew keys create --tenant acme --user alice --lasts 90d
    """
    async with call.database() as db:
        await noted(db, "create key", owner=call.scope.user, scopes=list(scope or ("read", "write")))
        made, text = await api_keys.new_key(
            Directory(db),
            tenant=call.scope.tenant,
            user=call.scope.user,
            workspace=workspace,
            label=label,
            scopes=tuple(scope or ("read", "write")),
            lasts_ms=_span(lasts),
        )
    shown = Group(Text(text, style="bold"), Text("Keep it now: it is not shown again.", style="dim"))
    return Answer(value={**plain(made), "text": text}, shown=shown)


async def list_(call: Call) -> Answer:
    """List the API keys of a tenant, or of one of its users.

    Example: clew keys list --tenant acme
    """
    found_by = {"tenant": call.scope.tenant}
    if call.scope.user is not None:
        found_by["user"] = call.scope.user
    async with call.database() as db:
        found = [each async for each in Directory(db).every(Key, **found_by)]
    return many(found, ("id", "user", "label", "scopes", "expires", "revoked", "used"))


async def revoke(call: Call, id: Annotated[str, typer.Argument(metavar="ID")]) -> Answer:
    """End an API key at once. Ending it again changes nothing.

    Example: clew keys revoke 1f0c9a52d1b7e3a4
    """
    async with call.database() as db:
        found = await Directory(db).get(Key, id)
        await noted(db, "revoke key", tenant=found.tenant, owner=found.user, key=id)
        gone = await api_keys.revoke(Directory(db), id)
    return one(gone, f"Key {values.clean(id)} is revoked.")


def _span(text: str | None) -> int | None:
    """How many milliseconds a key lasts."""
    if text is None:
        return None
    found = SPAN.fullmatch(text)
    if found is None:
        raise InvalidArgument(problem=f"{text!r} is no span of time; say 12h, 90d or 4w.")
    return int(found[1]) * SPANS[found[2]]
