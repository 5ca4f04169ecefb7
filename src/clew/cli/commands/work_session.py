"""A session at the workbench as the command opens it: database, volume, interpreter, model and agent."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from clew.cli.command import CommandCall
from clew.cli.commands.chat import new_id
from clew.cli.commands.work_output import WorkWriter, opening_text
from clew.core.errors import InvalidArgument, RepositoryFailed
from clew.database.database import Database
from clew.runtime.model.protocol import Model
from clew.workbench.agent.agent import WorkbenchAgent, WorkResult, ignore_event
from clew.workbench.interpreter.port import Interpreters
from clew.workbench.repository.settings import repository_settings
from clew.workbench.repository.source import RepositorySource, check_source
from clew.workbench.session.checkpoints import SourceOfTruth
from clew.workbench.session.session import OpenResult, Workbench
from clew.workbench.volume.volume import Volume

NO_MODEL = (
    "This needs a model, and none is named. Say --model PROVIDER:NAME, like openai:gpt-5, or set CLEW_MODEL."
)


class SessionLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its volume."""

    session: str | None = None
    volume: Path | None = None
    workspace: str = "default"


class OpenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for opening a session, and whether a task that was begun goes on."""

    resume: bool = False
    force_new: bool = False
    take: SourceOfTruth | None = None
    best_effort: bool = False
    repository: RepositorySource = RepositorySource()
    """The repository that the session is to work on; without a URL it keeps the one that it has."""


class WorkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of the command."""

    task: str | None = None
    documents: tuple[Path, ...] = ()
    model: str | None = None
    location: SessionLocation = SessionLocation()
    options: OpenOptions = OpenOptions()


async def run_work(call: CommandCall, request: WorkRequest) -> tuple[OpenResult, WorkResult]:
    """Open the session, load the documents and do the task, or go on with it.

    Raises:
        InvalidArgument: What was asked for makes no sense, or there is no model.
        ManifestConflict: The manifest and the database disagree.
        RepositoryFailed: The repository that was named is not to be had.
    """
    check_request(request)
    root = volume_root(call, request.location.volume)
    contents = [(path.name, path.read_bytes()) for path in request.documents]
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(open_model(request.model))
        interpreters = await stack.enter_async_context(local_interpreters())
        db = await stack.enter_async_context(call.database(create=True))
        bench = await stack.enter_async_context(workbench_for(call, request, db, root, interpreters))
        return await work_at_bench(bench, call, request, model, contents)


async def work_at_bench(
    bench: Workbench, call: CommandCall, request: WorkRequest, model: Model, contents: list[tuple[str, bytes]]
) -> tuple[OpenResult, WorkResult]:
    """Do what was asked for at a workbench."""
    options, session = request.options, request.location.session or new_id()
    repository = options.repository if options.repository.url is not None else None
    open_result = await bench.open(
        session, force_new_session=options.force_new, take=options.take, repository=repository
    )
    checkout = open_result.repository
    if repository is not None and checkout is not None and checkout.reason is not None:
        # Who names a repository wants no work without it; who only goes on with a session is told.
        raise RepositoryFailed(checkout.url, checkout.reason, checkout.problem or "")
    for name, content in contents:
        await bench.attachment.documents.add(name, content)
    if not call.as_json:
        call.err.print(opening_text(open_result))
    writer = WorkWriter(call.out) if call.out.is_terminal and not call.as_json else None
    notify: Callable[..., None] = writer.show_event if writer is not None else ignore_event
    async with WorkbenchAgent(bench, model, notify=notify) as agent:
        try:
            return open_result, await (agent.resume() if options.resume else agent.work(request.task or ""))
        finally:
            if writer is not None:
                writer.end()


def workbench_for(
    call: CommandCall, request: WorkRequest, db: Database, root: Path, interpreters: Interpreters
) -> Workbench:
    """The workbench of the caller."""
    return Workbench(
        db,
        Volume(root, call.scope.tenant, call.scope.user),
        interpreters,
        user=call.scope.user,
        workspace=request.location.workspace,
        volume_name=root.name,
        persistence="best effort" if request.options.best_effort else "strict",
        repositories=repository_settings(os.environ),
    )


def check_request(request: WorkRequest) -> None:
    """Refuse what makes no sense, before anything is opened.

    Raises:
        InvalidArgument: It makes none.
    """
    if request.model is None:
        raise InvalidArgument(problem=NO_MODEL)
    check_source(request.options.repository)
    is_resume, has_task = request.options.resume, bool((request.task or "").strip())
    if is_resume and (has_task or request.location.session is None):
        problem = "To go on with a task, name its session with --thread-id, and no new task."
        raise InvalidArgument(problem=problem)
    if not is_resume and not has_task:
        raise InvalidArgument(problem="Say what to do, or --resume to go on with what was begun.")


def volume_root(call: CommandCall, folder: Path | None) -> Path:
    """The root of the volume: the one that is named and there, or a folder beside the database's file.

    Raises:
        InvalidArgument: There is none.
    """
    if folder is not None:
        if not folder.is_dir():
            raise InvalidArgument(problem=f"There is no volume at {str(folder)!r}.")
        return folder.resolve()
    if call.default_volume is None:
        raise InvalidArgument(problem="Say with --volume, or CLEW_VOLUME, where the durable volume is.")
    call.default_volume.mkdir(exist_ok=True, mode=0o700)
    return call.default_volume.resolve()


@asynccontextmanager
async def open_model(name: str | None) -> AsyncIterator[Model]:
    """The model of a name, while it is used."""
    from clew.runtime.model.provider import ProviderModel

    async with ProviderModel(name or "") as model:
        yield model


@asynccontextmanager
async def local_interpreters() -> AsyncIterator[Interpreters]:
    """Interpreters on this machine; none of them is left when this ends."""
    from clew.workbench.interpreter.local import LocalInterpreters

    interpreters = LocalInterpreters()
    try:
        yield interpreters
    finally:
        await interpreters.close()
