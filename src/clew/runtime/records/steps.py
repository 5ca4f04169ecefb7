"""Steps: what a run did, one thing after another, with its times, tokens and cost.

They ride in the changesets that a run commits anyway: no row of their own, and no trip to the store.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from clew.core.arguments import check_arguments, check_fields
from clew.core.clock import now_ms
from clew.core.encoding import JSON
from clew.core.errors import ClewError, InvalidArgument, RecordNotFound
from clew.core.values import Changeset
from clew.database.database import Database
from clew.database.thread import changesets_after
from clew.runtime.model.protocol import Usage
from clew.runtime.model.redaction import error_name, public_error
from clew.runtime.records.runs import INTERRUPTED, KIND, RUNNING, SUSPENDED, run_of
from clew.runtime.telemetry.observer import StepOutcome
from clew.runtime.telemetry.scope import NO_STEP, StepWatch, current_scope

StepKind: TypeAlias = Literal["model", "tool", "code", "retrieval", "output"]
STEPS: Final = "steps"
"""The key of a changeset's ``run_meta`` for the steps that ended since the changeset before."""
LONGEST_TEXT = 500


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a run did.

    ``kind`` is ``model``, ``tool``, ``code``, ``retrieval`` or ``output``. ``started`` is a time in
    milliseconds, ``ms`` how long it took. ``cost`` is in millionths of a dollar; None if no price is known.
    """

    kind: str
    name: str
    started: int
    ms: float
    stage: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    error: str | None = None

    @property
    def ended(self) -> int:
        """The time when it was over."""
        return self.started + round(self.ms)


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a model, in dollars for a million tokens."""

    input: float
    output: float

    def __post_init__(self) -> None:
        check_fields(self)

    def cost_of(self, usage: Usage) -> int:
        """Return the cost of tokens, in millionths of a dollar."""
        return round(usage.input_tokens * self.input + usage.output_tokens * self.output)


def parse_prices(document: bytes) -> dict[str, Price]:
    """Parse the price table of a file: ``{"openai:gpt-5": {"input": 1.25, "output": 10}}``.

    Raises:
        InvalidArgument: It is none.
    """
    try:
        return msgspec.json.decode(document, type=dict[str, Price])
    except msgspec.DecodeError as error:
        raise InvalidArgument(problem=f"That is no price table: {error}.") from error


def read_prices(file: str | Path | None) -> dict[str, Price]:
    """Read the price table of a file; without a file it is empty.

    Raises:
        InvalidArgument: It cannot be read, or is none.
    """
    if file is None:
        return {}
    try:
        return parse_prices(Path(file).read_bytes())
    except OSError as error:
        raise InvalidArgument(
            problem=f"The price table {str(file)!r} cannot be read: {error.strerror}."
        ) from error


class OpenStep:
    """A step that is measured while it is entered; it is kept however it ends, and an error goes on.

    ``error`` is what it failed with where nothing was raised, and ``error_type`` the code of that. ``watch``
    tells of it to observers and to the trace.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_cost",
        "_keep",
        "_kind",
        "_name",
        "_stage",
        "_started",
        "error",
        "error_type",
        "is_waiting",
        "usage",
        "watch",
    )

    def __init__(
        self,
        kind: StepKind,
        name: str,
        *,
        stage: str,
        clock: Callable[[], int],
        keep: Callable[[Step], None],
        watch: StepWatch = NO_STEP,
    ) -> None:
        self.usage = Usage()
        self.error: str | None = None
        self.error_type: str | None = None
        self.is_waiting = False
        self.watch = watch
        self._cost: int | None = None
        self._kind = kind
        self._name = name
        self._stage = stage
        self._clock = clock
        self._keep = keep

    def __enter__(self) -> Self:
        self.watch.start()
        self._started = self._clock()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ms = round((time.perf_counter() - self._began) * 1000, 3)
        problem = self.error if error is None else _public_problem(error)
        step = Step(
            kind=self._kind,
            name=_shorten(self._name),
            started=self._started,
            ms=ms,
            stage=self._stage,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            cost=self._cost,
            error=None if problem is None else _shorten(problem),
        )
        self._keep(step)
        outcome: StepOutcome = "ok" if problem is None else "failed"
        error_type = self.error_type if error is None else error_name(error)
        self.watch.end(step, "waiting" if self.is_waiting else outcome, error_type)

    def add_usage(self, usage: Usage, price: Price | None = None) -> Usage:
        """Add the usage of a model call; return it with its cost, if there is a price."""
        usage_with_cost = (
            usage if price is None else msgspec.structs.replace(usage, cost=price.cost_of(usage))
        )
        self.usage += usage_with_cost
        if price is not None or usage_with_cost.cost:
            self._cost = self.usage.cost
        return usage_with_cost


def watched_step(kind: StepKind, name: str) -> OpenStep:
    """Return a step outside of a run, such as a model call of a job: it is watched, and stored nowhere."""
    watch = current_scope().open_step(kind, name)
    return OpenStep(kind, name, stage="", clock=now_ms, keep=lambda step: None, watch=watch)


def problem_of(error: BaseException) -> str:
    """Return an error as a line that can be stored."""
    name = error_name(error)
    return _shorten(f"{name}: {error}" if str(error) else name)


def _public_problem(error: BaseException) -> str:
    """Return an error for the readers of the thread: the words of one that is not ours may hold anything."""
    return problem_of(public_error(error)) if isinstance(error, ClewError) else error_name(error)


def _shorten(text: str) -> str:
    """Return a text that fits into a changeset, whatever the error or name of another program says."""
    if text.isascii() and len(text) <= LONGEST_TEXT:
        return text
    return text[:LONGEST_TEXT].encode(errors="replace").decode()


def meta_with_steps(meta: Mapping[str, JSON] | None, steps: tuple[Step, ...]) -> dict[str, JSON] | None:
    """Return what a changeset says about its run, with the steps that ended since the one before."""
    if not steps:
        return None if meta is None else dict(meta)
    return {**(meta or {}), STEPS: [msgspec.to_builtins(step) for step in steps]}


def steps_of(change: Changeset) -> tuple[Step, ...]:
    """Return the steps of a changeset."""
    steps: Any = (change.run_meta or {}).get(STEPS, ())
    return msgspec.convert(steps, tuple[Step, ...])


@check_arguments
async def run_steps(db: Database, thread: str, run: str) -> tuple[Step, ...]:
    """Return the steps of a run, in the order in which they ended; of one at work those so far.

    A run that was interrupted has all that it had made durable. What was erased of its thread is not here.

    Raises:
        RecordNotFound: The thread had no such run.
        ThreadNotFound: The thread is gone.
    """
    record = run_of(await db.records.get(KIND, run))
    if record.thread != thread:
        raise RecordNotFound(kind=KIND, id=run)
    steps: list[Step] = []
    if not record.first:
        return ()  # it is older than steps are
    async for change in changesets_after(db.thread(thread), record.first - 1):
        if change.run_id == run:
            steps += steps_of(change)
        if _is_last_change(change, run):
            break
    return tuple(steps)


def _is_last_change(change: Changeset, run: str) -> bool:
    """Return whether no later changeset is of this run: it ended for good, or another has started."""
    meta = change.run_meta or {}
    if change.run_id != run:
        return meta.get("status") == RUNNING
    return meta.get("termination", SUSPENDED) not in (SUSPENDED, INTERRUPTED)
