"""Commands about core memory: show the blocks of a thread, write one, add to it, replace a part."""

from typing import Annotated

import typer

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.workbench import ThreadName
from clew.cli.render import workbench
from clew.workbench.core_memory import CoreMemory

Block = Annotated[str, typer.Argument(metavar="BLOCK", help="human, persona, scratchpad, or another.")]
BlockText = Annotated[str, typer.Argument(metavar="TEXT", help="What it is to say.")]


async def show(
    call: CommandCall,
    thread: ThreadName,
    at: Annotated[int | None, typer.Option("--at", metavar="V", min=0, help="At this version.")] = None,
) -> CommandResult:
    """Show what the blocks of core memory say.

    Example: clew core-memory show report-1
    """
    async with call.database() as db:
        memory = CoreMemory(db.thread(thread))
        snapshot = await memory.blocks(at=at)
    return CommandResult(value=snapshot, display=workbench.block_lines(snapshot, memory.limits))


async def put(call: CommandCall, thread: ThreadName, block: Block, text: BlockText) -> CommandResult:
    """Write a block anew.

    Example: clew core-memory put report-1 persona 'You are brief.'
    """
    async with call.database() as db:
        memory = CoreMemory(db.thread(thread), author=call.scope.user)
        await memory.put(block, text)
        snapshot = await memory.blocks()
    return CommandResult(value=snapshot, display=workbench.block_lines(snapshot, memory.limits, only=block))


async def append(call: CommandCall, thread: ThreadName, block: Block, text: BlockText) -> CommandResult:
    """Write a text below what is in a block.

    Example: clew core-memory append report-1 human 'She reads on the train.'
    """
    async with call.database() as db:
        memory = CoreMemory(db.thread(thread), author=call.scope.user)
        await memory.append(block, text)
        snapshot = await memory.blocks()
    return CommandResult(value=snapshot, display=workbench.block_lines(snapshot, memory.limits, only=block))


async def replace(
    call: CommandCall,
    thread: ThreadName,
    block: Block,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The text to replace, which must occur exactly once.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The text in its place; '' takes it out.")],
) -> CommandResult:
    """Put a part of a block differently.

    Example: clew core-memory replace report-1 human train bus
    """
    async with call.database() as db:
        memory = CoreMemory(db.thread(thread), author=call.scope.user)
        await memory.replace(block, old, new)
        snapshot = await memory.blocks()
    return CommandResult(value=snapshot, display=workbench.block_lines(snapshot, memory.limits, only=block))
