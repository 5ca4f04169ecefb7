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

from clew.cli.backup.inventory import scopes_of, verify_scopes, verify_threads
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import all_thread_ids
from clew.cli.render import values
from clew.cli.render.values import HeadHash
from clew.cli.transfer import Framework, import_database, is_database
from clew.cli.volume_option import VolumeFolder, volumes_at
from clew.core.archive import format as archive_format
from clew.core.encoding import check_id
from clew.core.errors import ClewError, InvalidArgument
from clew.core.log import chain, reader
from clew.core.log.rows import StoreRead
from clew.core.values import Scope
from clew.database.archive import ThreadProgress, export_threads, import_threads, record_kinds
from clew.database.database import Database
from clew.database.erasure import find_erased_thread
from clew.database.transfer import TransferOptions
from clew.database.verify import Verdict
from clew.runtime.person_export import EXCLUDED_KINDS


async def verify(
    call: CommandCall,
    thread: Annotated[str | None, typer.Argument(metavar="THREAD", help="Only this thread.")] = None,
    heads: Annotated[
        Path | None,
        typer.Option("--heads", metavar="FILE", help="Heads kept outside, as --json writes them."),
    ] = None,
) -> CommandResult:
    """Check that threads are whole and unaltered.

    Those of every tenant are checked, unless --tenant names one. The hash chain is followed, every changeset
    replayed, and deliberate erasure distinguished from alteration. It ends with 1 if anything is
    wrong.

    Example: clew verify --heads heads.json
    """
    heads_outside = _heads_in_file(heads) if heads else []
    if call.is_narrowed:
        heads_outside = [head for head in heads_outside if head.tenant == call.scope.tenant]
    async with call.database() as db:
        if thread is not None:
            verdicts = await verify_threads(call, db.store, [(call.scope, thread)])
        else:
            verdicts = await verify_scopes(call, db.store, await scopes_of(call, db.store))
        erased, missing = await _compare_heads(call, db, heads_outside)
    verdicts += erased
    ok = all(verdict.ok for verdict in verdicts) and not missing
    value = {"ok": ok, "threads": verdicts, "missing": missing}
    return CommandResult(value=value, display=values.verdict_table(verdicts, missing), ok=ok)


async def export(
    call: CommandCall,
    threads: Annotated[list[str] | None, typer.Argument(metavar="THREAD", help="Only these.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
    ] = "-",
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="All about this person, records too.")
    ] = None,
    volume: VolumeFolder = None,
) -> CommandResult:
    """Write threads, with their past, to an archive.

    With --owner it is everything about one person: threads, memory, runs, sessions, feedback, and their files
    if a volume is named.

    Example: clew export --owner alice -o alice.jsonl
    """
    heads: list[HeadHash] = []
    call = call if owner is None else _call_for_owner(call, owner, threads)
    async with call.database(files=volumes_at(volume) if owner is not None else None) as db:
        kinds = await record_kinds(db.store, call.scope, owner, EXCLUDED_KINDS) if owner is not None else []
        total = len(threads) if threads else len(await all_thread_ids(db))
        with call.progress("Exporting", total) as advance:
            notify = _head_collector(call.scope.tenant, heads, advance)
            lines = export_threads(
                db.store, call.scope, threads or None, kinds=kinds, files=db.files, notify=notify
            )
            totals = await _write_archive(lines, output)
    also = _records_and_files(totals.records, totals.files) if owner is not None else ""
    display = values.head_table(f"{values.quantity(len(heads), 'thread')}{also} exported.", heads)
    value = {"file": output, "threads": heads, "records": totals.records, "files": totals.files}
    return CommandResult(value=value, display=display, to_stderr=output == "-")


async def import_(
    call: CommandCall,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="An archive, or a framework's database; - is standard input."),
    ],
    *,
    framework: Annotated[
        Framework | None, typer.Option("--from", help="The framework that wrote the database.")
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", help="What the ids of a framework's threads begin with here.")
    ] = "",
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="The owner of a framework's threads.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check a framework's threads, and write nothing.")
    ] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave threads alone that are there already.")
    ] = False,
    volume: VolumeFolder = None,
) -> CommandResult:
    """Take in the threads of an archive, or of a framework.

    Each is taken whole or not at all. Those of an archive have the same versions, times and hashes, and its
    records and files come with them; files need a volume. The database of a framework is recognised by its
    tables, and only read: a file of SQLite's, or the URL of one on PostgreSQL. A second import adds nothing.
    It ends with 1 if a thread was left out.

    Example: clew import sessions.db --from openai-agents --db sqlite:///agent.db
    """
    options = TransferOptions(prefix=prefix, owner=owner, dry_run=dry_run)
    if framework is not None or is_database(file):
        return await import_database(call, file, framework, options, skip_existing=skip_existing)
    if options != TransferOptions():
        raise InvalidArgument(
            problem="--prefix, --owner and --dry-run are for a framework's database; this is an archive."
        )
    heads: list[HeadHash] = []
    with _open_input(call, file) as lines:
        async with call.database(create=True, files=volumes_at(volume)) as db:
            run_import = partial(import_threads, files=db.files, skip_existing=skip_existing)
            result = await run_import(
                db.store, call.scope, lines, notify=_head_collector(call.scope.tenant, heads, lambda _: None)
            )
    also = (
        _records_and_files(result.records, result.files) if result.total.records or result.total.files else ""
    )
    skip_count = (
        len(result.skipped) + result.total.records - result.records + result.total.files - result.files
    )
    words = f"{values.quantity(len(result.threads), 'thread')}{also} imported, {skip_count:,} skipped."
    value = {"threads": heads, "skipped": result.skipped, "records": result.records, "files": result.files}
    return CommandResult(value=value, display=values.head_table(words, heads))


def _records_and_files(records: int, files: int) -> str:
    """The records and files that go with threads, in words."""
    if not files:
        return f" and {values.quantity(records, 'record')}"
    return f", {values.quantity(records, 'record')} and {values.quantity(files, 'file')}"


def _heads_in_file(file: Path) -> list[HeadHash]:
    """The heads of a file that verify, export or backup wrote with --json."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=values.HeadsFile).threads
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgument(problem=f"{str(file)!r} holds no heads ({error}).") from error


async def _compare_heads(
    call: CommandCall, db: Database, heads: list[HeadHash]
) -> tuple[list[Verdict], list[str]]:
    """Hold the database against heads kept outside.

    Given are those whose threads were erased whole, under a receipt, and what is wrong with the others.
    """
    erased: list[Verdict] = []
    missing: list[str] = []
    for head in heads:
        scope = Scope(tenant=head.tenant, user=call.scope.user)
        verdict = await find_erased_thread(db.store, scope, head.thread)
        if verdict is not None:
            erased.append(verdict)
        elif (problem := await _problem_of_head(db, scope, head)) is not None:
            missing.append(problem)
    return erased, missing


async def _problem_of_head(db: Database, scope: Scope, head: HeadHash) -> str | None:
    try:
        hash = await db.store.read(scope, _read_hash_at(head.thread, head.version))
    except ClewError as error:
        return f"{values.name_of(head.tenant, head.thread)}: {error}"
    if hash.hex() == head.hash:
        return None
    name = values.name_of(head.tenant, head.thread)
    return f"{name}: version {head.version} is not the one that was kept outside"


def _read_hash_at(id: str, version: int) -> StoreRead[bytes]:
    """The hash that a thread's head had when it was at a version."""
    row = yield from reader.read_thread(id)
    if version == row.version:
        return row.hash
    reader.check_version(row, version)
    facts = yield from reader.read_version_facts(row, version)
    return chain.head_hash(row, version, facts.hash)


def _head_collector(
    tenant: str, heads: list[HeadHash], advance: Callable[[int], None]
) -> Callable[[ThreadProgress], None]:
    """Remembers the head of every thread that is done."""

    def collect_head(progress: ThreadProgress) -> None:
        if progress.hash is not None:
            head = HeadHash(
                tenant=tenant, thread=progress.thread, version=progress.version, hash=progress.hash
            )
            heads.append(head)
            advance(1)

    return collect_head


def _call_for_owner(call: CommandCall, owner: str, threads: list[str] | None) -> CommandCall:
    """The same call, for what one person owns and nothing else."""
    if threads or call.scope.user not in (None, owner):
        raise InvalidArgument(problem="Export some threads, or all about one person: not both.")
    return msgspec.structs.replace(call, scope=Scope(tenant=call.scope.tenant, user=check_id(owner, "owner")))


async def _write_archive(lines: AsyncIterator[bytes], output: str) -> archive_format.TotalLine:
    """Write an archive; what its last line says it holds."""
    line = b""
    with open_output(output) as file:
        async for line in lines:
            file.write(line)
    return msgspec.json.decode(line, type=archive_format.TotalLine)


@contextmanager
def open_output(name: str) -> Iterator[BinaryIO]:
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
def _open_input(call: CommandCall, name: str) -> Iterator[AsyncIterator[bytes]]:
    """The lines of standard input, or of a file, with a bar that shows how far they were read."""
    if name == "-":
        yield _file_lines(sys.stdin.buffer, lambda _: None)
        return
    with Path(name).open("rb") as file, call.progress("Importing", Path(name).stat().st_size) as advance:
        yield _file_lines(file, advance)


async def _file_lines(file: BinaryIO, advance: Callable[[int], None]) -> AsyncIterator[bytes]:
    for line in file:
        advance(len(line))
        yield line
