"""Archives that bob makes up: every kind of line that an import reads, with something of alice's in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

import msgspec

from clew.core.archive.format import (
    FORMAT,
    Ancestor,
    HeaderLine,
    ThreadEndLine,
    ThreadLine,
    TotalLine,
    encode_line,
    file_line,
    record_line,
)
from clew.core.encoding import JSON
from clew.core.log import chain
from clew.core.log.owners import memory_thread_id
from clew.core.values import Record
from tests.server.attacked_server import Victim

LONG_AGO, IN_AGES = 1, 1 << 52


@dataclass(frozen=True, kw_only=True)
class Forger:
    """Bob, his own thread, and whose things he is after."""

    user: str
    thread: str
    victim: Victim

    def episode(self, kind: str, id: str, /, owner: str | None = None, **about: JSON) -> Record:
        """A row of an episode that began with the first word of its thread and is long over."""
        body = {"id": "episode-forged", "thread": self.thread, "user": self.user, **about}
        times = {"started": LONG_AGO, "touched": LONG_AGO, "turns": 2, "first": 0}
        tags = (
            ("modality:text:default",) if kind == "active episode" else (f"thread:{body['thread']}", "ending")
        )
        return Record(kind=kind, id=id, owner=owner or self.user, tags=tags, sort=1, body={**body, **times})

    def run(self, id: str, /, **about: JSON) -> Record:
        """A run that is at work, of a process that is gone."""
        body = {"id": id, "thread": self.thread, "user": self.user, "started": 1, "until": LONG_AGO, **about}
        tags = (f"thread:{body['thread']}", f"status:{body.get('status', 'running')}")
        return Record(kind="run", id=id, owner=self.user, tags=tags, body=body)

    def own(self, kind: str, /, body: JSON = None, id: str = "forged", tags: tuple[str, ...] = ()) -> Record:
        """A record that says it is bob's."""
        return Record(kind=kind, id=id, owner=self.user, tags=tags, body=body)


Forgery: TypeAlias = Callable[[Forger], bytes]


def archive(*lines: bytes, threads: int = 0, records: int = 0, files: int = 0) -> bytes:
    """A whole archive of some lines."""
    total = encode_line(TotalLine(threads=threads, records=records, files=files))
    return b"".join([encode_line(HeaderLine(format=FORMAT)), *lines, total])


def records(make: Callable[[Forger], Record]) -> Forgery:
    """An archive of one record."""
    return lambda forger: archive(encode_line(record_line(make(forger))), records=1)


def thread_lines(id: str, owner: str | None, ancestor: Ancestor | None = None) -> bytes:
    """The lines of a thread of no changeset, whole and with the right hashes."""
    ancestors = (ancestor,) if ancestor is not None else ()
    opening = encode_line(ThreadLine(id=id, owner=owner, created=LONG_AGO, ancestors=ancestors))
    hash = chain.genesis(id, owner, LONG_AGO, None).hex()
    closing = ThreadEndLine(id=id, version=0, hash=hash, sha256=sha256(opening).hexdigest())
    return opening + encode_line(closing)


def threads(id: Callable[[Forger], str], owner: Callable[[Forger], str | None] | None = None) -> Forgery:
    """An archive of one thread."""
    of = owner or (lambda forger: forger.user)
    return lambda forger: archive(thread_lines(id(forger), of(forger)), threads=1)


def fork(forger: Forger) -> bytes:
    """A thread of bob's that says it is a fork of alice's."""
    ancestor = Ancestor(id=forger.victim.thread, owner=forger.victim.user, created=LONG_AGO, upto=0)
    return archive(thread_lines(f"{forger.thread}-fork", forger.user, ancestor), threads=1)


def of_a_tenant(forger: Forger) -> bytes:
    """A record that names the tenant it is for."""
    line = msgspec.json.decode(encode_line(record_line(forger.own("feedback"))))
    return archive(msgspec.json.encode({**line, "tenant": "tid-globex"}) + b"\n", records=1)


ACTIVE, ENDED_KIND = "active episode", "episode"
FORGERIES: dict[str, Forgery] = {
    # Episodes: the sweep reads the thread that they name, and writes to the memory of their user.
    "an active episode of her thread": records(
        lambda bob: bob.episode(ACTIVE, bob.victim.thread, thread=bob.victim.thread)
    ),
    "an active episode of her thread whose session has ended": records(
        lambda bob: bob.episode(ACTIVE, f"{bob.victim.thread}-e", thread=f"{bob.victim.thread}-e")
    ),
    "an active call on her thread whose session has ended": records(
        lambda bob: msgspec.structs.replace(
            bob.episode(
                ACTIVE,
                f"{bob.victim.thread}-e",
                thread=f"{bob.victim.thread}-e",
                modality="voice",
                until=LONG_AGO,
            ),
            tags=("modality:voice:default", "leased"),
        )
    ),
    "an active episode of her thread, under his": records(
        lambda bob: bob.episode(ACTIVE, bob.thread, thread=bob.victim.thread)
    ),
    "an active episode of his thread, under hers": records(
        lambda bob: bob.episode(ACTIVE, bob.victim.thread)
    ),
    "an active episode under an id of nothing": records(lambda bob: bob.episode(ACTIVE, "nothing")),
    "an active episode of her as a user": records(
        lambda bob: bob.episode(ACTIVE, bob.thread, user=bob.victim.user)
    ),
    "an active episode that she owns": records(
        lambda bob: bob.episode(ACTIVE, bob.thread, owner=bob.victim.user)
    ),
    "an active episode that is over": records(lambda bob: bob.episode(ACTIVE, bob.thread, status="ended")),
    "an active episode of her memory": records(
        lambda bob: bob.episode(
            ACTIVE, memory_thread_id(bob.victim.user), thread=memory_thread_id(bob.victim.user)
        )
    ),
    "an episode of her thread": records(
        lambda bob: bob.episode(ENDED_KIND, "episode-forged", thread=bob.victim.thread, status="ending")
    ),
    "an episode of her as a user": records(
        lambda bob: bob.episode(ENDED_KIND, "episode-forged", user=bob.victim.user, status="ending")
    ),
    "an episode of another id": records(
        lambda bob: bob.episode(ENDED_KIND, "episode-forged", id=bob.victim.episode, status="ending")
    ),
    "her episode": records(
        lambda bob: bob.episode(ENDED_KIND, bob.victim.episode, id=bob.victim.episode, status="ending")
    ),
    # Runs: the sweep closes those whose process is gone, on the thread that they name.
    "a run of her thread": records(lambda bob: bob.run("run-forged", thread=bob.victim.thread)),
    "a run of her thread that waits": records(
        lambda bob: bob.run("run-forged", thread=bob.victim.thread, status="waiting")
    ),
    "her run, under another id": records(
        lambda bob: bob.run("run-forged", id=bob.victim.waiting_run, thread=f"{bob.victim.thread}-w")
    ),
    "her run": records(lambda bob: bob.run(bob.victim.waiting_run, thread=f"{bob.victim.thread}-w")),
    "a run of her as a user": records(
        lambda bob: bob.run("run-forged", user=bob.victim.user, status="waiting")
    ),
    "a run that never ends": records(lambda bob: bob.run("run-forged", until=IN_AGES)),
    # What else may be brought, about her thread.
    "feedback about her thread": records(
        lambda bob: bob.own("feedback", {"label": "bad", "thread": bob.victim.thread})
    ),
    "feedback with her thread as a tag": records(
        lambda bob: bob.own(
            "feedback", {"label": "bad", "thread": bob.thread}, tags=(f"thread:{bob.victim.thread}",)
        )
    ),
    "an artifact of her thread": records(
        lambda bob: bob.own(
            "artifact", {"id": "forged", "thread": bob.victim.thread}, tags=(bob.victim.thread,)
        )
    ),
    "her artifact": records(
        lambda bob: bob.own(
            "artifact", {"id": bob.victim.artifact, "thread": bob.thread}, id=bob.victim.artifact
        )
    ),
    "a document of her thread": records(
        lambda bob: bob.own("document", {"path": bob.victim.document}, tags=(bob.victim.thread,))
    ),
    # Kinds that no user brings.
    "a queued turn of hers": records(
        lambda bob: bob.own(
            "queued turn",
            {"thread": bob.victim.thread, "inputs": {}, "items": [], "user": bob.victim.user},
            tags=(f"thread:{bob.victim.thread}",),
        )
    ),
    "a record with a date": records(lambda bob: bob.own("retained", {"thread": bob.victim.thread})),
    "a legal hold": records(lambda bob: bob.own("legal hold", {"thread": bob.victim.thread})),
    "a retention rule": records(
        lambda bob: bob.own("retention rule", {"name": "forged", "days": 0}, id="forged")
    ),
    "a vector": records(lambda bob: bob.own("memory.vector", [1.0])),
    "the embedder": records(lambda bob: bob.own("embedder", {}, id="memory.vector")),
    "an answer of the server": records(lambda bob: bob.own("http request", {"status": 200})),
    "a voice call": records(lambda bob: bob.own("voice call", {"tool": "letter", "status": "done"})),
    "what was heard": records(lambda bob: bob.own("heard", {"say": "nothing", "of": ""})),
    "a membership": records(
        lambda bob: bob.own("membership", {"user": bob.user, "roles": ["admin"]}, id="forged")
    ),
    "a job": records(
        lambda bob: bob.own("job", {"kind": "end episode:default", "episode": bob.victim.episode})
    ),
    "a checkpoint": records(
        lambda bob: bob.own("langgraph.checkpoint", {"thread": bob.victim.thread}, id="forged")
    ),
    "a record of another tenant": of_a_tenant,
    # Threads.
    "her memory": threads(lambda bob: memory_thread_id(bob.victim.user)),
    "the memory of somebody who has none": threads(lambda bob: memory_thread_id("user-to-come")),
    "the memory of her thread": threads(lambda bob: memory_thread_id(bob.victim.thread, of_thread=True)),
    "a thread that she owns": threads(lambda bob: f"{bob.thread}-2", lambda bob: bob.victim.user),
    "a thread that nobody owns": threads(lambda bob: f"{bob.thread}-3", lambda bob: None),
    "her thread": threads(lambda bob: bob.victim.thread),
    "the audit": threads(lambda bob: "clew/audit"),
    "a fork of her thread": fork,
    # Files.
    "a file of hers": lambda bob: archive(
        encode_line(file_line(bob.victim.user, "memory/forged.txt", b"forged")), files=1
    ),
}
