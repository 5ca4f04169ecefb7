"""Commands about who is what in a workspace."""

from typing import Annotated

import typer

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.commands.identities.output import many, one
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import DEFAULT_WORKSPACE, ROLES, Membership, check_among

UserId = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]
WorkspaceId = Annotated[str, typer.Option("--workspace", metavar="ID", help="In which workspace.")]


async def set_(
    call: Call,
    who: UserId,
    role: Annotated[list[str] | None, typer.Option("--role", help="member, auditor or admin.")] = None,
    workspace: WorkspaceId = DEFAULT_WORKSPACE,
) -> Answer:
    """Say what a user is in a workspace.

    It takes the place of what was said before.

    Example: clew members set alice --role admin --tenant acme
    """
    roles = check_among(tuple(role or ("member",)), ROLES, "role")
    wanted = Membership(tenant=call.scope.tenant, workspace=workspace, user=who, roles=roles)
    async with call.database() as db:
        await noted(db, "set roles", owner=who, workspace=workspace, roles=list(roles))
        made = await Directory(db).put(wanted)
    return one(made, f"User {values.clean(who)} is {', '.join(roles)} in {values.clean(workspace)}.")


async def list_(call: Call) -> Answer:
    """List who is what in the workspaces of a tenant.

    Example: clew members list --tenant acme
    """
    async with call.database() as db:
        found = [each async for each in Directory(db).every(Membership, tenant=call.scope.tenant)]
    return many(found, ("tenant", "workspace", "user", "roles", "created"))


async def remove(
    call: Call,
    who: UserId,
    workspace: WorkspaceId = DEFAULT_WORKSPACE,
) -> Answer:
    """Take a user out of a workspace.

    Example: clew members remove alice --tenant acme --workspace research
    """
    async with call.database() as db:
        directory = Directory(db)
        gone = await directory.get(Membership, call.scope.tenant, workspace, who)
        await noted(db, "remove member", owner=who, workspace=workspace)
        await directory.drop(gone)
    return one(gone, f"User {values.clean(who)} is no member of {values.clean(workspace)} any more.")
