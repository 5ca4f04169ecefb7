"""Spans of OpenTelemetry, where a program has set up a tracer; elsewhere nothing of it is even imported."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from clew.runtime.telemetry.conventions import ERROR_TYPE, INSTRUMENTATION

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context as TraceContext
    from opentelemetry.trace import Tracer

AttributeValue: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue | None]
"""Attributes of a span; those that are None are left out."""


def active_tracer() -> "Tracer | None":
    """Return a tracer, if the program has set one up. Who has not imported OpenTelemetry has not."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer(INSTRUMENTATION)


class ActiveSpan:
    """A span that is the current one until it is ended."""

    __slots__ = ("_span", "_token")

    def __init__(
        self,
        tracer: "Tracer",
        name: str,
        attributes: Attributes,
        *,
        is_client: bool = False,
        parent: "TraceContext | None" = None,
    ) -> None:
        from opentelemetry import context, trace

        values = {key: value for key, value in attributes.items() if value is not None}
        kind = trace.SpanKind.CLIENT if is_client else trace.SpanKind.INTERNAL
        self._span = tracer.start_span(name, context=parent, kind=kind, attributes=values)
        self._token: Token[TraceContext] = context.attach(trace.set_span_in_context(self._span, parent))

    @property
    def is_recording(self) -> bool:
        """False for a span that the sampler has left out."""
        return self._span.is_recording()

    @property
    def traceparent(self) -> str:
        """The span as W3C names it, for another process."""
        span = self._span.get_span_context()
        return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"

    def set(self, attributes: Attributes) -> None:
        """Set attributes."""
        for key, value in attributes.items():
            if value is not None:
                self._span.set_attribute(key, value)

    def add_link(self, traceparent: str) -> None:
        """Link the span to an earlier one, of this process or another."""
        from opentelemetry import trace

        span_context = trace.get_current_span(context_of(traceparent)).get_span_context()
        if span_context.is_valid:
            self._span.add_link(span_context)

    def end(self, error_type: str | None = None) -> None:
        """End the span, with the code of an error if it failed. The words of errors may be a person's."""
        from opentelemetry import context, trace

        if error_type is not None:
            self._span.set_attribute(ERROR_TYPE, error_type)
            self._span.set_status(trace.StatusCode.ERROR)
        context.detach(self._token)
        self._span.end()


def context_of(traceparent: str) -> "TraceContext":
    """Return the context of a span of another process, or an empty one if it is none."""
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context=TraceContext())
