"""Commands about the workspaces of a tenant."""

from typing import Annotated

import typer

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.commands.identities.output import many, one, switch
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Workspace

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Name = Annotated[str, typer.Option("--name", help="What people call it.")]


async def create(call: Call, id: Id, name: Name = "") -> Answer:
    """Enter a workspace of the tenant that --tenant names.

    Example: clew workspaces create research --tenant acme
    """
    async with call.database() as db:
        wanted = Workspace(tenant=call.scope.tenant, id=id, name=name)
        await noted(db, "create workspace", workspace=id)
        made = await Directory(db).add(wanted)
    return one(made, f"Workspace {values.clean(id)} is entered.")


async def list_(call: Call) -> Answer:
    """List the workspaces of the tenant that --tenant names.

    Example: clew workspaces list --tenant acme
    """
    async with call.database() as db:
        found = [each async for each in Directory(db).every(Workspace, tenant=call.scope.tenant)]
    return many(found, ("tenant", "id", "name", "enabled", "created"))


async def disable(call: Call, id: Id) -> Answer:
    """Let nobody into a workspace until it is enabled again.

    Example: clew workspaces disable research --tenant acme
    """
    return await switch(call, Workspace, (call.scope.tenant, id), enabled=False)


async def enable(call: Call, id: Id) -> Answer:
    """Open a disabled workspace again.

    Example: clew workspaces enable research --tenant acme
    """
    return await switch(call, Workspace, (call.scope.tenant, id), enabled=True)
