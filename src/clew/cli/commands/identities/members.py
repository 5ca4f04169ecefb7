"""Commands about who is what in a workspace."""

from typing import Annotated

import typer

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.identities.output import entry_result, table_result
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import DEFAULT_WORKSPACE, Membership, check_among
from clew.server.identity.roles import MEMBER, ROLES

UserId = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]
WorkspaceId = Annotated[str, typer.Option("--workspace", metavar="ID", help="In which workspace.")]


async def set_(
    call: CommandCall,
    who: UserId,
    role: Annotated[list[str] | None, typer.Option("--role", help="member, auditor or admin.")] = None,
    workspace: WorkspaceId = DEFAULT_WORKSPACE,
) -> CommandResult:
    """Say what a user is in a workspace.

    It takes the place of what was said before.

    Example: clew members set alice --role admin --tenant acme
    """
    roles = check_among(tuple(role or (MEMBER,)), ROLES, "role")
    membership = Membership(tenant=call.scope.tenant, workspace=workspace, user=who, roles=roles)
    async with call.database() as db:
        await audit_action(db, "set roles", owner=who, workspace=workspace, roles=list(roles))
        entry = await Directory(db).put(membership)
    return entry_result(
        entry, f"User {values.clean(who)} is {', '.join(roles)} in {values.clean(workspace)}."
    )


async def list_(call: CommandCall) -> CommandResult:
    """List who is what in the workspaces of a tenant.

    Example: clew members list --tenant acme
    """
    async with call.database() as db:
        memberships = [each async for each in Directory(db).entries(Membership, tenant=call.scope.tenant)]
    return table_result(memberships, ("tenant", "workspace", "user", "roles", "created"))


async def remove(
    call: CommandCall,
    who: UserId,
    workspace: WorkspaceId = DEFAULT_WORKSPACE,
) -> CommandResult:
    """Take a user out of a workspace.

    Example: clew members remove alice --tenant acme --workspace research
    """
    async with call.database() as db:
        directory = Directory(db)
        membership = await directory.get(Membership, call.scope.tenant, workspace, who)
        await audit_action(db, "remove member", owner=who, workspace=workspace)
        await directory.drop(membership)
    return entry_result(
        membership, f"User {values.clean(who)} is no member of {values.clean(workspace)} any more."
    )
