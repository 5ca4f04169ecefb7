"""Commands about the users of a tenant."""

from typing import Annotated

import typer
from rich.text import Text

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.commands.identities.output import many, one, plain, switch
from clew.cli.render import values
from clew.server.identity.directory import Directory
from clew.server.identity.entries import DEFAULT_WORKSPACE, Membership, User

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Name = Annotated[str, typer.Option("--name", help="What people call it.")]


async def create(call: Call, id: Id, name: Name = "") -> Answer:
    """Enter a user of the tenant that --tenant names.

    The user becomes a member of its first workspace.

    Example: clew users create alice --tenant acme
    """
    tenant = call.scope.tenant
    async with call.database() as db:
        directory, wanted = Directory(db), User(tenant=tenant, id=id, name=name)
        await noted(db, "create user", owner=id)
        made = await directory.add(wanted)
        if not [each async for each in directory.every(Membership, tenant=tenant, user=id)]:
            await directory.add(Membership(tenant=tenant, workspace=DEFAULT_WORKSPACE, user=id))
    return one(made, f"User {values.clean(id)} is entered.")


async def list_(call: Call) -> Answer:
    """List the users of the tenant that --tenant names.

    Example: clew users list --tenant acme
    """
    async with call.database() as db:
        found = [each async for each in Directory(db).every(User, tenant=call.scope.tenant)]
    return many(found, ("tenant", "id", "name", "enabled", "created"))


async def remove(
    call: Call,
    id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it, instead of showing what would go.")] = False,
) -> Answer:
    """Take a user out, with their memberships, logins and keys.

    What the user has in threads and memory stays; erase that first.

    Example: clew users remove alice --tenant acme --yes
    """
    async with call.database() as db:
        directory = Directory(db)
        user = await directory.get(User, call.scope.tenant, id)
        if yes:
            await noted(db, "remove user", owner=id)
        gone = await directory.remove(user) if yes else await directory.about(user)
    done = "is taken out" if yes else "would be taken out; say --yes to do it"
    value = {"removed": yes, "entries": [plain(entry) for entry in gone]}
    kinds = ", ".join(entry.kind for entry in gone)
    return Answer(value=value, shown=Text(f"User {values.clean(id)} {done}: {kinds}."))


async def disable(call: Call, id: Id) -> Answer:
    """Let a user in no more, by key or by token, until enabled.

    Nothing of theirs is deleted.

    Example: clew users disable alice --tenant acme
    """
    return await switch(call, User, (call.scope.tenant, id), enabled=False)


async def enable(call: Call, id: Id) -> Answer:
    """Let a disabled user in again.

    Example: clew users enable alice --tenant acme
    """
    return await switch(call, User, (call.scope.tenant, id), enabled=True)
