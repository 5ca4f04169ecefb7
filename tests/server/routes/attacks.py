"""How each route of the server is attacked: what is asked of it about alice, and what others must hear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.server.attacked_server import SECRET, Ask, Victim

HIDDEN: dict[str, set[int]] = {"eve": {404}, "bob": {404}}
"""What is named and somebody else's is not there."""

APART: dict[str, set[int]] = {"eve": {200, 201}, "bob": {200, 201}}
"""The answer is about whoever asks."""

REFUSED: dict[str, set[int]] = {"eve": {403}, "bob": {403}}
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
    return _sending("POST", path, json, params)


def put(path: str, json: Any = None, **params: str) -> Callable[[Victim], Ask]:
    return _sending("PUT", path, json, params)


def delete(path: str, /, **params: str) -> Callable[[Victim], Ask]:
    return _sending("DELETE", path, None, params)


def _sending(method: str, path: str, json: Any, params: dict[str, str]) -> Callable[[Victim], Ask]:
    return lambda victim: Ask(
        method=method,
        path=path.format(v=victim),
        json=_filled(json, victim),
        params={name: value.format(v=victim) for name, value in params.items()},
    )


def _filled(json: Any, victim: Victim) -> Any:
    if isinstance(json, str):
        return json.format(v=victim)
    if isinstance(json, dict):
        return {key: _filled(value, victim) for key, value in json.items()}
    return [_filled(value, victim) for value in json] if isinstance(json, list) else json


def _imported(victim: Victim) -> Ask:
    """An archive that says it is hers, of a thread that is no longer there."""
    return Ask(method="POST", path="/sessions/import", content=victim.archive)


def _uploaded(victim: Victim) -> Ask:
    """A file for her thread."""
    path, params = f"/threads/{victim.thread}/documents", {"name": "new.txt"}
    return Ask(method="POST", path=path, content=b"Something new", params=params)


THREAD = "/threads/{v.thread}"
BLOCK = "/threads/{id:str}/core-memory/{block:str}"
ARTIFACT = "/threads/{id:str}/artifacts/{artifact:str}"
DOCUMENT = {"path": "{v.document}"}
SPOKEN = "/sessions/{v.thread}/voice"
OWNER = {"user": "{v.user}"}
ATTACKS: dict[tuple[str, str], Attack] = {
    # Threads.
    ("POST", "/threads"): Attack(
        ask=post("/threads", {"id": "new-{v.number}"}), others={"eve": {201}, "bob": {201}}
    ),
    ("GET", "/threads"): Attack(ask=get("/threads", limit="200"), others=APART, cursor="taken"),
    ("GET", "/threads/{id:str}"): Attack(ask=get(THREAD), others=HIDDEN),
    ("DELETE", "/threads/{id:str}"): Attack(ask=delete(THREAD), others=HIDDEN),
    ("GET", "/threads/{id:str}/items"): Attack(ask=get(f"{THREAD}/items"), others=HIDDEN, cursor="taken"),
    ("GET", "/threads/{id:str}/messages"): Attack(
        ask=get(f"{THREAD}/messages"), others=HIDDEN, cursor="taken"
    ),
    ("GET", "/threads/{id:str}/changesets"): Attack(
        ask=get(f"{THREAD}/changesets"), others=HIDDEN, cursor="taken"
    ),
    ("POST", "/threads/{id:str}/changesets"): Attack(
        ask=post(f"{THREAD}/changesets", {"patches": [["set", ["mood"], "calm"]]}), others=HIDDEN
    ),
    ("GET", "/threads/{id:str}/state"): Attack(ask=get(f"{THREAD}/state"), others=HIDDEN),
    ("GET", "/threads/{id:str}/diff"): Attack(ask=get(f"{THREAD}/diff", before="0"), others=HIDDEN),
    ("GET", "/threads/{id:str}/verify"): Attack(ask=get(f"{THREAD}/verify"), others=HIDDEN),
    ("POST", "/threads/{id:str}/fork"): Attack(
        ask=post(f"{THREAD}/fork", {"id": "fork-{v.number}"}), others=HIDDEN
    ),
    ("POST", "/threads/{id:str}/rewind"): Attack(ask=post(f"{THREAD}/rewind", {"to": 1}), others=HIDDEN),
    # The workbench of a thread.
    ("GET", "/threads/{id:str}/core-memory"): Attack(ask=get(f"{THREAD}/core-memory"), others=HIDDEN),
    ("PUT", BLOCK): Attack(ask=put(f"{THREAD}/core-memory/human", {"text": "nobody"}), others=HIDDEN),
    ("GET", "/threads/{id:str}/documents"): Attack(ask=get(f"{THREAD}/documents"), others=HIDDEN),
    ("POST", "/threads/{id:str}/documents"): Attack(ask=_uploaded, others=HIDDEN),
    ("DELETE", "/threads/{id:str}/documents"): Attack(
        ask=delete(f"{THREAD}/documents", **DOCUMENT), others=HIDDEN
    ),
    ("POST", "/threads/{id:str}/documents/load"): Attack(
        ask=post(f"{THREAD}/documents/load", DOCUMENT), others=HIDDEN
    ),
    ("PUT", "/threads/{id:str}/documents/active"): Attack(
        ask=put(f"{THREAD}/documents/active", DOCUMENT), others=HIDDEN
    ),
    ("GET", "/threads/{id:str}/documents/sections"): Attack(
        ask=get(f"{THREAD}/documents/sections", **DOCUMENT), others=HIDDEN
    ),
    ("GET", "/threads/{id:str}/documents/text"): Attack(
        ask=get(f"{THREAD}/documents/text", **DOCUMENT), others=HIDDEN
    ),
    ("GET", "/threads/{id:str}/documents/find"): Attack(
        ask=get(f"{THREAD}/documents/find", words=SECRET), others=HIDDEN
    ),
    ("GET", "/threads/{id:str}/artifacts"): Attack(
        ask=get(f"{THREAD}/artifacts"), others=HIDDEN, cursor="taken"
    ),
    ("GET", ARTIFACT): Attack(ask=get(f"{THREAD}/artifacts/{{v.artifact}}"), others=HIDDEN),
    ("DELETE", ARTIFACT): Attack(ask=delete(f"{THREAD}/artifacts/{{v.artifact}}"), others=HIDDEN),
    ("GET", "/threads/{id:str}/volume"): Attack(ask=get(f"{THREAD}/volume"), others=HIDDEN, cursor="taken"),
    # Turns. The same id in another tenant is another thread, which a turn makes.
    ("POST", "/threads/{id:str}/turns"): Attack(
        ask=post(f"{THREAD}/turns", {"message": "What did I say?"}), others={"eve": {200}, "bob": {404}}
    ),
    ("POST", "/turns"): Attack(
        ask=post("/turns", {"thread": "{v.thread}", "message": "What did I say?", **OWNER}), others=REFUSED
    ),
    ("GET", "/threads/{id:str}/events"): Attack(
        ask=get(f"{THREAD}/events", after="0.0", run="{v.run}"), others=HIDDEN
    ),
    ("GET", "/events"): Attack(ask=get("/events", after="0", wait="false"), others=APART),
    # Runs.
    ("GET", "/runs"): Attack(ask=get("/runs"), others=APART, cursor="taken"),
    ("GET", "/runs/{run:str}"): Attack(ask=get("/runs/{v.waiting_run}"), others=HIDDEN),
    ("GET", "/runs/{run:str}/steps"): Attack(ask=get("/runs/{v.waiting_run}/steps"), others=HIDDEN),
    ("POST", "/runs/{run:str}/cancel"): Attack(ask=post("/runs/{v.waiting_run}/cancel"), others=HIDDEN),
    ("POST", "/runs/{run:str}/decisions"): Attack(
        ask=post("/runs/{v.waiting_run}/decisions", {"decisions": {"c1": {"decision": "replay"}}}),
        others=HIDDEN,
    ),
    # Data sets and experiments.
    ("GET", "/datasets"): Attack(ask=get("/datasets"), others=APART, cursor="taken"),
    ("GET", "/datasets/{name:str}/examples"): Attack(
        ask=get("/datasets/{v.dataset}/examples"), others=HIDDEN, cursor="taken"
    ),
    ("GET", "/experiments"): Attack(ask=get("/experiments"), others=APART, cursor="taken"),
    ("GET", "/experiments/{name:str}"): Attack(ask=get("/experiments/{v.dataset}"), others=HIDDEN),
    ("GET", "/experiments/{name:str}/results"): Attack(
        ask=get("/experiments/{v.dataset}/results"), others=HIDDEN, cursor="taken"
    ),
    ("GET", "/comparisons"): Attack(
        ask=get("/comparisons", first="{v.dataset}", second="{v.dataset}", everything="true"),
        others=HIDDEN,
        cursor="taken",
    ),
    # Sessions.
    ("GET", "/sessions/state"): Attack(ask=get("/sessions/state"), others=APART),
    ("GET", "/sessions"): Attack(ask=get("/sessions", search=SECRET), others=APART, cursor="taken"),
    ("GET", "/episodes"): Attack(ask=get("/episodes"), others=APART, cursor="taken"),
    ("GET", "/episodes/{episode_id:str}"): Attack(ask=get("/episodes/{v.episode}"), others=HIDDEN),
    ("GET", "/sessions/{id:str}"): Attack(ask=get("/sessions/{v.thread}"), others=HIDDEN),
    ("DELETE", "/sessions/{id:str}"): Attack(ask=delete("/sessions/{v.thread}"), others=HIDDEN),
    ("GET", "/sessions/{id:str}/turns"): Attack(
        ask=get("/sessions/{v.thread}/turns"), others=HIDDEN, cursor="taken"
    ),
    ("POST", "/sessions/{id:str}/end"): Attack(ask=post("/sessions/{v.thread}/end", {}), others=HIDDEN),
    ("POST", "/sessions/{id:str}/export"): Attack(ask=post("/sessions/{v.thread}/export"), others=HIDDEN),
    # The same id in another tenant is another session, which an import makes.
    ("POST", "/sessions/{id:str}/import"): Attack(
        ask=post(
            "/sessions/{v.thread}/import",
            {"format": "clew.session", "version": 1, "session": "{v.thread}", "state": {}},
        ),
        others={"eve": {200}, "bob": {404, 409}},
    ),
    ("POST", "/sessions/import"): Attack(ask=_imported, others={"eve": {422}, "bob": {422}}),
    # Memory. Whose it is comes from the credentials; naming somebody else is refused.
    ("GET", "/memory"): Attack(ask=get("/memory", **OWNER), others=REFUSED, cursor="taken"),
    ("GET", "/memory/export"): Attack(ask=get("/memory/export", **OWNER), others=REFUSED),
    ("GET", "/memory/catch-up"): Attack(ask=get("/memory/catch-up", **OWNER), others=REFUSED),
    ("GET", "/memory/entries/{entry:str}"): Attack(ask=get("/memory/entries/{v.fact}"), others=HIDDEN),
    ("POST", "/memory/entries/{entry:str}/correct"): Attack(
        ask=post("/memory/entries/{v.fact}/correct", {"object": "something else"}), others=HIDDEN
    ),
    ("POST", "/memory/forget"): Attack(ask=post("/memory/forget", {"ids": ["{v.fact}"]}), others=HIDDEN),
    ("POST", "/memory/undo"): Attack(ask=post("/memory/undo", {}, **OWNER), others=REFUSED),
    ("PUT", "/memory/recall"): Attack(ask=put("/memory/recall", {"on": False}, **OWNER), others=REFUSED),
    # The rest.
    ("GET", "/search"): Attack(ask=get("/search", q=SECRET), others=APART, cursor="taken"),
    ("POST", "/feedback"): Attack(
        ask=post("/feedback", {"thread": "{v.thread}", "label": "positive"}), others=HIDDEN
    ),
    ("GET", "/jobs"): Attack(ask=get("/jobs"), others=APART, cursor="taken"),
    ("POST", "/jobs/{job:str}/retry"): Attack(ask=post("/jobs/{v.job}/retry"), others=REFUSED),
    ("GET", "/agent"): Attack(ask=get("/agent"), others=APART),
    ("GET", "/metrics"): Attack(ask=get("/metrics"), others=REFUSED, owner="the server's operator"),
    # Calls.
    ("POST", "/sessions/{id:str}/voice"): Attack(
        ask=post(SPOKEN, {"said": "What did I say?"}), others={"eve": {200}, "bob": {404}}
    ),
    ("POST", "/sessions/{id:str}/voice/session"): Attack(
        ask=post(f"{SPOKEN}/session", OWNER), others=REFUSED
    ),
    ("POST", "/sessions/{id:str}/voice/heard"): Attack(
        ask=post(f"{SPOKEN}/heard", {"id": "u1", "said": "What did I say?", **OWNER}), others=REFUSED
    ),
    ("POST", "/sessions/{id:str}/voice/tools"): Attack(
        ask=post(f"{SPOKEN}/tools", {"id": "c1", "name": "recall", "arguments": {"about": SECRET}, **OWNER}),
        others=REFUSED,
    ),
    ("POST", "/sessions/{id:str}/voice/alive"): Attack(ask=post(f"{SPOKEN}/alive", {}), others=HIDDEN),
    ("POST", "/sessions/{id:str}/voice/lost"): Attack(ask=post(f"{SPOKEN}/lost"), others=HIDDEN),
    ("GET", "/sessions/{id:str}/status"): Attack(ask=get("/sessions/{v.thread}/status"), others=HIDDEN),
    ("GET", "/person/export"): Attack(ask=get("/person/export", **OWNER), others=REFUSED),
    # What only operators of a tenant do; alice is the one of hers.
    ("POST", "/erasures"): Attack(ask=post("/erasures", {"thread": "{v.thread}-gone"}), others=REFUSED),
    ("GET", "/receipts"): Attack(ask=get("/receipts"), others=REFUSED, cursor="taken"),
    ("POST", "/receipts/settle"): Attack(ask=post("/receipts/settle"), others=REFUSED),
    ("GET", "/holds"): Attack(ask=get("/holds"), others=REFUSED, cursor="taken"),
    ("POST", "/holds"): Attack(
        ask=post("/holds", {"thread": "{v.thread}-held", "reason": "a case"}), others=REFUSED
    ),
    ("DELETE", "/holds"): Attack(ask=delete("/holds", thread="{v.thread}-held"), others=REFUSED),
    ("GET", "/retention"): Attack(ask=get("/retention"), others=REFUSED, cursor="taken"),
    ("PUT", "/retention/{rule:str}"): Attack(ask=put("/retention/{v.rule}", {"days": 3650}), others=REFUSED),
    ("DELETE", "/retention/{rule:str}"): Attack(ask=delete("/retention/{v.rule}"), others=REFUSED),
    ("POST", "/retention/apply"): Attack(ask=post("/retention/apply", {"dry_run": True}), others=REFUSED),
    ("GET", "/crises"): Attack(ask=get("/crises"), others=REFUSED, cursor="taken"),
    ("GET", "/crises/export"): Attack(ask=get("/crises/export"), others=REFUSED),
    ("POST", "/crises/extend"): Attack(
        ask=post("/crises/extend", {"thread": "{v.thread}", "until": 1 << 52}), others=REFUSED
    ),
    ("POST", "/crises/purge"): Attack(ask=post("/crises/purge", {"dry_run": True}), others=REFUSED),
    ("GET", "/audit"): Attack(ask=get("/audit"), others=REFUSED, cursor="taken"),
}

MAKES_A_THREAD = {
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

SOCKETS = {"/ws"}
"""Routes that are no request and answer; they have tests of their own."""

DESCRIPTIONS = "/openapi"
"""Below here the API describes itself: the same for everybody, and for nobody without credentials."""
