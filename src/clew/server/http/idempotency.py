"""Repeating a POST safely: the first answer is kept under its key, and given again to whoever repeats it.

Turns and appends need none of this: there the key commits with the change itself. So does the answer of what
makes a thread; any other request that dies before its answer is kept is done again by whoever repeats it.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from litestar import Request
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from clew.core.encoding import TAG_BYTES, check_id, encode, plain
from clew.core.errors import (
    ClewError,
    InvalidId,
    KeyReused,
    RecordNotFound,
    RequestPending,
    RevisionConflict,
)
from clew.core.log import leases
from clew.core.ports import Store
from clew.core.values import Put, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.person_export import REQUEST
from clew.server.http.callers import Serving, named
from clew.server.identity.identity import Identity

KIND = REQUEST
KEY = "idempotency-key"
OWN = "keeps its own key"
"""The mark of a route whose key commits with what it does."""
KEPT = "clew.kept"
"""Where a request carries the record of its key, if it has one."""
PENDING_MS = 60_000
"""How long nothing may be heard of the first request before a repetition takes its place."""
RENEWALS = 3
"""How often a request says so in that time."""
LARGEST = 1024 * 1024
PAGE = 200


class Answered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, and its answer once there is one."""

    asked: str
    until: int
    status: int | None = None
    headers: list[tuple[str, str]] = []
    body: str = ""


class Repeating(ASGIMiddleware):
    """Gives the first answer again to a POST with a key that was used before."""

    scopes = (ScopeType.HTTP,)
    exclude_opt_key = OWN

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Answer from what is kept, or do it and keep the answer."""
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        key = request.headers.get(KEY)
        if request.method != "POST" or key is None or "user" not in scope:
            await next_app(scope, receive, send)
            return
        check_id(key, "idempotency key")
        serving: Serving = request.app.state.serving
        identity: Identity = scope["user"]
        thread = named(str(scope["path_params"].get("id", "")))
        # What is incognito leaves no key on disk.
        aside = await serving.runtimes.guests.store_of((identity.tenant, identity.user), thread)
        kept = Kept(
            aside or serving.db,
            identity,
            key,
            request.url.path,
            await _asked(request),
            about=Named(thread=thread, user=identity.user or request.query_params.get("user")),
        )
        before = await kept.begin()
        if before is not None:
            await _replay(before, send)
            return
        scope["state"][KEPT] = kept
        await _kept(kept, scope, receive, send, next_app)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Whom and which threads a request or an answer names: what is kept of it goes when they are erased."""

    user: str | None = None
    thread: str | None = None
    session: str | None = None
    id: str | None = None


class Kept:
    """The record of one key."""

    def __init__(
        self,
        db: Database,
        identity: Identity,
        key: str,
        path: str,
        asked: str,
        about: Named | None = None,
    ) -> None:
        self._db = db.scope(tenant=identity.tenant, user=identity.user)
        self._owner = about.user if about is not None else identity.user
        self._thread = about.thread if about is not None else None
        self._key = key
        self._path = path
        self._id = hashlib.sha256(encode([identity.user, key])).hexdigest()
        self._asked = asked
        self._revision = 0
        self._over = asyncio.Event()
        self._is_kept = False
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> Answered | None:
        """Take the key; or the answer that it had before.

        Raises:
            KeyReused: It was used for another request.
            RequestPending: The first request is still at work.
        """
        now = self._db.store.now()
        try:
            record = await self._db.records.get(KIND, self._id)
        except RecordNotFound:
            record = None
        if record is not None:
            before = msgspec.convert(record.body, Answered)
            if before.asked != self._asked:
                raise KeyReused(thread=self._path, key=self._key)
            if before.status is not None:
                return before
            if not leases.is_over(before.until, now):
                raise RequestPending(key=self._key, retry_after_ms=1_000)
        self._revision = record.revision if record else 0
        await self.renew()
        return None

    async def renew(self) -> None:
        """Say that the request is at work.

        Raises:
            RequestPending: Another one is, with the same key.
        """
        at_work = Answered(asked=self._asked, until=self._db.store.now() + PENDING_MS)
        await self._write(Put(record=self._record(at_work), expect=self._revision))

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Say again and again that the request is at work, until its end is kept."""
        self._renewing = asyncio.create_task(self._renewed())
        try:
            yield
        finally:
            await self._rest()

    async def _renewed(self) -> None:
        while not self._over.is_set():
            try:
                await asyncio.wait_for(self._over.wait(), PENDING_MS / 1000 / RENEWALS)
            except TimeoutError:
                with suppress(ClewError):  # the answer is kept, or not, all the same
                    await self.renew()

    async def _rest(self) -> None:
        self._over.set()
        if self._renewing is not None:
            await self._renewing

    def is_in(self, store: Store) -> bool:
        """Whether it is kept in this store, and can commit with what is written there."""
        return self._db.store is store

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Commit the answer inside, with what it is about; ``end`` then has nothing left to do.

        Raises:
            RequestPending: Another request with the same key is at work.
        """
        await self._rest()
        try:
            yield
        except RevisionConflict as error:
            if (error.kind, error.id) != (KIND, self._id):
                raise
            raise RequestPending(key=self._key, retry_after_ms=1_000) from None
        self._is_kept = True

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> Put:
        """The write that keeps an answer."""
        told = base64.b64encode(body).decode()
        answered = Answered(asked=self._asked, until=0, status=status, headers=list(headers), body=told)
        return Put(record=self._record(answered, _tags(self._thread, body)), expect=self._revision)

    async def end(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Keep the answer; one that says to try again, or that is too long to keep, frees the key.

        So does one that a header decides (401, 415), since two requests with one key may differ in it.
        """
        await self._rest()
        if self._is_kept:
            return
        if status >= 500 or status in (401, 403, 409, 415, 429) or len(body) > LARGEST:
            with suppress(RevisionConflict):  # it was kept after all, or another has taken it up
                await self._db.records.drop(KIND, self._id, expect=self._revision)
            return
        await self._write(self.answer(status, headers, body))

    async def _write(self, put: Put) -> None:
        try:
            self._revision = (await self._db.records.put(put.record, expect=put.expect)).revision
        except RevisionConflict:
            raise RequestPending(key=self._key, retry_after_ms=1_000) from None

    def _record(self, answered: Answered, tags: Sequence[str] = ()) -> Record:
        return Record(
            kind=KIND,
            id=self._id,
            owner=self._owner,
            tags=tuple(tags),
            body=plain(answered),
            sort=self._db.store.now(),
        )


def _tags(asked: str | None, body: bytes) -> list[str]:
    """The threads that a request or its answer names, by whatever name it has for one, as tags of a record.

    A name that cannot be a tag is of no thread that could have a turn.
    """
    told = Named()
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        told = msgspec.json.decode(body, type=Named)
    names = {each for each in (asked, told.thread, told.session, told.id) if each}
    return [tag for name in sorted(names) if _is_id(tag := f"thread:{name}")]


def _is_id(name: str) -> bool:
    try:
        check_id(name, "tag", most=TAG_BYTES)
    except InvalidId:
        return False
    return True


async def _asked(request: Request[Any, Any, Any]) -> str:
    """What two requests with one key must have in common."""
    said = [
        request.method,
        request.url.path,
        request.url.query or "",
        hashlib.sha256(await request.body()).hexdigest(),
    ]
    return hashlib.sha256(encode(said)).hexdigest()


async def _kept(kept: Kept, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
    """Do the request, pass its answer on, and keep it before its end is told."""
    started: dict[str, Any] = {}
    body = bytearray()

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        elif message["type"] == "http.response.body":
            if len(body) <= LARGEST:
                body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                await kept.end(started["status"], _headers(started), bytes(body))
                started["ended"] = True
        await send(message)

    async with kept.at_work():
        try:
            await next_app(scope, receive, sending)
        except BaseException:
            if not started.get("ended"):
                await kept.end(500, (), b"")
            raise


def _headers(started: dict[str, Any]) -> list[tuple[str, str]]:
    told = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in started["headers"])
    return [(name, value) for name, value in told if name.lower() in ("content-type", "etag", "location")]


async def _replay(before: Answered, send: Send) -> None:
    body = base64.b64decode(before.body)
    headers = [
        *((name.encode("latin-1"), value.encode("latin-1")) for name, value in before.headers),
        (b"content-length", str(len(body)).encode()),
        (b"idempotent-replayed", b"true"),
    ]
    await send({"type": "http.response.start", "status": before.status or 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def forget(db: Database, *, before: int) -> int:
    """Drop what was kept before a time; how many."""
    dropped = 0
    while records := await db.records.find(RecordQuery(kind=KIND, until=before, limit=PAGE)):
        for record in records:
            await db.records.drop(KIND, record.id)
        dropped += len(records)
        if len(records) < PAGE:
            break
    return dropped
