"""Parts shared by all commands: the database, the output, and the exit."""

import asyncio
import inspect
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from clew.cli.render import values
from clew.core.encoding import check_id, check_tenant
from clew.core.errors import ClewError, InvalidArgument, StoreDamaged
from clew.core.ports import Files, Store
from clew.core.redaction import without_password
from clew.core.values import DEFAULT_TENANT, Scope
from clew.database.database import Database
from clew.urls import open_store

Db = Annotated[
    str, typer.Option("--db", envvar="CLEW_DB", metavar="URL", help="The database: a URL, or a path.")
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", envvar="CLEW_TENANT", help="Whose threads.", show_default=DEFAULT_TENANT),
]
User = Annotated[str | None, typer.Option("--user", help="See only what belongs to this user.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]

CONNINFO = re.compile(
    r"\s*postgres(ql)?:|(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=|^[^/]*:[^/]*@"
)
"""Addresses of PostgreSQL's that are no URLs: keywords and values, or a URL that was mistyped."""

COMMON_OPTIONS = {
    "db": (Db, "sqlite:///clew.db"),
    "tenant": (Tenant, None),
    "user": (User, None),
    "as_json": (Json, False),
}


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command: a value for JSON, and a view for the terminal.

    ``ok`` is false if it found trouble; ``to_stderr`` sends it to the error stream, when output is taken.
    """

    value: object
    display: RenderableType
    ok: bool = True
    to_stderr: bool = False


class CommandCall(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a command: on which database, for whom, and where it writes.

    ``is_narrowed`` says whether a tenant or a user was named; commands for operators look at all of them
    otherwise.
    """

    url: str
    scope: Scope
    as_json: bool
    out: Console
    err: Console
    is_narrowed: bool = False

    @property
    def is_postgres(self) -> bool:
        """Return whether the database is on a PostgreSQL server."""
        return self.url.startswith("postgres")

    @property
    def file(self) -> Path | None:
        """The database's file, if it is one."""
        return database_file(self.url)

    @property
    def default_volume(self) -> Path | None:
        """The default volume of a database in a file: beside it."""
        return None if self.file is None else self.file.with_name(f"{self.file.name}.volume")

    def existing_volume(self, folder: Path | None) -> Path | None:
        """The volume that is named, or else the one beside the database's file."""
        if folder is not None or self.default_volume is None or not self.default_volume.is_dir():
            return folder
        return self.default_volume

    async def open_store(self, *, create: bool = False) -> Store:
        """The store, which must be there already unless it may be created."""
        if self.file is not None and not create and not self.file.exists():
            where = str(self.file)
            raise InvalidArgument(
                problem=f"There is no database at {where!r}. Check --db, or run clew migrate."
            )
        return await open_store(self.url)

    @asynccontextmanager
    async def database(self, *, create: bool = False, files: Files | None = None) -> AsyncIterator[Database]:
        """The database as the caller sees it, closed at the end.

        The files beside it are those that are given, or else those of the volume beside its file.
        """
        store = await self.open_store(create=create)
        try:
            yield Database(store, self.scope, files=files or volume_files(self.default_volume))
        finally:
            await store.close()

    @contextmanager
    def progress(
        self, label: str, total: int | None, *, console: Console | None = None
    ) -> Iterator[Callable[[int], None]]:
        """A bar while something takes long, if a person is there to see it; ``console`` what is printed."""
        console = console or self.err
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(label, total=total)
            yield lambda amount: bar.advance(task, amount)


CommandFunction: TypeAlias = Callable[..., Coroutine[Any, Any, CommandResult]]
"""A command: an async function from a call and its own options to an answer."""


def typer_command(command: CommandFunction) -> tuple[Callable[..., None], str, str]:
    """A command as typer takes it, with the common options; its help; and its example."""
    own_parameters = list(inspect.signature(command).parameters.values())[1:]
    common_parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in COMMON_OPTIONS.items()
    ]

    def entry(db: str, tenant: str | None, user: str | None, as_json: bool, **options: object) -> None:  # noqa: FBT001 - typer calls it so
        call = new_call(db, tenant, user, as_json=as_json)
        raise typer.Exit(run_command(call, lambda: command(call, **options)))

    parameters = [
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own_parameters),
        *common_parameters,
    ]
    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    entry.__annotations__ = {each.name: each.annotation for each in parameters}
    help_text, _, example = inspect.cleandoc(command.__doc__ or "").partition("Example: ")
    return entry, help_text.strip(), f"Example: {example.strip()}"


def add_commands(app: typer.Typer, commands: Iterable[CommandFunction]) -> None:
    """Add commands to a typer application, each by the name of its function."""
    for command in commands:
        entry, help_text, example = typer_command(command)
        app.command(command.__name__.rstrip("_"), help=help_text, epilog=example)(entry)


def command_group(commands: Iterable[CommandFunction], default: CommandFunction | None = None) -> typer.Typer:
    """A group of commands, such as those behind ``clew memory``; its word alone is the default command."""
    group = typer.Typer(no_args_is_help=default is None, rich_markup_mode=None)
    if default is not None:
        _add_default_command(group, default)
    add_commands(group, commands)
    return group


def _add_default_command(group: typer.Typer, command: CommandFunction) -> None:
    entry, help_text, example = typer_command(command)
    signature = inspect.signature(entry)

    def callback(context: typer.Context, **options: object) -> None:
        if context.invoked_subcommand is None:
            entry(**options)
        # An option before the second word would be lost: a database that is named, and another one changed.
        elif any(_is_written(context, name) for name in options):
            context.fail(f"Write the options behind {context.invoked_subcommand!r}.")

    context_parameter = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context_parameter, *signature.parameters.values()]
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    callback.__annotations__ = {each.name: each.annotation for each in parameters}
    group.callback(invoke_without_command=True, help=help_text, epilog=example)(callback)


def _is_written(context: typer.Context, option: str) -> bool:
    """Return whether an option is on the command line, and not taken from the environment or a default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def new_call(db: str, tenant: str | None, user: str | None, *, as_json: bool) -> CommandCall:
    """A call from its options."""
    out, err = consoles()
    return CommandCall(
        url=database_url(db),
        scope=Scope(tenant=DEFAULT_TENANT if tenant is None else tenant, user=user),
        is_narrowed=tenant is not None or user is not None,
        as_json=as_json,
        out=out,
        err=err,
    )


def consoles() -> tuple[Console, Console]:
    """The consoles for answers and for errors."""
    return Console(highlight=False, soft_wrap=False), Console(highlight=False, stderr=True)


def database_url(location: str) -> str:
    """The URL of a database; a bare path is a file of SQLite's.

    Raises:
        InvalidArgument: It is neither, but an address of PostgreSQL's in another form.
    """
    if "://" not in location and CONNINFO.search(location):
        # As a path it would be echoed, and perhaps become the name of a file, password and all.
        raise InvalidArgument(
            problem="The address of the database is no URL. Write it as postgresql://user@host/database."
        )
    return location if "://" in location else f"sqlite:///{quote(location)}"


def database_file(url: str) -> Path | None:
    """The file behind a URL, if there is one."""
    return Path(unquote(urlsplit(url).path[1:])) if url.startswith("sqlite:///") else None


def volume_files(folder: Path | None) -> Files | None:
    """The files of a volume, if it is there: what is erased from a database goes from there too."""
    if folder is None or not folder.is_dir():
        return None
    from clew.workbench.volume.operators import Volumes

    return Volumes(folder)


def run_command(call: CommandCall, command: Callable[[], Coroutine[Any, Any, CommandResult]]) -> int:
    """Run a command to its end: show its answer or its error, and give its exit code."""
    try:
        check_tenant(call.scope.tenant)
        if call.scope.user is not None:
            check_id(call.scope.user, "user")
        result = asyncio.run(command())
        show_result(call, result)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ClewError, OSError) as error:
        show_error(call.err, error, as_json=call.as_json)
        return 1
    except msgspec.MsgspecError as error:
        damage = StoreDamaged(store=without_password(call.url), problem=str(error))
        show_error(call.err, damage, as_json=call.as_json)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        call.err.print("Stopped.")
        return 130
    return 0 if result.ok else 1


def show_result(call: CommandCall, result: CommandResult) -> None:
    """Write an answer where it belongs."""
    console = call.err if result.to_stderr else call.out
    if call.as_json:
        console.file.write(values.as_json(result.value))
    else:
        console.print(result.display)
    console.file.flush()


def show_error(console: Console, error: Exception, *, as_json: bool) -> None:
    """Say in one sentence, with its code, what went wrong."""
    if as_json:
        console.file.write(values.as_json(values.error_value(error)))
    else:
        console.print(values.error_line(error))
