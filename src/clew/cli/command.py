"""What every command has in common: where the database is, how it answers, and how it ends."""

import asyncio
import inspect
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
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

COMMON = {
    "db": (Db, "sqlite:///clew.db"),
    "tenant": (Tenant, None),
    "user": (User, None),
    "as_json": (Json, False),
}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a command found: as a value for JSON and as something to look at.

    ``ok`` is false if it found trouble; ``aside`` sends it to the error stream, when output is taken.
    """

    value: object
    shown: RenderableType
    ok: bool = True
    aside: bool = False


class Call(msgspec.Struct, frozen=True, kw_only=True):
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
        """Whether the database is on a PostgreSQL server."""
        return self.url.startswith("postgres")

    @property
    def file(self) -> Path | None:
        """The database's file, if it is one."""
        return file_of(self.url)

    @property
    def volume(self) -> Path | None:
        """Where the volume of a database that is a file stands, unless another is named: beside it."""
        return None if self.file is None else self.file.with_name(f"{self.file.name}.volume")

    def volume_there(self, named: Path | None) -> Path | None:
        """The volume that is named, or else the one that stands beside the database's file."""
        if named is not None or self.volume is None or not self.volume.is_dir():
            return named
        return self.volume

    async def store(self, *, create: bool = False) -> Store:
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
        store = await self.store(create=create)
        try:
            yield Database(store, self.scope, files=files or files_at(self.volume))
        finally:
            await store.close()

    @contextmanager
    def progress(
        self, what: str, total: int | None, *, beside: Console | None = None
    ) -> Iterator[Callable[[int], None]]:
        """A bar while something takes long, if a person is there to see it; ``beside`` what is printed."""
        console = beside or self.err
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(what, total=total)
            yield lambda by: bar.advance(task, by)


Work: TypeAlias = Callable[..., Coroutine[Any, Any, Answer]]
"""A command: an async function from a call and its own options to an answer."""


def framed(work: Work) -> tuple[Callable[..., None], str, str]:
    """A command as typer takes it, with the common options; its help; and its example."""
    own = list(inspect.signature(work).parameters.values())[1:]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in COMMON.items()
    ]

    def entry(db: str, tenant: str | None, user: str | None, as_json: bool, **given: object) -> None:  # noqa: FBT001 - typer calls it so
        call = made_call(db, tenant, user, as_json=as_json)
        raise typer.Exit(finished(call, lambda: work(call, **given)))

    parameters = [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *common]
    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    entry.__annotations__ = {each.name: each.annotation for each in parameters}
    words, _, example = inspect.cleandoc(work.__doc__ or "").partition("Example: ")
    return entry, words.strip(), f"Example: {example.strip()}"


def made_call(db: str, tenant: str | None, user: str | None, *, as_json: bool) -> Call:
    """A call from its options."""
    out, err = consoles()
    return Call(
        url=url_of(db),
        scope=Scope(tenant=DEFAULT_TENANT if tenant is None else tenant, user=user),
        is_narrowed=tenant is not None or user is not None,
        as_json=as_json,
        out=out,
        err=err,
    )


def consoles() -> tuple[Console, Console]:
    """Where answers and where errors go."""
    return Console(highlight=False, soft_wrap=False), Console(highlight=False, stderr=True)


def url_of(given: str) -> str:
    """The URL of a database; a bare path is a file of SQLite's.

    Raises:
        InvalidArgument: It is neither, but an address of PostgreSQL's in another form.
    """
    if "://" not in given and CONNINFO.search(given):
        # As a path it would be echoed, and perhaps become the name of a file, password and all.
        raise InvalidArgument(
            problem="The address of the database is no URL. Write it as postgresql://user@host/database."
        )
    return given if "://" in given else f"sqlite:///{quote(given)}"


def file_of(url: str) -> Path | None:
    """The file behind a URL, if there is one."""
    return Path(unquote(urlsplit(url).path[1:])) if url.startswith("sqlite:///") else None


def files_at(folder: Path | None) -> Files | None:
    """The files of a volume, if it is there: what is erased from a database goes from there too."""
    if folder is None or not folder.is_dir():
        return None
    from clew.workbench.volume.operators import Volumes

    return Volumes(folder)


def finished(call: Call, work: Callable[[], Coroutine[Any, Any, Answer]]) -> int:
    """Run a command to its end: show its answer or its error, and give its exit code."""
    try:
        check_tenant(call.scope.tenant)
        if call.scope.user is not None:
            check_id(call.scope.user, "user")
        answer = asyncio.run(work())
        show(call, answer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ClewError, OSError) as error:
        complain(call.err, error, as_json=call.as_json)
        return 1
    except msgspec.MsgspecError as error:
        damage = StoreDamaged(store=without_password(call.url), problem=str(error))
        complain(call.err, damage, as_json=call.as_json)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        call.err.print("Stopped.")
        return 130
    return 0 if answer.ok else 1


def show(call: Call, answer: Answer) -> None:
    """Write an answer where it belongs."""
    console = call.err if answer.aside else call.out
    if call.as_json:
        console.file.write(values.as_json(answer.value))
    else:
        console.print(answer.shown)
    console.file.flush()


def complain(console: Console, error: Exception, *, as_json: bool) -> None:
    """Say in one sentence, with its code, what went wrong."""
    if as_json:
        console.file.write(values.as_json(values.error_value(error)))
    else:
        console.print(values.error_line(error))
