"""Commands about tenants."""

from typing import Annotated

import typer

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.commands.identities.output import many, one, switch
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Name = Annotated[str, typer.Option("--name", help="What people call it.")]


async def create(
    call: Call,
    id: Id,
    name: Name = "",
    external: Annotated[
        str | None, typer.Option("--external", metavar="ID", help="Its name at the issuer of tokens.")
    ] = None,
) -> Answer:
    """Enter a tenant, with its first workspace.

    Entering it again in the same words changes nothing.

    Example: clew tenants create acme --name "Acme Ltd."
    """
    async with call.database(create=True) as db:
        wanted = Tenant(id=id, name=name, external=external)
        await noted(db, "create tenant", tenant=id)
        made = await Directory(db).add(wanted)
    return one(made, f"Tenant {values.clean(id)} is entered.")


async def list_(call: Call) -> Answer:
    """List every tenant, the oldest first.

    Example: clew tenants list --json
    """
    async with call.database() as db:
        found = [tenant async for tenant in Directory(db).every(Tenant)]
    return many(found, ("id", "name", "external", "enabled", "created"))


async def disable(call: Call, id: Id) -> Answer:
    """Let nobody of a tenant in until it is enabled again.

    Nothing of it is deleted.

    Example: clew tenants disable acme
    """
    return await switch(call, Tenant, (id,), enabled=False)


async def enable(call: Call, id: Id) -> Answer:
    """Let a disabled tenant in again.

    Example: clew tenants enable acme
    """
    return await switch(call, Tenant, (id,), enabled=True)
