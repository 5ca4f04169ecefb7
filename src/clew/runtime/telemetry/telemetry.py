"""The telemetry of a runtime: its observers, and what its spans may say."""

from dataclasses import dataclass

from clew.core.arguments import check_methods
from clew.core.values import Job
from clew.runtime.telemetry import conventions as names
from clew.runtime.telemetry.observer import Observers
from clew.runtime.telemetry.scope import NO_SCOPE, JobScope, TelemetryScope, TurnScope
from clew.runtime.telemetry.spans import AttributeValue, active_tracer


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """The parts of spans that are left out unless they are asked for.

    ``content`` puts instructions, messages, and the arguments and results of tools into spans, and ``users``
    the ids of users. An incognito turn has neither, nor the id of its thread, whatever is asked for.
    """

    content: bool = False
    users: bool = False


class Telemetry:
    """Makes the scopes of turns and jobs. They cost nothing where there is no observer and no tracer."""

    def __init__(self, config: TelemetryConfig | None = None) -> None:
        self.observers = Observers()
        self._config = config or TelemetryConfig()

    def turn(
        self,
        agent: str,
        thread: str,
        *,
        model: str | None = None,
        user: str | None = None,
        is_incognito: bool = False,
        parent: str | None = None,
    ) -> TelemetryScope:
        """Return the scope of a turn. ``parent`` is the span that asked for it, if not the current one."""
        tracer = active_tracer()
        if tracer is None and not self.observers:
            return NO_SCOPE
        shared: dict[str, AttributeValue | None] = {names.AGENT_NAME: agent}
        if not is_incognito:
            shared[names.CONVERSATION_ID] = thread
            shared[names.USER_ID] = user if self._config.users else None
        provider, model_name = (None, None) if model is None else names.provider_and_model(model)
        return TurnScope(
            agent,
            observers=self.observers,
            tracer=tracer,
            shared=shared,
            own={
                names.OPERATION_NAME: names.INVOKE_AGENT,
                names.PROVIDER_NAME: provider,
                names.REQUEST_MODEL: model_name,
            },
            content=self._config.content and not is_incognito,
            parent=parent,
        )

    def job(self, agent: str, job: Job, thread: str | None = None) -> TelemetryScope:
        """Return the scope of an attempt at a job, which may be about a thread."""
        tracer = active_tracer()
        if tracer is None and not self.observers:
            return NO_SCOPE
        return JobScope(
            agent,
            observers=self.observers,
            tracer=tracer,
            shared={names.AGENT_NAME: agent, names.CONVERSATION_ID: thread},
            own={names.JOB_KIND: job.kind, names.JOB_ATTEMPT: job.attempts},
            content=self._config.content,
        )
