"""Spans as a program with a tracer gets them, kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

Tree: TypeAlias = list[Any]
"""Names of spans in the order of their starts, each followed by a list of those inside, if there are any."""


class RecordedSpans:
    """The spans that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> list[ReadableSpan]:
        """Every span, in the order of their starts."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[dict[str, Any]]:
        """The attributes of the spans of a name."""
        return [dict(span.attributes or {}) for span in self.all if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        """The one span of a name."""
        [span] = [span for span in self.all if span.name == name]
        return span

    def tree(self) -> Tree:
        """The names of all spans, with what is inside of each; a parent of another process is none."""
        own = {span.context.span_id for span in self.all}
        return self._level(
            [span for span in self.all if span.parent is None or span.parent.span_id not in own]
        )

    def _level(self, level: list[ReadableSpan]) -> Tree:
        tree: Tree = []
        for span in level:
            inside = [
                each for each in self.all if each.parent and each.parent.span_id == span.context.span_id
            ]
            tree += [span.name, self._level(inside)] if inside else [span.name]
        return tree


@contextmanager
def record_spans(sampler: Sampler | None = None) -> Iterator[RecordedSpans]:
    """Set up a tracer, and remove it at the end: a program can set up only one."""
    exporter, before = InMemorySpanExporter(), trace._TRACER_PROVIDER
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace._TRACER_PROVIDER = provider
    try:
        yield RecordedSpans(exporter)
    finally:
        trace._TRACER_PROVIDER = before
        provider.shutdown()
