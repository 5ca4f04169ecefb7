"""Commands about the workspaces of a tenant."""

from typing import Annotated

import typer

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.identities.output import entry_result, switch_entry, table_result
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Workspace

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Name = Annotated[str, typer.Option("--name", help="What people call it.")]


async def create(call: CommandCall, id: Id, name: Name = "") -> CommandResult:
    """Enter a workspace of the tenant that --tenant names.

    Example: clew workspaces create research --tenant acme
    """
    async with call.database() as db:
        workspace = Workspace(tenant=call.scope.tenant, id=id, name=name)
        await audit_action(db, "create workspace", workspace=id)
        entry = await Directory(db).add(workspace)
    return entry_result(entry, f"Workspace {values.clean(id)} is entered.")


async def list_(call: CommandCall) -> CommandResult:
    """List the workspaces of the tenant that --tenant names.

    Example: clew workspaces list --tenant acme
    """
    async with call.database() as db:
        workspaces = [each async for each in Directory(db).entries(Workspace, tenant=call.scope.tenant)]
    return table_result(workspaces, ("tenant", "id", "name", "enabled", "created"))


async def disable(call: CommandCall, id: Id) -> CommandResult:
    """Let nobody into a workspace until it is enabled again.

    Example: clew workspaces disable research --tenant acme
    """
    return await switch_entry(call, Workspace, (call.scope.tenant, id), enabled=False)


async def enable(call: CommandCall, id: Id) -> CommandResult:
    """Open a disabled workspace again.

    Example: clew workspaces enable research --tenant acme
    """
    return await switch_entry(call, Workspace, (call.scope.tenant, id), enabled=True)
