"""A workbench: a thread, a volume and an interpreter, opened together as one session and left together.

At most one session is open at a time. Whatever of it lives only in this process, which is the interpreter and
its scratch folder, is ended before another one is opened: nothing of the earlier session shows.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from clew.core.arguments import check_methods
from clew.core.clock import now_ms
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.manifest.document import CORE_MEMORY
from clew.core.manifest.files import ManifestAddress
from clew.database.database import Database
from clew.runtime.state.inputs import check_thread_id
from clew.workbench.interpreter.port import Interpreter, InterpreterLimits, Interpreters
from clew.workbench.interpreter.scratch import LocalScratch, RemoteScratch
from clew.workbench.repository.checkout import CheckoutResult
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import RepositorySource, check_source, repository_of
from clew.workbench.session.attachment import Attachment, InterpreterSnapshot, WorkbenchResources
from clew.workbench.session.checkpoints import (
    CheckpointResult,
    ManifestCheckpoints,
    Persistence,
    RestoreResult,
    SourceOfTruth,
)
from clew.workbench.session.repository import set_repository
from clew.workbench.session.reset import Mount
from clew.workbench.volume.volume import Volume


class OpenResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of opening a session: its source, its interpreter and its manifest.

    ``problems`` says which documents are not there, or not what they were; ``repository`` what was checked
    out, or why it was not, if the session has one.
    """

    session: str
    restored: RestoreResult
    changes: tuple[InterpreterSnapshot, ...]
    saved: CheckpointResult
    problems: Mapping[str, str] = {}
    repository: CheckoutResult | None = None


@check_methods
class Workbench:
    """Opens the sessions of one user, one at a time. Use it as an async context manager.

    ``volume_name`` is what the volume is known by, wherever it is mounted; ``provider`` says where
    interpreters come from. If they are on another machine (``is_remote``), the provider's volume of that name
    is mounted there, in the user's folder of it. With ``persistence`` set to best effort, what is wrong with
    a manifest is said and not raised. ``repositories`` says where repositories may be fetched from: nowhere,
    unless hosts are listed.
    """

    def __init__(
        self,
        db: Database,
        volume: Volume,
        interpreters: Interpreters,
        *,
        user: str | None = None,
        workspace: str = "default",
        volume_name: str = "default",
        provider: str = "local",
        is_remote: bool = False,
        persistence: Persistence = "strict",
        limits: InterpreterLimits | None = None,
        repositories: RepositorySettings | None = None,
        defaults: Mapping[str, JSON] = CORE_MEMORY,
        scratch: Path | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.db = db
        self.volume = volume
        self.user = user
        self._workspace = workspace
        self._persistence: Persistence = persistence
        self._defaults = defaults
        self._resources = WorkbenchResources(
            db=db,
            volume=volume,
            mount=Mount(name=volume_name, subpath=volume.folder.relative_to(volume.tenant.root).as_posix()),
            interpreters=interpreters,
            provider=provider,
            limits=limits or InterpreterLimits(),
            scratch=RemoteScratch(scratch) if is_remote else LocalScratch(scratch),
            repositories=repositories or RepositorySettings(),
            is_remote=is_remote,
            clock=clock,
        )
        self._attachment: Attachment | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def session(self) -> str | None:
        """The session that is open, if one is."""
        return self._attachment.session if self._attachment is not None else None

    @property
    def attachment(self) -> Attachment:
        """The session that is open, with its interpreter.

        Raises:
            InvalidArgument: None is.
        """
        if self._attachment is None:
            raise InvalidArgument(problem="No session is open at this workbench.")
        return self._attachment

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter of the session that is open.

        Raises:
            InvalidArgument: There is none.
        """
        return self.attachment.interpreter

    async def open(
        self,
        session: str,
        *,
        force_new_session: bool = False,
        take: SourceOfTruth | None = None,
        repository: RepositorySource | None = None,
    ) -> OpenResult:
        """Open a session as its manifest says; one that is open is left first, and its interpreter ended.

        With ``repository`` the session works on that one from now on.

        Raises:
            ManifestConflict: Its manifest and the database disagree; say with ``take`` which one holds.
            ManifestUnreadable: Its manifest is none.
            InterpreterFailed: No interpreter came up.
            InvalidArgument: The session is another user's, or the repository cannot be used.
        """
        if repository is not None:
            check_source(repository)
        if self.session not in (None, session):
            await self.close()  # before anything of the other session is even read
        elif take == "manifest":
            await self._leave()
        await self._check_owner(check_thread_id(session))
        checkpoints = self._checkpoints(session)
        restore = await (checkpoints.restore() if take is None else checkpoints.take(take))
        await self.db.create(session, owner=self.user, exist_ok=True)
        if repository not in (None, repository_of(await self.db.thread(session).state())):
            await set_repository(self.db, session, repository)
        attachment = self._attachment or Attachment(session, self._resources)
        changes = await attachment.ensure_interpreter(force_new=force_new_session)
        self._attachment = attachment
        checkpoint = await checkpoints.save()
        return OpenResult(
            session=session,
            restored=restore,
            changes=tuple(changes),
            saved=checkpoint,
            problems=attachment.problems,
            repository=attachment.checkout,
        )

    async def checkpoint(self) -> CheckpointResult:
        """Write the manifest of the session that is open.

        Raises:
            ManifestConflict: Another writer's manifest is there, which the database does not know.
            ManifestUnreadable: What was there is none; it was put aside.
            ManifestWriteFailed: It could not be written.
        """
        return await self._checkpoints(self.attachment.session).save()

    async def reset(self) -> Sequence[InterpreterSnapshot]:
        """Give the session that is open a new interpreter (``force_new_session``); what that took."""
        changes = await self.attachment.ensure_interpreter(force_new=True)
        await self.checkpoint()
        return changes

    async def close(self) -> None:
        """Leave the session that is open: its interpreter is ended, and its manifest says so."""
        session = self.session
        await self._leave()
        if session is not None:
            with suppress(ThreadNotFound):  # it was erased meanwhile: nothing of it is to be written again
                await self._checkpoints(session).save()

    async def _leave(self) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            await attachment.close()

    def _checkpoints(self, session: str) -> ManifestCheckpoints:
        address = ManifestAddress(workspace=self._workspace, user=self.user, session=session)
        return ManifestCheckpoints(
            self.db,
            self.volume,
            address,
            clock=self._resources.clock,
            persistence=self._persistence,
            defaults=self._defaults,
        )

    async def _check_owner(self, session: str) -> None:
        """Refuse another user's session, before a manifest of it is written where this user can read it."""
        try:
            head = await self.db.thread(session).head()
        except ThreadNotFound:
            return
        if head.owner != self.user:
            raise InvalidArgument(problem=f"Session {session!r} is another user's.")
