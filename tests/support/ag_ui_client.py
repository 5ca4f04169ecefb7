"""A client of AG-UI for tests: it checks every event, and builds messages and state as the clients do."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from ag_ui.core import Event
from pydantic import TypeAdapter

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
PATH = "/api/v1/ag-ui"
NUMBERS = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class SentEvent:
    """One event of a stream; ``id`` is the cursor that came with it."""

    data: dict[str, Any]
    id: str | None = None

    @property
    def type(self) -> str:
        """The type of the event."""
        return str(self.data["type"])


def parse_stream(text: str) -> list[SentEvent]:
    """The events of a stream, each of which the protocol's own package accepts as it is."""
    events = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            data = json.loads(lines["data"])
            assert EVENTS.validate_python(data).model_dump(mode="json", by_alias=True) == data
            events.append(SentEvent(data=data, id=lines.get("id")))
    return events


def apply_patch(state: Any, patch: Iterable[dict[str, Any]]) -> Any:
    """A document after a JSON patch of the operations ``add`` and ``remove``."""
    state = copy.deepcopy(state)
    for operation in patch:
        keys = [key.replace("~1", "/").replace("~0", "~") for key in operation["path"].split("/")[1:]]
        target = state
        for key in keys[:-1]:
            target = target[int(key)] if isinstance(target, list) else target[key]
        if operation["op"] == "remove":
            del target[keys[-1]]
        elif isinstance(target, list):
            assert keys[-1] == "-"
            target.append(copy.deepcopy(operation["value"]))
        else:
            assert operation["op"] == "add"
            target[keys[-1]] = copy.deepcopy(operation["value"])
    return state


@dataclass(kw_only=True)
class AgUiClient:
    """A client with its messages, its state, and the interrupts that wait for an answer."""

    http: httpx.AsyncClient
    thread: str = "t"
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    state: Any = field(default_factory=dict)
    interrupts: list[dict[str, Any]] = field(default_factory=list)
    cursor: str | None = None
    is_open: bool = False
    open_ids: set[str] = field(default_factory=set)

    def input(self, **fields: Any) -> dict[str, Any]:
        """The input of a run, with what the client has."""
        return {
            "threadId": self.thread,
            "runId": f"client-run-{next(NUMBERS)}",
            "messages": copy.deepcopy(self.messages),
            "state": copy.deepcopy(self.state),
            "tools": [],
            "context": [],
            "forwardedProps": {},
            **fields,
        }

    async def say(self, text: str, **fields: Any) -> list[SentEvent]:
        """Add a message of the user and run."""
        self.messages.append({"id": f"message-{next(NUMBERS)}", "role": "user", "content": text})
        return await self.run(**fields)

    async def answer(self, **payload: Any) -> list[SentEvent]:
        """Answer every interrupt with a payload and run."""
        entries = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
            for interrupt in self.interrupts
        ]
        return await self.run(resume=entries)

    async def run(self, *, headers: dict[str, str] | None = None, **fields: Any) -> list[SentEvent]:
        """Run, and apply what comes."""
        response = await self.post(headers=headers, **fields)
        response.raise_for_status()
        events = parse_stream(response.text)
        self.apply(events)
        return events

    async def post(self, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """Send the input of a run."""
        return await self.http.post(
            PATH, json=self.input(**fields), headers={**self.headers, **(headers or {})}, timeout=60
        )

    def apply(self, events: Sequence[SentEvent]) -> None:
        """Apply the events of a run, in the only order that the protocol allows."""
        for event in events:
            self.cursor = event.id or self.cursor
            assert self.is_open == (event.type != "RUN_STARTED") or event.type == "RUN_ERROR"
            getattr(self, f"_on_{event.type.lower()}", self._ignore)(event.data)

    def _ignore(self, data: dict[str, Any]) -> None:
        """Nothing: it changes neither messages nor state."""

    def _on_run_started(self, data: dict[str, Any]) -> None:
        self.is_open, self.open_ids = True, set()

    def _on_run_finished(self, data: dict[str, Any]) -> None:
        assert not self.open_ids
        self.is_open = False
        self.interrupts = data.get("outcome", {}).get("interrupts", [])

    def _on_run_error(self, data: dict[str, Any]) -> None:
        self.is_open = False

    def _on_step_started(self, data: dict[str, Any]) -> None:
        self._open(f"step {data['stepName']}")

    def _on_step_finished(self, data: dict[str, Any]) -> None:
        self.open_ids.remove(f"step {data['stepName']}")

    def _on_text_message_start(self, data: dict[str, Any]) -> None:
        self._open(data["messageId"])
        if self._message(data["messageId"]) is None:
            self.messages.append({"id": data["messageId"], "role": data["role"], "content": ""})

    def _on_text_message_content(self, data: dict[str, Any]) -> None:
        assert data["messageId"] in self.open_ids
        message = self._message(data["messageId"])
        assert message is not None
        message["content"] += data["delta"]

    def _on_text_message_end(self, data: dict[str, Any]) -> None:
        self.open_ids.remove(data["messageId"])

    def _on_tool_call_start(self, data: dict[str, Any]) -> None:
        self._open(data["toolCallId"])
        parent = self._message(data["parentMessageId"])
        if parent is None:
            parent = {"id": data["parentMessageId"], "role": "assistant"}
            self.messages.append(parent)
        function = {"name": data["toolCallName"], "arguments": ""}
        call = {"id": data["toolCallId"], "type": "function", "function": function}
        parent.setdefault("toolCalls", []).append(call)

    def _on_tool_call_args(self, data: dict[str, Any]) -> None:
        assert data["toolCallId"] in self.open_ids
        self._call(data["toolCallId"])["function"]["arguments"] += data["delta"]

    def _on_tool_call_end(self, data: dict[str, Any]) -> None:
        self.open_ids.remove(data["toolCallId"])

    def _on_tool_call_result(self, data: dict[str, Any]) -> None:
        result = {
            "id": data["messageId"],
            "role": "tool",
            "content": data["content"],
            "toolCallId": data["toolCallId"],
        }
        place = next(
            at
            for at, message in enumerate(self.messages, start=1)
            if any(call["id"] == data["toolCallId"] for call in message.get("toolCalls", ()))
        )
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        self.messages.insert(place, result)

    def _on_messages_snapshot(self, data: dict[str, Any]) -> None:
        new = {message["id"]: message for message in data["messages"]}
        kept = [new.pop(message["id"]) for message in self.messages if message["id"] in new]
        self.messages = [*kept, *new.values()]

    def _on_state_snapshot(self, data: dict[str, Any]) -> None:
        self.state = data["snapshot"]

    def _on_state_delta(self, data: dict[str, Any]) -> None:
        self.state = apply_patch(self.state, data["delta"])

    def _open(self, id: str) -> None:
        assert id not in self.open_ids
        self.open_ids.add(id)

    def _message(self, id: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["id"] == id), None)

    def _call(self, id: str) -> dict[str, Any]:
        calls = (call for message in self.messages for call in message.get("toolCalls", ()))
        return next(call for call in calls if call["id"] == id)
