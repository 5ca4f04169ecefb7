"""Scopes of telemetry: a turn or a job at work, which its steps and commits report to.

The scope at work is found in the context of the task, so that nothing has to be handed through the runtime.
Where there is neither an observer nor a tracer it is one that does nothing.
"""

import asyncio
import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from clew.core.errors import Conflict
from clew.runtime.model.protocol import ModelRequest, Reply
from clew.runtime.model.redaction import error_name
from clew.runtime.telemetry import content
from clew.runtime.telemetry import conventions as names
from clew.runtime.telemetry.observer import (
    CommitEnd,
    CommitOutcome,
    JobEnd,
    JobOutcome,
    Observers,
    StepEnd,
    StepOutcome,
    TurnEnd,
)
from clew.runtime.telemetry.spans import ActiveSpan, Attributes, context_of

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

REFUSED, REPLAYED, FAILED, CANCELLED = "refused", "replayed", "error", "cancelled"
"""Terminations of turns that brought no result of a run: never begun, answered before, or raised."""
MODEL, TOOL, RECALL = "model", "tool", "retrieval"
"""Kinds of steps that the conventions know."""


class MeasuredStep(Protocol):
    """A step that has ended, as it is stored with its run."""

    @property
    def ms(self) -> float:
        """The time it took, in milliseconds."""
        ...

    @property
    def input_tokens(self) -> int:
        """The tokens that a model read."""
        ...

    @property
    def output_tokens(self) -> int:
        """The tokens that a model wrote."""
        ...

    @property
    def cost(self) -> int | None:
        """The cost in millionths of a dollar, if a price is known."""
        ...


class StepWatch:
    """A step that nobody watches."""

    __slots__ = ()

    def start(self) -> None:
        """Begin to watch."""

    def add_request(self, request: ModelRequest, output_type: str | None = None) -> None:
        """Add a request to a model, and what it is asked for if that is no text."""

    def add_reply(self, reply: Reply) -> None:
        """Add the reply of a model."""

    def add_call(self, arguments: object, output: object) -> None:
        """Add the arguments and the output of a tool."""

    def end(self, step: MeasuredStep, outcome: StepOutcome, error_type: str | None) -> None:
        """Tell of its end."""


class CommitWatch:
    """A commit that nobody watches."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TelemetryScope:
    """A turn or a job that nobody watches. Use it as a context manager."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def trace(self) -> str | None:
        """The span of the scope as W3C names it, if there is one."""
        return None

    def open_step(self, kind: str, name: str, *, stage: str = "", call: str | None = None) -> StepWatch:
        """Return the watch of a step; ``call`` is the id of the tool call that it is."""
        return NO_STEP

    def watch_commit(self, reason: str, changesets: int = 1) -> CommitWatch:
        """Return the watch of a commit."""
        return NO_COMMIT

    def begin_run(self, run: str, earlier_trace: str | None = None) -> None:
        """Take note of the run that has begun, or goes on: then it is linked to its earlier trace."""

    def end_run(self, termination: str, error: BaseException | None = None) -> None:
        """Take note of how the run ended."""

    def name_thread(self, thread: str) -> None:
        """Take note of the thread that a job is about, once it is known."""

    def fail_job(self, error: BaseException | None) -> None:
        """Take note that a job failed; without an error, that another worker has it."""


NO_STEP, NO_COMMIT, NO_SCOPE = StepWatch(), CommitWatch(), TelemetryScope()
_scope: ContextVar[TelemetryScope] = ContextVar("clew_telemetry_scope", default=NO_SCOPE)


def current_scope() -> TelemetryScope:
    """Return the scope that the current task works in."""
    return _scope.get()


class ObservedScope(TelemetryScope):
    """A turn or a job that is watched. ``shared`` are the attributes that all of its spans have."""

    __slots__ = (
        "_own",
        "_parent",
        "_span",
        "_start",
        "_token",
        "_tracer",
        "agent",
        "content",
        "observers",
        "shared",
    )

    def __init__(
        self,
        agent: str,
        *,
        observers: Observers,
        tracer: "Tracer | None",
        shared: Attributes,
        own: Attributes,
        content: bool = False,
        parent: str | None = None,
    ) -> None:
        self.agent = agent
        self.observers = observers
        self.shared = shared
        self.content = content
        self._own = own
        self._tracer = tracer
        self._parent = parent
        self._span: ActiveSpan | None = None

    @property
    def trace(self) -> str | None:
        """The span of the scope as W3C names it, if there is one."""
        return None if self._span is None else self._span.traceparent

    def _open(self, name: str) -> None:
        """Open the span of the scope, and make the scope the current one."""
        if self._tracer is not None:
            parent = None if self._parent is None else context_of(self._parent)
            self._span = ActiveSpan(self._tracer, name, {**self.shared, **self._own}, parent=parent)
            if not self._span.is_recording:
                self._tracer = None  # what the sampler left out it leaves out with all that is inside
        self._start = time.perf_counter()
        self._token: Token[TelemetryScope] = _scope.set(self)

    def _close(self, attributes: Attributes, error_type: str | None) -> float:
        """End what was opened; return the seconds between."""
        seconds = time.perf_counter() - self._start
        _scope.reset(self._token)
        if self._span is not None:
            self._span.set(attributes)
            self._span.end(error_type)
        return seconds

    def open_span(self, name: str, attributes: Attributes, *, is_client: bool = False) -> ActiveSpan | None:
        """Open a span inside the scope, if the scope is traced."""
        if self._tracer is None:
            return None
        return ActiveSpan(self._tracer, name, {**self.shared, **attributes}, is_client=is_client)

    def open_step(self, kind: str, name: str, *, stage: str = "", call: str | None = None) -> StepWatch:
        """Return the watch of a step; ``call`` is the id of the tool call that it is."""
        return ObservedStep(self, kind, name, stage, call)

    def watch_commit(self, reason: str, changesets: int = 1) -> CommitWatch:
        """Return the watch of a commit."""
        return ObservedCommit(self, reason, changesets)

    def add_usage(self, step: MeasuredStep) -> None:
        """Add the tokens of a model call to those of the scope."""


class TurnScope(ObservedScope):
    """A turn that is watched, from the moment it is asked for."""

    __slots__ = ("_error", "_input_tokens", "_output_tokens", "_run", "_termination")

    def __enter__(self) -> Self:
        self._run: str | None = None
        self._termination: str | None = None
        self._error: BaseException | None = None
        self._input_tokens = self._output_tokens = 0
        self._open(f"{names.INVOKE_AGENT} {self.agent}")
        return self

    def begin_run(self, run: str, earlier_trace: str | None = None) -> None:
        """Take note of the run that has begun, or goes on: then it is linked to its earlier trace."""
        self._run = run
        if self._span is not None and earlier_trace is not None:
            self._span.add_link(earlier_trace)

    def end_run(self, termination: str, error: BaseException | None = None) -> None:
        """Take note of how the run ended."""
        self._termination, self._error = termination, error

    def add_usage(self, step: MeasuredStep) -> None:
        """Add the tokens of a model call to those of the turn."""
        self._input_tokens += step.input_tokens
        self._output_tokens += step.output_tokens

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termination = self._termination_after(error)
        problem = self._error if error is None else error
        is_failure = problem is not None and not isinstance(problem, asyncio.CancelledError)
        attributes: Attributes = {
            names.TERMINATION: termination,
            names.RUN_ID: self._run if names.CONVERSATION_ID in self.shared else None,
            names.INPUT_TOKENS: self._input_tokens or None,
            names.OUTPUT_TOKENS: self._output_tokens or None,
        }
        seconds = self._close(attributes, error_name(problem) if problem and is_failure else None)
        self.observers.observe_turn(TurnEnd(agent=self.agent, termination=termination, seconds=seconds))

    def _termination_after(self, error: BaseException | None) -> str:
        if error is None:
            return self._termination or REPLAYED
        if isinstance(error, asyncio.CancelledError):
            return CANCELLED
        return REFUSED if self._run is None else FAILED


class JobScope(ObservedScope):
    """An attempt at a job that is watched."""

    __slots__ = ("_error_type", "_outcome", "kind")

    def __enter__(self) -> Self:
        self._outcome: JobOutcome = "ok"
        self._error_type: str | None = None
        self.kind = str(self._own[names.JOB_KIND])
        self._open(f"{names.JOB} {self.kind}")
        return self

    def name_thread(self, thread: str) -> None:
        """Take note of the thread that the job is about."""
        self.shared = {**self.shared, names.CONVERSATION_ID: thread}
        if self._span is not None:
            self._span.set({names.CONVERSATION_ID: thread})

    def fail_job(self, error: BaseException | None) -> None:
        """Take note that the job failed; without an error, that another worker has it."""
        self._outcome = "lost" if error is None else "failed"
        self._error_type = None if error is None else error_name(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail_job(error)
        seconds = self._close({}, self._error_type)
        self.observers.observe_job(
            JobEnd(agent=self.agent, kind=self.kind, outcome=self._outcome, seconds=seconds)
        )


class ObservedStep(StepWatch):
    """A step that is watched."""

    __slots__ = ("_call", "_kind", "_name", "_scope", "_span", "_stage")

    def __init__(self, scope: ObservedScope, kind: str, name: str, stage: str, call: str | None) -> None:
        self._scope = scope
        self._kind = kind
        self._name = name
        self._stage = stage
        self._call = call
        self._span: ActiveSpan | None = None

    def start(self) -> None:
        """Begin to watch."""
        name, attributes = _step_span(self._kind, self._name, self._call)
        stage: Attributes = {names.STEP_STAGE: self._stage or None}
        self._span = self._scope.open_span(name, {**attributes, **stage}, is_client=self._kind == MODEL)

    def add_request(self, request: ModelRequest, output_type: str | None = None) -> None:
        """Add what a model is asked for if that is no text, and the request if content is asked for."""
        if self._span is None:
            return
        self._span.set({names.OUTPUT_TYPE: output_type})
        if self._scope.content:
            instructions = content.instructions_text(request) if request.instructions else None
            messages = content.input_text(request.messages)
            self._span.set({names.INSTRUCTIONS: instructions, names.INPUT_MESSAGES: messages})

    def add_reply(self, reply: Reply) -> None:
        """Add why a reply ended, and the reply if content is asked for."""
        if self._span is None:
            return
        self._span.set({names.FINISH_REASONS: (content.finish_reason(reply),)})
        if self._scope.content:
            self._span.set({names.OUTPUT_MESSAGES: content.output_text(reply)})

    def add_call(self, arguments: object, output: object) -> None:
        """Add the arguments and the output of a tool, if content is asked for."""
        if self._span is not None and self._scope.content:
            texts = content.json_text(arguments), content.json_text(output)
            self._span.set({names.TOOL_ARGUMENTS: texts[0], names.TOOL_RESULT: texts[1]})

    def end(self, step: MeasuredStep, outcome: StepOutcome, error_type: str | None) -> None:
        """Tell of its end."""
        is_model = self._kind == MODEL
        if is_model:
            self._scope.add_usage(step)
        if self._span is not None:
            attributes: dict[str, int | str | None] = {
                names.STEP_COST: step.cost,
                names.STEP_OUTCOME: outcome,
            }
            if is_model:
                attributes[names.INPUT_TOKENS] = step.input_tokens
                attributes[names.OUTPUT_TOKENS] = step.output_tokens
            self._span.set(attributes)
            self._span.end(error_type)
        if self._scope.observers:
            self._scope.observers.observe_step(self._step_end(step, outcome))

    def _step_end(self, step: MeasuredStep, outcome: StepOutcome) -> StepEnd:
        return StepEnd(
            agent=self._scope.agent,
            kind=self._kind,
            name=self._name,
            outcome=outcome,
            seconds=step.ms / 1000,
            is_call=self._call is not None,
            input_tokens=step.input_tokens,
            output_tokens=step.output_tokens,
            cost=step.cost,
        )


class ObservedCommit(CommitWatch):
    """A commit that is watched."""

    __slots__ = ("_changesets", "_reason", "_scope", "_span")

    def __init__(self, scope: ObservedScope, reason: str, changesets: int) -> None:
        self._scope = scope
        self._reason = reason
        self._changesets = changesets

    def __enter__(self) -> Self:
        attributes: Attributes = {
            names.COMMIT_REASON: self._reason,
            names.COMMIT_CHANGESETS: self._changesets,
        }
        self._span = self._scope.open_span(names.COMMIT, attributes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is not None:
            self._span.end(None if error is None else error_name(error))
        outcome: CommitOutcome = "ok"
        if error is not None:
            outcome = "conflict" if isinstance(error, Conflict) else "failed"
        self._scope.observers.observe_commit(
            CommitEnd(agent=self._scope.agent, outcome=outcome, changesets=self._changesets)
        )


def _step_span(kind: str, name: str, call: str | None) -> tuple[str, Attributes]:
    """Return the name of a step's span, and the attributes that say what it is."""
    if kind == MODEL:
        provider, model = names.provider_and_model(name)
        return f"{names.CHAT} {model}", {
            names.OPERATION_NAME: names.CHAT,
            names.PROVIDER_NAME: provider,
            names.REQUEST_MODEL: model,
        }
    if kind == TOOL or call is not None:
        return f"{names.EXECUTE_TOOL} {name}", {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: name,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL_ID: call,
        }
    if kind == RECALL:
        return f"{names.RETRIEVAL} {name}", {
            names.OPERATION_NAME: names.RETRIEVAL,
            names.DATA_SOURCE: name,
        }
    return f"{kind} {name}", {}
