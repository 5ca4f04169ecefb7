"""A session at the workbench as the command opens it: database, volume, interpreter, model and agent."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from clew.cli.command import Call
from clew.cli.commands.chat import new_id
from clew.cli.commands.work_output import LiveWork, opening
from clew.core.errors import InvalidArgument
from clew.database.database import Database
from clew.runtime.model.protocol import Model
from clew.workbench.agent.agent import Agent, Worked, nobody
from clew.workbench.interpreter.port import Interpreters
from clew.workbench.session.checkpoints import Taken
from clew.workbench.session.session import Opened, Workbench
from clew.workbench.volume.volume import Volume

NO_MODEL = (
    "This needs a model, and none is named. Say --model PROVIDER:NAME, like openai:gpt-5, or set CLEW_MODEL."
)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which session, and where its volume is."""

    session: str | None = None
    volume: Path | None = None
    workspace: str = "default"


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is opened, and whether a task that was begun goes on."""

    resume: bool = False
    force_new: bool = False
    take: Taken | None = None
    best_effort: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    task: str | None = None
    documents: tuple[Path, ...] = ()
    model: str | None = None
    place: Place = Place()
    how: How = How()


async def worked(call: Call, asked: Asked) -> tuple[Opened, Worked]:
    """Open the session, load the documents and do the task, or go on with it.

    Raises:
        InvalidArgument: What was asked for makes no sense, or there is no model.
        ManifestConflict: The manifest and the database disagree.
    """
    check(asked)
    root = volume_of(call, asked.place.volume)
    contents = [(path.name, path.read_bytes()) for path in asked.documents]
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(provided(asked.model))
        interpreters = await stack.enter_async_context(local_interpreters())
        db = await stack.enter_async_context(call.database(create=True))
        bench = await stack.enter_async_context(bench_of(call, asked, db, root, interpreters))
        return await at(bench, call, asked, model, contents)


async def at(
    bench: Workbench, call: Call, asked: Asked, model: Model, contents: list[tuple[str, bytes]]
) -> tuple[Opened, Worked]:
    """Do what was asked for at a workbench."""
    how, session = asked.how, asked.place.session or new_id()
    opened = await bench.open(session, force_new_session=how.force_new, take=how.take)
    for name, content in contents:
        await bench.attachment.documents.add(name, content)
    if not call.as_json:
        call.err.print(opening(opened))
    live = LiveWork(call.out) if call.out.is_terminal and not call.as_json else None
    told: Callable[..., None] = live.hear if live is not None else nobody
    async with Agent(bench, model, told=told) as agent:
        try:
            return opened, await (agent.resume() if how.resume else agent.work(asked.task or ""))
        finally:
            if live is not None:
                live.end()


def bench_of(call: Call, asked: Asked, db: Database, root: Path, interpreters: Interpreters) -> Workbench:
    """The workbench of whoever calls."""
    return Workbench(
        db,
        Volume(root, call.scope.tenant, call.scope.user),
        interpreters,
        user=call.scope.user,
        workspace=asked.place.workspace,
        volume_name=root.name,
        persistence="best effort" if asked.how.best_effort else "strict",
    )


def check(asked: Asked) -> None:
    """Refuse what makes no sense, before anything is opened.

    Raises:
        InvalidArgument: It makes none.
    """
    if asked.model is None:
        raise InvalidArgument(problem=NO_MODEL)
    going_on, has_task = asked.how.resume, bool((asked.task or "").strip())
    if going_on and (has_task or asked.place.session is None):
        problem = "To go on with a task, name its session with --thread-id, and no new task."
        raise InvalidArgument(problem=problem)
    if not going_on and not has_task:
        raise InvalidArgument(problem="Say what to do, or --resume to go on with what was begun.")


def volume_of(call: Call, named: Path | None) -> Path:
    """The root of the volume: the one that is named and there, or a folder beside the database's file.

    Raises:
        InvalidArgument: There is none.
    """
    if named is not None:
        if not named.is_dir():
            raise InvalidArgument(problem=f"There is no volume at {str(named)!r}.")
        return named.resolve()
    if call.volume is None:
        raise InvalidArgument(problem="Say with --volume, or CLEW_VOLUME, where the durable volume is.")
    call.volume.mkdir(exist_ok=True, mode=0o700)
    return call.volume.resolve()


@asynccontextmanager
async def provided(name: str | None) -> AsyncIterator[Model]:
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
