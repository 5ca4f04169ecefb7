"""Commands about the documents of a thread: add, load, list, read, find, switch, unload."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from clew.cli.command import Answer, Call
from clew.cli.commands.workbench import ThreadName, VolumeRoot, bench_of
from clew.cli.render import values, workbench
from clew.workbench.documents.text import LONGEST

OnVolume = Annotated[str, typer.Argument(metavar="PATH", help="Its path on the volume, as list shows it.")]
Which = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Which one; without it the active one.")
]


async def add(
    call: Call,
    thread: ThreadName,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of this machine.")],
    volume: VolumeRoot = None,
) -> Answer:
    """Copy files to the volume and load them as documents.

    PDF, HTML, Markdown and plain text are read. The last one is the active one then.

    Example: clew documents add report-1 report.pdf notes.md
    """
    contents = [(file.name, file.read_bytes()) for file in files]
    async with bench_of(call, thread, volume) as bench:
        loaded = [await bench.documents.add(name, content) for name, content in contents]
    return Answer(value={"documents": loaded}, shown=workbench.loaded(loaded))


async def load(call: Call, thread: ThreadName, path: OnVolume, volume: VolumeRoot = None) -> Answer:
    """Load a file that is on the volume.

    A document whose file has changed is read again only by this.

    Example: clew documents load report-1 memory/notes.md
    """
    async with bench_of(call, thread, volume) as bench:
        document = await bench.documents.load(path)
    return Answer(value={"documents": [document]}, shown=workbench.loaded([document]))


async def list_(call: Call, thread: ThreadName, volume: VolumeRoot = None) -> Answer:
    """List the documents of a thread, and how each file is now.

    It ends with 1 if a file is gone or is not what it was when it was loaded.

    Example: clew documents list report-1
    """
    async with bench_of(call, thread, volume) as bench:
        shelf = await bench.documents.list()
    ok = not {"changed", "missing"} & set(shelf.conditions.values())
    return Answer(value=shelf, shown=workbench.shelf(shelf), ok=ok)


async def read(
    call: Call,
    thread: ThreadName,
    path: Which = None,
    start: Annotated[int, typer.Option("--start", metavar="N", help="Pass over so many characters.")] = 0,
    length: Annotated[
        int, typer.Option("--length", metavar="N", min=1, max=LONGEST, help="Show so many characters.")
    ] = 4000,
    volume: VolumeRoot = None,
) -> Answer:
    """Read a part of a document.

    Example: clew documents read report-1 --start 4000
    """
    async with bench_of(call, thread, volume) as bench:
        passage = await bench.documents.peek(path, start, length)
    return Answer(value=passage, shown=workbench.passage(passage))


async def find(
    call: Call,
    thread: ThreadName,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for.")],
    path: Which = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
    ] = 10,
    volume: VolumeRoot = None,
) -> Answer:
    """Find where words stand in a document, in whatever form.

    Example: clew documents find report-1 revenue growth
    """
    async with bench_of(call, thread, volume) as bench:
        found = await bench.documents.find(" ".join(words), path, limit)
    return Answer(value=found, shown=workbench.places(found))


async def switch(call: Call, thread: ThreadName, path: OnVolume, volume: VolumeRoot = None) -> Answer:
    """Make a document the active one.

    Example: clew documents switch report-1 memory/notes.md
    """
    async with bench_of(call, thread, volume) as bench:
        done = await bench.documents.switch(path)
    words = f"{values.clean(path)} is the active document now, at version {done.version}."
    return Answer(value={"active": path, "version": done.version}, shown=Text(words))


async def unload(call: Call, thread: ThreadName, path: OnVolume, volume: VolumeRoot = None) -> Answer:
    """Take a document off a thread; its file stays.

    Earlier versions of the thread still name it, and find it on the volume.

    Example: clew documents unload report-1 memory/notes.md
    """
    async with bench_of(call, thread, volume) as bench:
        done = await bench.documents.unload(path)
    words = f"{values.clean(path)} is off the thread now, at version {done.version}. Its file stays."
    return Answer(value={"unloaded": path, "version": done.version}, shown=Text(words))
