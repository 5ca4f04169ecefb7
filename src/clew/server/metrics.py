"""The metrics of a process, as Prometheus reads them."""

import logging

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

import clew

METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH")
CONFLICT = 409
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "clew_requests", "Requests by status.", ["method", "status"], registry=self._registry
        )
        self.request_seconds = Histogram(
            "clew_request_seconds", "How long requests took.", buckets=SECONDS, registry=self._registry
        )
        self.turns = Counter(
            "clew_turns", "Turns by how they ended.", ["termination"], registry=self._registry
        )
        self.turn_seconds = Histogram(
            "clew_turn_seconds", "How long turns took.", buckets=SECONDS, registry=self._registry
        )
        self.conflicts = Counter(
            "clew_conflicts", "Requests that ended with a conflict.", registry=self._registry
        )
        self.streams = Gauge("clew_streams_open", "Streams that are open.", registry=self._registry)
        self.tenants = Gauge("clew_tenants_open", "Tenants with a runtime.", registry=self._registry)
        self.jobs = Gauge("clew_jobs", "Jobs of the tenants open here.", ["status"], registry=self._registry)

        about = Gauge("clew_about", "Which version this is.", ["version"], registry=self._registry)
        about.labels(clew.__version__).set(1)

    def count_request(self, method: str, status: int, seconds: float) -> None:
        """Count a request by its status. Clients may send any method; unknown ones count as ``other``."""
        self.requests.labels(method if method in METHODS else "other", str(status)).inc()
        self.request_seconds.observe(seconds)
        if status == CONFLICT:
            self.conflicts.inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class JsonLogFormatter(logging.Formatter):
    """Formats log records as lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one JSON object, with the traceback if there is one."""
        fields: dict[str, object] = {
            "time": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()
