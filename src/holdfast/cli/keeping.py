"""Commands that keep: verify, export, import, backup, restore."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from holdfast.cli import copying, render
from holdfast.cli.frame import Answer, Call, url_of
from holdfast.cli.looking import every_thread
from holdfast.cli.render import Kept
from holdfast.cli.volume_copying import Restorable, copied, is_left, restorable, wanted
from holdfast.cli.volumes import VolumeFolder, volumes_at
from holdfast.core import archive, reading
from holdfast.core.encoding import check_id
from holdfast.core.errors import HoldfastError, InvalidArgument
from holdfast.core.rows import Asking
from holdfast.core.values import Scope
from holdfast.runtime.persons import LEFT_OUT
from holdfast.threads.archive import Passed, export_threads, import_threads, kinds_of
from holdfast.threads.database import Database
from holdfast.threads.erasing import erased_whole
from holdfast.threads.verify import Verdict

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", dir_okay=False)]


async def verify(
    call: Call,
    thread: Annotated[str | None, typer.Argument(metavar="THREAD", help="Only this thread.")] = None,
    heads: Annotated[
        Path | None,
        typer.Option("--heads", metavar="FILE", help="Heads kept outside, as --json writes them."),
    ] = None,
) -> Answer:
    """Check that threads are whole and unaltered.

    The hash chain is followed, every changeset replayed, and what was erased on purpose told apart from
    what was altered. It ends with 1 if anything is wrong.

    Example: holdfast verify --heads heads.json
    """
    async with call.database() as db:
        ids = [thread] if thread else await every_thread(db)
        found = await _verdicts(call, db, ids)
        kept = _read_heads(heads) if heads else []
        gone = await _erased(call, db, kept)
        missing = await _missing(call, db, [head for head in kept if head.thread not in gone])
        found += gone.values()
    value = {"ok": all(v.ok for v in found) and not missing, "threads": found, "missing": missing}
    shown = render.verdicts(found, missing, call.scope.tenant)
    return Answer(value=value, shown=shown, ok=bool(value["ok"]))


async def export(
    call: Call,
    threads: Annotated[list[str] | None, typer.Argument(metavar="THREAD", help="Only these.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
    ] = "-",
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="All about this person, records too.")
    ] = None,
    volume: VolumeFolder = None,
) -> Answer:
    """Write threads, with their past, to an archive.

    With --owner it is everything about one person: threads, memory, runs, sessions, feedback, and their files
    if a volume is named.

    Example: holdfast export --owner alice -o alice.jsonl
    """
    heads: list[Kept] = []
    call = call if owner is None else _about(call, owner, threads)
    async with call.database(files=volumes_at(volume) if owner is not None else None) as db:
        kinds = await kinds_of(db.store, call.scope, owner, LEFT_OUT) if owner is not None else []
        total = len(threads) if threads else len(await every_thread(db))
        with call.progress("Exporting", total) as advance:
            told = _keeping(heads, advance)
            lines = export_threads(
                db.store, call.scope, threads or None, kinds=kinds, files=db.files, told=told
            )
            held = await _written(lines, output)
    also = _also(held.records, held.files) if owner is not None else ""
    shown = render.kept(f"{render.some(len(heads), 'thread')}{also} exported.", heads)
    value = {"file": output, "threads": heads, "records": held.records, "files": held.files}
    return Answer(value=value, shown=shown, aside=output == "-")


async def import_(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="FILE", help="An archive; - is standard input.")],
    *,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave threads alone that are there already.")
    ] = False,
    volume: VolumeFolder = None,
) -> Answer:
    """Take in the threads of an archive, its records and its files.

    Each is taken whole or not at all, threads with the same versions, times and hashes. Files need a volume.

    Example: holdfast import threads.jsonl --db sqlite:///other.db
    """
    heads: list[Kept] = []
    with _input(call, file) as lines:
        async with call.database(create=True, files=volumes_at(volume)) as db:
            taking = partial(import_threads, files=db.files, skip_existing=skip_existing)
            done = await taking(db.store, call.scope, lines, told=_keeping(heads, lambda _: None))
    also = _also(done.records, done.files) if done.total.records or done.total.files else ""
    skipped = len(done.skipped) + done.total.records - done.records + done.total.files - done.files
    words = f"{render.some(len(done.threads), 'thread')}{also} imported, {skipped:,} skipped."
    value = {"threads": heads, "skipped": done.skipped, "records": done.records, "files": done.files}
    return Answer(value=value, shown=render.kept(words, heads))


def _also(records: int, files: int) -> str:
    """What goes with threads, in words."""
    if not files:
        return f" and {render.some(records, 'record')}"
    return f", {render.some(records, 'record')} and {render.some(files, 'file')}"


async def backup(call: Call, file: BackupFile, volume: VolumeFolder = None) -> Answer:
    """Copy the whole database while others use it, and its volume.

    The volume is the one beside the database's file, or the one that --volume names.

    Example: holdfast backup nightly.db --volume /mnt/volume
    """
    copying.check_new(file)
    async with copied(call.volume_there(volume), file) as done:
        before = await _heads(call) if call.file is None else []
        await copying.back_up(call, file)
        heads = before or await _heads(msgspec.structs.replace(call, url=url_of(str(file))))
    value: dict[str, object] = {"file": str(file), "threads": heads}
    words = f"Backed up to {file}: {file.stat().st_size:,} bytes"
    for index in done:
        value |= {"files": len(index.files), "left_out": index.left_out}
        words += (
            f", and {render.some(len(index.files), 'file')} of the volume, {len(index.left_out):,} left out"
        )
    return Answer(value=value, shown=render.kept(f"{words}.", heads))


async def restore(
    call: Call,
    file: BackupFile,
    *,
    volume: VolumeFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> Answer:
    """Check a backup and put it where --db says, and its volume.

    The volume goes beside the database's file, or where --volume says.

    Example: holdfast restore nightly.db --db sqlite:///restored.db
    """
    if not file.is_file():
        raise InvalidArgument(problem=f"There is no backup at {str(file)!r}.")
    volume = wanted(file, volume, call.volume)
    files = restorable(file, volume, force=force)
    if files is not None and files.damaged:
        return _damaged(files.damaged, "The volume of the backup is damaged; nothing was put in its place.")
    answer = await _restored(call, file, force=force)
    if files is not None and answer.ok:
        return await _with_files(call, answer, files)
    if is_left(file, volume):
        words = "The backup has a volume too, which was not restored: name --volume."
        return msgspec.structs.replace(answer, shown=Group(answer.shown, Text(words, style="yellow")))
    return answer


async def _restored(call: Call, file: Path, *, force: bool) -> Answer:
    """Put the database of a backup in its place."""
    if call.url.startswith("postgres"):
        await copying.load_dump(call, file, force=force)
        answer = await verify(call)
    else:
        answer = await _restore_file(call, file, force=force)
    where = render.without_password(call.url)
    words = f"Restored to {where}." if answer.ok else "Something is wrong with the backup; do not use it."
    return msgspec.structs.replace(answer, shown=Group(answer.shown, Text(words)))


async def _with_files(call: Call, answer: Answer, files: Restorable) -> Answer:
    """Put the files of a backup in their place, once its database is in its own."""
    if wrong := await files.put():
        return _damaged(wrong, "The database is restored, but the volume is not what the backup holds.")
    ahead = files.ahead(call.scope.tenant, await _heads(call))
    count = len(files.index.files)
    words = [Text(f"{render.some(count, 'file')} restored to {files.root}, each with its checksum.")]
    if ahead:
        named = ", ".join(render.clean(session) for session in ahead[:10])
        words.append(Text(f"Manifests that are ahead of the database: {named}.", style="yellow"))
    assert isinstance(answer.value, dict)
    value = {**answer.value, "files": count, "ahead": ahead}
    return Answer(value=value, shown=Group(answer.shown, *words))


def _damaged(files: dict[str, str], words: str) -> Answer:
    lines = [Text(f"{render.clean(path)}: {render.clean(problem)}") for path, problem in files.items()]
    return Answer(value={"ok": False, "damaged": files}, shown=Group(*lines, Text(words)), ok=False)


async def _restore_file(call: Call, file: Path, *, force: bool) -> Answer:
    staged = copying.stage(call, file, force=force)
    try:
        answer = await verify(msgspec.structs.replace(call, url=url_of(str(staged))))
        if answer.ok and call.file is not None:
            copying.settle(staged, call.file)
        return answer
    finally:
        copying.discard(staged)


async def _verdicts(call: Call, db: Database, ids: list[str]) -> list[Verdict]:
    found: list[Verdict] = []
    with call.progress("Checking", len(ids)) as advance:
        for id in ids:
            found.append(await db.thread(id).verify())
            advance(1)
    return found


def _read_heads(file: Path) -> list[Kept]:
    """The heads of a file that verify, export or backup wrote with --json."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=render.Heads).threads
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgument(problem=f"{str(file)!r} holds no heads ({error}).") from error


async def _erased(call: Call, db: Database, heads: list[Kept]) -> dict[str, Verdict]:
    """Those of the heads kept outside whose threads were erased whole, under a receipt."""
    gone = {head.thread: await erased_whole(db.store, call.scope, head.thread) for head in heads}
    return {thread: verdict for thread, verdict in gone.items() if verdict is not None}


async def _missing(call: Call, db: Database, heads: list[Kept]) -> list[str]:
    """Heads kept outside that the database does not stand on any more."""
    missing = []
    for head in heads:
        try:
            hash = await db.store.read(call.scope, _hash_at(head.thread, head.version))
        except HoldfastError as error:
            missing.append(str(error))
            continue
        if hash.hex() != head.hash:
            missing.append(f"{head.thread}: version {head.version} is not the one that was kept outside")
    return missing


def _hash_at(id: str, version: int) -> Asking[bytes]:
    """The hash that a thread's head had when it was at a version."""
    row = yield from reading.read_thread(id)
    if version == row.version:
        return row.hash
    reading.check_version(row, version)
    hash, _, _ = yield from reading.read_mark(row, version)
    return archive.end_hash(row, version, hash)


async def _heads(call: Call) -> list[Kept]:
    """The heads of a database: of a copied file, or of a server just before it is dumped."""
    heads = []
    async with call.database() as db:
        for id in await every_thread(db):
            row = await db.store.read(call.scope, reading.read_thread(id))
            heads.append(Kept(thread=id, version=row.version, hash=row.hash.hex()))
    return heads


def _keeping(heads: list[Kept], advance: Callable[[int], None]) -> Callable[[Passed], None]:
    """Remembers the head of every thread that is done."""

    def told(passed: Passed) -> None:
        if passed.hash is not None:
            heads.append(Kept(thread=passed.thread, version=passed.version, hash=passed.hash))
            advance(1)

    return told


def _about(call: Call, owner: str, threads: list[str] | None) -> Call:
    """The same call, for what one person owns and nothing else."""
    if threads or call.scope.user not in (None, owner):
        raise InvalidArgument(problem="Export some threads, or all about one person: not both.")
    return msgspec.structs.replace(call, scope=Scope(tenant=call.scope.tenant, user=check_id(owner, "owner")))


async def _written(lines: AsyncIterator[bytes], output: str) -> archive.Total:
    """Write an archive; what its last line says it holds."""
    line = b""
    with opened_output(output) as file:
        async for line in lines:
            file.write(line)
    return msgspec.json.decode(line, type=archive.Total)


@contextmanager
def opened_output(name: str) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears only once it is whole."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(name)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _input(call: Call, name: str) -> Iterator[AsyncIterator[bytes]]:
    """The lines of standard input, or of a file, with a bar that shows how far they were read."""
    if name == "-":
        yield _lines(sys.stdin.buffer, lambda _: None)
        return
    with Path(name).open("rb") as file, call.progress("Importing", Path(name).stat().st_size) as advance:
        yield _lines(file, advance)


async def _lines(file: BinaryIO, advance: Callable[[int], None]) -> AsyncIterator[bytes]:
    for line in file:
        advance(len(line))
        yield line
