"""The calls of the API: what is asked, and what the answer is. How it is sent is the clients' matter."""

from typing import Literal

from clew.api import experiments as told
from clew.api import memory as api_memory
from clew.api import operators as api_operators
from clew.api import requests as api_requests
from clew.api import threads as api_threads
from clew.api.messages import EpisodeLeft, EpisodePage, MessagePage
from clew.api.sessions import (
    CallView,
    EndView,
    HeardView,
    ImportView,
    SessionPage,
    SessionState,
    SessionView,
    StatusView,
    ToolView,
    TurnPage,
)
from clew.client.call import Call, call, matching, named
from clew.core.encoding import JSON

# The server.


def health() -> Call[api_operators.Health]:
    """Whether the server answers."""
    return call("GET", "/health", api_operators.Health)


def ready() -> Call[api_operators.Health]:
    """Whether its store answers too."""
    return call("GET", "/ready", api_operators.Health)


def metrics() -> Call[bytes]:
    """The numbers of one process, as Prometheus reads them."""
    return call("GET", "/metrics", bytes)


def agent() -> Call[api_operators.AgentView]:
    """What answers there."""
    return call("GET", "/agent", api_operators.AgentView)


# Threads.


def create_thread(
    id: str, *, title: str | None = None, labels: list[str] | None = None, key: str | None = None
) -> Call[api_threads.ThreadDetail]:
    """A new thread."""
    body = api_requests.NewThread(id=id, title=title, labels=labels or [])
    return call("POST", "/threads", api_threads.ThreadDetail, body=body, key=key)


def threads(
    *, search: str | None = None, last: bool = False, limit: int = 50, cursor: str | None = None
) -> Call[api_threads.ThreadPage]:
    """Threads, the newest first: those that bear some words, each with what was said last, if asked for."""
    page = api_threads.ThreadPage
    return call("GET", "/threads", page, search=search, last=last or None, limit=limit, cursor=cursor)


def thread(id: str, *, at: int | None = None) -> Call[api_threads.ThreadDetail]:
    """A thread, now or at a version."""
    return call("GET", f"/threads/{named(id)}", api_threads.ThreadDetail, at=at)


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
) -> Call[api_threads.ItemPage]:
    """The newest items of a thread, oldest first."""
    path = f"/threads/{named(id)}/items"
    return call("GET", path, api_threads.ItemPage, limit=limit, cursor=cursor, at=at, log=log, whole=whole)


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
) -> Call[api_threads.ChangesetPage]:
    """The changes of a thread."""
    path = f"/threads/{named(id)}/changesets"
    return call("GET", path, api_threads.ChangesetPage, limit=limit, cursor=cursor, after=after)


def append(
    id: str,
    *,
    items: list[api_requests.NewItem] | None = None,
    patches: list[JSON] | None = None,
    reason: str = "append",
    expect: int | None = None,
    key: str | None = None,
) -> Call[api_threads.CommittedView]:
    """Append a change."""
    body = api_requests.NewChangeset(items=items or [], patches=patches or [], reason=reason)
    path = f"/threads/{named(id)}/changesets"
    return call("POST", path, api_threads.CommittedView, body=body, key=key, headers=matching(expect))


def state(id: str, *, at: int | None = None) -> Call[api_threads.StateView]:
    """The state of a thread, now or at a version."""
    return call("GET", f"/threads/{named(id)}/state", api_threads.StateView, at=at)


def diff(id: str, before: int, after: int | None = None) -> Call[api_threads.DiffView]:
    """What differs between two versions."""
    return call("GET", f"/threads/{named(id)}/diff", api_threads.DiffView, before=before, after=after)


def verify(id: str) -> Call[api_threads.VerdictView]:
    """Whether the chain of a thread holds."""
    return call("GET", f"/threads/{named(id)}/verify", api_threads.VerdictView)


def fork(
    id: str, new: str, *, at: int | None = None, key: str | None = None
) -> Call[api_threads.ThreadDetail]:
    """A thread that goes its own way from a version of another."""
    body = api_requests.NewFork(id=new, at=at)
    return call("POST", f"/threads/{named(id)}/fork", api_threads.ThreadDetail, body=body, key=key)


def rewind(
    id: str,
    *,
    run: str | None = None,
    to: int | None = None,
    compaction: int | None = None,
    expect: int | None = None,
    key: str | None = None,
) -> Call[api_threads.RewoundView]:
    """Take back a run, everything after a version, or a compaction."""
    body = api_requests.NewRewind(run=run, to=to, compaction=compaction)
    path = f"/threads/{named(id)}/rewind"
    return call("POST", path, api_threads.RewoundView, body=body, key=key, headers=matching(expect))


# Turns and runs.


def run_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    mode: api_requests.Mode | None = None,
    message_id: str | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> Call[api_threads.TurnView]:
    """Run one turn, and have it whole."""
    body = api_requests.NewTurn(message=message, user=user, mode=mode, message_id=message_id, busy=busy)
    return call("POST", f"/threads/{named(thread)}/turns", api_threads.TurnView, body=body, key=key)


def runs(
    *,
    thread: str | None = None,
    status: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[api_threads.RunPage]:
    """Runs, the newest first."""
    return call("GET", "/runs", api_threads.RunPage, thread=thread, status=status, limit=limit, cursor=cursor)


def run(id: str) -> Call[api_threads.RunView]:
    """A run."""
    return call("GET", f"/runs/{named(id)}", api_threads.RunView)


def cancel(run: str, *, key: str | None = None) -> Call[api_threads.Cancelled]:
    """End a run that is at work or waits."""
    return call("POST", f"/runs/{named(run)}/cancel", api_threads.Cancelled, key=key)


def decide(
    run: str,
    decisions: dict[str, api_requests.NewDecision] | None = None,
    *,
    user: str | None = None,
    key: str | None = None,
) -> Call[api_threads.TurnView]:
    """Decide about the calls that a run waits for, and go on with it."""
    body = api_requests.NewDecisions(decisions=decisions or {}, user=user)
    return call("POST", f"/runs/{named(run)}/decisions", api_threads.TurnView, body=body, key=key)


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
) -> Call[api_memory.FoundPage]:
    """What was said and what is known that bears on the words."""
    return call(
        "GET",
        "/search",
        api_memory.FoundPage,
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
) -> Call[api_memory.FeedbackView]:
    """What a user thought of a session so far."""
    body = api_requests.NewFeedback(thread=thread, label=label)
    return call("POST", "/feedback", api_memory.FeedbackView, body=body, key=key)


def jobs(
    *, status: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[api_operators.JobPage]:
    """Work that is to be done, and work that was given up."""
    return call("GET", "/jobs", api_operators.JobPage, status=status, limit=limit, cursor=cursor)


def retry_job(id: str, *, key: str | None = None) -> Call[api_operators.JobView]:
    """Let a job be tried again at once."""
    return call("POST", f"/jobs/{named(id)}/retry", api_operators.JobView, key=key)


# Streams.


def stream_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    mode: api_requests.Mode | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> Call[api_threads.Told]:
    """Run one turn, and hear of it as it goes."""
    body = api_requests.NewTurn(message=message, user=user, mode=mode, busy=busy)
    return call("POST", f"/threads/{named(thread)}/turns", api_threads.Told, body=body, key=key)


def follow(thread: str, *, run: str | None = None) -> Call[api_threads.Told]:
    """The durable events of a thread."""
    return call("GET", f"/threads/{named(thread)}/events", api_threads.Told, run=run)


def follow_threads(*, wait: bool = True) -> Call[api_threads.Told]:
    """Threads as they change."""
    return call("GET", "/events", api_threads.Told, wait=None if wait else False)


def steps(run: str) -> Call[told.Steps]:
    """The steps of a run: what took how long, and what it cost."""
    return call("GET", f"/runs/{named(run)}/steps", told.Steps)


def datasets(*, limit: int = 50, cursor: str | None = None) -> Call[told.DatasetPage]:
    """Data sets, the newest first."""
    return call("GET", "/datasets", told.DatasetPage, limit=limit, cursor=cursor)


def examples(dataset: str, *, limit: int = 50, cursor: str | None = None) -> Call[told.ExamplePage]:
    """The examples of a data set."""
    path = f"/datasets/{named(dataset)}/examples"
    return call("GET", path, told.ExamplePage, limit=limit, cursor=cursor)


def experiments(*, limit: int = 50, cursor: str | None = None) -> Call[told.ExperimentPage]:
    """Experiments, the newest first."""
    return call("GET", "/experiments", told.ExperimentPage, limit=limit, cursor=cursor)


def experiment(name: str) -> Call[told.ExperimentView]:
    """An experiment, summed up from the results that are there now."""
    return call("GET", f"/experiments/{named(name)}", told.ExperimentView)


def results(experiment: str, *, limit: int = 50, cursor: str | None = None) -> Call[told.ResultPage]:
    """The results of an experiment."""
    path = f"/experiments/{named(experiment)}/results"
    return call("GET", path, told.ResultPage, limit=limit, cursor=cursor)


def compare(
    first: str, second: str, *, everything: bool = False, limit: int = 50, cursor: str | None = None
) -> Call[told.ComparisonView]:
    """Two experiments side by side: the examples whose scores differ, or all of them."""
    return call(
        "GET",
        "/comparisons",
        told.ComparisonView,
        first=first,
        second=second,
        everything=everything,
        limit=limit,
        cursor=cursor,
    )


def memory(
    *,
    kind: Literal["facts", "arcs"] = "facts",
    limit: int = 50,
    cursor: str | None = None,
    user: str | None = None,
) -> Call[api_memory.MemoryPage]:
    """What is known of a user."""
    return call("GET", "/memory", api_memory.MemoryPage, kind=kind, limit=limit, cursor=cursor, user=user)


def memory_entry(id: str, *, user: str | None = None) -> Call[dict[str, JSON]]:
    """One fact, arc or rule."""
    return call("GET", f"/memory/entries/{named(id)}", dict[str, JSON], user=user)


def catch_up(*, user: str | None = None) -> Call[api_memory.CatchUp]:
    """The last session in a line, for whoever begins another."""
    return call("GET", "/memory/catch-up", api_memory.CatchUp, user=user)


def export_memory(*, user: str | None = None) -> Call[dict[str, JSON]]:
    """Everything that is known, as one document."""
    return call("GET", "/memory/export", dict[str, JSON], user=user)


def correct_memory(
    id: str, object: str, *, negated: bool = False, user: str | None = None, key: str | None = None
) -> Call[dict[str, JSON]]:
    """Put right what a fact or a rule says."""
    body = api_requests.NewCorrection(object=object, negated=negated)
    path = f"/memory/entries/{named(id)}/correct"
    return call("POST", path, dict[str, JSON], body=body, key=key, user=user)


def forget_memory(
    ids: list[str], *, confirmed: bool = False, user: str | None = None, key: str | None = None
) -> Call[api_memory.ForgottenView]:
    """Forget some of it: first shown, then confirmed."""
    body = api_requests.NewForget(ids=ids, confirmed=confirmed)
    return call("POST", "/memory/forget", api_memory.ForgottenView, body=body, key=key, user=user)


def undo_memory(
    version: int | None = None, *, user: str | None = None, key: str | None = None
) -> Call[api_memory.UndoneView]:
    """Take back the last change of a memory."""
    body = api_requests.NewUndo(version=version)
    return call("POST", "/memory/undo", api_memory.UndoneView, body=body, key=key, user=user)


def set_recall(*, on: bool, user: str | None = None) -> Call[api_requests.NewRecall]:
    """Whether what is recalled may be brought up."""
    return call(
        "PUT", "/memory/recall", api_requests.NewRecall, body=api_requests.NewRecall(on=on), user=user
    )


def sessions_state() -> Call[SessionState]:
    """The sessions that are active now."""
    return call("GET", "/sessions/state", SessionState)


def sessions(*, search: str | None = None, limit: int = 50, cursor: str | None = None) -> Call[SessionPage]:
    """Sessions, the newest first."""
    return call("GET", "/sessions", SessionPage, search=search, limit=limit, cursor=cursor)


def session(id: str) -> Call[SessionView]:
    """A session."""
    return call("GET", f"/sessions/{named(id)}", SessionView)


def delete_session(id: str, *, expect: int | None = None) -> Call[None]:
    """Delete a session."""
    return call("DELETE", f"/sessions/{named(id)}", None, headers=matching(expect))


def turns(id: str, *, limit: int = 50, cursor: str | None = None) -> Call[TurnPage]:
    """What was said and answered in a session."""
    return call("GET", f"/sessions/{named(id)}/turns", TurnPage, limit=limit, cursor=cursor)


def end_session(
    id: str, *, feedback: api_requests.Label | None = None, key: str | None = None
) -> Call[EndView]:
    """End the episode that a session is in."""
    body = api_requests.NewEnd(feedback=feedback)
    return call("POST", f"/sessions/{named(id)}/end", EndView, body=body, key=key)


def episodes(*, over: bool = False, limit: int = 50, cursor: str | None = None) -> Call[EpisodePage]:
    """Episodes that are active or, with ``over``, those that are ending or ended; the last touched first."""
    return call("GET", "/episodes", EpisodePage, over=over, limit=limit, cursor=cursor)


def episode(id: str) -> Call[EpisodeLeft]:
    """An episode that is over, and what it left behind."""
    return call("GET", f"/episodes/{named(id)}", EpisodeLeft)


def session_status(id: str) -> Call[StatusView]:
    """Where a session stands, and what can be done next."""
    return call("GET", f"/sessions/{named(id)}/status", StatusView)


def record_voice_turn(
    id: str, turn: api_requests.NewVoiceTurn, *, key: str | None = None
) -> Call[api_threads.TurnView]:
    """Keep a turn of a call, once it was spoken."""
    return call("POST", f"/sessions/{named(id)}/voice", api_threads.TurnView, body=turn, key=key)


def begin_call(
    id: str,
    *,
    gated: bool = True,
    user: str | None = None,
    mode: api_requests.Mode | None = None,
    key: str | None = None,
) -> Call[CallView]:
    """A secret with which a browser begins a call."""
    body = api_requests.NewCall(gated=gated, user=user, mode=mode)
    return call("POST", f"/sessions/{named(id)}/voice/session", CallView, body=body, key=key)


def hear(id: str, utterance: api_requests.NewUtterance, *, key: str | None = None) -> Call[HeardView]:
    """How serious something is that was said in a call, and whether it may be answered."""
    return call("POST", f"/sessions/{named(id)}/voice/heard", HeardView, body=utterance, key=key)


def call_tool(id: str, asked: api_requests.NewToolCall, *, key: str | None = None) -> Call[ToolView]:
    """What a tool gives that a realtime model calls."""
    return call("POST", f"/sessions/{named(id)}/voice/tools", ToolView, body=asked, key=key)


def voice_alive(id: str, *, seconds: float = 60.0, key: str | None = None) -> Call[EndView]:
    """Say that a call goes on, and for how long its client may be silent."""
    body = api_requests.NewSign(seconds=seconds)
    return call("POST", f"/sessions/{named(id)}/voice/alive", EndView, body=body, key=key)


def voice_lost(id: str, *, key: str | None = None) -> Call[EndView]:
    """End the episode of a call whose client is gone."""
    return call("POST", f"/sessions/{named(id)}/voice/lost", EndView, key=key)


def export_person(*, user: str | None = None) -> Call[bytes]:
    """Everything that a user owns, as one archive."""
    return call("GET", "/person/export", bytes, user=user)


def export_session(id: str) -> Call[bytes]:
    """A session as an archive."""
    return call("POST", f"/sessions/{named(id)}/export", bytes)


def export_manifest(id: str) -> Call[bytes]:
    """A session as one JSON document."""
    return call("POST", f"/sessions/{named(id)}/export", bytes, format="manifest")


def import_manifest(
    id: str, manifest: bytes, *, expect: int | None = None, key: str | None = None
) -> Call[api_threads.CommittedView]:
    """Make a session what a manifest says, and nothing else."""
    path = f"/sessions/{named(id)}/import"
    return call("POST", path, api_threads.CommittedView, body=manifest, key=key, headers=matching(expect))


def import_sessions(
    archive: bytes, *, skip_existing: bool = False, key: str | None = None
) -> Call[ImportView]:
    """Take in the sessions of an archive; those that are there already are refused, or passed over."""
    kind, skip = {"Content-Type": "application/x-ndjson"}, skip_existing or None
    path = "/sessions/import"
    return call("POST", path, ImportView, body=archive, key=key, headers=kind, skip_existing=skip)
