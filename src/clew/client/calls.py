"""The calls of the API: what is asked, and what the answer is. How it is sent is the clients' matter."""

from typing import Literal

from clew.client import bodies, findings, operations, values
from clew.client.requests import Call, call, matching, named
from clew.client.transcripts import MessagePage
from clew.core.encoding import JSON

# The server.


def health() -> Call[operations.Health]:
    """Whether the server answers."""
    return call("GET", "/health", operations.Health)


def ready() -> Call[operations.Health]:
    """Whether its store answers too."""
    return call("GET", "/ready", operations.Health)


def metrics() -> Call[bytes]:
    """The numbers of one process, as Prometheus reads them."""
    return call("GET", "/metrics", bytes)


def agent() -> Call[operations.AgentView]:
    """What answers there."""
    return call("GET", "/agent", operations.AgentView)


# Threads.


def create_thread(
    id: str, *, title: str | None = None, labels: list[str] | None = None, key: str | None = None
) -> Call[values.ThreadDetail]:
    """A new thread."""
    body = bodies.NewThread(id=id, title=title, labels=labels or [])
    return call("POST", "/threads", values.ThreadDetail, body=body, key=key)


def threads(
    *, search: str | None = None, last: bool = False, limit: int = 50, cursor: str | None = None
) -> Call[values.ThreadPage]:
    """Threads, the newest first: those that bear some words, each with what was said last, if asked for."""
    page = values.ThreadPage
    return call("GET", "/threads", page, search=search, last=last or None, limit=limit, cursor=cursor)


def thread(id: str, *, at: int | None = None) -> Call[values.ThreadDetail]:
    """A thread, now or at a version."""
    return call("GET", f"/threads/{named(id)}", values.ThreadDetail, at=at)


def delete_thread(id: str, *, expect: int | None = None) -> Call[None]:
    """Remove a thread."""
    return call("DELETE", f"/threads/{named(id)}", None, headers=matching(expect))


def items(
    id: str,
    *,
    limit: int = 50,
    cursor: str | None = None,
    at: int | None = None,
    log: str = "history",
    whole: bool = False,
) -> Call[values.ItemPage]:
    """The newest items of a thread, oldest first."""
    path = f"/threads/{named(id)}/items"
    return call("GET", path, values.ItemPage, limit=limit, cursor=cursor, at=at, log=log, whole=whole)


def messages(
    id: str,
    *,
    limit: int = 50,
    cursor: str | None = None,
    at: int | None = None,
    log: str = "history",
) -> Call[MessagePage]:
    """What the newest items of a thread say, whatever framework wrote them, oldest first."""
    path = f"/threads/{named(id)}/messages"
    return call("GET", path, MessagePage, limit=limit, cursor=cursor, at=at, log=log)


def changesets(
    id: str, *, limit: int = 50, cursor: str | None = None, after: int | None = None
) -> Call[values.ChangesetPage]:
    """The changes of a thread."""
    path = f"/threads/{named(id)}/changesets"
    return call("GET", path, values.ChangesetPage, limit=limit, cursor=cursor, after=after)


def append(
    id: str,
    *,
    items: list[bodies.NewItem] | None = None,
    patches: list[JSON] | None = None,
    reason: str = "append",
    expect: int | None = None,
    key: str | None = None,
) -> Call[values.CommittedView]:
    """Append a change."""
    body = bodies.NewChangeset(items=items or [], patches=patches or [], reason=reason)
    path = f"/threads/{named(id)}/changesets"
    return call("POST", path, values.CommittedView, body=body, key=key, headers=matching(expect))


def state(id: str, *, at: int | None = None) -> Call[values.StateView]:
    """The state of a thread, now or at a version."""
    return call("GET", f"/threads/{named(id)}/state", values.StateView, at=at)


def diff(id: str, before: int, after: int | None = None) -> Call[values.DiffView]:
    """What differs between two versions."""
    return call("GET", f"/threads/{named(id)}/diff", values.DiffView, before=before, after=after)


def verify(id: str) -> Call[values.VerdictView]:
    """Whether the chain of a thread holds."""
    return call("GET", f"/threads/{named(id)}/verify", values.VerdictView)


def fork(id: str, new: str, *, at: int | None = None, key: str | None = None) -> Call[values.ThreadDetail]:
    """A thread that goes its own way from a version of another."""
    body = bodies.NewFork(id=new, at=at)
    return call("POST", f"/threads/{named(id)}/fork", values.ThreadDetail, body=body, key=key)


def rewind(
    id: str,
    *,
    run: str | None = None,
    to: int | None = None,
    compaction: int | None = None,
    expect: int | None = None,
    key: str | None = None,
) -> Call[values.RewoundView]:
    """Take back a run, everything after a version, or a compaction."""
    body = bodies.NewRewind(run=run, to=to, compaction=compaction)
    path = f"/threads/{named(id)}/rewind"
    return call("POST", path, values.RewoundView, body=body, key=key, headers=matching(expect))


# Turns and runs.


def run_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    mode: bodies.Mode | None = None,
    message_id: str | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> Call[values.TurnView]:
    """Run one turn, and have it whole."""
    body = bodies.NewTurn(message=message, user=user, mode=mode, message_id=message_id, busy=busy)
    return call("POST", f"/threads/{named(thread)}/turns", values.TurnView, body=body, key=key)


def runs(
    *,
    thread: str | None = None,
    status: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[values.RunPage]:
    """Runs, the newest first."""
    return call("GET", "/runs", values.RunPage, thread=thread, status=status, limit=limit, cursor=cursor)


def run(id: str) -> Call[values.RunView]:
    """A run."""
    return call("GET", f"/runs/{named(id)}", values.RunView)


def cancel(run: str, *, key: str | None = None) -> Call[values.Cancelled]:
    """End a run that is at work or waits."""
    return call("POST", f"/runs/{named(run)}/cancel", values.Cancelled, key=key)


def decide(
    run: str,
    decisions: dict[str, bodies.NewDecision] | None = None,
    *,
    user: str | None = None,
    key: str | None = None,
) -> Call[values.TurnView]:
    """Decide about the calls that a run waits for, and go on with it."""
    body = bodies.NewDecisions(decisions=decisions or {}, user=user)
    return call("POST", f"/runs/{named(run)}/decisions", values.TurnView, body=body, key=key)


# Search, feedback, jobs.


def search(
    words: str,
    *,
    kind: str | None = None,
    thread: str | None = None,
    role: str | None = None,
    since: int | None = None,
    until: int | None = None,
    user: str | None = None,
    limit: int = 20,
    cursor: str | None = None,
) -> Call[findings.FoundPage]:
    """What was said and what is known that bears on the words."""
    return call(
        "GET",
        "/search",
        findings.FoundPage,
        q=words,
        kind=kind,
        thread=thread,
        role=role,
        since=since,
        until=until,
        user=user,
        limit=limit,
        cursor=cursor,
    )


def feedback(
    thread: str, label: Literal["positive", "neutral", "negative"], *, key: str | None = None
) -> Call[findings.FeedbackView]:
    """What a user thought of a session so far."""
    body = bodies.NewFeedback(thread=thread, label=label)
    return call("POST", "/feedback", findings.FeedbackView, body=body, key=key)


def jobs(
    *, status: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[operations.JobPage]:
    """Work that is to be done, and work that was given up."""
    return call("GET", "/jobs", operations.JobPage, status=status, limit=limit, cursor=cursor)


def retry_job(id: str, *, key: str | None = None) -> Call[operations.JobView]:
    """Let a job be tried again at once."""
    return call("POST", f"/jobs/{named(id)}/retry", operations.JobView, key=key)


# Streams.


def stream_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    mode: bodies.Mode | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> Call[values.Told]:
    """Run one turn, and hear of it as it goes."""
    body = bodies.NewTurn(message=message, user=user, mode=mode, busy=busy)
    return call("POST", f"/threads/{named(thread)}/turns", values.Told, body=body, key=key)


def follow(thread: str, *, run: str | None = None) -> Call[values.Told]:
    """The durable events of a thread."""
    return call("GET", f"/threads/{named(thread)}/events", values.Told, run=run)


def follow_threads(*, wait: bool = True) -> Call[values.Told]:
    """Threads as they change."""
    return call("GET", "/events", values.Told, wait=None if wait else False)
