"""The metrics of a server, as Prometheus reads them: of one process, or summed over all of its workers.

Labels are names that programs give: routes, agents, models, tools, outcomes. No thread, user or key is one.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

import clew
from clew.runtime.telemetry.observer import CommitEnd, JobEnd, StepEnd, TurnEnd

METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH")
CONFLICT = 409
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
MOST_VALUES = 200
"""How many values a label may have; further ones count as ``other``."""
OTHER = "other"
DIRECTORY_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which the workers of a server keep their metrics, for whichever of them is asked."""
LIVE_GAUGES = "gauge_live*_*.db"


class LabelBound:
    """Keeps the values of labels few: names come from programs, but a program may make some up."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._values: dict[str, set[str]] = {}

    def __call__(self, label: str, value: str) -> str:
        """Return a value of a label, or ``other`` if there are too many already."""
        values = self._values.setdefault(label, set())
        if value not in values:
            if len(values) >= self._most:
                return OTHER
            values.add(value)
        return value


class Metrics:
    """The metrics of one process, in a registry of their own, and an observer of its runtimes.

    With a ``directory`` they are kept there, beside those of the other workers of the server, and given as
    the sum of all. Prometheus's library decides at its import whether it keeps them so.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._registry = CollectorRegistry()
        self._directory = directory
        self._bound = LabelBound()
        self.requests = self._counter(
            "requests", "Requests by route and status.", "method", "route", "status"
        )
        self.request_seconds = self._histogram("request", "Seconds until a response began.", "route")
        self.turns = self._counter("turns", "Turns by how they ended.", "agent", "termination")
        self.turn_seconds = self._histogram("turn", "Seconds that turns took.", "agent")
        self.model_calls = self._counter("model_calls", "Model calls.", "agent", "model", "outcome")
        self.model_seconds = self._histogram("model", "Seconds that model calls took.", "model")
        self.model_tokens = self._counter(
            "model_tokens", "Tokens of model calls.", "agent", "model", "direction"
        )
        self.model_cost = self._counter(
            "model_cost_dollars", "Cost of model calls whose price is known.", "agent", "model"
        )
        self.tool_calls = self._counter("tool_calls", "Tool calls.", "agent", "tool", "outcome")
        self.recalls = self._counter("recalls", "Recalls.", "agent", "outcome")
        self.commits = self._counter("commits", "Commits of turns and jobs.", "agent", "outcome")
        self.appends = self._counter("appends", "Changesets appended to threads.", "source")
        self.conflicts = self._counter("conflicts", "Conflicts of requests and of commits.", "where")
        self.job_attempts = self._counter("job_attempts", "Attempts at jobs.", "agent", "outcome")
        self.streams = self._gauge("streams_open", "Streams that are open.")
        self.tenants = self._gauge("tenants_open", "Runtimes of tenants that are open.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"clew_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"clew_{name}_seconds", text, labels, buckets=SECONDS, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        # Each worker has its own, and one that is dead has none.
        return Gauge(f"clew_{name}", text, registry=self._registry, multiprocess_mode="livesum")

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request by its status. Clients may send any method; unknown ones count as ``other``."""
        self.requests.labels(method if method in METHODS else OTHER, route, str(status)).inc()
        self.request_seconds.labels(route).observe(seconds)
        if status == CONFLICT:
            self.conflicts.labels("request").inc()

    def observe_turn(self, end: TurnEnd) -> None:
        """Count a turn."""
        agent = self._bound("agent", end.agent)
        self.turns.labels(agent, end.termination).inc()
        self.turn_seconds.labels(agent).observe(end.seconds)

    def observe_step(self, end: StepEnd) -> None:
        """Count a model call, a tool call or a recall."""
        agent = self._bound("agent", end.agent)
        if end.kind == "model":
            self._count_model_call(end, agent, self._bound("model", end.name))
        elif end.is_call or end.kind == "tool":
            self.tool_calls.labels(agent, self._bound("tool", end.name), end.outcome).inc()
        elif end.kind == "retrieval":
            self.recalls.labels(agent, end.outcome).inc()

    def _count_model_call(self, end: StepEnd, agent: str, model: str) -> None:
        self.model_calls.labels(agent, model, end.outcome).inc()
        self.model_seconds.labels(model).observe(end.seconds)
        self.model_tokens.labels(agent, model, "input").inc(end.input_tokens)
        self.model_tokens.labels(agent, model, "output").inc(end.output_tokens)
        if end.cost is not None:
            self.model_cost.labels(agent, model).inc(end.cost / 1_000_000)

    def observe_commit(self, end: CommitEnd) -> None:
        """Count a commit, and the changesets that it appended."""
        self.commits.labels(self._bound("agent", end.agent), end.outcome).inc()
        if end.outcome == "ok" and end.changesets:
            self.appends.labels("runtime").inc(end.changesets)
        elif end.outcome == "conflict":
            self.conflicts.labels("commit").inc()

    def observe_job(self, end: JobEnd) -> None:
        """Count an attempt at a job."""
        self.job_attempts.labels(self._bound("agent", end.agent), end.outcome).inc()

    def text(self, jobs: Mapping[str, int] | None = None) -> bytes:
        """Return all metrics in the text format of Prometheus, with the number of jobs by status."""
        registry = self._registry
        if self._directory is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, path=self._directory)  # type: ignore[no-untyped-call]  # it has no types
        facts = CollectorRegistry()
        facts.register(_CurrentFacts(jobs or {}))
        return generate_latest(registry) + generate_latest(facts)


class _CurrentFacts(Collector):
    """Gauges that are known when they are asked for, and the same in every worker."""

    def __init__(self, jobs: Mapping[str, int]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges."""
        jobs = GaugeMetricFamily("clew_jobs", "Jobs of all tenants by status.", labels=["status"])
        for status, count in self._jobs.items():
            jobs.add_metric([status], count)
        about = GaugeMetricFamily("clew_about", "The version of the server.", labels=["version"])
        about.add_metric([clew.__version__], 1)
        yield jobs
        yield about


def forget_dead_workers(directory: str, pids: Collection[int | None]) -> None:
    """Forget the gauges of workers that are not among those alive; what they counted stays in the sums."""
    for file in Path(directory).glob(LIVE_GAUGES):
        if int(file.stem.rpartition("_")[2]) not in pids:
            file.unlink(missing_ok=True)


class JsonLogFormatter(logging.Formatter):
    """Formats log records as lines of JSON. ``record.fields`` are further fields of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one JSON object, with the traceback if there is one."""
        fields: dict[str, object] = {
            "time": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()
