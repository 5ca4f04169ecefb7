"""Commands about what is remembered of a person: list, show, correct, forget, undo, export, audit."""

import enum
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit
from clew.cli.render import memory as render_memory
from clew.cli.render import values
from clew.core.errors import InvalidArgument, NotFound
from clew.core.messages.projection import plain_messages
from clew.runtime.memory.audit import add_counts, audit_memory
from clew.runtime.memory.memory import Memory, all_memories
from clew.runtime.memory.values import Fact, ForgetTarget, MemoryListing, MemorySource

Owner = Annotated[str | None, typer.Option("--owner", metavar="USER", help="Whose memory.")]
MemoryThreadOption = Annotated[
    str | None, typer.Option("--thread", metavar="THREAD", help="The memory of a thread without a user.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id, as list shows it.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="What was so then: 2026-05, or 2026-05-15.")
]


class MemoryKind(enum.StrEnum):
    """The kinds of memory."""

    FACTS = "facts"
    ARCS = "arcs"
    RULES = "rules"


class EntrySelection(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that a list shows: of one kind or of each, at a time, with those that held once."""

    kind: MemoryKind | None
    limit: int
    before: int | None
    at: str | None
    past: bool


class Toggle(enum.StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


async def list_(
    call: CommandCall,
    owner: Owner = None,
    thread: MemoryThreadOption = None,
    kind: Annotated[MemoryKind | None, typer.Option("--kind", help="Only these.")] = None,
    limit: Limit = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="PLACE", help="Go on where a page ended.")
    ] = None,
    at: At = None,
    *,
    all: Annotated[bool, typer.Option("--all", help="Also facts that held once.")] = False,
) -> CommandResult:
    """List the memory of a person, the newest entries first.

    Rules say how to answer, facts what is known, arcs what an earlier session was about. Each is shown with
    the words it comes from and their place. With --all, facts that held once follow, with what took their
    place. With --at, the list has the facts that held in a year, in a month, on a day or at a moment, and the
    sessions of that time.

    Example: clew memory list --owner alice --at 2026-05
    """
    selection = EntrySelection(kind=kind, limit=limit, before=before, at=at, past=all)
    async with _open_memory(call, owner, thread) as memory:
        overview = await _read_overview(memory, selection)
    return CommandResult(value=overview, display=render_memory.overview_detail(overview))


async def show(
    call: CommandCall, id: Id, owner: Owner = None, thread: MemoryThreadOption = None
) -> CommandResult:
    """Show one thing that is remembered, and where it comes from.

    The message that it was learned from is shown in full, and what a fact said before, with what it replaced
    and what replaced it.

    Example: clew memory show fact-3f0c1f2ac3c0a7e2b1d4 --owner alice
    """
    async with _open_memory(call, owner, thread) as memory:
        entry = await memory.get(id)
        history = await memory.history(id) if isinstance(entry, Fact) else []
        lineages = await memory.lineage([entry]) if isinstance(entry, Fact) else {}
        message = await _source_message(memory, entry.source)
    lineage = lineages.get(id)
    value = {
        "kind": type(entry).__name__.lower(),
        "known": entry,
        "said": message,
        "history": history,
        "lineage": lineage,
    }
    return CommandResult(value=value, display=render_memory.entry_detail(entry, message, history, lineage))


async def correct(
    call: CommandCall,
    id: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is right.")],
    owner: Owner = None,
    thread: MemoryThreadOption = None,
    *,
    negated: Annotated[bool, typer.Option("--not", help="It is not so: the fact is denied.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="It was right until then: 2026-05-15.")
    ] = None,
) -> CommandResult:
    """Put right what a fact says, or how a rule is worded.

    What it said before stays readable with list --all and show, and undo brings it back. It counts as never
    having been so, unless --since says from when on the new text holds.

    Example: clew memory correct fact-3f0c1f2ac3c0a7e2b1d4 Anne --owner alice
    """
    async with _open_memory(call, owner, thread) as memory:
        before = await memory.get(id)
        after = await memory.correct(id, object=text, negated=negated, since=since)
    display = render_memory.correction_lines(before, after)
    return CommandResult(value={"before": before, "after": after}, display=display)


async def forget(
    call: CommandCall,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="The ids, as list shows them.")],
    owner: Owner = None,
    thread: MemoryThreadOption = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> CommandResult:
    """Show what would be forgotten, ask, and forget it.

    Without a terminal nothing is forgotten unless --yes is there. What changes between the question and the
    answer stays. Forgetting can be undone; to take the words away for good, erase them.

    Example: clew memory forget fact-3f0c1f2ac3c0a7e2b1d4 --owner alice
    """
    async with _open_memory(call, owner, thread) as memory:
        targets = await memory.targets(ids)
        if not (yes or _confirm_forget(call, targets)):
            display = Group(
                render_memory.forget_targets(targets), Text("\nNothing is forgotten yet. Say --yes to do it.")
            )
            return CommandResult(value={"would_forget": targets, "forgotten": []}, display=display, ok=False)
        result = await memory.forget(targets)
    value = {"forgotten": result.ids, "changed": result.changed, "version": result.version}
    return CommandResult(
        value=value, display=render_memory.forget_result(result, targets), ok=not result.changed
    )


async def undo(
    call: CommandCall,
    version: Annotated[
        int | None, typer.Argument(metavar="VERSION", help="The change that made this version.", min=1)
    ] = None,
    owner: Owner = None,
    thread: MemoryThreadOption = None,
) -> CommandResult:
    """Take back the last change of a memory, or a named one.

    It names what is not known any more, and what is known again. An undo can be undone by its own version.
    What was changed again since is left alone.

    Example: clew memory undo --owner alice
    """
    async with _open_memory(call, owner, thread) as memory:
        preview = await memory.preview_undo(version)
        await memory.undo(preview.version)
    value = {
        "undone": preview.version,
        "version": memory.last_version,
        "what": preview.reason,
        "removed": preview.removes,
        "restored": preview.restores,
    }
    return CommandResult(value=value, display=render_memory.undo_lines(preview, memory.last_version))


async def recall(
    call: CommandCall,
    toggle: Annotated[Toggle | None, typer.Argument(metavar="on|off", help="Without it, say which.")] = None,
    owner: Owner = None,
    thread: MemoryThreadOption = None,
) -> CommandResult:
    """Say whether what is known may be brought up, or change that.

    With recall off nothing is forgotten, and rules still shape every answer.

    Example: clew memory recall off --owner alice
    """
    async with _open_memory(call, owner, thread) as memory:
        if toggle is not None:
            await memory.set_recall(on=toggle is Toggle.ON)
        is_on = (await memory.profile()).recall
    words = "What is known may be brought up." if is_on else "Nothing is brought up unless it is asked for."
    return CommandResult(
        value={"recall": is_on}, display=Text(f"Recall is {'on' if is_on else 'off'}. {words}")
    )


async def export(call: CommandCall, owner: Owner = None, thread: MemoryThreadOption = None) -> CommandResult:
    """Write the whole memory of a person as one JSON document.

    It has the source of every fact. For an archive that can be imported, see clew export --owner.

    Example: clew memory export --owner alice > alice.json
    """
    async with _open_memory(call, owner, thread) as memory:
        everything = await memory.export()
    return CommandResult(value=everything, display=Text(values.as_json(everything).rstrip()))


async def audit(call: CommandCall, owner: Owner = None, thread: MemoryThreadOption = None) -> CommandResult:
    """Check every fact against its turn and the other facts.

    Its quote must be in the turn that it comes from, and no other fact may exclude it. Facts that held once
    are checked too. Without --owner and --thread every memory of the tenant is checked. It ends with 1 if
    anything is wrong, and changes nothing.

    Example: clew memory audit --owner alice
    """
    if owner or thread or call.scope.user:
        async with _open_memory(call, owner, thread) as memory:
            audits = [await audit_memory(memory)]
    else:
        async with call.database() as db:
            audits = [await audit_memory(memory) async for memory in all_memories(db)]
    ok, counts = all(each.ok for each in audits), add_counts(each.counts for each in audits)
    value = {"ok": ok, "counts": counts, "memories": audits}
    return CommandResult(value=value, display=render_memory.audit_report(audits, counts), ok=ok)


@asynccontextmanager
async def _open_memory(call: CommandCall, owner: str | None, thread: str | None) -> AsyncIterator[Memory]:
    """The memory that a command is about: of --owner, of --user, or of a thread without a user."""
    user = owner or call.scope.user
    if (user is None) == (thread is None):
        raise InvalidArgument(
            problem="Say whose memory: --owner USER, or --thread THREAD for that of a thread without a user."
        )
    async with call.database() as db:
        yield Memory(db, user or thread or "", of_thread=user is None)


async def _read_overview(memory: Memory, selection: EntrySelection) -> render_memory.MemoryOverview:
    """A page of what is known, of one kind or of each."""
    kind = selection.kind
    if selection.before is not None and kind not in (MemoryKind.FACTS, MemoryKind.ARCS):
        raise InvalidArgument(problem="A page goes on in one list: say --kind facts or --kind arcs.")
    profile = await memory.profile()
    facts, arcs = [await _read_listing(memory, part, selection) for part in ("facts", "arcs")]
    # Rules have no times, so none is listed where the question is what was so once.
    has_rules = kind in (None, MemoryKind.RULES) and selection.at is None
    return render_memory.MemoryOverview(
        owner=memory.owner,
        thread=memory.thread,
        version=profile.version,
        recall=profile.recall,
        pending=profile.pending,
        rules=profile.rules if has_rules else (),
        facts=facts.facts,
        lineage=await memory.lineage(facts.facts),
        arcs=arcs.arcs,
        next={"facts": facts.next, "arcs": arcs.next},
        at=selection.at,
    )


async def _read_listing(
    memory: Memory, kind: Literal["facts", "arcs"], selection: EntrySelection
) -> MemoryListing:
    if selection.kind not in (None, kind):
        return MemoryListing()
    return await memory.page(
        kind, limit=selection.limit, before=selection.before, at=selection.at, past=selection.past
    )


async def _source_message(memory: Memory, source: MemorySource | None) -> str | None:
    """The message that something was learned from, if it is still there."""
    if source is None or not source.place:
        return None
    try:
        window = await memory.db.thread(source.thread).items(
            after=source.place - 1, before=source.place + 1, whole=True
        )
    except NotFound:
        return None
    return "\n".join(message.text for message in plain_messages(window)) or None


def _confirm_forget(call: CommandCall, targets: Sequence[ForgetTarget]) -> bool:
    """Ask a person at the terminal; return whether they agree. Without a terminal: False."""
    if call.as_json or not (sys.stdin.isatty() and call.out.is_terminal):
        return False
    call.out.print(render_memory.forget_targets(targets))
    return typer.confirm("Forget this?" if len(targets) == 1 else "Forget these?", abort=True)
