"""The command that searches: over what was said and what is known, with the searched words marked."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.agents.options import open_named_embedder
from clew.cli.agent_options import EmbedderOption
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.core.errors import StoreReadOnly
from clew.runtime.search import KINDS, Hit, Search, SearchPage, search_everything

TIME_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


def _check_kinds(kinds: list[str] | None) -> list[str] | None:
    """Kinds that can be searched for."""
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise typer.BadParameter(f"There is no kind {unknown[0]!r}. Use {', '.join(KINDS)}.")
    return kinds


async def search(
    call: CommandCall,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")],
    *,
    owner: Annotated[str | None, typer.Option("--owner", help="Only what belongs to this owner.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Only in this thread.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", callback=_check_kinds, help="Only items, facts, arcs or rules; may be repeated."
        ),
    ] = None,
    role: Annotated[str | None, typer.Option("--role", help="Only what this role has said.")] = None,
    since: Annotated[
        datetime | None, typer.Option("--since", formats=TIME_FORMATS, help="Not before this time, in UTC.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", formats=TIME_FORMATS, help="Not after this time, in UTC.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
    ] = 20,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where a page ended.")] = None,
    embedder: EmbedderOption = None,
) -> CommandResult:
    """Find what was said and what is known, the best first.

    Example: clew search train to lisbon --owner alice --kind facts
    """
    kinds = tuple(each for each in KINDS if not kind or each in kind)
    begin, end = _milliseconds(since), _milliseconds(until)
    request = Search(
        query=" ".join(query), owner=owner, thread=thread, kinds=kinds, role=role, since=begin, until=end
    )
    async with call.database() as db, open_named_embedder(embedder, os.environ) as search_embedder:
        # Where nothing can be written, what is indexed and the tail must do.
        with suppress(StoreReadOnly), call.progress("Indexing", None):
            await db.index()
        page = await search_everything(db, request, limit=limit, cursor=cursor, embedder=search_embedder)
    value = {"found": page.hits, "next": page.next, "path": page.path, "problem": page.problem}
    return CommandResult(value=value, display=hit_page(page, request))


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)


def hit_page(page: SearchPage, request: Search) -> RenderableType:
    """The hits with their words marked, and what to do if there are none, or more."""
    parts: list[RenderableType] = []
    if page.problem is not None:
        parts.append(Text(f"By words alone: {values.clean(page.problem)}", style="yellow"))
    if not page.hits:
        parts.append(Text(no_hits_sentence(request)))
    for hit in page.hits:
        parts += [hit_heading(hit), hit_text(hit), Text()]
    if page.next is not None:
        parts.append(Text(f"There is more: --cursor {page.next}", style="dim", overflow="fold"))
    return Group(*parts)


def hit_heading(hit: Hit) -> Text:
    """The heading of a hit: its thread and its time."""
    role = f" · {values.clean(hit.role)}" if hit.role else ""
    line = Text(values.clean(hit.thread), style="bold")
    return line.append(
        f" · {hit.kind.removesuffix('s')}{role} · version {hit.version} · {values.utc_time(hit.time)}",
        style="dim",
    )


def hit_text(hit: Hit) -> Text:
    """The text of a hit with the searched words marked."""
    line = Text(values.clean(hit.text))
    for start, end in hit.marks:
        line.stylize("bold yellow", start, end)
    return line


def no_hits_sentence(request: Search) -> str:
    """The sentence for a search without hits, with advice."""
    filters = {
        "--owner": request.owner,
        "--thread": request.thread,
        "--kind": request.kinds != KINDS or None,
        "--role": request.role,
        "--since": request.since,
        "--until": request.until,
    }
    options = [name for name, value in filters.items() if value is not None]
    advice = f", or leave out {' and '.join(options)}" if options else ""
    return f"Nothing found for {request.query!r}. Try fewer or other words{advice}."
