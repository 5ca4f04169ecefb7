"""The companion, ready to use: on a database with memory and sessions, or for one turn that keeps nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.agents.search_provider import SearchProvider
from clew.core.errors import InvalidId
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider, MemoryMode
from clew.runtime.execution.stateless import run_agent
from clew.runtime.memory import Finalizer
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model
from clew.runtime.records.episodes import Finalize
from clew.runtime.records.events import Event
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.turn.result import TurnResult
from clew_companion.context import CrisisLogBackend, WorkflowContext
from clew_companion.crisis.gate import crisis_gate, make_crisis_gate
from clew_companion.crisis.help import crisis_response
from clew_companion.crisis.log import KEEP_DAYS
from clew_companion.memory.control import was_command
from clew_companion.memory.promotion import PROMOTION_RULES
from clew_companion.offline.model import OfflineModel
from clew_companion.pipeline import make_stages
from clew_companion.state import CompanionState
from clew_companion.values import AgentInput, AgentOutput

NAME = "companion"


def companion(
    db: Database,
    model: Model | None = None,
    *,
    response_model: Model | None = None,
    search: SearchProvider | None = None,
    skills: Mapping[str, str] | None = None,
    embedder: EmbeddingProvider | None = None,
    finalize: Finalize | None = None,
    memory_mode: MemoryMode | None = None,
    crisis_days: float = KEEP_DAYS,
    config: RuntimeConfig = RuntimeConfig(),
) -> Runtime[CompanionState, AgentOutput]:
    """Make a runtime of the companion on a database. Without a model it is simple, and says so.

    ``model`` judges and, unless there is a ``response_model``, words the replies. ``search`` answers
    questions of fact. ``skills`` are texts by their names, for callers that install some. Sessions are ended
    by the companion's own ``Finalizer`` unless another ``finalize`` is given. Rows of the crisis log are kept
    for ``crisis_days``. The rest is as in ``Runtime``.
    """
    finalizer = Finalizer(
        model or OfflineModel(),
        embedder=embedder,
        retry_policy=config.retry_policy,
        is_command=was_command,
        rules=PROMOTION_RULES,
    )
    return Runtime(
        db,
        agent=NAME,
        schema=CompanionState,
        stages=make_stages(
            make_crisis_gate(keep_days=crisis_days), crisis_response, search=search, skills=skills
        ),
        model=model,
        response_model=response_model or model or OfflineModel(),
        output=AgentOutput,
        finalize=finalize or finalizer,
        memory_mode=memory_mode,
        embedding_provider=embedder,
        make_context=WorkflowContext.extend,
        config=config,
    )


async def talk(runtime: Runtime[CompanionState, AgentOutput], agent_input: AgentInput) -> AgentOutput:
    """One turn on the thread that ``session_id`` names.

    Raises:
        InvalidId: There is no session id.
    """
    result = await runtime.run_turn(
        agent_input.session_id or "", inputs_of(agent_input), user=agent_input.user_id
    )
    return result.output


async def answer(
    agent_input: AgentInput,
    model: Model | None = None,
    *,
    response_model: Model | None = None,
    search: SearchProvider | None = None,
    skills: Mapping[str, str] | None = None,
    crisis_log_backend: CrisisLogBackend | None = None,
    notify: Callable[[Event], None] = lambda event: None,
) -> TurnResult[AgentOutput]:
    """One turn that keeps nothing, by the same stages. What came before comes with the input.

    The rows of the crisis log go to ``crisis_log_backend``, such as ``db.records``; without one they are gone
    with the turn.

    Raises:
        InvalidId: There is neither a session id nor a user id.
    """
    if agent_input.session_id is None and agent_input.user_id is None:
        raise InvalidId(
            what="user id", problem="it is missing, and so is a session id; one of them is needed"
        )
    history = [message_from_entry(entry) for entry in agent_input.history]
    turns = sum(message.role == "user" for message in history)
    working_memory = msgspec.to_builtins(agent_input.working_memory)
    stages = make_stages(
        crisis_gate, crisis_response, search=search, skills=skills, working_memory=working_memory
    )
    return await run_agent(
        inputs_of(agent_input),
        schema=CompanionState,
        stages=stages,
        model=model,
        response_model=response_model or model or OfflineModel(),
        output=AgentOutput,
        history=history,
        state={"session_progress": {"turn_count": turns}},
        record_backend=crisis_log_backend,
        make_context=WorkflowContext.extend,
        notify=notify,
    )


def inputs_of(agent_input: AgentInput) -> dict[str, Any]:
    """The fields of an input that go into the state."""
    return {
        "message": agent_input.message,
        "channel": agent_input.channel.value,
        "user_id": agent_input.user_id,
        "session_id": agent_input.session_id,
        "installed_skills": agent_input.installed_skills,
    }


def message_from_entry(entry: dict[str, Any]) -> Message:
    """An entry of a history as callers give it: a role, a content, and for replies perhaps a style."""
    style = entry.get("response_style")
    meta = {"response_style": style} if style else {}
    return msgspec.convert(
        {"meta": meta, **{k: v for k, v in entry.items() if k != "response_style"}}, Message
    )
