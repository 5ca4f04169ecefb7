"""Traces of a server: continued from requests, and exported where the environment names a collector."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from clew.core.errors import InvalidArgument
from clew.runtime.telemetry.spans import active_tracer

log = logging.getLogger("clew.server")
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
DISABLED: Final = "OTEL_SDK_DISABLED"
SERVICE_NAME: Final = "clew"
PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
INSTALL: Final = "Install them from a clone of Clew: pip install '.[telemetry]'"


@contextmanager
def continue_trace(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """Work in the trace that a request says it is a part of, unless a span is open already."""
    if active_tracer() is None:
        yield
        return
    from opentelemetry import context, propagate, trace

    if trace.get_current_span().get_span_context().is_valid:  # the server is mounted in a traced program
        yield
        return
    carrier = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def export_problem(environment: Mapping[str, str], *, telemetry: bool | None) -> str | None:
    """Return why traces that are asked for cannot be exported; None if they can, or are not asked for."""
    if telemetry is False or (telemetry is None and not _names_collector(environment)):
        return None
    if not _names_collector(environment):
        return f"Traces need a collector. Set {ENDPOINTS[1]}, as http://localhost:4318."
    missing = [package for package in PACKAGES if not _is_installed(package)]
    return f"Traces cannot be exported without {' and '.join(missing)}. {INSTALL}" if missing else None


def check_export(environment: Mapping[str, str], *, telemetry: bool | None) -> None:
    """Refuse a start that asks for traces which cannot be exported.

    Raises:
        InvalidArgument: It does.
    """
    problem = export_problem(environment, telemetry=telemetry) if telemetry else None
    if problem is not None:
        raise InvalidArgument(problem=problem)


@contextmanager
def exported_traces(environment: Mapping[str, str], *, telemetry: bool | None) -> Iterator[None]:
    """Export traces to the collector that the environment names, if it does; what is left goes at the end.

    A tracer that the program has set up itself stays.
    """
    problem = export_problem(environment, telemetry=telemetry)
    if problem is not None:
        log.warning("%s", problem)
    is_wanted = telemetry is not False and _names_collector(environment)
    if problem is not None or not is_wanted or active_tracer() is not None:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The SDK reads the rest of OTEL_… itself: headers, sampler, resource attributes.
    resource = Resource({"service.name": environment.get("OTEL_SERVICE_NAME") or SERVICE_NAME})
    provider = TracerProvider(resource=Resource.create().merge(resource), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()


def _names_collector(environment: Mapping[str, str]) -> bool:
    is_disabled = environment.get(DISABLED, "").strip().lower() == "true"
    return not is_disabled and any(environment.get(name) for name in ENDPOINTS)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
