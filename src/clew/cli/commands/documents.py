"""Commands about the documents of a thread: add, load, list, read, find, switch, unload."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.workbench import ThreadName, VolumeRoot, open_workbench
from clew.cli.render import values, workbench
from clew.workbench.documents.text import LONGEST_PASSAGE

VolumePath = Annotated[str, typer.Argument(metavar="PATH", help="Its path on the volume, as list shows it.")]
DocumentPath = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Which one; without it the active one.")
]


async def add(
    call: CommandCall,
    thread: ThreadName,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of this machine.")],
    volume: VolumeRoot = None,
) -> CommandResult:
    """Copy files to the volume and load them as documents.

    PDF, HTML, Markdown and plain text are read. The last one is the active one then.

    Example: clew documents add report-1 report.pdf notes.md
    """
    contents = [(file.name, file.read_bytes()) for file in files]
    async with open_workbench(call, thread, volume) as bench:
        documents = [await bench.documents.add(name, content) for name, content in contents]
    return CommandResult(value={"documents": documents}, display=workbench.document_lines(documents))


async def load(
    call: CommandCall, thread: ThreadName, path: VolumePath, volume: VolumeRoot = None
) -> CommandResult:
    """Load a file that is on the volume.

    A document whose file has changed is read again only by this.

    Example: clew documents load report-1 memory/notes.md
    """
    async with open_workbench(call, thread, volume) as bench:
        document = await bench.documents.load(path)
    return CommandResult(value={"documents": [document]}, display=workbench.document_lines([document]))


async def list_(call: CommandCall, thread: ThreadName, volume: VolumeRoot = None) -> CommandResult:
    """List the documents of a thread, and how each file is now.

    It ends with 1 if a file is gone or is not what it was when it was loaded.

    Example: clew documents list report-1
    """
    async with open_workbench(call, thread, volume) as bench:
        listing = await bench.documents.list()
    ok = not {"changed", "missing"} & set(listing.conditions.values())
    return CommandResult(value=listing, display=workbench.document_table(listing), ok=ok)


async def read(
    call: CommandCall,
    thread: ThreadName,
    path: DocumentPath = None,
    start: Annotated[int, typer.Option("--start", metavar="N", help="Pass over so many characters.")] = 0,
    length: Annotated[
        int,
        typer.Option("--length", metavar="N", min=1, max=LONGEST_PASSAGE, help="Show so many characters."),
    ] = 4000,
    volume: VolumeRoot = None,
) -> CommandResult:
    """Read a part of a document.

    Example: clew documents read report-1 --start 4000
    """
    async with open_workbench(call, thread, volume) as bench:
        passage = await bench.documents.peek(path, start, length)
    return CommandResult(value=passage, display=workbench.passage_text(passage))


async def find(
    call: CommandCall,
    thread: ThreadName,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for.")],
    path: DocumentPath = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
    ] = 10,
    volume: VolumeRoot = None,
) -> CommandResult:
    """Find the places of words in a document, in whatever form.

    Example: clew documents find report-1 revenue growth
    """
    async with open_workbench(call, thread, volume) as bench:
        matches = await bench.documents.find(" ".join(words), path, limit)
    return CommandResult(value=matches, display=workbench.match_lines(matches))


async def switch(
    call: CommandCall, thread: ThreadName, path: VolumePath, volume: VolumeRoot = None
) -> CommandResult:
    """Make a document the active one.

    Example: clew documents switch report-1 memory/notes.md
    """
    async with open_workbench(call, thread, volume) as bench:
        commit = await bench.documents.switch(path)
    words = f"{values.clean(path)} is the active document now, at version {commit.version}."
    return CommandResult(value={"active": path, "version": commit.version}, display=Text(words))


async def unload(
    call: CommandCall, thread: ThreadName, path: VolumePath, volume: VolumeRoot = None
) -> CommandResult:
    """Take a document off a thread; its file stays.

    Earlier versions of the thread still name it, and find it on the volume.

    Example: clew documents unload report-1 memory/notes.md
    """
    async with open_workbench(call, thread, volume) as bench:
        commit = await bench.documents.unload(path)
    words = f"{values.clean(path)} is off the thread now, at version {commit.version}. Its file stays."
    return CommandResult(value={"unloaded": path, "version": commit.version}, display=Text(words))
