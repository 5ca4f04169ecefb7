"""Commands about data sets: make them from threads, carry them, look at them, delete them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.archive import open_output
from clew.cli.commands.threads import Limit
from clew.cli.render import experiments
from clew.cli.render.values import clean, quantity
from clew.core.clock import now_ms
from clew.workbench.experiments import datasets
from clew.workbench.experiments.datasets import ExampleSelection
from clew.workbench.experiments.examples import examples_from, line_of

Name = Annotated[str, typer.Argument(metavar="NAME", help="The data set's name.")]
Threads = Annotated[
    list[str] | None, typer.Option("--thread", metavar="THREAD", help="Of this thread; repeatable.")
]
Label = Annotated[str | None, typer.Option("--label", help="Of threads with this label.")]
Search = Annotated[str | None, typer.Option("--search", metavar="WORDS", help="Of threads with these words.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Of threads of this owner.")]
FromVersion = Annotated[
    int,
    typer.Option("--from-version", metavar="V", min=0, help="Only turns answered at this version or later."),
]
Window = Annotated[
    int,
    typer.Option("--window", metavar="N", min=1, max=1000, help="At most so many messages in an example."),
]
ExampleLimit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many examples.")
]


async def make(
    call: CommandCall,
    name: Name,
    thread: Threads = None,
    *,
    label: Label = None,
    search: Search = None,
    owner: Owner = None,
    from_version: FromVersion = 0,
    window: Window = 20,
    limit: ExampleLimit = None,
) -> CommandResult:
    """Make a data set from threads, or add to one.

    Every answered turn becomes an example: what was said up to it, and the answer. It becomes one once,
    however often you run this. An example belongs to the owner of its thread.

    Example: clew datasets make greetings --label good
    """
    choice = ExampleSelection(
        threads=tuple(thread or ()),
        label=label,
        search=search,
        owner=owner,
        from_version=from_version,
        window=window,
        limit=limit,
    )
    async with call.database() as db:
        result = await datasets.make_dataset(db, name, choice, now=now_ms())
    return CommandResult(value=result, display=experiments.addition_text(result))


async def list_(call: CommandCall, limit: Limit = 50) -> CommandResult:
    """List data sets, the newest first.

    Example: clew datasets list
    """
    async with call.database() as db:
        listing = await datasets.read_datasets(db, limit=limit)
    return CommandResult(value={"datasets": listing}, display=experiments.dataset_table(listing))


async def show(call: CommandCall, name: Name, limit: Limit = 20) -> CommandResult:
    """Show the first examples of a data set.

    Example: clew datasets show greetings --limit 5
    """
    async with call.database() as db:
        dataset = await datasets.read_dataset(db, name)
        examples = await datasets.read_examples(db, name, limit=limit)
    value = {"dataset": dataset, "examples": msgspec.to_builtins(examples)}
    return CommandResult(value=value, display=experiments.example_table(dataset, examples))


async def export(
    call: CommandCall,
    name: Name,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
    ] = "-",
) -> CommandResult:
    """Write a data set to a file, an example a line.

    What is in the file is not erased with whom it is about; that is yours to do.

    Example: clew datasets export greetings -o greetings.jsonl
    """
    count = 0
    async with call.database() as db:
        await datasets.read_dataset(db, name)
        with open_output(output) as file:
            async for example in datasets.every_example(db, name):
                file.write(line_of(example))
                count += 1
    display = Text(f"{quantity(count, 'example')} exported.")
    return CommandResult(value={"file": output, "examples": count}, display=display, to_stderr=output == "-")


async def import_(
    call: CommandCall,
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines of JSON; - is standard input.")],
) -> CommandResult:
    """Put examples from a file into a data set, old or new.

    A line has messages, or an input; and what is expected.

    Example: clew datasets import greetings greetings.jsonl
    """
    examples = list(examples_from(_file_lines(file)))
    async with call.database(create=True) as db:
        result = await datasets.add_examples(db, name, examples, now=now_ms())
    return CommandResult(value=result, display=experiments.addition_text(result))


async def delete(call: CommandCall, name: Name) -> CommandResult:
    """Delete a data set with its examples.

    Results of experiments on it stay.

    Example: clew datasets delete greetings
    """
    async with call.database() as db:
        count = await datasets.drop_dataset(db, name)
    display = Text(f"{clean(name)} is deleted, with {quantity(count, 'example')}.")
    return CommandResult(value={"dataset": name, "examples": count}, display=display)


def _file_lines(name: str) -> Iterator[bytes]:
    if name == "-":
        yield from sys.stdin.buffer
        return
    with Path(name).open("rb") as file:
        yield from file
