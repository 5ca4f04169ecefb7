"""Traces of a server: continued from requests, and exported where the environment names a collector."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import clew
from clew.api.route import API_PREFIX
from clew.core.errors import InvalidArgument
from clew.server import traces
from clew.server.traces import check_export, exported_traces
from tests.cli.commands.test_serve import command, free_port
from tests.runtime.telemetry.recorded_spans import record_spans
from tests.server.conftest import Users, clients_of
from tests.server.http.test_sse import client_at, up

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADERS = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.promise("B-19")
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_turn_over_http_is_in_the_trace_of_its_request(users: Users, accept: str) -> None:
    url, body = f"{API_PREFIX}/threads/t/turns", {"message": "hi"}
    with record_spans() as spans:
        headers = {**users.headers(), **HEADERS, "Accept": accept}
        answer = await users.http.post(url, json=body, headers=headers)
        await users.http.post(url, json=body, headers=users.headers())

    first, second = [span for span in spans.all if span.name.startswith("invoke_agent")]
    assert answer.status_code == 200
    assert f"{first.context.trace_id:032x}" == TRACE
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == "b7ad6b7169203331"
    assert second.parent is None


async def test_a_span_that_is_open_already_stays_the_parent(db: clew.Database) -> None:
    with record_spans() as spans, trace.get_tracer("test").start_as_current_span("outer"):
        async with clients_of(db) as users:
            headers = {**users.headers(), **HEADERS}
            await users.http.post(f"{API_PREFIX}/threads/t/turns", json={"message": "hi"}, headers=headers)

    turn = next(span for span in spans.all if span.name.startswith("invoke_agent"))
    assert turn.parent is not None
    assert turn.parent.span_id == spans.span("outer").context.span_id


@pytest.mark.parametrize(
    ("environment", "telemetry", "missing", "problem"),
    [
        ({}, True, (), "collector"),
        ({**COLLECTOR, "OTEL_SDK_DISABLED": "true"}, True, (), "collector"),
        (COLLECTOR, True, ("no_such_package",), "no_such_package"),
    ],
    ids=["no collector", "switched off", "no SDK"],
)
def test_traces_that_are_asked_for_and_cannot_be_exported_prevent_a_start(
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, str],
    missing: tuple[str, ...],
    problem: str,
    *,
    telemetry: bool,
) -> None:
    monkeypatch.setattr(traces, "PACKAGES", (*traces.PACKAGES, *missing))
    with pytest.raises(InvalidArgument) as caught:
        check_export(environment, telemetry=telemetry)

    assert problem in str(caught.value)


def test_a_collector_without_the_packages_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(traces, "PACKAGES", ("no_such_package.inside",))
    check_export(COLLECTOR, telemetry=None)
    with caplog.at_level(logging.WARNING), exported_traces(COLLECTOR, telemetry=None):
        provider = trace.get_tracer_provider()

    assert "no_such_package" in caplog.text
    assert isinstance(provider, trace.ProxyTracerProvider)


@pytest.mark.parametrize("environment", [{}, COLLECTOR], ids=["no collector", "switched off"])
def test_without_a_collector_or_switched_off_no_tracer_is_set_up(environment: Mapping[str, str]) -> None:
    with exported_traces(environment, telemetry=False if environment else None):
        provider = trace.get_tracer_provider()

    assert isinstance(provider, trace.ProxyTracerProvider)


@pytest.mark.slow
@pytest.mark.promise("B-19")
async def test_a_server_exports_its_spans_to_the_collector(tmp_path: Path) -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=collector.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{(port := free_port())}"
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_SERVICE_NAME": "desk",
    }
    with command("--db", f"sqlite:///{tmp_path}/a.db", "--port", str(port), "--telemetry", **environment):
        await up(address)
        async with client_at(address) as alice:
            await alice.run_turn("t", "hi")
    await asyncio.to_thread(collector.shutdown)
    collector.server_close()

    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    resources = [resource for request in requests for resource in request.resource_spans]
    names = {span.name for each in resources for scope in each.scope_spans for span in scope.spans}
    services = {
        attribute.value.string_value
        for each in resources
        for attribute in each.resource.attributes
        if attribute.key == "service.name"
    }
    assert any(name.startswith("invoke_agent ") for name in names)
    assert "commit" in names
    assert services == {"desk"}
