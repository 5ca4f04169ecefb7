"""The companion, ready to use: on a database with memory and sessions, or for one turn that keeps nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from clew.agents.search_provider import SearchProvider
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, InvalidId, ThreadNotFound
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider, MemoryMode
from clew.runtime.execution.stateless import run_agent
from clew.runtime.memory import Finalizer
from clew.runtime.model.messages import Message, message_of
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
from clew_companion.state import CompanionState, state_with_skills
from clew_companion.values import AgentInput, AgentOutput, HistoryMessage

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
        schema=state_with_skills(skills or {}),
        stages=make_stages(
            make_crisis_gate(keep_days=crisis_days),
            crisis_response,
            search=search,
            skills=skills,
            memory=config.memory,
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

    A ``history`` is what a new thread begins with. A thread that has messages knows them, so there it must
    be what the thread ends with. ``working_memory`` is added to what is remembered.

    Raises:
        InvalidId: There is no session id.
        InvalidArgument: The history is none, or is not that of the thread.
    """
    thread, user = agent_input.session_id or "", agent_input.user_id
    history = [message_from_entry(entry) for entry in agent_input.history]
    is_new = bool(history) and not await _has_history(runtime, thread, user, history)
    result = await runtime.run_turn(
        thread, inputs_of(agent_input), user=user, messages=history if is_new else ()
    )
    return result.output


async def _has_history(
    runtime: Runtime[CompanionState, AgentOutput], thread: str, user: str | None, history: Sequence[Message]
) -> bool:
    """Return whether a thread ends with a history; False if it has none yet.

    Raises:
        InvalidArgument: It has another.
    """
    try:
        items = (await runtime.history(thread, last=len(history), user=user)).items
    except ThreadNotFound:
        return False
    stored = [(message.role, message.text) for message in map(message_of, items)]
    if stored and stored != [(message.role, message.text) for message in history]:
        problem = (
            f"The history that was given is not what thread {thread!r} ends with. Leave it out: the thread "
            "keeps its own."
        )
        raise InvalidArgument(problem=problem)
    return bool(stored)


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
        InvalidArgument: The history is none.
        StateInvalid: A skill is not there.
    """
    if agent_input.session_id is None and agent_input.user_id is None:
        raise InvalidId(
            what="user id", problem="it is missing, and so is a session id; one of them is needed"
        )
    history = [message_from_entry(entry) for entry in agent_input.history]
    turns = sum(message.role == "user" for message in history)
    return await run_agent(
        inputs_of(agent_input),
        schema=state_with_skills(skills or {}),
        stages=make_stages(crisis_gate, crisis_response, search=search, skills=skills),
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
        "channel": agent_input.channel,
        "user_id": agent_input.user_id,
        "session_id": agent_input.session_id,
        "installed_skills": agent_input.installed_skills,
        **({"caller_memory": agent_input.working_memory} if agent_input.working_memory else {}),
    }


def message_from_entry(entry: dict[str, Any]) -> Message:
    """The message of an entry of a history as callers give it.

    Raises:
        InvalidArgument: It is not in the shape of a ``HistoryMessage``.
    """
    try:
        message = msgspec.convert(entry, HistoryMessage)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"An entry of the history is no message: {error}.") from error
    meta: dict[str, JSON] = {"response_style": message.response_style} if message.response_style else {}
    return Message(role=message.role.value, content=message.content, meta=meta)
