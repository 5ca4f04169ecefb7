"""Commands of the workbench: work on a task with code and documents; what interpreters there were."""

import enum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit

Task = Annotated[str | None, typer.Argument(metavar="[TASK]", help="What to do.")]
ThreadId = Annotated[
    str | None, typer.Option("--thread-id", metavar="ID", help="The session; without it a new one.")
]
DocumentFiles = Annotated[
    list[Path] | None, typer.Option("--document", metavar="FILE", help="A file to work on; any number.")
]
RepositoryUrl = Annotated[
    str | None,
    typer.Option("--repository", metavar="URL", help="A repository to work on; its host must be listed."),
]
RepositoryRef = Annotated[
    str | None, typer.Option("--ref", metavar="REF", help="Its branch, tag or commit, if not the usual one.")
]
ContextPaths = Annotated[
    list[str] | None, typer.Option("--context", metavar="PATH", help="What to read of it first; repeatable.")
]
VolumeRoot = Annotated[
    Path | None,
    typer.Option(
        "--volume",
        envvar="CLEW_VOLUME",
        metavar="FOLDER",
        help="The durable volume; without it a folder beside the SQLite file.",
    ),
]
Workspace = Annotated[str, typer.Option("--workspace", help="Whose part of the volume.")]
Model = Annotated[
    str | None,
    typer.Option("--model", envvar="CLEW_MODEL", metavar="PROVIDER:NAME", help="The model that works."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a task that was interrupted.")]
ForceNew = Annotated[bool, typer.Option("--force-new", help="Start with a new interpreter.")]
BestEffort = Annotated[
    bool, typer.Option("--best-effort", help="Say what is wrong with the manifest, and go on.")
]
SessionId = Annotated[str | None, typer.Option("--session", metavar="ID", help="Only of this session.")]


class ConflictChoice(enum.Enum):
    """The side that wins where a manifest and the database disagree."""

    MANIFEST = "manifest"
    DATABASE = "database"


TakeOption = Annotated[
    ConflictChoice | None,
    typer.Option("--take", help="Which one holds, if the manifest and the database disagree."),
]


async def work(
    call: CommandCall,
    task: Task = None,
    *,
    thread_id: ThreadId = None,
    document: DocumentFiles = None,
    repository: RepositoryUrl = None,
    ref: RepositoryRef = None,
    context: ContextPaths = None,
    volume: VolumeRoot = None,
    workspace: Workspace = "default",
    model: Model = None,
    resume: Resume = False,
    force_new: ForceNew = False,
    take: TakeOption = None,
    best_effort: BestEffort = False,
) -> CommandResult:
    """Work on a task with code, over documents of any length.

    Documents are loaded into the interpreter and never put whole into a prompt. The task is one durable turn:
    if the program is killed, --resume goes on, in a new interpreter, and the agent is informed.

    Example: clew work --thread-id report-1 --document report.pdf 'What changed since last year?'
    """
    from clew.cli.commands import work_output
    from clew.cli.commands.work_session import OpenOptions, SessionLocation, WorkRequest, run_work
    from clew.workbench.repository.source import RepositorySource

    source = RepositorySource(url=repository, ref=ref, context_paths=tuple(context or ()))
    location = SessionLocation(session=thread_id, volume=volume, workspace=workspace)
    options = OpenOptions(
        resume=resume,
        force_new=force_new,
        take=take.value if take else None,
        best_effort=best_effort,
        repository=source,
    )
    request = WorkRequest(
        task=task, documents=tuple(document or ()), model=model, location=location, options=options
    )
    open_result, result = await run_work(call, request)
    value = {**msgspec.to_builtins(result), "opened": msgspec.to_builtins(open_result)}
    display = work_output.outcome_text(result, was_streamed=call.out.is_terminal)
    return CommandResult(value=value, display=display, ok=work_output.is_success(result))


async def sandboxes(call: CommandCall, session: SessionId = None, limit: Limit = 50) -> CommandResult:
    """List what happened to interpreters, the newest first.

    Each got or lost interpreter of a session is there, with its provider, its volume and the reason.

    Example: clew sandboxes --session report-1
    """
    from clew.cli.commands import work_output
    from clew.workbench.session.attachment import read_snapshots

    async with call.database() as db:
        listing = await read_snapshots(db, session=session, limit=limit)
    value = {"sandboxes": [msgspec.to_builtins(each) for each in listing]}
    return CommandResult(value=value, display=work_output.sandbox_table(listing))
