"""Commands that copy whole databases: backup, restore."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from clew.cli.backup import files as backup_files
from clew.cli.backup.inventory import CopiedHeads, verify_scopes
from clew.cli.backup.volume import Restorable, copy_volume, is_left, restorable, volume_for_backup
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.cli.volume_option import VolumeFolder
from clew.core.errors import InvalidArgument, MissingExtra
from clew.core.redaction import without_password
from clew.core.values import Scope
from clew.database.inventory import list_tenants
from clew.database.verify import Verdict
from clew.workbench.volume.backup import VolumeIndex

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", dir_okay=False)]


async def backup(call: CommandCall, file: BackupFile, volume: VolumeFolder = None) -> CommandResult:
    """Copy the whole database while others use it, and its volume.

    All tenants are copied, whatever --tenant says. The volume is the one beside the database's file, or the
    one that --volume names.

    Example: clew backup nightly.db --volume /mnt/volume
    """
    backup_files.check_new_file(file)
    part = file.with_name(f"{file.name}.part")
    with backup_files.reserve_file(part) as part_file:
        async with copy_volume(call, call.existing_volume(volume), file) as indexes:
            copy = await _copy(call, part)
            backup_files.check_new_file(file)
        backup_files.publish(part, part_file, file)  # last: where this file is, the backup is whole
    return _backup_result(file, copy, indexes)


def _backup_result(file: Path, copy: CopiedHeads, indexes: Sequence[VolumeIndex]) -> CommandResult:
    """The result of a backup; ``indexes`` has that of its volume, if there is one."""
    value: dict[str, object] = {"file": str(file), "threads": copy.heads, "unreadable": copy.unreadable}
    words = f"Backed up to {file}: {file.stat().st_size:,} bytes"
    for index in indexes:
        value |= {"files": len(index.files), "left_out": index.left_out}
        count = values.quantity(len(index.files), "file")
        words += f", and {count} of the volume, {len(index.left_out):,} left out"
    display = Group(values.head_table(f"{words}.", copy.heads), *values.problems_of(copy.unreadable))
    return CommandResult(value=value, display=display, ok=not copy.unreadable)


async def _copy(call: CommandCall, part: Path) -> CopiedHeads:
    """Copy the database, whichever it is."""
    if not call.is_postgres:
        return await backup_files.copy_database(call, part)
    try:
        from clew.cli.backup.dumps import dump_database
    except ImportError as error:
        raise MissingExtra(extra="postgres", package="psycopg") from error
    return await dump_database(call, part)


async def restore(
    call: CommandCall,
    file: BackupFile,
    *,
    volume: VolumeFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> CommandResult:
    """Check a backup and put it where --db says, and its volume.

    Every thread of every tenant is checked before anything is replaced. The volume goes beside the database's
    file, or where --volume says.

    Example: clew restore nightly.db --db sqlite:///restored.db
    """
    if not file.is_file():
        raise InvalidArgument(problem=f"There is no backup at {str(file)!r}.")
    volume = volume_for_backup(file, volume, call.default_volume)
    files = restorable(file, volume, force=force)
    if files is not None:
        return await _restore_with_files(call, file, files, force=force)
    answer = _restore_result(call, await _restore(call, file, force=force))
    if is_left(file, volume):
        words = "The backup has a volume too, which was not restored: name --volume."
        return msgspec.structs.replace(answer, display=Group(answer.display, Text(words, style="yellow")))
    return answer


async def _restore(call: CommandCall, file: Path, *, force: bool) -> list[Verdict]:
    """Put the database of a backup in its place, if every thread in it is well."""
    if not call.is_postgres:
        return await _restore_file(call, file, force=force)
    try:
        from clew.cli.backup.dumps import load_dump
    except ImportError as error:
        raise MissingExtra(extra="postgres", package="psycopg") from error
    return await load_dump(call, file, force=force)


async def _restore_file(call: CommandCall, file: Path, *, force: bool) -> list[Verdict]:
    target = backup_files.target_of(call, force=force)
    staged = target.with_name(f"{target.name}.restoring")
    with backup_files.reserve_file(staged) as staged_file:
        await backup_files.stage_backup(call, file, staged)
        async with backup_files.call_on(call, staged).database() as db:
            with call.progress("Checking the file", None):
                await backup_files.check_whole(db.store, file)
            scopes = [Scope(tenant=tenant) for tenant in await list_tenants(db.store)]
            verdicts = await verify_scopes(call, db.store, scopes)
        if all(verdict.ok for verdict in verdicts):
            backup_files.put_in_place(staged, staged_file, target, file)
    return verdicts


async def _restore_with_files(
    call: CommandCall, file: Path, files: Restorable, *, force: bool
) -> CommandResult:
    """Put the database and the volume of a backup in their places, once both are copied there and checked."""
    if files.damaged:
        return _damage_result(
            files.damaged, "The volume of the backup is damaged; nothing was put in its place."
        )
    async with files.stage(call) as problems:
        if problems:
            return _damage_result(
                problems, "The volume cannot be copied as it is; nothing was put in its place."
            )
        verdicts = await _restore(call, file, force=force)
        answer = _restore_result(call, verdicts)
        if not answer.ok:
            return answer
        await files.switch()
    ahead = files.ahead(verdicts)
    count = len(files.index.files)
    words = [Text(f"{values.quantity(count, 'file')} restored to {files.root}, each with its checksum.")]
    if ahead:
        sessions = ", ".join(values.clean(session) for session in ahead[:10])
        words.append(Text(f"Manifests that are ahead of the database: {sessions}.", style="yellow"))
    assert isinstance(answer.value, dict)
    value = {**answer.value, "files": count, "ahead": ahead}
    return CommandResult(value=value, display=Group(answer.display, *words))


def _restore_result(call: CommandCall, verdicts: list[Verdict]) -> CommandResult:
    """The result of checking a backup, and of the restore."""
    ok = all(verdict.ok for verdict in verdicts)
    words = (
        f"Restored to {without_password(call.url)}."
        if ok
        else "Something is wrong with the backup; nothing was put in its place."
    )
    value = {"ok": ok, "threads": verdicts, "missing": []}
    return CommandResult(value=value, display=Group(values.verdict_table(verdicts, []), Text(words)), ok=ok)


def _damage_result(files: dict[str, str], words: str) -> CommandResult:
    lines = [Text(f"{values.clean(path)}: {values.clean(problem)}") for path, problem in files.items()]
    return CommandResult(value={"ok": False, "damaged": files}, display=Group(*lines, Text(words)), ok=False)
