"""Imports from the databases of other frameworks: which it is, and what came of it."""

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from clew.adapters.source import SourceDatabase, is_sqlite_file, open_source
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.core.errors import InvalidArgument
from clew.core.redaction import without_password
from clew.database.database import Database
from clew.database.transfer import ThreadTransfer, TransferOptions, TransferOutcome


class Framework(StrEnum):
    """A framework whose own databases can be imported."""

    OPENAI_AGENTS = "openai-agents"
    ADK = "adk"
    LANGGRAPH = "langgraph"


class ThreadReader(Protocol):
    """The module of an adapter that reads the databases of its framework."""

    async def count_threads(self, source: SourceDatabase) -> int:
        """The number of threads that there are to import, for a bar that shows the progress."""
        ...

    def transfer_threads(
        self, source: SourceDatabase, db: Database, options: TransferOptions
    ) -> AsyncIterator[ThreadTransfer]:
        """Take in every thread, one after another."""
        ...


READERS: Final[Mapping[Framework, str]] = {
    Framework.OPENAI_AGENTS: "clew.adapters.openai_agents.transfer",
    Framework.ADK: "clew.adapters.adk.transfer",
    Framework.LANGGRAPH: "clew.adapters.langgraph.transfer",
}
TABLES: Final[Mapping[Framework, Mapping[str, frozenset[str]]]] = {
    Framework.OPENAI_AGENTS: {"agent_messages": frozenset({"id", "session_id", "message_data"})},
    Framework.ADK: {
        "sessions": frozenset({"app_name", "user_id", "id", "state"}),
        "events": frozenset({"app_name", "user_id", "session_id", "invocation_id"}),
        "app_states": frozenset({"app_name", "state"}),
        "user_states": frozenset({"app_name", "user_id", "state"}),
    },
    Framework.LANGGRAPH: {
        "checkpoints": frozenset(
            {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint", "metadata"}
        ),
    },
}
"""The tables, and columns of them, by which a database is recognised without its framework installed."""
OWN_TABLES: Final = {"threads", "changesets", "items", "records"}
MOST_PROBLEMS: Final = 20


def is_database(location: str) -> bool:
    """Return whether a location is that of a database, and not of an archive."""
    if "://" in location:
        return True
    path = Path(location)
    return path.is_file() and is_sqlite_file(path)


async def import_database(
    call: CommandCall,
    location: str,
    framework: Framework | None,
    options: TransferOptions,
    *,
    skip_existing: bool,
) -> CommandResult:
    """Take in the threads of a database that a framework wrote, and report what came of each."""
    transfers: list[ThreadTransfer] = []
    if options.dry_run and call.file is not None and not call.file.exists():
        call = msgspec.structs.replace(call, url="memory://")
    async with open_source(location) as source, call.database(create=True) as db:
        framework = await recognize(source, location, framework)
        reader = cast("ThreadReader", import_module(READERS[framework]))
        with call.progress("Importing", await reader.count_threads(source)) as advance:
            async for transfer in reader.transfer_threads(source, db, options):
                transfers.append(transfer)
                advance(1)
    return _result(framework, transfers, options, skip_existing=skip_existing)


async def recognize(source: SourceDatabase, location: str, framework: Framework | None) -> Framework:
    """The framework that wrote a database, by its tables.

    Raises:
        InvalidArgument: It is none that can be read, not the one that was named, or may be more than one.
    """
    tables, where = await source.columns(), repr(without_password(location))
    matches = [name for name, parts in TABLES.items() if _has_tables(tables, parts)]
    if framework in matches or (framework is None and len(matches) == 1):
        return framework or matches[0]
    if framework is not None:
        raise InvalidArgument(problem=f"{where} has no tables of {framework.value}.")
    if matches:
        names = " and of ".join(matches)
        raise InvalidArgument(problem=f"{where} has tables of {names}. Choose one of them with --from.")
    if tables.keys() >= OWN_TABLES:
        raise InvalidArgument(
            problem=f"{where} is a database of Clew's own. Export its threads, and import those."
        )
    raise InvalidArgument(problem=f"{where} has tables of none of these: {', '.join(TABLES)}.")


def _has_tables(tables: Mapping[str, frozenset[str]], parts: Mapping[str, frozenset[str]]) -> bool:
    return all(columns <= tables.get(table, frozenset()) for table, columns in parts.items())


def _result(
    framework: Framework, transfers: list[ThreadTransfer], options: TransferOptions, *, skip_existing: bool
) -> CommandResult:
    by_outcome = {
        outcome: [transfer for transfer in transfers if transfer.outcome is outcome]
        for outcome in TransferOutcome
    }
    imported = by_outcome[TransferOutcome.IMPORTED]
    tolerated = {TransferOutcome.CONFLICT} if skip_existing else set[TransferOutcome]()
    trouble = [
        each for each in transfers if each.left_out or (each.problem and each.outcome not in tolerated)
    ]
    words = (
        f"{values.quantity(len(imported), 'thread')} of {framework.value} "
        f"{'would be imported' if options.dry_run else 'imported'}, "
        f"{len(by_outcome[TransferOutcome.PRESENT]):,} there already, "
        f"{len(by_outcome[TransferOutcome.CONFLICT]) + len(by_outcome[TransferOutcome.REFUSED]):,} skipped."
    )
    value = {"from": framework.value, "dry_run": options.dry_run, "threads": transfers}
    return CommandResult(value=value, display=_display(words, trouble), ok=not trouble)


def _display(words: str, trouble: list[ThreadTransfer]) -> RenderableType:
    lines = [Text(words)]
    for transfer in trouble[:MOST_PROBLEMS]:
        problems = [transfer.problem] if transfer.problem else []
        problems += [f"Left out: {part}." for part in transfer.left_out]
        lines.append(Text(values.clean(f"{transfer.thread}: {' '.join(problems)}"), style="yellow"))
    if len(trouble) > MOST_PROBLEMS:
        lines.append(Text(f"… and {len(trouble) - MOST_PROBLEMS:,} more; --json names all."))
    return Group(*lines)
