"""Every call of the API: what is asked, and what the answer is. How it is sent is the clients' matter."""

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from holdfast.client import bodies, values
from holdfast.core.encoding import JSON

T = TypeVar("T")
API = "/api/v1"


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request, and the type of its answer."""

    method: str
    path: str
    answer: Any
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    key: str | None = None


def _call(
    method: str,
    path: str,
    answer: Any,
    *,
    body: msgspec.Struct | bytes | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    **query: object,
) -> Call[Any]:
    said = {name: _text(value) for name, value in query.items() if value is not None}
    sent = msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body
    return Call(
        method=method,
        path=API + path,
        answer=answer,
        query=said,
        headers=dict(headers or {}),
        body=sent,
        key=key,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _name(id: str) -> str:
    return quote(id, safe="")


def _matching(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


# The server.


def health() -> Call[values.Health]:
    """Whether the server answers."""
    return _call("GET", "/health", values.Health)


def ready() -> Call[values.Health]:
    """Whether its store answers too."""
    return _call("GET", "/ready", values.Health)


# Threads.


def create_thread(
    id: str, *, title: str | None = None, labels: list[str] | None = None, key: str | None = None
) -> Call[values.ThreadDetail]:
    """A new thread."""
    body = bodies.NewThread(id=id, title=title, labels=labels or [])
    return _call("POST", "/threads", values.ThreadDetail, body=body, key=key)


def threads(*, limit: int = 50, cursor: str | None = None) -> Call[values.ThreadPage]:
    """Threads, the newest first."""
    return _call("GET", "/threads", values.ThreadPage, limit=limit, cursor=cursor)


def thread(id: str, *, at: int | None = None) -> Call[values.ThreadDetail]:
    """A thread, now or at a version."""
    return _call("GET", f"/threads/{_name(id)}", values.ThreadDetail, at=at)


def delete_thread(id: str, *, expect: int | None = None) -> Call[None]:
    """Remove a thread."""
    return _call("DELETE", f"/threads/{_name(id)}", None, headers=_matching(expect))


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
    path = f"/threads/{_name(id)}/items"
    return _call("GET", path, values.ItemPage, limit=limit, cursor=cursor, at=at, log=log, whole=whole)


def changesets(
    id: str, *, limit: int = 50, cursor: str | None = None, after: int | None = None
) -> Call[values.ChangesetPage]:
    """The changes of a thread."""
    path = f"/threads/{_name(id)}/changesets"
    return _call("GET", path, values.ChangesetPage, limit=limit, cursor=cursor, after=after)


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
    path = f"/threads/{_name(id)}/changesets"
    return _call("POST", path, values.CommittedView, body=body, key=key, headers=_matching(expect))


def state(id: str, *, at: int | None = None) -> Call[values.StateView]:
    """The state of a thread, now or at a version."""
    return _call("GET", f"/threads/{_name(id)}/state", values.StateView, at=at)


def diff(id: str, before: int, after: int | None = None) -> Call[values.DiffView]:
    """What differs between two versions."""
    return _call("GET", f"/threads/{_name(id)}/diff", values.DiffView, before=before, after=after)


def verify(id: str) -> Call[values.VerdictView]:
    """Whether the chain of a thread holds."""
    return _call("GET", f"/threads/{_name(id)}/verify", values.VerdictView)


def fork(id: str, new: str, *, at: int | None = None, key: str | None = None) -> Call[values.ThreadDetail]:
    """A thread that goes its own way from a version of another."""
    body = bodies.NewFork(id=new, at=at)
    return _call("POST", f"/threads/{_name(id)}/fork", values.ThreadDetail, body=body, key=key)


def rewind(
    id: str,
    *,
    run: str | None = None,
    to: int | None = None,
    compaction: int | None = None,
    key: str | None = None,
) -> Call[values.RewoundView]:
    """Take back a run, everything after a version, or a compaction."""
    body = bodies.NewRewind(run=run, to=to, compaction=compaction)
    return _call("POST", f"/threads/{_name(id)}/rewind", values.RewoundView, body=body, key=key)


# Turns and runs.


def run_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    message_id: str | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> Call[values.TurnView]:
    """Run one turn, and have it whole."""
    body = bodies.NewTurn(message=message, user=user, message_id=message_id, busy=busy)
    return _call("POST", f"/threads/{_name(thread)}/turns", values.TurnView, body=body, key=key)


def runs(
    *,
    thread: str | None = None,
    status: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[values.RunPage]:
    """Runs, the newest first."""
    return _call("GET", "/runs", values.RunPage, thread=thread, status=status, limit=limit, cursor=cursor)


def run(id: str) -> Call[values.RunView]:
    """A run."""
    return _call("GET", f"/runs/{_name(id)}", values.RunView)


def cancel(run: str, *, key: str | None = None) -> Call[values.Cancelled]:
    """End a run that is at work or waits."""
    return _call("POST", f"/runs/{_name(run)}/cancel", values.Cancelled, key=key)


def decide(
    run: str, decisions: dict[str, bodies.NewDecision] | None = None, *, key: str | None = None
) -> Call[values.TurnView]:
    """Decide about the calls that a run waits for, and go on with it."""
    body = bodies.NewDecisions(decisions=decisions or {})
    return _call("POST", f"/runs/{_name(run)}/decisions", values.TurnView, body=body, key=key)


# Sessions.


def sessions_state() -> Call[values.SessionState]:
    """The sessions that are active now."""
    return _call("GET", "/sessions/state", values.SessionState)


def sessions(
    *, search: str | None = None, limit: int = 50, cursor: str | None = None
) -> Call[values.SessionPage]:
    """Sessions, the newest first."""
    return _call("GET", "/sessions", values.SessionPage, search=search, limit=limit, cursor=cursor)


def session(id: str) -> Call[values.SessionView]:
    """A session."""
    return _call("GET", f"/sessions/{_name(id)}", values.SessionView)


def delete_session(id: str, *, expect: int | None = None) -> Call[None]:
    """Delete a session."""
    return _call("DELETE", f"/sessions/{_name(id)}", None, headers=_matching(expect))


def turns(id: str, *, limit: int = 50, cursor: str | None = None) -> Call[values.TurnPage]:
    """What was said and answered in a session."""
    return _call("GET", f"/sessions/{_name(id)}/turns", values.TurnPage, limit=limit, cursor=cursor)


def end_session(id: str, *, feedback: str | None = None, key: str | None = None) -> Call[values.EndView]:
    """End the episode that a session is in."""
    body = bodies.NewEnd(feedback=feedback)
    return _call("POST", f"/sessions/{_name(id)}/end", values.EndView, body=body, key=key)


def export_session(id: str) -> Call[bytes]:
    """A session as an archive."""
    return _call("POST", f"/sessions/{_name(id)}/export", bytes)


def import_sessions(archive: bytes, *, key: str | None = None) -> Call[values.ImportView]:
    """Take in the sessions of an archive."""
    kind = {"Content-Type": "application/x-ndjson"}
    return _call("POST", "/sessions/import", values.ImportView, body=archive, key=key, headers=kind)


# Memory, search, feedback, jobs.


def memory(
    *,
    kind: Literal["facts", "arcs"] = "facts",
    limit: int = 50,
    cursor: str | None = None,
    user: str | None = None,
) -> Call[values.MemoryPage]:
    """What is known of a user."""
    return _call("GET", "/memory", values.MemoryPage, kind=kind, limit=limit, cursor=cursor, user=user)


def export_memory(*, user: str | None = None) -> Call[dict[str, JSON]]:
    """Everything that is known, as one document."""
    return _call("GET", "/memory/export", dict[str, JSON], user=user)


def correct_memory(
    id: str, object: str, *, negated: bool = False, user: str | None = None, key: str | None = None
) -> Call[dict[str, JSON]]:
    """Put right what a fact or a rule says."""
    body = bodies.NewCorrection(object=object, negated=negated)
    path = f"/memory/entries/{_name(id)}/correct"
    return _call("POST", path, dict[str, JSON], body=body, key=key, user=user)


def forget_memory(
    ids: list[str], *, confirmed: bool = False, user: str | None = None, key: str | None = None
) -> Call[values.ForgottenView]:
    """Forget some of it: first shown, then confirmed."""
    body = bodies.NewForget(ids=ids, confirmed=confirmed)
    return _call("POST", "/memory/forget", values.ForgottenView, body=body, key=key, user=user)


def undo_memory(
    version: int | None = None, *, user: str | None = None, key: str | None = None
) -> Call[values.UndoneView]:
    """Take back the last change of a memory."""
    body = bodies.NewUndo(version=version)
    return _call("POST", "/memory/undo", values.UndoneView, body=body, key=key, user=user)


def set_recall(*, on: bool, user: str | None = None) -> Call[bodies.NewRecall]:
    """Whether what is recalled may be brought up."""
    return _call("PUT", "/memory/recall", bodies.NewRecall, body=bodies.NewRecall(on=on), user=user)


def search(
    words: str, *, any: bool = False, thread: str | None = None, log: str | None = None, limit: int = 20
) -> Call[values.FoundPage]:
    """Items that hold the words."""
    return _call("GET", "/search", values.FoundPage, q=words, any=any, thread=thread, log=log, limit=limit)


def feedback(
    thread: str, label: Literal["positive", "neutral", "negative"], *, key: str | None = None
) -> Call[values.FeedbackView]:
    """What a user thought of a session so far."""
    body = bodies.NewFeedback(thread=thread, label=label)
    return _call("POST", "/feedback", values.FeedbackView, body=body, key=key)


def jobs(*, status: str | None = None, limit: int = 100) -> Call[values.JobPage]:
    """Work that is to be done, and work that was given up."""
    return _call("GET", "/jobs", values.JobPage, status=status, limit=limit)


def retry_job(id: str, *, key: str | None = None) -> Call[values.JobView]:
    """Let a job be tried again at once."""
    return _call("POST", f"/jobs/{_name(id)}/retry", values.JobView, key=key)


# Streams.


def stream_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> Call[values.Told]:
    """Run one turn, and hear of it as it goes."""
    body = bodies.NewTurn(message=message, user=user, busy=busy)
    return _call("POST", f"/threads/{_name(thread)}/turns", values.Told, body=body, key=key)


def follow(thread: str, *, run: str | None = None) -> Call[values.Told]:
    """The durable events of a thread."""
    return _call("GET", f"/threads/{_name(thread)}/events", values.Told, run=run)
