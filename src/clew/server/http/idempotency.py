"""Idempotency keys: the first reply to a POST is stored under its key, and given again to a repetition.

Turns and appends need none of this: there the key commits with the change itself. The reply to a request that
makes a thread commits with the thread. Any other request is done again if its process dies after the change
and before its reply is stored.
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

from clew.api.route import IDEMPOTENCY_KEY
from clew.core.encoding import TAG_BYTES, as_json, check_id, encode
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
from clew.core.values import Scope as CallerScope
from clew.database.database import Database
from clew.runtime.person_export import REQUEST
from clew.server.http.endpoint import COMMITS_KEY
from clew.server.http.paths import decode_path_part
from clew.server.http.resources import ServerResources
from clew.server.identity.identity import Identity

KIND = REQUEST
RECORD = "clew.idempotency"
"""The entry of a request's state that holds the record of its key, if it has one."""
LEASE_MS = 60_000
"""How long the first request may be silent before a repetition takes its place."""
RENEWALS = 3
"""How often a request renews its lease in that time."""
LARGEST_BODY = 1024 * 1024
"""The longest reply that is stored."""
RECORDS_PER_PAGE = 200


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, and its reply once there is one; ``lease_until`` is how long it is taken to be at work."""

    fingerprint: str
    lease_until: int
    status: int | None = None
    headers: list[tuple[str, str]] = []
    body: str = ""


class IdempotencyMiddleware(ASGIMiddleware):
    """Gives the first reply again to a POST with a key that was used before."""

    scopes = (ScopeType.HTTP,)
    exclude_opt_key = COMMITS_KEY

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Reply from what is stored, or pass the request on and store its reply."""
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        key = request.headers.get(IDEMPOTENCY_KEY)
        if request.method != "POST" or key is None or "user" not in scope:
            await next_app(scope, receive, send)
            return
        check_id(key, "idempotency key")
        resources: ServerResources = request.app.state.resources
        identity: Identity = scope["user"]
        path_id = decode_path_part(str(scope["path_params"].get("id", "")))
        thread = path_id or request.query_params.get("thread")
        # The key of an incognito request is stored with its thread, in memory: on disk it would be a trace.
        identity_scope = CallerScope(tenant=identity.tenant, user=identity.user)
        incognito_db = await resources.runtimes.incognito.database_of(identity_scope, thread)
        record = IdempotencyRecord(
            incognito_db or resources.db,
            identity,
            key,
            request.url.path,
            await _request_fingerprint(request),
            mentions=Mentions(thread=thread, user=identity.user or request.query_params.get("user")),
        )
        answer = await record.claim_key()
        if answer is not None:
            await _replay_answer(answer, send)
            return
        scope["state"][RECORD] = record
        await _run_and_store(record, scope, receive, send, next_app)


class Mentions(msgspec.Struct, frozen=True, kw_only=True):
    """The user and the threads that a request or a reply names; its record goes when they are erased."""

    user: str | None = None
    thread: str | None = None
    session: str | None = None
    id: str | None = None


class IdempotencyRecord:
    """The record of one key: claimed by the first request, leased while it works, filled with its reply."""

    def __init__(
        self,
        db: Database,
        identity: Identity,
        key: str,
        path: str,
        fingerprint: str,
        mentions: Mentions | None = None,
    ) -> None:
        self._db = db.scope(tenant=identity.tenant, user=identity.user)
        self._owner = mentions.user if mentions is not None else identity.user
        self._thread = mentions.thread if mentions is not None else None
        self._key = key
        self._path = path
        self._id = hashlib.sha256(encode([identity.user, key])).hexdigest()
        self._fingerprint = fingerprint
        self._revision = 0
        self._end_event = asyncio.Event()
        self._is_committed = False
        self._renewal_task: asyncio.Task[None] | None = None

    async def claim_key(self) -> StoredAnswer | None:
        """Claim the key, or return the reply that is stored under it.

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
            answer = msgspec.convert(record.body, StoredAnswer)
            if answer.fingerprint != self._fingerprint:
                raise KeyReused(thread=self._path, key=self._key)
            if answer.status is not None:
                return answer
            if not leases.is_over(answer.lease_until, now):
                raise RequestPending(key=self._key, retry_after_ms=1_000)
        self._revision = record.revision if record else 0
        await self.renew()
        return None

    async def renew(self) -> None:
        """Renew the lease of the request.

        Raises:
            RequestPending: Another one is, with the same key.
        """
        pending = StoredAnswer(fingerprint=self._fingerprint, lease_until=self._db.store.now() + LEASE_MS)
        await self._put_record(Put(record=self._record(pending), expect=self._revision))

    @asynccontextmanager
    async def renewal(self) -> AsyncIterator[None]:
        """Renew the lease again and again, until the reply is stored."""
        self._renewal_task = asyncio.create_task(self._renew_until_end())
        try:
            yield
        finally:
            await self._stop_renewal()

    async def _renew_until_end(self) -> None:
        while not self._end_event.is_set():
            try:
                await asyncio.wait_for(self._end_event.wait(), LEASE_MS / 1000 / RENEWALS)
            except TimeoutError:
                with suppress(ClewError):  # storing the reply checks the revision anyway
                    await self.renew()

    async def _stop_renewal(self) -> None:
        self._end_event.set()
        if self._renewal_task is not None:
            await self._renewal_task

    def is_stored_in(self, store: Store) -> bool:
        """Return whether it is in this store, so that it can commit with a change there."""
        return self._db.store is store

    @asynccontextmanager
    async def answer_commit(self) -> AsyncIterator[None]:
        """Commit the reply inside, with the change; ``store_answer`` then has nothing left to do.

        Raises:
            RequestPending: Another request with the same key is at work.
        """
        await self._stop_renewal()  # a renewal in between would change the revision that the commit expects
        try:
            yield
        except RevisionConflict as error:
            if (error.kind, error.id) != (KIND, self._id):
                raise
            raise RequestPending(key=self._key, retry_after_ms=1_000) from None
        self._is_committed = True

    def answer_write(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> Put:
        """Return the write that stores a reply."""
        body_text = base64.b64encode(body).decode()
        answer = StoredAnswer(
            fingerprint=self._fingerprint, lease_until=0, status=status, headers=list(headers), body=body_text
        )
        return Put(record=self._record(answer, _thread_tags(self._thread, body)), expect=self._revision)

    async def store_answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Store the reply; one that asks to try again, or that is too long to store, frees the key.

        So does one that depends on a header (401, 415), in which two requests with one key may differ.
        """
        await self._stop_renewal()
        if self._is_committed:
            return
        if status >= 500 or status in (401, 403, 409, 415, 429) or len(body) > LARGEST_BODY:
            with suppress(RevisionConflict):  # it was stored after all, or a repetition has claimed it
                await self._db.records.drop(KIND, self._id, expect=self._revision)
            return
        await self._put_record(self.answer_write(status, headers, body))

    async def _put_record(self, put: Put) -> None:
        try:
            self._revision = (await self._db.records.put(put.record, expect=put.expect)).revision
        except RevisionConflict:
            raise RequestPending(key=self._key, retry_after_ms=1_000) from None

    def _record(self, answer: StoredAnswer, tags: Sequence[str] = ()) -> Record:
        return Record(
            kind=KIND,
            id=self._id,
            owner=self._owner,
            tags=tuple(tags),
            body=as_json(answer),
            sort=self._db.store.now(),
        )


def _thread_tags(thread: str | None, body: bytes) -> list[str]:
    """Return the threads that a request or its reply names, in whatever field, as tags of a record.

    A name that cannot be a tag is of no thread that could have a turn.
    """
    mentions = Mentions()
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        mentions = msgspec.json.decode(body, type=Mentions)
    names = {each for each in (thread, mentions.thread, mentions.session, mentions.id) if each}
    return [tag for name in sorted(names) if _is_valid_tag(tag := f"thread:{name}")]


def _is_valid_tag(name: str) -> bool:
    try:
        check_id(name, "tag", most=TAG_BYTES)
    except InvalidId:
        return False
    return True


async def _request_fingerprint(request: Request[Any, Any, Any]) -> str:
    """Return a hash of what two requests with one key must have in common."""
    parts = [
        request.method,
        request.url.path,
        request.url.query or "",
        hashlib.sha256(await request.body()).hexdigest(),
    ]
    return hashlib.sha256(encode(parts)).hexdigest()


async def _run_and_store(
    record: IdempotencyRecord, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp
) -> None:
    """Pass the request on, and its reply back; the reply is stored before its end is sent."""
    response_start: dict[str, Any] = {}
    body = bytearray()

    async def send_and_store(message: Message) -> None:
        if message["type"] == "http.response.start":
            response_start.update(message)
        elif message["type"] == "http.response.body":
            if len(body) <= LARGEST_BODY:
                body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                await record.store_answer(
                    response_start["status"], _headers_to_store(response_start), bytes(body)
                )
                response_start["ended"] = True
        await send(message)

    async with record.renewal():
        try:
            await next_app(scope, receive, send_and_store)
        except BaseException:
            if not response_start.get("ended"):
                await record.store_answer(500, (), b"")
            raise


def _headers_to_store(response_start: dict[str, Any]) -> list[tuple[str, str]]:
    headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in response_start["headers"])
    return [(name, value) for name, value in headers if name.lower() in ("content-type", "etag", "location")]


async def _replay_answer(answer: StoredAnswer, send: Send) -> None:
    body = base64.b64decode(answer.body)
    headers = [
        *((name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers),
        (b"content-length", str(len(body)).encode()),
        (b"idempotent-replayed", b"true"),
    ]
    await send({"type": "http.response.start", "status": answer.status or 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def drop_old_answers(db: Database, *, before: int) -> int:
    """Drop the records from before a time; return how many they were."""
    count = 0
    while records := await db.records.find(RecordQuery(kind=KIND, until=before, limit=RECORDS_PER_PAGE)):
        for record in records:
            await db.records.drop(KIND, record.id)
        count += len(records)
        if len(records) < RECORDS_PER_PAGE:
            break
    return count
