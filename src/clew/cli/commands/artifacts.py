"""Commands about what a thread made: list, get, add, delete."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.archive import open_output
from clew.cli.commands.threads import Limit
from clew.cli.commands.workbench import ThreadName, VolumeRoot, open_workbench
from clew.cli.render import values, workbench

Id = Annotated[str, typer.Argument(metavar="ID", help="The artifact's id, as list shows it.")]


async def list_(
    call: CommandCall, thread: ThreadName, limit: Limit = 50, volume: VolumeRoot = None
) -> CommandResult:
    """List what a thread made, the newest first.

    Example: clew artifacts list report-1
    """
    async with open_workbench(call, thread, volume) as bench:
        page = await bench.artifacts.list(limit=limit)
    return CommandResult(value=page, display=workbench.artifact_table(page))


async def get(
    call: CommandCall,
    thread: ThreadName,
    id: Id,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
    ] = None,
    volume: VolumeRoot = None,
) -> CommandResult:
    """Write an artifact to a file, if it is what was saved.

    Without --output it goes to a new file of its own name in this folder.

    Example: clew artifacts get report-1 5ce8e7f120e7619b711c -o chart.png
    """
    async with open_workbench(call, thread, volume) as bench:
        artifact, content = await bench.artifacts.read(id)
    where = output or workbench.new_file_name(artifact.name, exists=lambda name: Path(name).exists())
    with open_output(where) as file:
        file.write(content)
    words = Text(f"{where}: {artifact.type}, {values.quantity(artifact.size, 'byte')}")
    return CommandResult(value={"file": where, "artifact": artifact}, display=words, to_stderr=where == "-")


async def add(
    call: CommandCall,
    thread: ThreadName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of this machine.")],
    volume: VolumeRoot = None,
) -> CommandResult:
    """Keep a file as an artifact of a thread.

    Example: clew artifacts add report-1 chart.png
    """
    content = file.read_bytes()
    async with open_workbench(call, thread, volume) as bench:
        artifact = await bench.artifacts.save(file.name, content)
    words = f"Kept as {artifact.id}: {artifact.type}, {values.quantity(artifact.size, 'byte')}."
    return CommandResult(value=artifact, display=Text(words))


async def delete(
    call: CommandCall,
    thread: ThreadName,
    id: Id,
    volume: VolumeRoot = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> CommandResult:
    """Let go of an artifact and its file, after a question.

    Without a terminal nothing is deleted unless --yes is there.

    Example: clew artifacts delete report-1 5ce8e7f120e7619b711c
    """
    async with open_workbench(call, thread, volume) as bench:
        artifact = await bench.artifacts.get(id)
        is_confirmed = yes or _confirm_delete(call, artifact.name)
        if is_confirmed:
            await bench.artifacts.delete(id)
    words = f"{artifact.name} is deleted." if is_confirmed else "Nothing is deleted yet. Say --yes to do it."
    return CommandResult(
        value={"deleted": [id] if is_confirmed else []}, display=Text(values.clean(words)), ok=is_confirmed
    )


def _confirm_delete(call: CommandCall, name: str) -> bool:
    """Ask a person at the terminal; return whether they agree. Without a terminal: False."""
    if call.as_json or not (sys.stdin.isatty() and call.out.is_terminal):
        return False
    return typer.confirm(f"Delete {values.clean(name)}?", abort=True)
