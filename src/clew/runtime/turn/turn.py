"""A turn at work: the services for its stages, and the checkpoints that make their work durable."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from clew.core.clock import now_ms
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.core.values import Changeset, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.model import call
from clew.runtime.model.call import Deadlines, RetryPolicy
from clew.runtime.model.messages import Message, item_of
from clew.runtime.model.protocol import Model, ModelRequest, Reply, Usage
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.records.episodes import Episode
from clew.runtime.records.events import ASSISTANT, RUN_FINISHED, Event, TextDelta, events_of, ignore_event
from clew.runtime.records.runs import Ending
from clew.runtime.records.steps import OpenStep, Price, StepKind
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.state.run_state import RunState, safe_reply_op
from clew.runtime.telemetry.scope import current_scope
from clew.runtime.turn.draft import Delta, Draft
from clew.runtime.turn.journal import Journal
from clew.runtime.turn.live_text import TextRecorder

T = TypeVar("T")


class Turn:
    """One run, from its first stage to its end."""

    def __init__(
        self,
        draft: Draft,
        journal: Journal,
        retry_policy: RetryPolicy,
        emit: Callable[[Event], None],
        *,
        deadlines: Deadlines,
        clock: Callable[[], int] = now_ms,
        prices: Mapping[str, Price] | None = None,
        recorder: TextRecorder | None = None,
    ) -> None:
        self.draft = draft
        self.trace: list[str] = []
        self.stage_ms: dict[str, float] = {}
        self.own_calls: set[str] = set()
        self.ends_now = False
        self._journal = journal
        self._retry_policy = retry_policy
        self._deadlines = deadlines
        self._emit = emit
        self._clock = clock
        self._prices = prices or {}
        self._recorder = recorder
        self._step = 0
        self._model_calls = 0
        self._unfinished_pieces: list[str] = []
        self.rolled_back_effects: tuple[ExternalEffect, ...] = ()
        """The effects of the run that this turn took back: they happened all the same."""

    @property
    def id(self) -> str:
        """The run's id."""
        return self._journal.run.id

    @property
    def thread(self) -> str:
        """The thread's id."""
        return self._journal.run.thread

    @property
    def user(self) -> str | None:
        """The user on whose behalf it runs."""
        return self._journal.run.user

    @property
    def episode(self) -> Episode | None:
        """The episode that it belongs to, if the thread keeps any."""
        return self._journal.episode

    def note_level(self, level: int) -> None:
        """Note how much the turn matters; the episode keeps the highest level."""
        self._journal.update_episode(level=level)

    def record(
        self,
        kind: str,
        body: Mapping[str, JSON],
        *,
        level: int = 0,
        tags: Sequence[str] = (),
        keep_days: float | None = None,
    ) -> None:
        """Record a document that commits with the turn, or as soon as the store is back if that fails.

        It belongs to the owner of the thread, and its body says of which thread, run, episode and time it is.
        With ``keep_days`` it is a retained record: it has a date, stays until then also if its owner is
        erased, and is purged after it.

        Raises:
            InvalidArgument: There is no kind, or a number is out of range.
            InvalidValue: The body is not JSON.
        """
        self._journal.add_record(
            TurnRecord(kind=kind, body=dict(body), level=level, tags=tuple(tags), keep_days=keep_days)
        )

    def set_safe_reply(self, text: str) -> None:
        """Declare the fixed reply that goes out whatever fails in the turn from here on.

        It is stored with the run, so that a process which takes the run up after a crash has it too.
        """
        self.draft.patch(safe_reply_op(text))

    def withdraw_safe_reply(self) -> None:
        """Withdraw the fixed reply that was declared, if there is one."""
        if self.safe_reply_text is not None:
            self.draft.patch(safe_reply_op(None))

    @property
    def safe_reply_text(self) -> str | None:
        """The reply that goes out whatever fails, if a stage has declared one."""
        return self.run_state.safe_reply

    @property
    def run_state(self) -> RunState:
        """The run as the state says it, with what is not committed yet."""
        return self.draft.run_state

    @property
    def db(self) -> Database | None:
        """The database that it runs on, in every mode; None for a turn that stores nothing."""
        return self._journal.db

    @property
    def usage(self) -> Usage:
        """The cost of its model calls so far."""
        return self._journal.run.usage

    @property
    def retry_policy(self) -> RetryPolicy:
        """The attempts at its calls, and the pauses between them."""
        return self._retry_policy

    @property
    def deadlines(self) -> Deadlines:
        """The longest that a tool call and the turn may take."""
        return self._deadlines

    @property
    def step_id(self) -> str:
        """A name for the current answer: all its calls share it, and no other answer of the run has it."""
        return f"{self._journal.run.epoch}.{self._step}"

    @property
    def journal(self) -> Journal:
        """The journal that makes its checkpoints durable."""
        return self._journal

    @property
    def store_thread(self) -> Thread | None:
        """The thread as the store has it; None for a turn that stores nothing."""
        return self._journal.thread

    @property
    def model_calls(self) -> int:
        """The number of model calls that were finished."""
        return self._model_calls

    def notify(self, event: Event) -> None:
        """Send an event to the listener of the turn."""
        if self._emit is not ignore_event:
            self._emit(msgspec.structs.replace(event, run=self.id))

    def notify_of(self, change: Changeset) -> None:
        """Send the durable events of a changeset to the listener of the turn."""
        if self._emit is not ignore_event:
            for event in events_of(change):
                self._emit(event)

    async def ask(
        self, model: Model | None, request: ModelRequest, *, quiet: bool = False, unchecked: bool = False
    ) -> Reply:
        """Ask a model for a reply; unless ``quiet``, its text goes to the listener as it comes.

        What the listener had is stored if a new message cuts the answer short, unless it is ``unchecked``:
        then something has to look at the whole of it first.

        Raises:
            ModelFailed: There was none.
            DeadlineExceeded: It took too long.
        """
        self._step += 1
        number = self._step
        offsets: Counter[int] = Counter()

        def on_text(text: str, attempt: int) -> None:
            if not quiet:
                if not offsets[attempt]:
                    self._unfinished_pieces = []  # an attempt starts over
                if not unchecked:
                    self._unfinished_pieces.append(text)
                self._send_text(text, number, attempt, offsets[attempt])
                offsets[attempt] += len(text)

        llm = _require_model(model)
        with self.step("model", llm.name) as step, self._unfinished_answer():
            step.watch.add_request(request)
            record_usage = self._usage_recorder(llm, step)
            reply = await call.ask(llm, request, self._retry_policy, on_text, record_usage)
            record_usage(reply.usage)
            step.watch.add_reply(reply)
        if self._recorder is not None:
            self._recorder.end_answer()
        self._model_calls += 1
        return reply

    @property
    def unfinished_text(self) -> str:
        """The text of an answer that listeners have had so far, while a model words it."""
        return "".join(self._unfinished_pieces)

    @contextmanager
    def _unfinished_answer(self) -> Iterator[None]:
        """Forget the unfinished text when the answer is finished or has failed, but not if it is cut."""
        try:
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._unfinished_pieces = []
            raise
        self._unfinished_pieces = []

    def _send_text(self, text: str, step: int, attempt: int, offset: int) -> None:
        if self._recorder is not None:
            self._recorder.add(text, step, attempt, offset)
        if self._emit is not ignore_event:
            self._emit(TextDelta(run=self.id, text=text, step=step, attempt=attempt, offset=offset))

    async def fill(self, model: Model | None, request: ModelRequest, kind: type[T]) -> T:
        """Ask a model for an answer of a type."""
        llm = _require_model(model)
        with self.step("model", llm.name) as step:
            step.watch.add_request(request, output_type="json")
            record_usage = self._usage_recorder(llm, step)
            answer, usage = await call.fill(llm, request, kind, self._retry_policy, record_usage)
            record_usage(usage)
        self._model_calls += 1
        return answer

    def _usage_recorder(self, model: Model, step: OpenStep) -> Callable[[Usage], None]:
        """Return the function that adds the cost of calls to the run, and to the step that they are."""

        def record_usage(usage: Usage) -> None:
            usage_with_cost = step.add_usage(usage, self._prices.get(model.name))
            run = self._journal.run
            self._journal.run = msgspec.structs.replace(run, usage=run.usage + usage_with_cost)

        return record_usage

    def step(self, kind: StepKind, name: str, *, call: str | None = None) -> OpenStep:
        """Measure something that the run does: ``with ctx.turn.step("retrieval", "handbook"): …``.

        It is stored with the next checkpoint, however it ends. Model calls and tools are measured anyway;
        ``call`` is the id of the tool call that it is.
        """
        stage = self.trace[-1] if self.trace else ""
        watch = current_scope().open_step(kind, name, stage=stage, call=call)
        return OpenStep(kind, name, stage=stage, clock=self._clock, keep=self.draft.add_step, watch=watch)

    def write(self, by: str, delta: Delta | None) -> None:
        """Fold a delta into the state."""
        self.draft.write(by, delta, run=self.id)

    def add(self, messages: Sequence[Message | Item]) -> None:
        """Add messages of this run to the history."""
        self.draft.add([self._own_item(entry) for entry in messages])

    def _own_item(self, entry: Message | Item) -> Item:
        item = entry if isinstance(entry, Item) else item_of(entry)
        return msgspec.structs.replace(item, run=self.id, step=item.step or self._step or None)

    async def checkpoint(self, reason: str, *, last: bool = False) -> None:
        """Make what changed since the last checkpoint durable, then send its events.

        If nothing changed, nothing is committed. What a failed commit did not store is still in the draft.
        The ``last`` checkpoint of a stage that ends the turn is committed together with the end, which
        follows at once.
        """
        if last and self.ends_now:
            self.draft.defer_checkpoint(reason)
        else:
            await self._commit(reason, None)

    def defer_answer(self) -> None:
        """Make an answer that no checkpoint has one of its own, which is committed together with the end."""
        if self.draft.has_new_answer:
            self.draft.defer_checkpoint(ASSISTANT)

    async def finish(self, ending: Ending) -> None:
        """Make the end of the run durable, even if nothing else changed, then send its events."""
        await self._commit(RUN_FINISHED, ending)

    async def _commit(self, reason: str, ending: Ending | None) -> None:
        changes = await self._journal.commit(self.draft, reason, ending)
        if changes:
            self._forget_text()
        for change in changes:
            self.notify_of(change)

    async def append_change(self, change: Changeset) -> Changeset:
        """Make a change durable that has nothing of the draft, then send its events.

        Raises:
            VersionConflict: Another writer was faster; nothing was changed.
        """
        committed_change = await self._journal.append(change)
        self._forget_text()
        self.notify_of(committed_change)
        return committed_change

    def _forget_text(self) -> None:
        if self._recorder is not None:
            self._recorder.forget()

    def __repr__(self) -> str:
        return f"Turn({self.id!r} of {self.thread!r})"


def _require_model(model: Model | None) -> Model:
    if model is None:
        raise InvalidArgument(problem="This stage asks a model, but the runtime was given none.")
    return model
