"""A companion to talk to in tests: its gate hears what a test tells it, its model is scripted by kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import msgspec

from clew.agents.search_provider import SearchProvider
from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.memory import Finalizer
from clew.runtime.model.protocol import Model, ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.records.events import Event
from clew.runtime.respond.respond import Stage
from clew.runtime.runtime import Runtime
from clew.runtime.turn.draft import Delta
from clew_companion.context import WorkflowContext
from clew_companion.crisis.log import Assessment, record_crisis
from clew_companion.memory.control import was_command
from clew_companion.memory.promotion import PROMOTION_RULES
from clew_companion.offline.model import OfflineModel
from clew_companion.pipeline import make_stages
from clew_companion.state import CompanionState, state_with_skills
from clew_companion.values import AgentOutput, CrisisAudit, assessment

T = TypeVar("T")
DANGER, UNCLEAR = "[danger]", "[unclear]"
SAFE = "Please call somebody now."


async def crisis_gate(state: CompanionState, ctx: Context) -> Delta:
    """A gate that hears what the message says in brackets."""
    level = 3 if DANGER in state.message else 1 if UNCLEAR in state.message else 0
    if level > 1:
        ctx.turn.set_safe_reply(SAFE)
    record_crisis(ctx.turn, Assessment(level=level))
    return {"crisis": assessment(level), "crisis_audit": CrisisAudit(classifier_path="floor_only")}


async def crisis_response(state: CompanionState, ctx: Context) -> Delta:
    """A fixed reply."""
    style = "crisis_response" if state.crisis.level > 1 else "safety_check"
    return {"response_text": SAFE, "response_style": style}


class ScriptedControlModel:
    """A model that answers typed questions by the name of their type, and words replies one after another."""

    name = "knowing"

    def __init__(self, *replies: str | BaseException, **forms: Any) -> None:
        self.requests: list[ModelRequest] = []
        self.typed_requests: list[str] = []
        self._replies = list(replies)
        self._forms = forms

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        self.requests.append(request)
        text = self._replies.pop(0) if self._replies else "I see."
        if isinstance(text, BaseException):
            raise text
        for word in text.split(" "):
            yield TextChunk(f"{word} ")
        yield Reply(text=text, usage=Usage(calls=1))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        self.typed_requests.append(kind.__name__)
        form = self._forms.get(kind.__name__)
        if form is None:
            raise ModelFailed(model=self.name, problem="it knows no such form")
        if isinstance(form, BaseException):
            raise form
        return msgspec.convert(form(request) if callable(form) else form, kind), Usage(calls=1)


def stages(search: SearchProvider | None = None, skills: Mapping[str, str] | None = None) -> list[Stage]:
    """The companion's stages behind the gate of these tests."""
    return make_stages(crisis_gate, crisis_response, search=search, skills=skills)


def talker(
    db: Database,
    model: Model | None = None,
    *,
    search: SearchProvider | None = None,
    skills: Mapping[str, str] | None = None,
    **options: Any,
) -> Runtime[CompanionState, AgentOutput]:
    """A runtime of the companion behind the gate of these tests."""
    return Runtime(
        db,
        schema=state_with_skills(skills or {}),
        stages=stages(search, skills),
        model=model,
        response_model=model or OfflineModel(),
        output=AgentOutput,
        finalize=Finalizer(OfflineModel(), is_command=was_command, rules=PROMOTION_RULES),
        make_context=WorkflowContext.extend,
        **options,
    )


class Talk:
    """One person on one thread."""

    def __init__(
        self, runtime: Runtime[CompanionState, AgentOutput], thread: str = "s1", user: str | None = "alice"
    ) -> None:
        self.runtime = runtime
        self.thread = thread
        self.user = user

    async def say(self, *messages: str) -> AgentOutput:
        """Say some things, one after another; the output of the last."""
        outputs = [await self.runtime.run_turn(self.thread, message, user=self.user) for message in messages]
        return outputs[-1].output

    async def state(self) -> CompanionState:
        """The state as it is kept."""
        return await self.runtime.state(self.thread, user=self.user)

    async def events_of(self, message: str) -> list[Event]:
        """All that a listener is told of a turn."""
        return [event async for event in self.runtime.stream_turn(self.thread, message, user=self.user)]

    async def end(self) -> None:
        """End the session."""
        await self.runtime.end_session(self.thread, user=self.user)
