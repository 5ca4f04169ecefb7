"""The interpreter of one session: started, found again, given up and ended, each on record with why."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew.core import patch
from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, plain
from clew.core.errors import InterpreterGone, InvalidArgument, StoreDamaged, ThreadNotFound
from clew.core.manifest.document import BUFFERS, INTERPRETER
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Head, Put, Record, RecordQuery
from clew.database.database import Database
from clew.workbench.artifacts import Artifacts
from clew.workbench.documents.documents import Document, Documents, documents_of
from clew.workbench.documents.tools import stage, texts_of
from clew.workbench.interpreter.port import Interpreter, Interpreters, Limits, Sandbox
from clew.workbench.interpreter.scratch import Scratch
from clew.workbench.session.reset import (
    Live,
    Make,
    Mount,
    Reason,
    Resume,
    Reuse,
    Transition,
    choice,
    news,
    saved_of,
)
from clew.workbench.volume.volume import Volume

KIND = "sandbox"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to the interpreter of a session.

    ``started`` is when the interpreter came up, if that is known; ``detail`` is what was said about it.
    """

    session: str
    transition: Transition
    time: int
    provider: str
    sandbox: str | None = None
    reason: Reason | None = None
    volume: str | None = None
    subpath: str | None = None
    started: int | None = None
    detail: str | None = None


def written(snapshot: Snapshot, owner: str | None, number: int = 0) -> Put:
    """The write that keeps a snapshot. ``number`` tells those of one moment apart, in their order."""
    tags = [f"thread:{snapshot.session}"]
    if snapshot.sandbox is not None:
        tags.append(f"sandbox:{snapshot.sandbox}")
    id = f"{snapshot.time:013d}-{number}-{secrets.token_hex(6)}"
    record = Record(kind=KIND, id=id, owner=owner, tags=tuple(tags), sort=snapshot.time, body=plain(snapshot))
    return Put(record=record, expect=0)


@check_arguments
async def snapshots(
    db: Database, *, session: str | None = None, sandbox: str | None = None, limit: int = 100
) -> Sequence[Snapshot]:
    """Snapshots, the newest first; of one session or one interpreter, if it is named.

    Raises:
        StoreDamaged: One cannot be read.
    """
    tags = [f"thread:{session}"] if session is not None else []
    tags += [f"sandbox:{sandbox}"] if sandbox is not None else []
    query = RecordQuery(kind=KIND, tags=tuple(tags), newest=True, limit=limit)
    return [_snapshot(record) for record in await db.records.find(query)]


def _snapshot(record: Record) -> Snapshot:
    try:
        return msgspec.convert(record.body, Snapshot)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"sandbox snapshot {record.id!r}", problem=str(error)) from error


NEWS = "interpreter_news"
"""The field of a session under which stands what its agent has yet to be told of its interpreter."""
ATTACHED, CLOSED = "InterpreterAttached", "InterpreterClosed"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What every session of a workbench has around it.

    ``is_remote`` says that interpreters are on another machine, where folders of this one mean nothing.
    """

    db: Database
    volume: Volume
    mount: Mount
    interpreters: Interpreters
    provider: str
    limits: Limits
    scratch: Scratch
    is_remote: bool
    clock: Callable[[], int]


class Attachment:
    """A session and its interpreter. One is started when it is first needed, and ended with ``close``."""

    def __init__(self, session: str, around: Surroundings) -> None:
        self.session = session
        self._around = around
        self._thread = around.db.thread(session)
        self._interpreter: Interpreter | None = None
        self._folder: Path | None = None
        self._started: int | None = None
        self._staged: Mapping[str, Document] = {}
        self._turn = asyncio.Lock()
        self.documents = Documents(around.db, session, around.volume)
        self.artifacts = Artifacts(around.db, session, around.volume)
        self.problems: Mapping[str, str] = {}
        """What is wrong with documents that are not in the interpreter, by their paths."""

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter.

        Raises:
            InvalidArgument: There is none yet.
        """
        if self._interpreter is None:
            raise InvalidArgument(problem=f"Session {self.session!r} has no interpreter.")
        return self._interpreter

    async def ready(self, *, force_new: bool = False) -> Sequence[Snapshot]:
        """See to it that the session has an interpreter that is surely its own; what that took.

        Raises:
            InterpreterFailed: No interpreter came up.
            InterpreterGone: One came up and went, or did not take the documents.
        """
        async with self._turn:
            head = await self._thread.head()
            chosen = choice(saved_of(head.state), self._around.mount, await self._live(), force_new=force_new)
            match chosen:
                case Reuse():
                    return await self._reused(head)
                case Resume(id):
                    return await self._resumed(head, id)
                case Make():
                    return await self._made(head, chosen)

    async def stage(self) -> None:
        """Put the documents that the session has now into its interpreter.

        Raises:
            InterpreterGone: It did not take them.
        """
        loaded = documents_of(await self._thread.state())
        found = await texts_of(self.documents)
        await stage(self.interpreter, found.texts)
        self.problems, self._staged = found.problems, loaded

    async def close(self) -> None:
        """End the interpreter, and have the session say so."""
        async with self._turn:
            if self._interpreter is None:
                return
            snapshot = self._snapshot(Transition.CLOSED)
            await self._end()
            try:
                head = await self._thread.head()
            except ThreadNotFound:  # it was erased meanwhile, and has nothing more to say
                return
            gone = ("sandbox_id", "workspace_path")
            is_ours = saved_of(head.state).sandbox_id == snapshot.sandbox
            patches = [patch.delete([INTERPRETER, name]) for name in gone] if is_ours else []
            await self._commit(head, patches, [snapshot], CLOSED)

    # How it is done.

    async def _live(self) -> Live | None:
        if self._interpreter is None or self._folder is None:
            return None
        around = self._around
        is_there = around.scratch.is_there(self._folder) and (
            around.is_remote or around.volume.folder.is_dir()
        )
        return Live(id=self._interpreter.id, alive=is_there and await self._interpreter.alive())

    async def _reused(self, head: Head) -> Sequence[Snapshot]:
        """The interpreter that is held, with the documents that the session has by now."""
        if documents_of(head.state) != self._staged:
            try:
                await self.stage()
            except InterpreterGone as error:
                failed = Make(transition=Transition.RECREATED, reason=Reason.SANDBOX)
                return await self._made(head, failed, str(error))
        return [self._snapshot(Transition.REUSED)]

    async def _resumed(self, head: Head, id: str) -> Sequence[Snapshot]:
        """The interpreter that the session had, with its variables; a new one if it cannot be had."""
        folder = self._around.scratch.found(saved_of(head.state).workspace_path, self._key)
        try:
            if folder is None or not self._around.scratch.is_there(folder):
                raise InterpreterGone(interpreter=id, problem="its working directory is gone")
            self._interpreter = await self._around.interpreters.attach(id, self._sandbox(folder))
        except InterpreterGone as error:
            failed = Make(transition=Transition.RECREATED, reason=Reason.RESUME)
            return await self._made(head, failed, str(error))
        self._folder = folder
        try:
            await self.stage()
        except InterpreterGone as error:
            failed = Make(transition=Transition.RECREATED, reason=Reason.SANDBOX)
            return await self._made(head, failed, str(error))
        snapshot = self._snapshot(Transition.RESUMED)
        await self._commit(head, [], [snapshot], ATTACHED)
        return [snapshot]

    async def _made(self, head: Head, chosen: Make, detail: str | None = None) -> Sequence[Snapshot]:
        """A new interpreter, once nothing is left of the old one. If it cannot be put on record, it goes."""
        await self._give_up(head)
        reset = self._snapshot(Transition.RESET)
        try:
            await self._start()
            made = msgspec.structs.replace(
                self._snapshot(chosen.transition), reason=chosen.reason, detail=detail
            )
            snapshots = [reset, made] if chosen.transition is Transition.CREATED else [made]
            await self._commit(head, self._changed(head, chosen), snapshots, ATTACHED)
        except BaseException:
            await self._end()
            raise
        return snapshots

    def _changed(self, head: Head, chosen: Make) -> list[Op]:
        """What the session says of its new interpreter, and what its agent is to be told."""
        mount = self._around.mount
        said: dict[str, JSON] = {
            "sandbox_id": self.interpreter.id,
            "workspace_path": str(self._folder),
            "volume_name": mount.name,
            "volume_subpath": mount.subpath,
        }
        patches: list[Op] = [patch.merge([INTERPRETER], said), patch.delete([BUFFERS])]
        return [*patches, patch.set([NEWS], news(chosen.reason))] if head.length() else patches

    async def _start(self) -> None:
        self._folder = await asyncio.to_thread(self._around.scratch.made, self._key)
        self._interpreter = await self._around.interpreters.make(self._sandbox(self._folder))
        self._started = self._around.clock()
        await self.stage()

    async def _give_up(self, head: Head) -> None:
        """End what the session had, here or elsewhere, before anything else may be attached."""
        saved = saved_of(head.state)
        if self._interpreter is None and saved.sandbox_id is not None:
            self._folder = self._around.scratch.found(saved.workspace_path, self._key)
            if self._folder is not None:
                with suppress(InterpreterGone):  # then there is nothing left of it to be ended
                    self._interpreter = await self._around.interpreters.attach(
                        saved.sandbox_id, self._sandbox(self._folder)
                    )
        await self._end()

    async def _end(self) -> None:
        ending, folder = self._interpreter, self._folder
        self._interpreter, self._folder, self._started = None, None, None
        if ending is not None:
            await ending.close()
        if folder is not None:
            await asyncio.to_thread(self._around.scratch.gone, folder)

    def _sandbox(self, folder: Path) -> Sandbox:
        around = self._around
        volume = f"{around.mount.name}/{around.mount.subpath}"
        if not around.is_remote:
            volume = str(around.volume.prepare().resolve())
        return Sandbox(volume=volume, scratch=str(folder), limits=around.limits)

    @property
    def _key(self) -> str:
        return f"{self._around.mount.subpath}\0{self.session}"

    def _snapshot(self, transition: Transition) -> Snapshot:
        return Snapshot(
            session=self.session,
            transition=transition,
            time=self._around.clock(),
            provider=self._around.provider,
            sandbox=self._interpreter.id if self._interpreter is not None else None,
            volume=self._around.mount.name,
            subpath=self._around.mount.subpath,
            started=self._started,
        )

    async def _commit(
        self, head: Head, patches: Sequence[Op], snapshots: Sequence[Snapshot], reason: str
    ) -> None:
        """Change what the session says of its interpreter and put on record why, in one commit."""
        records = [written(snapshot, head.owner, number) for number, snapshot in enumerate(snapshots)]
        change = Changeset(patches=tuple(patches), reason=reason)
        appends = [AppendTo(thread=head.id, change=change)] if patches else []
        await self._around.db.commit([*appends, *records])
