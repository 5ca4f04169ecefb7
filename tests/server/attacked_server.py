"""A server with two tenants and three people: alice, who has something to lose, and two who want it.

A program of alice's tenant talks to it as well, with a key that names nobody.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

import clew
from clew.api.route import API_PREFIX
from clew.core.erasure.retention import RetentionRule
from clew.core.values import Job
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.values import Candidate
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, ToolCall, Usage
from clew.runtime.records.episodes import Finalize, finalize_nothing
from clew.runtime.runtime import Runtime
from clew.runtime.tools.tool import tool
from clew.server.app import create_app
from clew.server.identity.api_keys import create_key, revoke_key
from clew.server.identity.authentication import authentication_for
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Membership, Tenant
from clew.server.identity.identity import AuthSettings
from clew.server.settings import ServerSettings
from clew.server.tenants.realtime import ClientSecret, VoiceSessionPlan
from clew.workbench.artifacts import Artifacts
from clew.workbench.documents.documents import Documents
from clew.workbench.experiments.datasets import ExampleSelection, make_dataset
from clew.workbench.experiments.experiments import ExperimentPlan
from clew.workbench.experiments.results import exact
from clew.workbench.experiments.runner import ExperimentOptions, run_experiment
from clew.workbench.volume.volume import Volume
from clew_companion.crisis.log import Crisis
from tests.support.crises import crisis_record
from tests.support.issuer import Issuer, issuing

SECRET = "harbour-lantern-7391"
"""What only alice may ever read."""

WORK = "of a test"
"""The kind of job that nobody does; others a runtime may do at any moment."""
DAY = 86_400
"""How long tokens are good for: longer than the slowest run."""
ACME, GLOBEX = "tid-acme", "tid-globex"
HERE = f"http://server{API_PREFIX}"
NO_LIMITS: dict[str, Any] = {
    "secret": "s" * 64,
    "requests": 1_000_000,
    "failures": 1_000_000,
    "turns": 1_000,
    "sweep_seconds": 3600,
}
"""Settings of a server that no number of attacks slows down."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request that is yet to be sent by somebody."""

    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Victim:
    """What alice has, or nobody. A case that changes it has its own, so that nothing it does can hide.

    ``user`` is the owner of it all; empty if that is nobody.
    """

    thread: str
    run: str
    waiting_run: str
    fact: str
    episode: str
    job: str
    rule: str
    dataset: str
    document: str
    artifact: str
    archive: bytes
    user: str
    number: int

    @property
    def owner(self) -> str | None:
        """The owner of its threads."""
        return self.user or None


class Noting:
    """A model that notes what it hears, and asks to send a letter when it hears of one."""

    name = "noting"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """One reply."""
        last = request.messages[-1]
        if last.role == "user" and "letter" in last.text:
            yield Reply(calls=(ToolCall(id="c1", name="letter", arguments={"text": SECRET}),))
        else:
            yield Reply(text=f"Noted: {last.text}")

    async def fill(self, request: ModelRequest, kind: type[Any]) -> tuple[Any, Usage]:
        """Nothing is ever asked of it in this way."""
        raise NotImplementedError


class Secrets:
    """A provider of realtime models that gives a secret to everybody."""

    origin = "https://realtime.example"

    async def create_secret(self, plan: VoiceSessionPlan) -> ClientSecret:
        """One secret, for all."""
        return ClientSecret(value="ek_1")


@tool(approval=True)
async def letter(text: str) -> str:
    """Send a letter."""
    return f"sent {text}"


class World:
    """A running application, and whoever talks to it."""

    def __init__(self, app: Any, db: clew.Database, issuer: Issuer, revoked_key: str, volume: Path) -> None:
        self.app = app
        self._root = volume
        self.issuer = issuer
        self.revoked_key = revoked_key
        self.db = db
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HERE, timeout=20)
        self._numbers = itertools.count()
        self._victims: dict[str, Victim] = {}
        self._users: dict[str, str] = {}
        now = time.time()
        self.tokens = {
            "alice": issuer.token(tid=ACME, oid="alice", exp=now + DAY),
            "bob": issuer.token(tid=ACME, oid="bob", exp=now + DAY),
            "eve": issuer.token(tid=GLOBEX, oid="eve", exp=now + DAY),
        }
        self.bad = {
            "no token": None,
            "an expired token": issuer.token(tid=ACME, oid="alice", exp=now - 3600),
            "a token for somebody else": issuer.token(tid=ACME, oid="alice", aud="api://other"),
            "an unsigned token": issuer.forge_token(alg="none", tid=ACME, oid="alice"),
            "a token signed with the public key": issuer.forge_token(alg="HS256", tid=ACME, oid="alice"),
            "a revoked key": revoked_key,
        }

    async def send(self, ask: Ask, token: str | None) -> httpx.Response:
        """Send a request with a bearer token, or with none."""
        headers = dict(ask.headers)
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return await self._client.request(
            ask.method,
            HERE + ask.path,
            json=ask.json,
            content=ask.content,
            params=dict(ask.params),
            headers=headers,
        )

    async def as_(self, who: str, ask: Ask) -> httpx.Response:
        """Send a request as one of the three, or with a key."""
        return await self.send(ask, self.tokens[who])

    async def victim_of(self, cases: str) -> Victim:
        """The one victim of cases that change nothing of hers, nor of whoever attacks."""
        if cases not in self._victims:
            self._victims[cases] = await self.victim()
        return self._victims[cases]

    async def victim(self, who: str = "alice") -> Victim:
        """Something of everything, all of it alice's, or a key's, and all of it holding the secret."""
        number = next(self._numbers)
        thread = f"diary-{number}"
        user = await self.user(who) if who == "alice" else None
        await self._must(who, Ask(method="POST", path="/threads", json={"id": thread, "title": SECRET}))
        turn = await self._must(who, _turn(thread, f"Keep {SECRET}"))
        await self._must(who, _turn(thread, "And this"))
        await self._must(
            who, Ask(method="POST", path=f"/sessions/{thread}/feedback", json={"label": "positive"})
        )
        waiting = await self._must(who, _turn(f"{thread}-w", f"A letter with {SECRET}"))
        archive = await self._carried_off(who, f"{thread}-a")
        await self._must(who, _turn(f"{thread}-e", f"I like {SECRET}"))
        end = await self._must(who, Ask(method="POST", path=f"/sessions/{thread}-e/end", json={}))
        mine = self.db.scope(tenant=ACME, user=user)
        candidate = Candidate(
            predicate="LIKES", object=f"{SECRET} {number}", quote=SECRET, plain=True, confidence=0.9
        )
        memory = memory_of(mine, thread, user)
        await memory.learn([candidate])
        facts = (await memory.page()).facts
        await self.db.scope(tenant=ACME).retention.add(
            RetentionRule(name=f"rule-{number}", days=3650, label=SECRET)
        )
        await self._crisis(thread, number, user)
        await mine.jobs.enqueue(Job(id=f"job-{number}", kind=WORK, body=SECRET, limit=1))
        document, artifact = await self._workbench(mine, thread, number, user)
        return Victim(
            thread=thread,
            run=turn.json()["run"],
            waiting_run=waiting.json()["run"],
            fact=facts[0].id,
            episode=end.json()["episode"],
            job=f"job-{number}",
            rule=f"rule-{number}",
            dataset=await self._experiment(thread, number, user),
            document=document,
            artifact=artifact,
            archive=archive,
            user=user or "",
            number=number,
        )

    async def _carried_off(self, who: str, thread: str) -> bytes:
        """An archive of a thread that is deleted since."""
        await self._must(who, _turn(thread, f"Carry {SECRET}"))
        export = Ask(method="POST", path=f"/sessions/{thread}/export", params={"format": "archive"})
        archive = await self._must(who, export)
        await self._must(who, Ask(method="DELETE", path=f"/sessions/{thread}"))
        return archive.content

    async def _experiment(self, thread: str, number: int, user: str | None) -> str:
        """The name of a data set made from a thread of alice's, and of an experiment on it."""
        mine, name = self.db.scope(tenant=ACME, user=user), f"set-{number}"
        await make_dataset(mine, name, ExampleSelection(threads=(thread,)), now=number)
        plan = ExperimentPlan(dataset=name, subject="an echo", scorer="exact")
        await run_experiment(
            mine, name, plan, lambda example: example.question, exact, ExperimentOptions(at_once=1)
        )
        return name

    async def _crisis(self, thread: str, number: int, user: str | None) -> None:
        """A row of the crisis log about alice, and a hold on a thread of hers that nothing else needs."""
        now = int(time.time() * 1000)
        row = Crisis(
            id=f"crisis-{number}", thread=thread, run=SECRET, time=now, keep_until=now + 10**9, level=2
        )
        operator = self.db.scope(tenant=ACME)
        await operator.records.put(crisis_record(row, user))
        await operator.create(f"{thread}-held", owner=user)
        await operator.retention.hold(thread=f"{thread}-held", reason=SECRET)
        await operator.create(f"{thread}-gone", owner=user)

    async def _workbench(
        self, mine: clew.Database, thread: str, number: int, user: str | None
    ) -> tuple[str, str]:
        """A document and an artifact of alice's, more than one of each, and something in core memory."""
        volume = Volume(self._root, ACME, user)
        documents, artifacts = Documents(mine, thread, volume), Artifacts(mine, thread, volume)
        document = await documents.add("diary.txt", f"{SECRET} {number}".encode())
        await artifacts.save("a.txt", SECRET.encode())
        artifact = await artifacts.save("b.txt", f"{SECRET} {number}".encode())
        await mine.thread(thread).append(patches=[clew.set(["core_memory", "human"], SECRET)])
        return document.path, artifact.id

    async def user(self, who: str) -> str:
        """The internal id of one of the three."""
        if who not in self._users:
            answer = await self._must(who, Ask(method="GET", path="/sessions/state"))
            self._users[who] = str(answer.json()["user"])
        return self._users[who]

    async def belongings(self, victim: Victim) -> bytes:
        """All that a victim has, to be compared before and after an attack."""
        mine = self.db.scope(tenant=ACME, user=victim.owner)
        page = await mine.threads(limit=1000)
        volume = Volume(self._root, ACME, victim.owner)
        jobs = await mine.jobs.list(limit=1000)
        belongings = [
            await self.heads(victim),
            await memory_of(mine, victim.thread, victim.owner).export(),
            [job for job in jobs if (job.kind, job.owner) == (WORK, victim.owner)],
            sorted(each.id for each in page.threads if each.owner == victim.owner),
            [(file.path, volume.checksum(file.path)) for file in volume.list(limit=10_000).files],
        ]
        return msgspec.json.encode(belongings)

    async def thread_of(self, who: str) -> str:
        """A new thread of somebody, in which they have said something."""
        thread = f"{who}s-{next(self._numbers)}"
        await self._must(who, _turn(thread, "I like tea"))
        return thread

    async def add_user(self, who: str) -> str:
        """The internal id of somebody new at acme."""
        self.tokens[who] = self.issuer.token(tid=ACME, oid=who, exp=time.time() + DAY)
        return await self.user(who)

    async def export(self, who: str) -> str:
        """Everything that somebody owns, as an archive."""
        return (await self._must(who, Ask(method="GET", path="/person/export"))).text

    async def forget_all_of(self, user: str) -> None:
        """Erase a user of acme, as an operator would."""
        await self.db.scope(tenant=ACME).erase(owner=user)

    async def sweep(self) -> None:
        """Let the runtime of acme look around once, and do all that is due."""
        async with self.app.state.resources.runtimes.runtime_for(ACME) as runtime:
            await runtime.sweep()

    async def remember(self, user: str, words: str) -> None:
        """Let a session of a user of acme say something, and end."""
        async with self.app.state.resources.runtimes.runtime_for(ACME) as runtime:
            await runtime.run_turn(f"of-{user}", f"I like {words}", user=user)
            await runtime.end_session(f"of-{user}", user=user)

    async def known_of(self, user: str) -> str:
        """All that is known of a user of acme."""
        return str(await Memory(self.db.scope(tenant=ACME, user=user), user).export())

    async def heads(self, victim: Victim) -> list[tuple[int, str, str | None]]:
        """Where the threads of one victim stand."""
        mine = self.db.scope(tenant=ACME, user=victim.owner)
        heads = [await mine.thread(thread).head() for thread in (victim.thread, f"{victim.thread}-w")]
        return [(head.version, head.hash.hex(), head.owner) for head in heads]

    async def _must(self, who: str, ask: Ask) -> httpx.Response:
        answer = await self.as_(who, ask)
        assert answer.status_code < 300, (ask, answer.status_code, answer.text)
        return answer


def _turn(thread: str, message: str) -> Ask:
    return Ask(method="POST", path=f"/threads/{thread}/turns", json={"message": message})


@asynccontextmanager
async def world(url: str, *, remembers: bool = False, **settings: Any) -> AsyncIterator[World]:
    """A server on a store, running until the block ends; settings that are given stand before its own.

    If it remembers, it finalizes ended sessions.
    """
    with tempfile.TemporaryDirectory() as volume:
        finalize = Finalizer() if remembers else finalize_nothing
        async with _world(url, Path(volume), finalize, settings) as new_world:
            yield new_world


@asynccontextmanager
async def _world(
    url: str, volume: Path, finalize: Finalize, settings: Mapping[str, Any]
) -> AsyncIterator[World]:
    async with issuing() as issuer, clew.open(url) as db:
        directory = Directory(db)
        for id in (ACME, GLOBEX):
            await directory.add(Tenant(id=id, external=id))
        key, revoked_key = await create_key(directory, tenant=ACME)
        await revoke_key(directory, key.id)
        issuer_settings = issuer.settings(tenants=frozenset({ACME, GLOBEX}))
        app = create_app(
            ServerSettings(**{**NO_LIMITS, "volume": str(volume), **settings}),
            db=db,
            authenticate=authentication_for(AuthSettings(mode="oidc", issuer=issuer_settings), directory),
            agent=lambda tenant_db: Runtime(tenant_db, model=Noting(), tools=[letter], finalize=finalize),
            realtime=Secrets(),
        )
        async with running(app):
            new_world = World(app, db, issuer, revoked_key, volume)
            for who in new_world.tokens:
                await new_world.user(who)
            await directory.put(
                Membership(
                    tenant=ACME,
                    workspace="default",
                    user=await new_world.user("alice"),
                    roles=("admin", "member"),
                )
            )
            for thread in ("erased-1", "erased-2"):
                await db.scope(tenant=ACME).create(thread)
                await db.scope(tenant=ACME).erase(thread=thread)
            new_world.tokens |= await _keys(directory, await new_world.user("alice"))
            yield new_world


async def _keys(directory: Directory, alice: str) -> dict[str, str]:
    """API keys, by whose they are: two of alice's that reach less far than she, three of nobody."""
    fields_by_user: dict[str, dict[str, Any]] = {
        "alice reading": {"tenant": ACME, "user": alice, "scopes": ("read", "admin")},
        "alice working": {"tenant": ACME, "user": alice, "scopes": ("read", "write")},
        "acme": {"tenant": ACME, "scopes": ("read", "write")},
        "globex": {"tenant": GLOBEX, "scopes": ("read", "write", "admin")},
        "the server's operator": {"tenant": GLOBEX, "scopes": ("operator",)},
    }
    return {who: (await create_key(directory, **about))[1] for who, about in fields_by_user.items()}


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[None]:
    """The application's life in one task of its own, since a fixture may begin and end in two."""
    ready, stop = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            ready.set()
            await stop.wait()

    task = asyncio.create_task(live())
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        await task
    try:
        yield
    finally:
        stop.set()
        await task
