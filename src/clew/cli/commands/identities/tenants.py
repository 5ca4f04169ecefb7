"""Commands about tenants."""

from typing import Annotated

import typer

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.identities.output import entry_result, switch_entry, table_result
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Name = Annotated[str, typer.Option("--name", help="What people call it.")]


async def create(
    call: CommandCall,
    id: Id,
    name: Name = "",
    external: Annotated[
        str | None, typer.Option("--external", metavar="ID", help="Its name at the issuer of tokens.")
    ] = None,
) -> CommandResult:
    """Enter a tenant, with its first workspace.

    Entering it again in the same words changes nothing.

    Example: clew tenants create acme --name "Acme Ltd."
    """
    async with call.database(create=True) as db:
        tenant = Tenant(id=id, name=name, external=external)
        await audit_action(db, "create tenant", tenant=id)
        entry = await Directory(db).add(tenant)
    return entry_result(entry, f"Tenant {values.clean(id)} is entered.")


async def list_(call: CommandCall) -> CommandResult:
    """List every tenant, the oldest first.

    Example: clew tenants list --json
    """
    async with call.database() as db:
        tenants = [tenant async for tenant in Directory(db).entries(Tenant)]
    return table_result(tenants, ("id", "name", "external", "enabled", "created"))


async def disable(call: CommandCall, id: Id) -> CommandResult:
    """Let nobody of a tenant in until it is enabled again.

    Nothing of it is deleted.

    Example: clew tenants disable acme
    """
    return await switch_entry(call, Tenant, (id,), enabled=False)


async def enable(call: CommandCall, id: Id) -> CommandResult:
    """Let a disabled tenant in again.

    Example: clew tenants enable acme
    """
    return await switch_entry(call, Tenant, (id,), enabled=True)
