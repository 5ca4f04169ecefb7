"""Artifacts: what a thread made, as files on the volume, each with a record of what it is and where from.

The file is written first; its record commits with a change of the thread. So a record always had its file,
and a file without a record is nobody's. What is read back is what was saved, to the byte, or it is named.
"""

import asyncio
import base64
import binascii
import secrets
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from clew.core.arguments import check_arguments, check_methods
from clew.core.clock import now_ms
from clew.core.encoding import as_json, check_id, encode
from clew.core.errors import (
    ArtifactDamaged,
    InvalidArgument,
    KeyReused,
    RecordNotFound,
    RevisionConflict,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.core.log.holds import HOLD_KIND, hold_error, hold_id, hold_of
from clew.core.values import AppendTo, Changeset, Drop, Head, Put, Record, RecordQuery, Require, Write
from clew.database.database import Database
from clew.runtime.tools.tool import Effect, Tool, ToolContext, tool
from clew.workbench.documents.documents import safe_name
from clew.workbench.interpreter.port import DisplayOutput
from clew.workbench.volume.media_types import media_type
from clew.workbench.volume.volume import Volume

KIND: Final = "artifact"
ARTIFACTS_FOLDER: Final = "artifacts"
ARTIFACT_SAVED, ARTIFACT_DELETED = "ArtifactSaved", "ArtifactDeleted"
PICTURE_SUFFIXES: Final = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
"""The forms of a shown value that are pictures, the best first, and how their files end."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a thread made: what it is, the checksum of its content, and the run and item it is from."""

    id: str
    thread: str
    name: str
    path: str
    type: str
    size: int
    sha256: str
    time: int
    run: str | None = None
    item: str | None = None


class ArtifactListing(msgspec.Struct, frozen=True, kw_only=True):
    """Some artifacts, the newest first; ``next`` is where the next page begins."""

    artifacts: tuple[Artifact, ...]
    next: tuple[int, str] | None = None


@check_methods
class Artifacts:
    """The artifacts of one thread, on the volume of its owner."""

    def __init__(self, db: Database, thread: str, volume: Volume, *, author: str | None = None) -> None:
        self._db = db
        self._thread = thread
        self._volume = volume
        self._author = author

    async def save(
        self,
        name: str,
        content: bytes,
        *,
        run: str | None = None,
        item: str | None = None,
        key: str | None = None,
        now: int | None = None,
    ) -> Artifact:
        """Keep a file. With a key it is kept once, however often this is called.

        Raises:
            ThreadNotFound: There is no such thread.
            KeyReused: The key was used for other bytes.
            TooLarge: The volume takes no file of this size.
            VolumeFull: The volume has no room for it.
        """
        head = await self._db.thread(self._thread).head()
        artifact = self._new_artifact(name, content, run, item, key, now)
        try:
            return _check_repeat(await self.get(artifact.id), artifact, key)
        except RecordNotFound:
            await asyncio.to_thread(self._volume.write, artifact.path, content)
        record = Record(
            kind=KIND,
            id=artifact.id,
            owner=head.owner,
            tags=(self._thread,),
            sort=artifact.time,
            body=as_json(artifact),
        )
        try:
            await self._db.commit(
                [self._thread_change(ARTIFACT_SAVED, artifact, run), Put(record=record, expect=0)]
            )
        except RevisionConflict:  # another writer was as quick, with the same key
            return _check_repeat(await self.get(artifact.id), artifact, key)
        return artifact

    async def save_file(
        self, path: str, *, name: str | None = None, run: str | None = None, key: str | None = None
    ) -> Artifact:
        """Keep a file of the volume as it is now, such as code has just written.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: The path cannot be used.
        """
        content = await asyncio.to_thread(self._volume.read, path)
        return await self.save(name or path.rpartition("/")[2], content, run=run, key=key)

    async def save_picture(
        self, display: DisplayOutput, *, name: str = "picture", run: str | None = None, key: str | None = None
    ) -> Artifact:
        """Keep a picture that an interpreter has shown.

        Raises:
            InvalidArgument: What was shown has no form that is a picture.
        """
        suffix, content = picture_of(display)
        return await self.save(f"{name}.{suffix}", content, run=run, key=key)

    async def get(self, id: str) -> Artifact:
        """The description of an artifact.

        Raises:
            RecordNotFound: This thread has no such artifact.
        """
        record = await self._db.records.get(KIND, check_id(id, "artifact id"))
        artifact = msgspec.convert(record.body, Artifact)
        if artifact.thread != self._thread:
            raise RecordNotFound(kind=KIND, id=id)
        return artifact

    async def list(self, *, limit: int = 50, after: tuple[int, str] | None = None) -> ArtifactListing:
        """The artifacts of the thread, the newest first."""
        query = RecordQuery(kind=KIND, tags=(self._thread,), newest=True, limit=limit + 1, after=after)
        records = list(await self._db.records.find(query))
        last = records[limit - 1] if len(records) > limit else None
        return ArtifactListing(
            artifacts=tuple(msgspec.convert(record.body, Artifact) for record in records[:limit]),
            next=(last.sort, last.id) if last is not None else None,
        )

    async def read(self, id: str) -> tuple[Artifact, bytes]:
        """An artifact and its content, as it was saved.

        Raises:
            RecordNotFound: This thread has no such artifact.
            ArtifactDamaged: Its file is gone, or is not what was saved.
        """
        artifact = await self.get(id)
        try:
            content = await asyncio.to_thread(self._volume.read, artifact.path)
        except (VolumeFileNotFound, VolumePathRefused) as error:
            raise ArtifactDamaged(artifact=id, problem="its file is gone from the volume") from error
        actual = sha256(content).hexdigest()
        if actual != artifact.sha256:
            problem = f"its checksum is {actual:.12}, and was {artifact.sha256:.12} when it was saved"
            raise ArtifactDamaged(artifact=id, problem=problem)
        return artifact, content

    async def delete(self, id: str) -> None:
        """Let go of an artifact: its record with a change of the thread, and then its file.

        Raises:
            RecordNotFound: This thread has no such artifact.
            LegalHold: The thread or its owner is held; nothing was removed.
        """
        artifact = await self.get(id)
        head = await self._db.thread(self._thread).head()
        writes = [
            self._thread_change(ARTIFACT_DELETED, artifact, None),
            Drop(kind=KIND, id=id),
            *_hold_checks(head),
        ]
        try:
            await self._db.commit(writes)
        except RevisionConflict as conflict:
            if conflict.kind != HOLD_KIND:
                raise
            raise hold_error(hold_of(await self._db.records.get(HOLD_KIND, conflict.id))) from None
        with suppress(VolumeFileNotFound):
            await asyncio.to_thread(self._volume.delete, artifact.path)

    def _new_artifact(
        self,
        name: str,
        content: bytes,
        run: str | None,
        item: str | None,
        key: str | None,
        now: int | None,
    ) -> Artifact:
        id = sha256(encode([self._thread, key or secrets.token_hex(16)])).hexdigest()[:20]
        file_name = safe_name(name)
        return Artifact(
            id=id,
            thread=self._thread,
            name=file_name,
            path=f"{ARTIFACTS_FOLDER}/{id}/{file_name}",
            type=media_type(content, file_name),
            size=len(content),
            sha256=sha256(content).hexdigest(),
            time=now_ms() if now is None else now,
            run=run,
            item=item,
        )

    def _thread_change(self, reason: str, artifact: Artifact, run: str | None) -> AppendTo:
        """The change of the thread that goes with an artifact."""
        action = {"action": reason, "artifact": artifact.id, "name": artifact.name, "sha256": artifact.sha256}
        change = Changeset(state_actions=(action,), reason=reason, run_id=run, author=self._author)
        return AppendTo(thread=self._thread, change=change)


def _check_repeat(earlier: Artifact, artifact: Artifact, key: str | None) -> Artifact:
    """The artifact that was kept under a key before.

    Raises:
        KeyReused: It was another one.
    """
    if (earlier.sha256, earlier.name) != (artifact.sha256, artifact.name):
        raise KeyReused(thread=artifact.thread, key=key or "")
    return earlier


def _hold_checks(head: Head) -> list[Write]:
    names = [("thread", head.id), *([("owner", head.owner)] if head.owner is not None else [])]
    return [Require(kind=HOLD_KIND, id=hold_id(what, name), expect=0) for what, name in names]


def picture_of(display: DisplayOutput) -> tuple[str, bytes]:
    """The picture that an interpreter has shown, and how its file ends.

    Raises:
        InvalidArgument: It is none.
    """
    for form, suffix in PICTURE_SUFFIXES.items():
        if form in display.forms:
            try:
                return suffix, base64.b64decode(display.forms[form], validate=False)
            except binascii.Error as error:
                raise InvalidArgument(problem=f"The picture cannot be read: {error}.") from error
    raise InvalidArgument(problem="What was shown has no form that is a picture.")


@check_arguments
def artifact_tools(artifacts: Callable[[ToolContext], Artifacts]) -> tuple[Tool, Tool]:
    """Tools with which a model stores files: its own text, or a file that code wrote to the volume."""

    @tool(effect=Effect.IDEMPOTENT)
    async def artifact_write(name: str, text: str, context: ToolContext) -> str:
        """Keep a text as a file for the user, such as a report in Markdown."""
        artifact = await artifacts(context).save(name, text.encode(), run=context.run, key=context.key)
        return _describe_artifact(artifact)

    @tool(effect=Effect.IDEMPOTENT)
    async def artifact_keep(path: str, context: ToolContext, name: str | None = None) -> str:
        """Keep a file that code has written to the volume, for the user: buffers/plot.png."""
        artifact = await artifacts(context).save_file(path, name=name, run=context.run, key=context.key)
        return _describe_artifact(artifact)

    return artifact_write, artifact_keep


def _describe_artifact(artifact: Artifact) -> str:
    return f"Kept {artifact.name!r} as artifact {artifact.id}: {artifact.type}, {artifact.size} bytes."
