"""Commands about one session as a document: session export, session import."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from clew.cli.command import Answer, Call
from clew.cli.commands.archive import opened_output
from clew.cli.render import values
from clew.cli.volume_option import there
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import Manifest, read, written
from clew.core.manifest.files import Place
from clew.database.database import Database
from clew.runtime.settings import now_ms
from clew.workbench.session import manifests
from clew.workbench.session.checkpoints import Checkpoints
from clew.workbench.volume.volume import Volume

Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, which is its thread's.")]
VolumeFolder = Annotated[
    Path | None, typer.Option("--volume", metavar="FOLDER", help="The volume that keeps manifests.")
]
Workspace = Annotated[str, typer.Option("--workspace", help="Whose part of the volume.")]


async def export(
    call: Call,
    session: Session,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
    ] = "-",
    volume: VolumeFolder = None,
    workspace: Workspace = "default",
) -> Answer:
    """Write a session as one JSON document.

    It says what the session holds now, without its past. With --volume it goes to its place there, under its
    owner, instead of to standard output, unless a manifest is there that the database does not know.

    Example: clew session export alice-1 --volume /mnt/volume --workspace research
    """
    async with call.database() as db:
        manifest = await manifests.exported(db, session)
        where = output if volume is None else await _kept(db, session, there(volume), workspace)
    if volume is None:
        with opened_output(output) as file:
            file.write(written(manifest))
    count = len(manifest.state.history)
    words = f"Session {values.clean(session)} exported with {values.some(count, 'item')}."
    value = {"session": session, "file": where, "items": count}
    return Answer(value=value, shown=Text(words), aside=where == "-")


async def import_(
    call: Call,
    session: Session,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A manifest; - is standard input.")
    ] = None,
    *,
    volume: VolumeFolder = None,
    workspace: Workspace = "default",
    older: Annotated[bool, typer.Option("--older", help="Read the volume's older layout too.")] = False,
) -> Answer:
    """Make a session what a manifest says, and nothing else.

    It replaces and never merges: a part that the manifest lacks is reset. It is one change of the thread, so
    that it can be taken back. A session that is not there is made, and belongs to --user.

    Example: clew session import alice-1 alice-1.json --user alice
    """
    if (file is None) == (volume is None):
        raise InvalidArgument(problem="Name a manifest, or a volume that has it: one of the two.")
    async with call.database(create=True) as db:
        place = Place(workspace=workspace, user=call.scope.user, session=session)
        manifest = _read(file) if volume is None else _loaded(call, volume, place, older=older)
        now = time.time_ns() // 1_000_000
        done = await manifests.imported(db, session, manifest, now=now, owner=call.scope.user)
    count = len(manifest.state.history)
    words = (
        f"Session {values.clean(session)} has {values.some(count, 'item')} now, at version {done.version}."
    )
    return Answer(value={"session": session, "version": done.version, "items": count}, shown=Text(words))


async def _kept(db: Database, session: str, root: Path, workspace: str) -> str:
    """The file of a session's manifest on a volume, once it is what the session is."""
    owner = (await db.thread(session).head()).owner
    own = Volume(root, db.tenant, owner)
    place = Place(workspace=workspace, user=owner, session=session)
    checkpoints = Checkpoints(db, own, place, clock=now_ms)
    await checkpoints.save()
    return str(own.tenant.folder / checkpoints.path)


def _read(file: str | None) -> Manifest:
    return read(sys.stdin.buffer.read() if file in (None, "-") else Path(str(file)).read_bytes())


def _loaded(call: Call, volume: Path, place: Place, *, older: bool) -> Manifest:
    own = Volume(there(volume), call.scope.tenant, place.user)
    return manifests.load(own, place, older=older)
