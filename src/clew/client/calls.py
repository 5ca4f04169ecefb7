"""The calls of the API: what is asked, and what the answer is. How it is sent is the clients' matter."""

from typing import Literal

from clew.api import experiments as told
from clew.api import memory as api_memory
from clew.api import operators as api_operators
from clew.api import requests as api_requests
from clew.api import threads as api_threads
from clew.api.messages import EpisodeDetail, EpisodePage, MessagePage
from clew.api.sessions import (
    ActiveSessions,
    EpisodeStatusView,
    GateVerdictView,
    ImportView,
    SessionPage,
    SessionStatusView,
    SessionView,
    ToolOutputView,
    TurnPage,
    VoiceSessionView,
)
from clew.client.call import ApiCall, api_call, if_match_header, path_part
from clew.core.encoding import JSON

# The server.


def health() -> ApiCall[api_operators.Health]:
    """Whether the server answers."""
    return api_call("GET", "/health", api_operators.Health)


def ready() -> ApiCall[api_operators.Health]:
    """Whether its store answers too."""
    return api_call("GET", "/ready", api_operators.Health)


def metrics() -> ApiCall[bytes]:
    """The numbers of one process, as Prometheus reads them."""
    return api_call("GET", "/metrics", bytes)


def agent() -> ApiCall[api_operators.AgentView]:
    """What answers there."""
    return api_call("GET", "/agent", api_operators.AgentView)


# Threads.


def create_thread(
    id: str, *, title: str | None = None, labels: list[str] | None = None, key: str | None = None
) -> ApiCall[api_threads.ThreadDetail]:
    """A new thread."""
    body = api_requests.NewThread(id=id, title=title, labels=labels or [])
    return api_call("POST", "/threads", api_threads.ThreadDetail, body=body, key=key)


def threads(
    *, search: str | None = None, last: bool = False, limit: int = 50, cursor: str | None = None
) -> ApiCall[api_threads.ThreadPage]:
    """Threads, the newest first: those that bear some words, each with what was said last, if asked for."""
    page = api_threads.ThreadPage
    return api_call("GET", "/threads", page, search=search, last=last or None, limit=limit, cursor=cursor)


def thread(id: str, *, at: int | None = None) -> ApiCall[api_threads.ThreadDetail]:
    """A thread, now or at a version."""
    return api_call("GET", f"/threads/{path_part(id)}", api_threads.ThreadDetail, at=at)


def delete_thread(id: str, *, expect: int | None = None) -> ApiCall[None]:
    """Remove a thread."""
    return api_call("DELETE", f"/threads/{path_part(id)}", None, headers=if_match_header(expect))


def items(
    id: str,
    *,
    limit: int = 50,
    cursor: str | None = None,
    at: int | None = None,
    log: str = "history",
    whole: bool = False,
) -> ApiCall[api_threads.ItemPage]:
    """The newest items of a thread, oldest first."""
    path = f"/threads/{path_part(id)}/items"
    return api_call(
        "GET", path, api_threads.ItemPage, limit=limit, cursor=cursor, at=at, log=log, whole=whole
    )


def messages(
    id: str,
    *,
    limit: int = 50,
    cursor: str | None = None,
    at: int | None = None,
    log: str = "history",
) -> ApiCall[MessagePage]:
    """What the newest items of a thread say, whatever framework wrote them, oldest first."""
    path = f"/threads/{path_part(id)}/messages"
    return api_call("GET", path, MessagePage, limit=limit, cursor=cursor, at=at, log=log)


def changesets(
    id: str, *, limit: int = 50, cursor: str | None = None, after: int | None = None
) -> ApiCall[api_threads.ChangesetPage]:
    """The changes of a thread."""
    path = f"/threads/{path_part(id)}/changesets"
    return api_call("GET", path, api_threads.ChangesetPage, limit=limit, cursor=cursor, after=after)


def append(
    id: str,
    *,
    items: list[api_requests.NewItem] | None = None,
    patches: list[JSON] | None = None,
    reason: str = "append",
    expect: int | None = None,
    key: str | None = None,
) -> ApiCall[api_threads.CommitView]:
    """Append a change."""
    body = api_requests.NewChangeset(items=items or [], patches=patches or [], reason=reason)
    path = f"/threads/{path_part(id)}/changesets"
    return api_call("POST", path, api_threads.CommitView, body=body, key=key, headers=if_match_header(expect))


def state(id: str, *, at: int | None = None) -> ApiCall[api_threads.StateView]:
    """The state of a thread, now or at a version."""
    return api_call("GET", f"/threads/{path_part(id)}/state", api_threads.StateView, at=at)


def diff(id: str, before: int, after: int | None = None) -> ApiCall[api_threads.DiffView]:
    """What differs between two versions."""
    return api_call("GET", f"/threads/{path_part(id)}/diff", api_threads.DiffView, before=before, after=after)


def verify(id: str) -> ApiCall[api_threads.VerdictView]:
    """Whether the chain of a thread holds."""
    return api_call("GET", f"/threads/{path_part(id)}/verify", api_threads.VerdictView)


def fork(
    id: str, new: str, *, at: int | None = None, key: str | None = None
) -> ApiCall[api_threads.ThreadDetail]:
    """A thread that goes its own way from a version of another."""
    body = api_requests.NewFork(id=new, at=at)
    return api_call("POST", f"/threads/{path_part(id)}/fork", api_threads.ThreadDetail, body=body, key=key)


def rewind(
    id: str,
    *,
    run: str | None = None,
    to: int | None = None,
    compaction: int | None = None,
    expect: int | None = None,
    key: str | None = None,
) -> ApiCall[api_threads.RewindView]:
    """Take back a run, everything after a version, or a compaction."""
    body = api_requests.NewRewind(run=run, to=to, compaction=compaction)
    path = f"/threads/{path_part(id)}/rewind"
    return api_call("POST", path, api_threads.RewindView, body=body, key=key, headers=if_match_header(expect))


# Turns and runs.


def run_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    mode: api_requests.MemoryModeName | None = None,
    message_id: str | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> ApiCall[api_threads.TurnView]:
    """Run one turn, and have it whole."""
    body = api_requests.NewTurn(message=message, user=user, mode=mode, message_id=message_id, busy=busy)
    return api_call("POST", f"/threads/{path_part(thread)}/turns", api_threads.TurnView, body=body, key=key)


def runs(
    *,
    thread: str | None = None,
    status: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> ApiCall[api_threads.RunPage]:
    """Runs, the newest first."""
    return api_call(
        "GET", "/runs", api_threads.RunPage, thread=thread, status=status, limit=limit, cursor=cursor
    )


def run(id: str) -> ApiCall[api_threads.RunView]:
    """A run."""
    return api_call("GET", f"/runs/{path_part(id)}", api_threads.RunView)


def cancel(run: str, *, key: str | None = None) -> ApiCall[api_threads.CancellationView]:
    """End a run that is at work or waits."""
    return api_call("POST", f"/runs/{path_part(run)}/cancel", api_threads.CancellationView, key=key)


def decide(
    run: str,
    decisions: dict[str, api_requests.NewDecision] | None = None,
    *,
    user: str | None = None,
    key: str | None = None,
) -> ApiCall[api_threads.TurnView]:
    """Decide about the calls that a run waits for, and go on with it."""
    body = api_requests.NewDecisions(decisions=decisions or {}, user=user)
    return api_call("POST", f"/runs/{path_part(run)}/decisions", api_threads.TurnView, body=body, key=key)


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
) -> ApiCall[api_memory.SearchHitPage]:
    """What was said and what is known that bears on the words."""
    return api_call(
        "GET",
        "/search",
        api_memory.SearchHitPage,
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
) -> ApiCall[api_memory.FeedbackView]:
    """What a user thought of a session so far."""
    body = api_requests.NewFeedback(thread=thread, label=label)
    return api_call("POST", "/feedback", api_memory.FeedbackView, body=body, key=key)


def jobs(
    *, status: str | None = None, limit: int = 100, cursor: str | None = None
) -> ApiCall[api_operators.JobPage]:
    """Work that is to be done, and work that was given up."""
    return api_call("GET", "/jobs", api_operators.JobPage, status=status, limit=limit, cursor=cursor)


def retry_job(id: str, *, key: str | None = None) -> ApiCall[api_operators.JobView]:
    """Let a job be tried again at once."""
    return api_call("POST", f"/jobs/{path_part(id)}/retry", api_operators.JobView, key=key)


# Streams.


def stream_turn(
    thread: str,
    message: str,
    *,
    user: str | None = None,
    mode: api_requests.MemoryModeName | None = None,
    busy: Literal["wait", "refuse", "queue"] = "wait",
    key: str | None = None,
) -> ApiCall[api_threads.StreamEvent]:
    """Run one turn, and hear of it as it goes."""
    body = api_requests.NewTurn(message=message, user=user, mode=mode, busy=busy)
    return api_call(
        "POST", f"/threads/{path_part(thread)}/turns", api_threads.StreamEvent, body=body, key=key
    )


def follow(thread: str, *, run: str | None = None) -> ApiCall[api_threads.StreamEvent]:
    """The durable events of a thread."""
    return api_call("GET", f"/threads/{path_part(thread)}/events", api_threads.StreamEvent, run=run)


def follow_threads(*, wait: bool = True) -> ApiCall[api_threads.StreamEvent]:
    """Threads as they change."""
    return api_call("GET", "/events", api_threads.StreamEvent, wait=None if wait else False)


def steps(run: str) -> ApiCall[told.StepList]:
    """The steps of a run: what took how long, and what it cost."""
    return api_call("GET", f"/runs/{path_part(run)}/steps", told.StepList)


def datasets(*, limit: int = 50, cursor: str | None = None) -> ApiCall[told.DatasetPage]:
    """Data sets, the newest first."""
    return api_call("GET", "/datasets", told.DatasetPage, limit=limit, cursor=cursor)


def examples(dataset: str, *, limit: int = 50, cursor: str | None = None) -> ApiCall[told.ExamplePage]:
    """The examples of a data set."""
    path = f"/datasets/{path_part(dataset)}/examples"
    return api_call("GET", path, told.ExamplePage, limit=limit, cursor=cursor)


def experiments(*, limit: int = 50, cursor: str | None = None) -> ApiCall[told.ExperimentPage]:
    """Experiments, the newest first."""
    return api_call("GET", "/experiments", told.ExperimentPage, limit=limit, cursor=cursor)


def experiment(name: str) -> ApiCall[told.ExperimentView]:
    """An experiment, summed up from the results that are there now."""
    return api_call("GET", f"/experiments/{path_part(name)}", told.ExperimentView)


def results(
    experiment: str, *, limit: int = 50, cursor: str | None = None
) -> ApiCall[told.ExperimentResultPage]:
    """The results of an experiment."""
    path = f"/experiments/{path_part(experiment)}/results"
    return api_call("GET", path, told.ExperimentResultPage, limit=limit, cursor=cursor)


def compare(
    first: str, second: str, *, everything: bool = False, limit: int = 50, cursor: str | None = None
) -> ApiCall[told.ComparisonView]:
    """Two experiments side by side: the examples whose scores differ, or all of them."""
    return api_call(
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
) -> ApiCall[api_memory.MemoryPage]:
    """What is known of a user."""
    return api_call("GET", "/memory", api_memory.MemoryPage, kind=kind, limit=limit, cursor=cursor, user=user)


def memory_entry(id: str, *, user: str | None = None) -> ApiCall[dict[str, JSON]]:
    """One fact, arc or rule."""
    return api_call("GET", f"/memory/entries/{path_part(id)}", dict[str, JSON], user=user)


def catch_up(*, user: str | None = None) -> ApiCall[api_memory.CatchUp]:
    """The last session in a line, for whoever begins another."""
    return api_call("GET", "/memory/catch-up", api_memory.CatchUp, user=user)


def export_memory(*, user: str | None = None) -> ApiCall[dict[str, JSON]]:
    """Everything that is known, as one document."""
    return api_call("GET", "/memory/export", dict[str, JSON], user=user)


def correct_memory(
    id: str, object: str, *, negated: bool = False, user: str | None = None, key: str | None = None
) -> ApiCall[dict[str, JSON]]:
    """Put right what a fact or a rule says."""
    body = api_requests.NewCorrection(object=object, negated=negated)
    path = f"/memory/entries/{path_part(id)}/correct"
    return api_call("POST", path, dict[str, JSON], body=body, key=key, user=user)


def forget_memory(
    ids: list[str], *, confirmed: bool = False, user: str | None = None, key: str | None = None
) -> ApiCall[api_memory.ForgetView]:
    """Forget some of it: first shown, then confirmed."""
    body = api_requests.NewForgetRequest(ids=ids, confirmed=confirmed)
    return api_call("POST", "/memory/forget", api_memory.ForgetView, body=body, key=key, user=user)


def undo_memory(
    version: int | None = None, *, user: str | None = None, key: str | None = None
) -> ApiCall[api_memory.UndoView]:
    """Take back the last change of a memory."""
    body = api_requests.NewUndo(version=version)
    return api_call("POST", "/memory/undo", api_memory.UndoView, body=body, key=key, user=user)


def set_recall(*, on: bool, user: str | None = None) -> ApiCall[api_requests.RecallSetting]:
    """Whether what is recalled may be brought up."""
    return api_call(
        "PUT", "/memory/recall", api_requests.RecallSetting, body=api_requests.RecallSetting(on=on), user=user
    )


def sessions_state() -> ApiCall[ActiveSessions]:
    """The sessions that are active now."""
    return api_call("GET", "/sessions/state", ActiveSessions)


def sessions(
    *, search: str | None = None, limit: int = 50, cursor: str | None = None
) -> ApiCall[SessionPage]:
    """Sessions, the newest first."""
    return api_call("GET", "/sessions", SessionPage, search=search, limit=limit, cursor=cursor)


def session(id: str) -> ApiCall[SessionView]:
    """A session."""
    return api_call("GET", f"/sessions/{path_part(id)}", SessionView)


def delete_session(id: str, *, expect: int | None = None) -> ApiCall[None]:
    """Delete a session."""
    return api_call("DELETE", f"/sessions/{path_part(id)}", None, headers=if_match_header(expect))


def turns(id: str, *, limit: int = 50, cursor: str | None = None) -> ApiCall[TurnPage]:
    """What was said and answered in a session."""
    return api_call("GET", f"/sessions/{path_part(id)}/turns", TurnPage, limit=limit, cursor=cursor)


def end_session(
    id: str, *, feedback: api_requests.FeedbackLabel | None = None, key: str | None = None
) -> ApiCall[EpisodeStatusView]:
    """End the episode that a session is in."""
    body = api_requests.NewSessionEnd(feedback=feedback)
    return api_call("POST", f"/sessions/{path_part(id)}/end", EpisodeStatusView, body=body, key=key)


def episodes(*, over: bool = False, limit: int = 50, cursor: str | None = None) -> ApiCall[EpisodePage]:
    """Episodes that are active or, with ``over``, those that are ending or ended; the last touched first."""
    return api_call("GET", "/episodes", EpisodePage, over=over, limit=limit, cursor=cursor)


def episode(id: str) -> ApiCall[EpisodeDetail]:
    """An episode that is over, and what it left behind."""
    return api_call("GET", f"/episodes/{path_part(id)}", EpisodeDetail)


def session_status(id: str) -> ApiCall[SessionStatusView]:
    """Where a session stands, and what can be done next."""
    return api_call("GET", f"/sessions/{path_part(id)}/status", SessionStatusView)


def record_voice_turn(
    id: str, turn: api_requests.NewVoiceTurn, *, key: str | None = None
) -> ApiCall[api_threads.TurnView]:
    """Keep a turn of a call, once it was spoken."""
    return api_call("POST", f"/sessions/{path_part(id)}/voice", api_threads.TurnView, body=turn, key=key)


def begin_voice_session(
    id: str,
    *,
    gated: bool = True,
    user: str | None = None,
    mode: api_requests.MemoryModeName | None = None,
    key: str | None = None,
) -> ApiCall[VoiceSessionView]:
    """A secret with which a browser begins a call."""
    body = api_requests.NewVoiceSession(gated=gated, user=user, mode=mode)
    return api_call("POST", f"/sessions/{path_part(id)}/voice/session", VoiceSessionView, body=body, key=key)


def judge_utterance(
    id: str, utterance: api_requests.NewUtterance, *, key: str | None = None
) -> ApiCall[GateVerdictView]:
    """How serious something is that was said in a call, and whether it may be answered."""
    return api_call(
        "POST", f"/sessions/{path_part(id)}/voice/heard", GateVerdictView, body=utterance, key=key
    )


def call_voice_tool(
    id: str, tool_call: api_requests.NewToolCall, *, key: str | None = None
) -> ApiCall[ToolOutputView]:
    """What a tool gives that a realtime model calls."""
    return api_call("POST", f"/sessions/{path_part(id)}/voice/tools", ToolOutputView, body=tool_call, key=key)


def keep_voice_alive(id: str, *, seconds: float = 60.0, key: str | None = None) -> ApiCall[EpisodeStatusView]:
    """Say that a call goes on, and for how long its client may be silent."""
    body = api_requests.NewHeartbeat(seconds=seconds)
    return api_call("POST", f"/sessions/{path_part(id)}/voice/alive", EpisodeStatusView, body=body, key=key)


def end_lost_voice(id: str, *, key: str | None = None) -> ApiCall[EpisodeStatusView]:
    """End the episode of a call whose client is gone."""
    return api_call("POST", f"/sessions/{path_part(id)}/voice/lost", EpisodeStatusView, key=key)


def export_person(*, user: str | None = None) -> ApiCall[bytes]:
    """Everything that a user owns, as one archive."""
    return api_call("GET", "/person/export", bytes, user=user)


def export_session(id: str) -> ApiCall[bytes]:
    """A session as an archive."""
    return api_call("POST", f"/sessions/{path_part(id)}/export", bytes)


def export_manifest(id: str) -> ApiCall[bytes]:
    """A session as one JSON document."""
    return api_call("POST", f"/sessions/{path_part(id)}/export", bytes, format="manifest")


def import_manifest(
    id: str, manifest: bytes, *, expect: int | None = None, key: str | None = None
) -> ApiCall[api_threads.CommitView]:
    """Make a session what a manifest says, and nothing else."""
    path = f"/sessions/{path_part(id)}/import"
    return api_call(
        "POST", path, api_threads.CommitView, body=manifest, key=key, headers=if_match_header(expect)
    )


def import_sessions(
    archive: bytes, *, skip_existing: bool = False, key: str | None = None
) -> ApiCall[ImportView]:
    """Take in the sessions of an archive; those that are there already are refused, or passed over."""
    kind, skip_or_none = {"Content-Type": "application/x-ndjson"}, skip_existing or None
    path = "/sessions/import"
    return api_call("POST", path, ImportView, body=archive, key=key, headers=kind, skip_existing=skip_or_none)
