"""Views of core memory, documents and artifacts. Pure."""

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import PurePosixPath

from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.render import values
from clew.workbench.artifacts import ArtifactListing
from clew.workbench.core_memory import BlockLimits, CoreMemorySnapshot
from clew.workbench.documents.documents import Document, DocumentListing, DocumentMatches
from clew.workbench.documents.text import Passage

FILE_CONDITIONS = {
    "ok": Text("ok", "green"),
    "changed": Text("changed since it was loaded", "yellow"),
    "missing": Text("its file is gone", "red"),
    "unknown": Text("not checked", "dim"),
}
"""How the file of a document is now."""


def byte_size(number: int) -> str:
    """A number of bytes in a few letters."""
    value, unit = float(number), "bytes"
    for unit in ("bytes", "kB", "MB", "GB"):  # noqa: B007 - the unit that the loop ends with
        if value < 1000:
            break
        value /= 1000
    return f"{value:,.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"


def document_lines(documents: Iterable[Document]) -> RenderableType:
    """Documents that were loaded just now, with what was guessed or left out."""
    lines: list[Text] = []
    for each in documents:
        words = f"{each.path}: {each.type}, {values.quantity(each.characters, 'character')}"
        parts = f", {values.quantity(each.sections, 'section')}" if each.sections else ""
        lines.append(Text(values.clean(words + parts)))
        lines += [Text(f"  {values.clean(note)}", "dim") for note in each.notes]
    return Group(*lines)


def document_table(listing: DocumentListing) -> RenderableType:
    """The documents of a thread."""
    if not listing.documents:
        return Text("No document is loaded. Load one with: clew documents add THREAD FILE")
    table = values.empty_table(
        "", "path", "type", "size", "characters", "file", right=("size", "characters"), fold=("path",)
    )
    for each in listing.documents:
        table.add_row(
            "▸" if each.path == listing.active else "",
            values.clean(each.path),
            values.clean(each.type),
            byte_size(each.size),
            f"{each.characters:,}",
            FILE_CONDITIONS[listing.conditions[each.path]],
        )
    return table


def passage_text(passage: Passage) -> RenderableType:
    """A part of a text, and where to go on."""
    end = passage.next if passage.next is not None else passage.characters
    where = f"{passage.start:,}–{end:,} of {values.quantity(passage.characters, 'character')}"
    section = f"{values.clean(passage.section)} · " if passage.section else ""
    continuation = f". Go on with --start {passage.next}" if passage.next is not None else ""
    return Group(Text(values.clean(passage.text)), Text(f"{section}{where}{continuation}", "dim"))


def match_lines(matches: DocumentMatches) -> RenderableType:
    """The matches of words."""
    if not matches.places:
        return Text("These words are not in it.")
    lines: list[Text] = []
    for each in matches.places:
        section = f" · {values.clean(each.section)}" if each.section else ""
        lines.append(Text(f"--start {each.start}{section}", "dim"))
        text = Text(values.clean(each.excerpt))
        for first, last in each.marks:
            text.stylize("bold", first, last)
        lines.append(text)
    return Group(*lines)


def artifact_table(page: ArtifactListing) -> RenderableType:
    """The artifacts of a thread."""
    if not page.artifacts:
        return Text("This thread has made nothing yet.")
    table = values.empty_table("id", "name", "type", "size", "made", "run", right=("size",), fold=("name",))
    for each in page.artifacts:
        run = values.clean(each.run or "")
        table.add_row(
            each.id,
            values.clean(each.name),
            values.clean(each.type),
            byte_size(each.size),
            values.utc_time(each.time),
            run,
        )
    return table


def block_lines(
    snapshot: CoreMemorySnapshot, limits: BlockLimits, *, only: str | None = None
) -> RenderableType:
    """Core memory, block by block."""
    lines: list[Text] = []
    for name, text in snapshot.blocks.items():
        if only in (None, name):
            lines.append(
                Text.assemble(
                    (values.clean(name), "bold"),
                    (f"  {len(text):,} of {limits.of(name):,} characters", "dim"),
                )
            )
            lines += [Text(f"  {values.clean(line)}") for line in text.splitlines()]
    return Group(*lines)


def new_file_name(name: str, *, exists: Callable[[str], bool]) -> str:
    """A name for a file that is not there yet: chart.png, or chart-2.png."""
    path = PurePosixPath(name)
    names = (name if number == 1 else f"{path.stem}-{number}{path.suffix}" for number in count(1))
    return next(each for each in names if not exists(each))
