"""Commands about one session as a document: session export, session import."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.archive import open_output
from clew.cli.render import values
from clew.cli.volume_option import mounted_volume
from clew.core.clock import now_ms
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import Manifest, encode_manifest, read_manifest
from clew.core.manifest.files import ManifestAddress
from clew.database.database import Database
from clew.workbench.session import manifests
from clew.workbench.session.checkpoints import ManifestCheckpoints
from clew.workbench.volume.volume import Volume

Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, which is its thread's.")]
VolumeFolder = Annotated[
    Path | None, typer.Option("--volume", metavar="FOLDER", help="The volume that keeps manifests.")
]
Workspace = Annotated[str, typer.Option("--workspace", help="Whose part of the volume.")]


async def export(
    call: CommandCall,
    session: Session,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
    ] = "-",
    volume: VolumeFolder = None,
    workspace: Workspace = "default",
) -> CommandResult:
    """Write a session as one JSON document.

    It says what the session holds now, without its past. With --volume it goes to its place there, under its
    owner, instead of to standard output, unless a manifest is there that the database does not know.

    Example: clew session export alice-1 --volume /mnt/volume --workspace research
    """
    async with call.database() as db:
        manifest = await manifests.export_manifest(db, session)
        where = (
            output
            if volume is None
            else await _save_to_volume(db, session, mounted_volume(volume), workspace)
        )
    if volume is None:
        with open_output(output) as file:
            file.write(encode_manifest(manifest))
    count = len(manifest.state.history)
    words = f"Session {values.clean(session)} exported with {values.quantity(count, 'item')}."
    value = {"session": session, "file": where, "items": count}
    return CommandResult(value=value, display=Text(words), to_stderr=where == "-")


async def import_(
    call: CommandCall,
    session: Session,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A manifest; - is standard input.")
    ] = None,
    *,
    volume: VolumeFolder = None,
    workspace: Workspace = "default",
    older: Annotated[bool, typer.Option("--older", help="Read the volume's older layout too.")] = False,
) -> CommandResult:
    """Make a session what a manifest says, and nothing else.

    It replaces and never merges: a part that the manifest lacks is reset. It is one change of the thread, so
    that it can be taken back. A session that is not there is made, and belongs to --user.

    Example: clew session import alice-1 alice-1.json --user alice
    """
    if (file is None) == (volume is None):
        raise InvalidArgument(problem="Name a manifest, or a volume that has it: one of the two.")
    async with call.database(create=True) as db:
        place = ManifestAddress(workspace=workspace, user=call.scope.user, session=session)
        manifest = (
            _read_manifest(file) if volume is None else _load_from_volume(call, volume, place, older=older)
        )
        now = now_ms()
        commit = await manifests.import_manifest(db, session, manifest, now=now, owner=call.scope.user)
    count = len(manifest.state.history)
    items = values.quantity(count, "item")
    words = f"Session {values.clean(session)} has {items} now, at version {commit.version}."
    return CommandResult(
        value={"session": session, "version": commit.version, "items": count}, display=Text(words)
    )


async def _save_to_volume(db: Database, session: str, root: Path, workspace: str) -> str:
    """The file of a session's manifest on a volume, once it is what the session is."""
    owner = (await db.thread(session).head()).owner
    user_volume = Volume(root, db.tenant, owner)
    place = ManifestAddress(workspace=workspace, user=owner, session=session)
    checkpoints = ManifestCheckpoints(db, user_volume, place, clock=now_ms)
    await checkpoints.save()
    return str(user_volume.tenant.folder / checkpoints.path)


def _read_manifest(file: str | None) -> Manifest:
    return read_manifest(sys.stdin.buffer.read() if file in (None, "-") else Path(str(file)).read_bytes())


def _load_from_volume(call: CommandCall, volume: Path, place: ManifestAddress, *, older: bool) -> Manifest:
    user_volume = Volume(mounted_volume(volume), call.scope.tenant, place.user)
    return manifests.load_manifest(user_volume, place, older=older)
