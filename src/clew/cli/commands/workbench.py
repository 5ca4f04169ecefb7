"""Parts shared by the commands about a thread's workbench: the thread, its database and its volume."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from clew.cli.command import CommandCall
from clew.cli.commands.work import VolumeRoot
from clew.database.database import Database
from clew.workbench.artifacts import Artifacts
from clew.workbench.documents.documents import Documents
from clew.workbench.volume.volume import Volume

ThreadName = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]


class ThreadWorkbench(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that is there, and the volume of its owner."""

    db: Database
    thread: str
    volume: Volume
    author: str | None = None

    @property
    def documents(self) -> Documents:
        """The documents of the thread."""
        return Documents(self.db, self.thread, self.volume, author=self.author)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of the thread."""
        return Artifacts(self.db, self.thread, self.volume, author=self.author)


@asynccontextmanager
async def open_workbench(call: CommandCall, thread: str, root: Path | None) -> AsyncIterator[ThreadWorkbench]:
    """The workbench of a thread, closed at the end.

    Raises:
        ThreadNotFound: There is no such thread.
        InvalidArgument: There is no volume.
    """
    from clew.cli.commands.work_session import volume_root

    async with call.database() as db:
        head = await db.thread(thread).head()
        volume = Volume(volume_root(call, root), call.scope.tenant, head.owner)
        yield ThreadWorkbench(db=db, thread=thread, volume=volume, author=call.scope.user)


__all__ = ["ThreadName", "ThreadWorkbench", "VolumeRoot", "open_workbench"]
