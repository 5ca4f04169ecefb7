"""How each route of the server is attacked: what is asked of it about alice, and what others must hear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.server.attacked_server import SECRET, Ask, Victim

NOT_FOUND: dict[str, set[int]] = {"eve": {404}, "bob": {404}}
"""What is named and somebody else's is not there."""

APART: dict[str, set[int]] = {"eve": {200, 201}, "bob": {200, 201}}
"""The answer is about whoever asks."""

FORBIDDEN: dict[str, set[int]] = {"eve": {403}, "bob": {403}}
"""Who asks may not speak for another, or is no administrator."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One route: the request about alice's, which works for herself, and the statuses that others get."""

    ask: Callable[[Victim], Ask]
    others: dict[str, set[int]]
    owner: str = "alice"
    cursor: Literal["none", "taken"] = "none"


def get(path: str, /, **params: str) -> Callable[[Victim], Ask]:
    return lambda victim: Ask(
        method="GET",
        path=path.format(v=victim),
        params={name: value.format(v=victim) for name, value in params.items()},
    )


def post(path: str, json: Any = None, **params: str) -> Callable[[Victim], Ask]:
    return _request_of("POST", path, json, params)


def put(path: str, json: Any = None, **params: str) -> Callable[[Victim], Ask]:
    return _request_of("PUT", path, json, params)


def delete(path: str, /, **params: str) -> Callable[[Victim], Ask]:
    return _request_of("DELETE", path, None, params)


def _request_of(method: str, path: str, json: Any, params: dict[str, str]) -> Callable[[Victim], Ask]:
    return lambda victim: Ask(
        method=method,
        path=path.format(v=victim),
        json=_fill(json, victim),
        params={name: value.format(v=victim) for name, value in params.items()},
    )


def _fill(json: Any, victim: Victim) -> Any:
    if isinstance(json, str):
        return json.format(v=victim)
    if isinstance(json, dict):
        return {key: _fill(value, victim) for key, value in json.items()}
    return [_fill(value, victim) for value in json] if isinstance(json, list) else json


def _import(victim: Victim) -> Ask:
    """An archive that says it is hers, of a thread that is no longer there."""
    return Ask(method="POST", path="/sessions/import", content=victim.archive)


def _upload(victim: Victim) -> Ask:
    """A file for her thread."""
    path, params = f"/threads/{victim.thread}/documents", {"name": "new.txt"}
    return Ask(method="POST", path=path, content=b"Something new", params=params)


THREAD = "/threads/{v.thread}"
BLOCK = "/threads/{id:str}/core-memory/{block:str}"
ARTIFACT = "/threads/{id:str}/artifacts/{artifact:str}"
DOCUMENT = {"path": "{v.document}"}
VOICE = "/sessions/{v.thread}/voice"
OWNER = {"user": "{v.user}"}
CHAT = {
    "id": "{v.thread}",
    "messages": [
        {"id": "m{v.number}", "role": "user", "parts": [{"type": "text", "text": "What did I say?"}]}
    ],
}
AG_UI_INPUT = {
    "threadId": "{v.thread}",
    "runId": "r1",
    "messages": [{"id": "new-{v.number}", "role": "user", "content": "What did I say?"}],
}
ATTACKS: dict[tuple[str, str], Attack] = {
    # Threads.
    ("POST", "/threads"): Attack(
        ask=post("/threads", {"id": "new-{v.number}"}), others={"eve": {201}, "bob": {201}}
    ),
    ("GET", "/threads"): Attack(ask=get("/threads", limit="200"), others=APART, cursor="taken"),
    ("GET", "/threads/{id:str}"): Attack(ask=get(THREAD), others=NOT_FOUND),
    ("DELETE", "/threads/{id:str}"): Attack(ask=delete(THREAD), others=NOT_FOUND),
    ("GET", "/threads/{id:str}/items"): Attack(ask=get(f"{THREAD}/items"), others=NOT_FOUND, cursor="taken"),
    ("GET", "/threads/{id:str}/messages"): Attack(
        ask=get(f"{THREAD}/messages"), others=NOT_FOUND, cursor="taken"
    ),
    ("GET", "/threads/{id:str}/changesets"): Attack(
        ask=get(f"{THREAD}/changesets"), others=NOT_FOUND, cursor="taken"
    ),
    ("POST", "/threads/{id:str}/changesets"): Attack(
        ask=post(f"{THREAD}/changesets", {"patches": [["set", ["mood"], "calm"]]}), others=NOT_FOUND
    ),
    ("GET", "/threads/{id:str}/state"): Attack(ask=get(f"{THREAD}/state"), others=NOT_FOUND),
    ("GET", "/threads/{id:str}/stored-state"): Attack(ask=get(f"{THREAD}/stored-state"), others=FORBIDDEN),
    ("GET", "/threads/{id:str}/diff"): Attack(ask=get(f"{THREAD}/diff", before="0"), others=NOT_FOUND),
    ("GET", "/threads/{id:str}/verify"): Attack(ask=get(f"{THREAD}/verify"), others=NOT_FOUND),
    ("POST", "/threads/{id:str}/fork"): Attack(
        ask=post(f"{THREAD}/fork", {"id": "fork-{v.number}"}), others=NOT_FOUND
    ),
    ("POST", "/threads/{id:str}/rewind"): Attack(ask=post(f"{THREAD}/rewind", {"to": 1}), others=NOT_FOUND),
    ("POST", "/threads/{id:str}/adopt"): Attack(
        ask=post(f"{THREAD}/adopt", {"agent": "default"}), others=FORBIDDEN
    ),
    # The workbench of a thread.
    ("GET", "/threads/{id:str}/core-memory"): Attack(ask=get(f"{THREAD}/core-memory"), others=NOT_FOUND),
    ("PUT", BLOCK): Attack(ask=put(f"{THREAD}/core-memory/human", {"text": "nobody"}), others=NOT_FOUND),
    ("GET", "/sessions/{id:str}/repository"): Attack(
        ask=get("/sessions/{v.thread}/repository"), others=NOT_FOUND
    ),
    ("PUT", "/sessions/{id:str}/repository"): Attack(
        ask=put("/sessions/{v.thread}/repository", {"url": "https://git.example.org/tea"}), others=NOT_FOUND
    ),
    ("GET", "/threads/{id:str}/documents"): Attack(ask=get(f"{THREAD}/documents"), others=NOT_FOUND),
    ("POST", "/threads/{id:str}/documents"): Attack(ask=_upload, others=NOT_FOUND),
    ("DELETE", "/threads/{id:str}/documents"): Attack(
        ask=delete(f"{THREAD}/documents", **DOCUMENT), others=NOT_FOUND
    ),
    ("POST", "/threads/{id:str}/documents/load"): Attack(
        ask=post(f"{THREAD}/documents/load", DOCUMENT), others=NOT_FOUND
    ),
    ("PUT", "/threads/{id:str}/documents/active"): Attack(
        ask=put(f"{THREAD}/documents/active", DOCUMENT), others=NOT_FOUND
    ),
    ("GET", "/threads/{id:str}/documents/sections"): Attack(
        ask=get(f"{THREAD}/documents/sections", **DOCUMENT), others=NOT_FOUND
    ),
    ("GET", "/threads/{id:str}/documents/text"): Attack(
        ask=get(f"{THREAD}/documents/text", **DOCUMENT), others=NOT_FOUND
    ),
    ("GET", "/threads/{id:str}/documents/find"): Attack(
        ask=get(f"{THREAD}/documents/find", words=SECRET), others=NOT_FOUND
    ),
    ("GET", "/threads/{id:str}/artifacts"): Attack(
        ask=get(f"{THREAD}/artifacts"), others=NOT_FOUND, cursor="taken"
    ),
    ("GET", ARTIFACT): Attack(ask=get(f"{THREAD}/artifacts/{{v.artifact}}"), others=NOT_FOUND),
    ("DELETE", ARTIFACT): Attack(ask=delete(f"{THREAD}/artifacts/{{v.artifact}}"), others=NOT_FOUND),
    ("GET", "/threads/{id:str}/volume"): Attack(
        ask=get(f"{THREAD}/volume"), others=NOT_FOUND, cursor="taken"
    ),
    # Turns. The same id in another tenant is another thread, which a turn makes.
    ("POST", "/threads/{id:str}/turns"): Attack(
        ask=post(f"{THREAD}/turns", {"message": "What did I say?"}), others={"eve": {200}, "bob": {404}}
    ),
    ("POST", "/turns"): Attack(
        ask=post("/turns", {"thread": "{v.thread}", "message": "What did I say?", **OWNER}), others=FORBIDDEN
    ),
    ("POST", "/ag-ui"): Attack(
        ask=post("/ag-ui", {**AG_UI_INPUT, "forwardedProps": {"clew": OWNER}}), others=FORBIDDEN
    ),
    ("GET", "/threads/{id:str}/events"): Attack(
        ask=get(f"{THREAD}/events", after="0.0", run="{v.run}"), others=NOT_FOUND
    ),
    ("GET", "/events"): Attack(ask=get("/events", after="0", wait="false"), others=APART),
    # Chats of the AI SDK. A chat that is not there has not begun: it has no messages, and nothing runs in it.
    ("POST", "/ai-sdk/chat"): Attack(ask=post("/ai-sdk/chat", CHAT), others={"eve": {200}, "bob": {404}}),
    ("GET", "/ai-sdk/chat/{id:str}/stream"): Attack(
        ask=get("/ai-sdk/chat/{v.thread}/stream"), others={"eve": {204}, "bob": {204}}
    ),
    ("GET", "/ai-sdk/chat/{id:str}/messages"): Attack(
        ask=get("/ai-sdk/chat/{v.thread}/messages"), others=APART
    ),
    # Runs.
    ("GET", "/runs"): Attack(ask=get("/runs"), others=APART, cursor="taken"),
    ("GET", "/runs/{run:str}"): Attack(ask=get("/runs/{v.waiting_run}"), others=NOT_FOUND),
    ("GET", "/runs/{run:str}/steps"): Attack(ask=get("/runs/{v.waiting_run}/steps"), others=NOT_FOUND),
    ("POST", "/runs/{run:str}/cancel"): Attack(ask=post("/runs/{v.waiting_run}/cancel"), others=NOT_FOUND),
    ("POST", "/runs/{run:str}/decisions"): Attack(
        ask=post("/runs/{v.waiting_run}/decisions", {"decisions": {"c1": {"decision": "replay"}}}),
        others=NOT_FOUND,
    ),
    ("GET", "/approvals"): Attack(ask=get("/approvals"), others=APART, cursor="taken"),
    ("GET", "/usage"): Attack(ask=get("/usage"), others=APART),
    # Data sets and experiments.
    ("GET", "/datasets"): Attack(ask=get("/datasets"), others=APART, cursor="taken"),
    ("GET", "/datasets/{name:str}/examples"): Attack(
        ask=get("/datasets/{v.dataset}/examples"), others=NOT_FOUND, cursor="taken"
    ),
    ("POST", "/datasets/{name:str}/examples"): Attack(
        ask=post("/datasets/more-{v.number}/examples", {"threads": ["{v.thread}"]}), others=NOT_FOUND
    ),
    ("DELETE", "/datasets/{name:str}"): Attack(ask=delete("/datasets/{v.dataset}"), others=NOT_FOUND),
    ("POST", "/experiments/{name:str}/results"): Attack(
        ask=post(
            "/experiments/more-{v.number}/results",
            {"plan": {"dataset": "{v.dataset}", "subject": "a forger", "scorer": "exact"}},
        ),
        others=NOT_FOUND,
    ),
    ("DELETE", "/experiments/{name:str}"): Attack(ask=delete("/experiments/{v.dataset}"), others=NOT_FOUND),
    ("GET", "/experiments"): Attack(ask=get("/experiments"), others=APART, cursor="taken"),
    ("GET", "/experiments/{name:str}"): Attack(ask=get("/experiments/{v.dataset}"), others=NOT_FOUND),
    ("GET", "/experiments/{name:str}/results"): Attack(
        ask=get("/experiments/{v.dataset}/results"), others=NOT_FOUND, cursor="taken"
    ),
    ("GET", "/comparisons"): Attack(
        ask=get("/comparisons", first="{v.dataset}", second="{v.dataset}", everything="true"),
        others=NOT_FOUND,
        cursor="taken",
    ),
    # Sessions.
    ("GET", "/sessions/state"): Attack(ask=get("/sessions/state"), others=APART),
    ("GET", "/sessions"): Attack(ask=get("/sessions", search=SECRET), others=APART, cursor="taken"),
    ("GET", "/episodes"): Attack(ask=get("/episodes"), others=APART, cursor="taken"),
    ("GET", "/episodes/{episode_id:str}"): Attack(ask=get("/episodes/{v.episode}"), others=NOT_FOUND),
    ("GET", "/sessions/{id:str}"): Attack(ask=get("/sessions/{v.thread}"), others=NOT_FOUND),
    ("DELETE", "/sessions/{id:str}"): Attack(ask=delete("/sessions/{v.thread}"), others=NOT_FOUND),
    ("GET", "/sessions/{id:str}/turns"): Attack(
        ask=get("/sessions/{v.thread}/turns"), others=NOT_FOUND, cursor="taken"
    ),
    ("POST", "/sessions/{id:str}/end"): Attack(ask=post("/sessions/{v.thread}/end", {}), others=NOT_FOUND),
    ("POST", "/sessions/{id:str}/export"): Attack(ask=post("/sessions/{v.thread}/export"), others=NOT_FOUND),
    # The same id in another tenant is another session, which an import makes.
    ("POST", "/sessions/{id:str}/import"): Attack(
        ask=post(
            "/sessions/{v.thread}/import",
            {"format": "clew.session", "version": 1, "session": "{v.thread}", "state": {}},
        ),
        others={"eve": {200}, "bob": {404, 409}},
    ),
    ("POST", "/sessions/import"): Attack(ask=_import, others={"eve": {422}, "bob": {422}}),
    # Memory. Whose it is comes from the credentials; naming somebody else is refused.
    ("GET", "/memory"): Attack(ask=get("/memory", **OWNER), others=FORBIDDEN, cursor="taken"),
    ("GET", "/memory/export"): Attack(ask=get("/memory/export", **OWNER), others=FORBIDDEN),
    ("GET", "/memory/audit"): Attack(ask=get("/memory/audit", **OWNER), others=FORBIDDEN),
    ("GET", "/memory/catch-up"): Attack(ask=get("/memory/catch-up", **OWNER), others=FORBIDDEN),
    ("GET", "/memory/entries/{entry:str}"): Attack(ask=get("/memory/entries/{v.fact}"), others=NOT_FOUND),
    ("POST", "/memory/entries/{entry:str}/correct"): Attack(
        ask=post("/memory/entries/{v.fact}/correct", {"object": "something else"}), others=NOT_FOUND
    ),
    ("POST", "/memory/forget"): Attack(ask=post("/memory/forget", {"ids": ["{v.fact}"]}), others=NOT_FOUND),
    ("POST", "/memory/undo"): Attack(ask=post("/memory/undo", {}, **OWNER), others=FORBIDDEN),
    ("PUT", "/memory/recall"): Attack(ask=put("/memory/recall", {"on": False}, **OWNER), others=FORBIDDEN),
    # The rest.
    ("GET", "/search"): Attack(ask=get("/search", q=SECRET), others=APART, cursor="taken"),
    ("POST", "/sessions/{id:str}/feedback"): Attack(
        ask=post("/sessions/{v.thread}/feedback", {"label": "positive"}), others=NOT_FOUND
    ),
    ("GET", "/jobs"): Attack(ask=get("/jobs"), others=APART, cursor="taken"),
    ("POST", "/jobs/{job:str}/retry"): Attack(ask=post("/jobs/{v.job}/retry"), others=FORBIDDEN),
    ("GET", "/agent"): Attack(ask=get("/agent"), others=APART),
    ("GET", "/agents"): Attack(ask=get("/agents"), others=APART),
    ("GET", "/metrics"): Attack(ask=get("/metrics"), others=FORBIDDEN, owner="the server's operator"),
    # Calls.
    ("POST", "/sessions/{id:str}/voice"): Attack(
        ask=post(VOICE, {"said": "What did I say?"}), others={"eve": {200}, "bob": {404}}
    ),
    ("POST", "/sessions/{id:str}/voice/session"): Attack(
        ask=post(f"{VOICE}/session", OWNER), others=FORBIDDEN
    ),
    ("POST", "/sessions/{id:str}/voice/heard"): Attack(
        ask=post(f"{VOICE}/heard", {"id": "u1", "said": "What did I say?", **OWNER}), others=FORBIDDEN
    ),
    ("POST", "/sessions/{id:str}/voice/tools"): Attack(
        ask=post(f"{VOICE}/tools", {"id": "c1", "name": "recall", "arguments": {"about": SECRET}, **OWNER}),
        others=FORBIDDEN,
    ),
    ("POST", "/sessions/{id:str}/voice/alive"): Attack(ask=post(f"{VOICE}/alive", {}), others=NOT_FOUND),
    ("POST", "/sessions/{id:str}/voice/lost"): Attack(ask=post(f"{VOICE}/lost"), others=NOT_FOUND),
    ("GET", "/sessions/{id:str}/status"): Attack(ask=get("/sessions/{v.thread}/status"), others=NOT_FOUND),
    ("GET", "/person/export"): Attack(ask=get("/person/export", **OWNER), others=FORBIDDEN),
    # What only operators of a tenant do; alice is the one of hers.
    ("POST", "/erasures"): Attack(ask=post("/erasures", {"thread": "{v.thread}-gone"}), others=FORBIDDEN),
    ("GET", "/receipts"): Attack(ask=get("/receipts"), others=FORBIDDEN, cursor="taken"),
    ("POST", "/receipts/settle"): Attack(ask=post("/receipts/settle"), others=FORBIDDEN),
    ("GET", "/holds"): Attack(ask=get("/holds"), others=FORBIDDEN, cursor="taken"),
    ("POST", "/holds"): Attack(
        ask=post("/holds", {"thread": "{v.thread}-held", "reason": "a case"}), others=FORBIDDEN
    ),
    ("DELETE", "/holds"): Attack(ask=delete("/holds", thread="{v.thread}-held"), others=FORBIDDEN),
    ("GET", "/retention"): Attack(ask=get("/retention"), others=FORBIDDEN, cursor="taken"),
    ("PUT", "/retention/{rule:str}"): Attack(
        ask=put("/retention/{v.rule}", {"days": 3650}), others=FORBIDDEN
    ),
    ("DELETE", "/retention/{rule:str}"): Attack(ask=delete("/retention/{v.rule}"), others=FORBIDDEN),
    ("POST", "/retention/apply"): Attack(ask=post("/retention/apply", {"dry_run": True}), others=FORBIDDEN),
    ("GET", "/crises"): Attack(ask=get("/crises"), others=FORBIDDEN, cursor="taken"),
    ("GET", "/crises/export"): Attack(ask=get("/crises/export"), others=FORBIDDEN),
    ("POST", "/crises/extend"): Attack(
        ask=post("/crises/extend", {"thread": "{v.thread}", "until": 1 << 52}), others=FORBIDDEN
    ),
    ("POST", "/crises/purge"): Attack(ask=post("/crises/purge", {"dry_run": True}), others=FORBIDDEN),
    ("GET", "/feedback"): Attack(ask=get("/feedback"), others=FORBIDDEN, cursor="taken"),
    ("GET", "/feedback/export"): Attack(ask=get("/feedback/export"), others=FORBIDDEN),
    ("GET", "/audit"): Attack(ask=get("/audit"), others=FORBIDDEN, cursor="taken"),
}

SPEAKING: dict[str, Callable[[Victim], Ask]] = {
    "a turn": post(f"{THREAD}/turns", {"message": "What did I say?"}),
    "a turn, by its body": post("/turns", {"thread": "{v.thread}", "message": "What did I say?"}),
    "a message of a chat": post("/ai-sdk/chat", CHAT),
    "a run of AG-UI": post("/ag-ui", AG_UI_INPUT),
    "a spoken turn": post(VOICE, {"said": "What did I say?"}),
    "an utterance": post(f"{VOICE}/heard", {"id": "u1", "said": "What did I say?"}),
    "a tool of a call": post(
        f"{VOICE}/tools", {"id": "c1", "name": "recall", "arguments": {"about": SECRET}}
    ),
    "the beginning of a call": post(f"{VOICE}/session", {}),
}
"""Requests that would go on with a thread on behalf of whom they name."""

MEMORY_OF_THREAD: dict[str, Callable[[Victim], Ask]] = {
    "list": get("/memory", thread="{v.thread}"),
    "export": get("/memory/export", thread="{v.thread}"),
    "audit": get("/memory/audit", thread="{v.thread}"),
    "catch up": get("/memory/catch-up", thread="{v.thread}"),
    "entry": get("/memory/entries/{v.fact}", thread="{v.thread}"),
    "correct": post("/memory/entries/{v.fact}/correct", {"object": "something else"}, thread="{v.thread}"),
    "forget": post("/memory/forget", {"ids": ["{v.fact}"]}, thread="{v.thread}"),
    "undo": post("/memory/undo", {}, thread="{v.thread}"),
    "recall": put("/memory/recall", {"on": False}, thread="{v.thread}"),
}
"""Requests about the memory of a thread that is nobody's."""

MAKES_A_THREAD = {
    ("POST", "/ai-sdk/chat"),
    ("POST", "/threads/{id:str}/turns"),
    ("POST", "/sessions/{id:str}/voice"),
    ("POST", "/sessions/{id:str}/import"),
}
"""In another tenant these make a thread of the victim's id."""

OPEN = {
    ("GET", "/health"): "it says that the process answers, and nothing else",
    ("GET", "/ready"): "it says whether the store answers, and nothing else",
}
"""Routes that anybody may ask, and why."""

PAGES = {("GET", "/"), ("GET", "/studio"), ("GET", "/studio/{path:path}")}
"""The Studio's files, beside the API: the same for everybody. What they show they ask the API for."""

PROTOCOLS = {"/mcp"}
"""Protocols beside the API, with tests of their own that attack them."""

SOCKETS = {"/ws"}
"""Routes that are no request and answer; they have tests of their own."""

DESCRIPTIONS = "/openapi"
"""Below here the API describes itself: the same for everybody, and for nobody without credentials."""
