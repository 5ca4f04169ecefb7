"""The interpreter of one session: started, found again, given up and ended, each on record with why."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew.core import patch
from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, as_json
from clew.core.errors import ClewError, InterpreterGone, InvalidArgument, StoreDamaged, ThreadNotFound
from clew.core.manifest.document import BUFFERS_KEY, INTERPRETER_KEY
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Head, Put, Record, RecordQuery
from clew.database.database import Database
from clew.workbench.artifacts import Artifacts
from clew.workbench.documents.documents import Document, Documents, documents_of
from clew.workbench.documents.tools import read_texts, run_setup, send_texts
from clew.workbench.interpreter.port import Interpreter, InterpreterLimits, Interpreters, Sandbox
from clew.workbench.interpreter.scratch import Scratch
from clew.workbench.repository.checkout import CheckoutResult, check_out, checkout_news
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import RepositorySource, repository_of
from clew.workbench.session.reset import (
    LiveInterpreter,
    Mount,
    ResetReason,
    ResumeInterpreter,
    ReuseInterpreter,
    StartInterpreter,
    Transition,
    choose_interpreter,
    interpreter_news,
    interpreter_state_of,
)
from clew.workbench.volume.volume import FOLDERS, Volume

SNAPSHOT_KIND = "sandbox"


class InterpreterSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The interpreter of a session and the transition that led to it.

    ``started`` is when the interpreter came up, if that is known; ``detail`` is what was said about it.
    """

    session: str
    transition: Transition
    time: int
    provider: str
    sandbox: str | None = None
    reason: ResetReason | None = None
    volume: str | None = None
    subpath: str | None = None
    started: int | None = None
    detail: str | None = None


def snapshot_write(snapshot: InterpreterSnapshot, owner: str | None, number: int = 0) -> Put:
    """The write that keeps a snapshot. ``number`` tells those of one moment apart, in their order."""
    tags = [f"thread:{snapshot.session}"]
    if snapshot.sandbox is not None:
        tags.append(f"sandbox:{snapshot.sandbox}")
    id = f"{snapshot.time:013d}-{number}-{secrets.token_hex(6)}"
    record = Record(
        kind=SNAPSHOT_KIND, id=id, owner=owner, tags=tuple(tags), sort=snapshot.time, body=as_json(snapshot)
    )
    return Put(record=record, expect=0)


@check_arguments
async def read_snapshots(
    db: Database, *, session: str | None = None, sandbox: str | None = None, limit: int = 100
) -> Sequence[InterpreterSnapshot]:
    """Snapshots, the newest first; of one session or one interpreter, if it is named.

    Raises:
        StoreDamaged: One cannot be read.
    """
    tags = [f"thread:{session}"] if session is not None else []
    tags += [f"sandbox:{sandbox}"] if sandbox is not None else []
    query = RecordQuery(kind=SNAPSHOT_KIND, tags=tuple(tags), newest=True, limit=limit)
    return [_snapshot_of(record) for record in await db.records.find(query)]


def _snapshot_of(record: Record) -> InterpreterSnapshot:
    try:
        return msgspec.convert(record.body, InterpreterSnapshot)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"sandbox snapshot {record.id!r}", problem=str(error)) from error


NEWS_KEY = "interpreter_news"
"""The field of a session that holds the pending note to its agent about its interpreter."""
REMOVE_LOOSE_FILES = """
import os, shutil
volume = os.environ["CLEW_VOLUME"]
for entry in os.scandir(volume) if os.path.isdir(volume) else ():
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.path)
    elif entry.name not in folders:
        shutil.rmtree(entry.path)
"""
"""Takes away what code wrote to a provider's volume beside the folders that last."""
INTERPRETER_ATTACHED, INTERPRETER_CLOSED = "InterpreterAttached", "InterpreterClosed"


class WorkbenchResources(msgspec.Struct, frozen=True, kw_only=True):
    """Resources shared by the sessions of a workbench.

    ``is_remote`` says that interpreters are on another machine, where folders of this one mean nothing.
    """

    db: Database
    volume: Volume
    mount: Mount
    interpreters: Interpreters
    provider: str
    limits: InterpreterLimits
    scratch: Scratch
    repositories: RepositorySettings
    is_remote: bool
    clock: Callable[[], int]


class Attachment:
    """A session and its interpreter. One is started when it is first needed, and ended with ``close``."""

    def __init__(self, session: str, resources: WorkbenchResources) -> None:
        self.session = session
        self._resources = resources
        self._thread = resources.db.thread(session)
        self._interpreter: Interpreter | None = None
        self._folder: Path | None = None
        self._start_time: int | None = None
        self._interpreter_documents: Mapping[str, Document] = {}
        self._repository = RepositorySource()
        self._lock = asyncio.Lock()
        self.documents = Documents(resources.db, session, resources.volume)
        self.artifacts = Artifacts(resources.db, session, resources.volume)
        self.problems: Mapping[str, str] = {}
        """What is wrong with documents that are not in the interpreter, by their paths."""
        self.checkout: CheckoutResult | None = None
        """The session's repository, as it was checked out for the interpreter, if the session has one."""

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter.

        Raises:
            InvalidArgument: There is none yet.
        """
        if self._interpreter is None:
            raise InvalidArgument(problem=f"Session {self.session!r} has no interpreter.")
        return self._interpreter

    async def ensure_interpreter(self, *, force_new: bool = False) -> Sequence[InterpreterSnapshot]:
        """See to it that the session has an interpreter that is surely its own; what that took.

        Raises:
            InterpreterFailed: No interpreter came up.
            InterpreterGone: One came up and went, or did not take the documents.
        """
        async with self._lock:
            head = await self._thread.head()
            choice = choose_interpreter(
                interpreter_state_of(head.state),
                self._resources.mount,
                await self._live_interpreter(),
                force_new=force_new,
            )
            match choice:
                case ReuseInterpreter():
                    return await self._reuse(head)
                case ResumeInterpreter(id):
                    return await self._resume(head, id)
                case StartInterpreter():
                    return await self._start_new(head, choice)

    async def send_documents(self) -> None:
        """Put the documents that the session has now into its interpreter.

        Raises:
            InterpreterGone: It did not take them.
        """
        documents = documents_of(await self._thread.state())
        document_texts = await read_texts(self.documents)
        await send_texts(self.interpreter, document_texts.texts)
        self.problems, self._interpreter_documents = document_texts.problems, documents

    async def close(self) -> None:
        """End the interpreter, and have the session say so."""
        async with self._lock:
            if self._interpreter is None:
                return
            snapshot = self._new_snapshot(Transition.CLOSED)
            await self._end()
            try:
                head = await self._thread.head()
            except ThreadNotFound:  # it was erased meanwhile, and has nothing more to say
                return
            names = ("sandbox_id", "workspace_path")
            is_ours = interpreter_state_of(head.state).sandbox_id == snapshot.sandbox
            patches = [patch.delete([INTERPRETER_KEY, name]) for name in names] if is_ours else []
            await self._commit(head, patches, [snapshot], INTERPRETER_CLOSED)

    # How it is done.

    async def _live_interpreter(self) -> LiveInterpreter | None:
        if self._interpreter is None or self._folder is None:
            return None
        resources = self._resources
        has_folders = resources.scratch.exists(self._folder) and (
            resources.is_remote or resources.volume.folder.is_dir()
        )
        return LiveInterpreter(id=self._interpreter.id, alive=has_folders and await self._interpreter.alive())

    async def _reuse(self, head: Head) -> Sequence[InterpreterSnapshot]:
        """The interpreter that is held, with the documents that the session has by now."""
        if documents_of(head.state) != self._interpreter_documents:
            try:
                await self.send_documents()
            except InterpreterGone as error:
                choice = StartInterpreter(transition=Transition.RECREATED, reason=ResetReason.SANDBOX)
                return await self._start_new(head, choice, str(error))
        if repository_of(head.state) != self._repository:
            await self._check_out_repository(head)
            await self._commit(head, [patch.set([NEWS_KEY], self._news())], [], INTERPRETER_ATTACHED)
        return [self._new_snapshot(Transition.REUSED)]

    async def _resume(self, head: Head, id: str) -> Sequence[InterpreterSnapshot]:
        """The interpreter that the session had, with its variables; a new one if it cannot be had."""
        folder = self._resources.scratch.find(
            interpreter_state_of(head.state).workspace_path, self._scratch_key
        )
        try:
            if folder is None or not self._resources.scratch.exists(folder):
                raise InterpreterGone(interpreter=id, problem="its working directory is gone")
            self._interpreter = await self._resources.interpreters.attach(id, await self._sandbox(folder))
        except InterpreterGone as error:
            choice = StartInterpreter(transition=Transition.RECREATED, reason=ResetReason.RESUME)
            return await self._start_new(head, choice, str(error))
        self._folder, self._repository = folder, repository_of(head.state)
        try:
            await self.send_documents()
        except InterpreterGone as error:
            choice = StartInterpreter(transition=Transition.RECREATED, reason=ResetReason.SANDBOX)
            return await self._start_new(head, choice, str(error))
        snapshot = self._new_snapshot(Transition.RESUMED)
        await self._commit(head, [], [snapshot], INTERPRETER_ATTACHED)
        return [snapshot]

    async def _start_new(
        self, head: Head, choice: StartInterpreter, detail: str | None = None
    ) -> Sequence[InterpreterSnapshot]:
        """A new interpreter, once nothing is left of the old one. If it cannot be put on record, it goes."""
        await self._end_earlier(head)
        reset = self._new_snapshot(Transition.RESET)
        try:
            await self._start_interpreter(head)
            snapshot = msgspec.structs.replace(
                self._new_snapshot(choice.transition), reason=choice.reason, detail=detail
            )
            snapshots = [reset, snapshot] if choice.transition is Transition.CREATED else [snapshot]
            await self._commit(head, self._state_patches(head, choice), snapshots, INTERPRETER_ATTACHED)
        except BaseException:
            await self._end()
            raise
        return snapshots

    def _state_patches(self, head: Head, choice: StartInterpreter) -> list[Op]:
        """Patches that record the new interpreter in the session's state, and the news for its agent."""
        mount = self._resources.mount
        fields: dict[str, JSON] = {
            "sandbox_id": self.interpreter.id,
            "workspace_path": str(self._folder),
            "volume_name": mount.name,
            "volume_subpath": mount.subpath,
        }
        patches: list[Op] = [patch.merge([INTERPRETER_KEY], fields), patch.delete([BUFFERS_KEY])]
        news = self._news(interpreter_news(choice.reason) if head.length() else "")
        return [*patches, patch.set([NEWS_KEY], news)] if news else patches

    def _news(self, text: str = "") -> str:
        """A text for the agent, and what became of its repository."""
        return f"{text}\n{checkout_news(self.checkout)}".strip() if self.checkout is not None else text

    async def _check_out_repository(self, head: Head) -> None:
        resources, source = self._resources, repository_of(head.state)
        assert self._folder is not None
        target = None if resources.is_remote else self._folder
        self.checkout = await check_out(source, resources.repositories, target)
        self._repository = source

    async def _start_interpreter(self, head: Head) -> None:
        self._folder = await asyncio.to_thread(self._resources.scratch.make, self._scratch_key)
        await self._check_out_repository(head)
        self._interpreter = await self._resources.interpreters.make(await self._sandbox(self._folder))
        self._start_time = self._resources.clock()
        if self._resources.is_remote:
            code = f"exec({REMOVE_LOOSE_FILES!r}, {{'folders': {FOLDERS!r}}})"
            await run_setup(self._interpreter, code, "its volume could not be cleared")
        await self.send_documents()

    async def _end_earlier(self, head: Head) -> None:
        """End what the session had, here or elsewhere, before anything else may be attached."""
        state = interpreter_state_of(head.state)
        if self._interpreter is None and state.sandbox_id is not None:
            self._folder = self._resources.scratch.find(state.workspace_path, self._scratch_key)
            if self._folder is not None:
                with suppress(InterpreterGone):  # then there is nothing left of it to be ended
                    self._interpreter = await self._resources.interpreters.attach(
                        state.sandbox_id, await self._sandbox(self._folder)
                    )
        await self._end()

    async def _end(self) -> None:
        interpreter, folder = self._interpreter, self._folder
        self._interpreter, self._folder, self._start_time = None, None, None
        if interpreter is not None:
            await interpreter.close()
            if not self._resources.is_remote:
                with suppress(ClewError):  # the next interpreter takes it away, or does not start
                    await asyncio.to_thread(self._resources.volume.remove_loose_files)
        if folder is not None:
            await asyncio.to_thread(self._resources.scratch.remove, folder)

    async def _sandbox(self, folder: Path) -> Sandbox:
        resources = self._resources
        volume = f"{resources.mount.name}/{resources.mount.subpath}"
        if not resources.is_remote:
            volume = str((await asyncio.to_thread(resources.volume.prepare)).resolve())
        return Sandbox(volume=volume, scratch=str(folder), limits=resources.limits)

    @property
    def _scratch_key(self) -> str:
        return f"{self._resources.mount.subpath}\0{self.session}"

    def _new_snapshot(self, transition: Transition) -> InterpreterSnapshot:
        return InterpreterSnapshot(
            session=self.session,
            transition=transition,
            time=self._resources.clock(),
            provider=self._resources.provider,
            sandbox=self._interpreter.id if self._interpreter is not None else None,
            volume=self._resources.mount.name,
            subpath=self._resources.mount.subpath,
            started=self._start_time,
        )

    async def _commit(
        self, head: Head, patches: Sequence[Op], snapshots: Sequence[InterpreterSnapshot], reason: str
    ) -> None:
        """Change what the session says of its interpreter and put on record why, in one commit."""
        records = [snapshot_write(snapshot, head.owner, number) for number, snapshot in enumerate(snapshots)]
        change = Changeset(patches=tuple(patches), reason=reason)
        appends = [AppendTo(thread=head.id, change=change)] if patches else []
        await self._resources.db.commit([*appends, *records])
