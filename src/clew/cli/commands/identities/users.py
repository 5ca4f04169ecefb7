"""Commands about the users of a tenant."""

from typing import Annotated

import typer
from rich.text import Text

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.identities.output import entry_result, entry_value, switch_entry, table_result
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import DEFAULT_WORKSPACE, Membership, User

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Name = Annotated[str, typer.Option("--name", help="What people call it.")]


async def create(call: CommandCall, id: Id, name: Name = "") -> CommandResult:
    """Enter a user of the tenant that --tenant names.

    The user becomes a member of its first workspace.

    Example: clew users create alice --tenant acme
    """
    tenant = call.scope.tenant
    async with call.database() as db:
        directory, user = Directory(db), User(tenant=tenant, id=id, name=name)
        await audit_action(db, "create user", owner=id)
        entry = await directory.add(user)
        if not [each async for each in directory.entries(Membership, tenant=tenant, user=id)]:
            await directory.add(Membership(tenant=tenant, workspace=DEFAULT_WORKSPACE, user=id))
    return entry_result(entry, f"User {values.clean(id)} is entered.")


async def list_(call: CommandCall) -> CommandResult:
    """List the users of the tenant that --tenant names.

    Example: clew users list --tenant acme
    """
    async with call.database() as db:
        users = [each async for each in Directory(db).entries(User, tenant=call.scope.tenant)]
    return table_result(users, ("tenant", "id", "name", "enabled", "created"))


async def remove(
    call: CommandCall,
    id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it, instead of showing what would go.")] = False,
) -> CommandResult:
    """Take a user out, with their memberships, logins and keys.

    What the user has in threads and memory stays; erase that first.

    Example: clew users remove alice --tenant acme --yes
    """
    async with call.database() as db:
        directory = Directory(db)
        user = await directory.get(User, call.scope.tenant, id)
        if yes:
            await audit_action(db, "remove user", owner=id)
        entries = await directory.remove_user(user) if yes else await directory.entries_of_user(user)
    outcome = "is taken out" if yes else "would be taken out; say --yes to do it"
    value = {"removed": yes, "entries": [entry_value(entry) for entry in entries]}
    kinds = ", ".join(entry.kind for entry in entries)
    return CommandResult(value=value, display=Text(f"User {values.clean(id)} {outcome}: {kinds}."))


async def disable(call: CommandCall, id: Id) -> CommandResult:
    """Let a user in no more, by key or by token, until enabled.

    Nothing of theirs is deleted.

    Example: clew users disable alice --tenant acme
    """
    return await switch_entry(call, User, (call.scope.tenant, id), enabled=False)


async def enable(call: CommandCall, id: Id) -> CommandResult:
    """Let a disabled user in again.

    Example: clew users enable alice --tenant acme
    """
    return await switch_entry(call, User, (call.scope.tenant, id), enabled=True)
