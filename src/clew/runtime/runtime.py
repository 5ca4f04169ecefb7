"""The runtime: turns on threads that survive whatever happens to the process."""

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Any, Generic, Self, cast

from clew.core.arguments import Count, Seconds, check_methods
from clew.core.encoding import Id
from clew.core.log.checks import ExpectedVersion
from clew.core.ops import Document
from clew.core.values import SummaryPage, Window
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.context import EmbeddingProvider, MakeContext, MemoryMode, plain_context
from clew.runtime.execution.rollback import RewindResult
from clew.runtime.execution.scheduler import Scheduler
from clew.runtime.execution.start import BusyPolicy, log_reader, turn_request
from clew.runtime.maintenance.cancel import cancel_elsewhere, is_visible
from clew.runtime.maintenance.idle import compact_idle_thread
from clew.runtime.maintenance.leftover_texts import drop_leftover_texts
from clew.runtime.maintenance.rewind import ANY_VERSION, rewind_thread
from clew.runtime.maintenance.sweeper import Sweeper, end_episodes
from clew.runtime.model.messages import Message
from clew.runtime.model.names import ModelOrName, model_of
from clew.runtime.placement import Placement, Placements, default_mode
from clew.runtime.records.episodes import Episode, Finalize, finalize_nothing
from clew.runtime.records.events import Event, Mark, events_of, ignore_event
from clew.runtime.records.feedback import Feedback
from clew.runtime.records.runs import DEFAULT_AGENT
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.respond.compaction import Compaction, CompactionResult, Summarize
from clew.runtime.respond.respond import Recall, Stage, respond
from clew.runtime.sessions.feedback import record_session_feedback
from clew.runtime.sessions.finish import end_episode
from clew.runtime.sessions.status import SessionStatus, session_status
from clew.runtime.sessions.utterances import GateSettings, GateVerdict, Utterance, judge_utterance
from clew.runtime.sessions.voice import CLIENT_LOST, VoiceCall, end_lost_calls, keep_call_alive, voice_request
from clew.runtime.settings import RuntimeConfig, Settings, run_id_source
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.inputs import FreeId, TurnInput
from clew.runtime.state.schema import Conversation, Schema, Shape
from clew.runtime.state.upgrades import current_state
from clew.runtime.telemetry.observer import RuntimeObserver
from clew.runtime.telemetry.telemetry import Telemetry
from clew.runtime.tools.tool import Tool, ToolFunction
from clew.runtime.turn.approvals import Decisions
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.live_text import LiveTexts
from clew.runtime.turn.result import Output, TurnResult
from clew.runtime.turn.thread_events import ThreadEvents

CLOSE_SECONDS = 10.0
"""The time that a close tries to write pending records for, unless sessions have a deadline of their own."""
AFTER_LAST_EVENT = 1 << 31
"""An index after every event of a version."""


@check_methods
class Runtime(Generic[Shape, Output]):
    """Runs turns on the threads of a database. Use it as an async context manager.

    ``agent`` is the name of the agent. The first turn on a thread gives the thread its name, and only a
    runtime of that name writes it: every call that would write another's raises ThreadOfAnotherAgent.

    While it is open it closes runs whose process died and begins turns that were queued. Leaving it ends
    the turns that still run. The database stays open. A model may be given by its name, like
    ``"openai:gpt-5"``, and a tool as the function that it is made of.
    """

    def __init__(
        self,
        db: Database,
        *,
        agent: Id = DEFAULT_AGENT,
        schema: type[Shape] = Conversation,  # type: ignore[assignment]  # the default of Shape
        stages: Sequence[Stage] | None = None,
        model: ModelOrName | None = None,
        response_model: ModelOrName | None = None,
        tools: Sequence[Tool | ToolFunction] = (),
        instructions: str = "",
        output: type[Output] | None = None,
        finalize: Finalize = finalize_nothing,
        memory_mode: MemoryMode | None = None,
        embedding_provider: EmbeddingProvider | None = None,
        make_context: MakeContext = plain_context,
        config: RuntimeConfig = RuntimeConfig(),
    ) -> None:
        self._db = db
        self._exit_stack = AsyncExitStack()
        self._scheduler = Scheduler()
        responder = respond(
            instructions=instructions,
            tools=tools,
            compaction=config.compaction,
            recall=_recall_of(config),
        )
        self._settings = Settings(
            agent=agent,
            schema=schema_of(schema, config.state.version),
            stages=list(stages) if stages is not None else [responder],
            model=model_of(model, self._exit_stack),
            response_model=model_of(response_model, self._exit_stack),
            output=output,
            finalize=finalize,
            memory_mode=memory_mode or default_mode(db),
            embedding_provider=embedding_provider,
            config=config,
            memory_store=db.records,
            record_backend=db.records,
            make_context=make_context,
            live_texts=LiveTexts(config.provisional_bytes),
            clock=config.clock or db.store.now,
            new_id=config.new_id or run_id_source(),
            telemetry=Telemetry(config.telemetry),
        )
        self._placements = Placements(Placement(db=db, settings=self._settings))
        self._sweeper = self._build_sweeper()

    def _build_sweeper(self) -> Sweeper:
        db, settings = self._db, self._settings
        return Sweeper(
            db,
            settings,
            lambda sweep_db, thread: self._scheduler.drain_queue(
                Placement(db=sweep_db, settings=settings), thread
            ),
            chores=[
                settings.pending_records.write,
                lambda: drop_leftover_texts(db),
                lambda: end_lost_calls(db, settings.clock(), settings.refusals, agent=settings.agent),
                lambda: self._placements.drop_idle(self._scheduler.is_busy),
            ],
        )

    async def __aenter__(self) -> Self:
        self._sweeper.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the turns that still run, and the episodes of the threads that had turns here, durably."""
        sessions = self._settings.config.sessions
        await self._sweeper.stop()
        try:
            await self._scheduler.stop()
            if sessions.finalize_active_sessions_on_close:
                threads = {thread: db for thread, (db, _) in self._scheduler.recent_threads.items()}
                await end_episodes(threads, self._settings, sessions.close_seconds, self._sweeper)
        finally:
            await self._sweeper.close()
        await self._placements.close()
        await self._settings.pending_records.close(sessions.close_seconds or CLOSE_SECONDS)
        await self._exit_stack.aclose()

    async def sweep(self) -> None:
        """Sweep once, now: close runs that died, start queued turns, end idle episodes, apply retention.

        An open runtime does this in the background, every ``sweep_seconds``. This returns when the ends of
        episodes and the vectors that are due are made; queued turns go on in the background. What fails is
        logged, and tried again by the next sweep.
        """
        await self._sweeper.sweep_and_wait()

    def add_observer(self, observer: RuntimeObserver) -> None:
        """Let an observer know when turns, steps, commits and jobs end here, from now on."""
        self._settings.telemetry.observers.add(observer)

    @property
    def is_idle(self) -> bool:
        """True if no turn is at work here, and none is about to begin."""
        return self._scheduler.is_idle

    @property
    def agent(self) -> str:
        """The name of the agent, as its author gave it."""
        return self._settings.agent

    @property
    def memory_mode(self) -> MemoryMode:
        """The mode of a turn that asks for none: synced on PostgreSQL unless another was given, or local."""
        return self._placements.default_mode

    @property
    def schema(self) -> Schema:
        """The schema of the state of its threads."""
        return self._settings.schema

    @property
    def embedding_provider(self) -> EmbeddingProvider | None:
        """The provider of vectors, if there is one."""
        return self._settings.embedding_provider

    # Turns.

    async def run_turn(
        self,
        thread: FreeId,
        message: TurnInput,
        *,
        user: Id | None = None,
        key: Id | None = None,
        busy: BusyPolicy = "wait",
        message_id: Id | None = None,
        messages: Sequence[Message] = (),
        replace_state: Document | None = None,
        origin: Id = "user",
        parent: Id | None = None,
        mode: MemoryMode | None = None,
    ) -> TurnResult[Output]:
        """Run one turn and give its result once its end is on disk.

        ``user`` is on whose behalf it runs; without one the thread is nobody's, and has a memory of its own.
        ``key`` makes repeating it safe, ``busy`` says what to do while another turn runs: wait, refuse,
        queue, interrupt (that turn ends, and what it said stays) or rollback (that turn is taken back, and
        the result says what it did to the world). ``message_id`` names the message and ``messages`` come
        before it; those that the thread has had before are left out. ``replace_state`` becomes the base
        state. ``origin`` and ``parent`` say where the run comes from. ``mode`` steps down to incognito.

        Raises:
            InvalidId: There is no thread id; the runtime never invents one.
            TurnBusy: Another turn is running and ``busy`` says to refuse.
            TurnSuspended: The thread waits for a decision, and ``busy`` does not say to end that run.
            RewindRefused: The other turn was to be rolled back, and others have written behind it.
            ThreadOfAnotherAgent: The thread belongs to another agent, or to a guest framework.
            UserMissing: The thread belongs to a user, and ``user`` names none.
            RunFailed: The turn could not be finished.
        """
        request = turn_request(
            self._settings.schema,
            thread,
            message,
            user=user,
            key=key,
            busy=busy,
            message_id=message_id,
            messages=messages,
            replace_state=replace_state,
            origin=origin,
            parent=parent,
        )
        placement = self._placements.begin_turn(thread, user, mode)
        return await self._scheduler.wait_for(
            self._scheduler.start_task(thread, self._scheduler.run(placement, request, ignore_event))
        )

    async def stream_turn(
        self,
        thread: FreeId,
        message: TurnInput,
        *,
        user: Id | None = None,
        key: Id | None = None,
        busy: BusyPolicy = "wait",
        message_id: Id | None = None,
        messages: Sequence[Message] = (),
        replace_state: Document | None = None,
        origin: Id = "user",
        parent: Id | None = None,
        mode: MemoryMode | None = None,
    ) -> AsyncIterator[Event]:
        """Run one turn and give its events as they come. Leaving the iterator does not end the turn.

        It takes what ``run_turn`` takes.
        """
        request = turn_request(
            self._settings.schema,
            thread,
            message,
            user=user,
            key=key,
            busy=busy,
            message_id=message_id,
            messages=messages,
            replace_state=replace_state,
            origin=origin,
            parent=parent,
        )
        placement = self._placements.begin_turn(thread, user, mode)
        async with self._scheduler.stream(
            thread, lambda emit: self._scheduler.run(placement, request, emit)
        ) as events:
            async for event in events:
                yield event

    async def resume(
        self, thread: Id, decisions: Decisions | None = None, *, user: Id | None = None
    ) -> TurnResult[Output]:
        """Go on with a run that waits for decisions, or that was interrupted, in whatever process.

        Raises:
            DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
            InvalidArgument: There is nothing to resume.
            StageGone: The run stopped at a stage that is not there any more; nothing was changed.
            TurnBusy: The run is still at work somewhere.
        """
        work = self._scheduler.resume_run(
            self._placements.of(thread, user), thread, decisions or {}, ignore_event
        )
        return await self._scheduler.wait_for(self._scheduler.start_task(thread, work))

    async def stream_resume(
        self, thread: Id, decisions: Decisions | None = None, *, user: Id | None = None
    ) -> AsyncIterator[Event]:
        """Go on with a run and give its events as they come. Leaving the iterator does not end the run.

        It takes and raises what ``resume`` does.
        """
        placement = self._placements.of(thread, user)
        async with self._scheduler.stream(
            thread, lambda emit: self._scheduler.resume_run(placement, thread, decisions or {}, emit)
        ) as events:
            async for event in events:
                yield event

    async def cancel(self, thread: Id, *, user: Id | None = None) -> bool:
        """End the run that is at work or waits on a thread, in any process. Return whether there was one.

        A run of another process is asked to end, and does so within a moment.
        """
        placement = self._placements.of(thread, user)
        if await is_visible(placement.db, thread) and await self._scheduler.cancel(thread):
            return True
        return await cancel_elsewhere(placement.db, thread, placement.settings)

    async def events(
        self, thread: Id, *, after: Mark | None = None, user: Id | None = None, live: bool = False
    ) -> AsyncIterator[Event]:
        """The durable events of a thread as they commit, from the one after a mark on, or from now.

        They are read from the log: every process gives the same events, each once. With ``live`` the text of
        an answer that is being given comes behind them, from its beginning on and as it grows, in whatever
        process that is; when the answer is committed, its message follows.
        """
        placement = self._placements.of(thread, user)
        db_thread = placement.db.thread(thread)
        mark = ((await db_thread.head()).version, AFTER_LAST_EVENT) if after is None else after
        if live and placement.settings.live_texts.longest:
            follower = ThreadEvents(placement.db, thread, placement.settings.live_texts, mark)
            async with aclosing(follower.events()) as events:
                async for event in events:
                    yield event
        async for change in db_thread.watch(after=max(mark[0] - 1, 0)):
            for event in events_of(change):
                if event.mark is not None and event.mark > mark:
                    yield event

    async def end_session(
        self, thread: Id, *, feedback: str | None = None, by: str = "api", user: Id | None = None
    ) -> Episode | None:
        """End the episode that a thread is in; None if it is in none.

        What it leaves behind is made at once if that works, and otherwise tried again in the background, in
        whatever process: the status says whether it is ``ended`` or still ``ending``. An incognito thread is
        forgotten with it.
        """
        placement = self._placements.of(thread, user)
        if self._placements.is_incognito(thread):
            await self._scheduler.stop([thread])
        activity = self._scheduler.recent_threads.get(thread)
        episode = await end_episode(placement.db, thread, placement.settings, by=by, feedback=feedback)
        # Unless a turn has begun another episode meanwhile, there is none left to end with the runtime.
        if episode is not None and self._scheduler.recent_threads.get(thread) is activity:
            self._scheduler.recent_threads.pop(thread, None)
        await self._placements.drop(thread)
        return episode

    async def record_session_feedback(
        self, thread: Id, label: str, *, source: str = "api", key: Id | None = None, user: Id | None = None
    ) -> Feedback:
        """Record what a person thinks of a session, apart from its end: a label of one word, never text.

        It is about the episode that the thread is in, or was in last, which has one row: the newest label
        replaces an earlier one, and one that is given at the end replaces both. A ``key`` makes repeating it
        safe. Feedback on an incognito session stays in memory with it.

        Raises:
            InvalidArgument: It is no label, or the thread has had no session.
            KeyReused: The key was used for another label.
        """
        placement = self._placements.of(thread, user)
        return await record_session_feedback(
            placement.db,
            thread,
            label,
            agent=self.agent,
            source=source,
            key=key,
            now=placement.settings.clock(),
        )

    async def session_status(self, thread: Id, *, user: Id | None = None) -> SessionStatus:
        """The status of a thread: its run, its episode, what is left to do, and what a caller can do next."""
        placement = self._placements.of(thread, user)
        return await session_status(placement.db, thread, placement.settings)

    def incognito_records(self) -> Database:
        """Retained records and feedback of ended incognito sessions, in memory until it is closed."""
        return self._placements.incognito_records.scope(tenant=self._db.tenant)

    # Calls.

    async def record_voice_turn(
        self,
        thread: Id,
        *,
        text: str = "",
        reply: str = "",
        tool_calls: Sequence[VoiceCall] = (),
        records: Sequence[TurnRecord] = (),
        inputs: Mapping[str, Any] | None = None,
        fixed: bool = False,
        user: Id | None = None,
        key: Id | None = None,
        mode: MemoryMode | None = None,
    ) -> TurnResult[Any]:
        """Record a turn of a call that a realtime client has spoken. No stage runs.

        ``records`` commit with it. ``inputs`` are those of a turn beside the message, such as the channel.
        ``fixed`` marks a reply in the words that a gate asked for.

        Raises:
            InvalidArgument: Nothing was said.
            StateInvalid: An input is unknown, or of another type.
            KeyReused: The key was used for another turn.
            TurnSuspended: The thread waits for a decision.
            ModeRefused: The mode cannot be had.
        """
        request = voice_request(
            thread,
            self._settings.schema,
            text=text,
            reply=reply,
            tool_calls=tool_calls,
            records=records,
            inputs=inputs,
            fixed=fixed,
            user=user,
            key=key,
        )
        placement = self._placements.begin_turn(thread, user, mode)
        self._scheduler.touch_thread(placement, thread)
        return await self._scheduler.wait_for(
            self._scheduler.start_task(thread, self._scheduler.record_voice(placement, request))
        )

    async def judge_utterance(
        self, utterance: Utterance, *, gates: GateSettings | None = None, mode: MemoryMode | None = None
    ) -> GateVerdict:
        """Judge an utterance of a call before it is answered, and write what the gates record."""
        placement = self._placements.begin_turn(utterance.thread, utterance.user, mode)
        return await judge_utterance(placement.db, utterance, placement.settings, gates)

    async def keep_voice_alive(
        self, thread: Id, *, seconds: Seconds = 60.0, user: Id | None = None
    ) -> Episode | None:
        """Keep a call open for so many seconds; unless it is kept open again by then, its client is lost."""
        placement = self._placements.of(thread, user)
        return await keep_call_alive(
            placement.db, thread, now=placement.settings.clock(), seconds=seconds, agent=self.agent
        )

    async def end_lost_voice(self, thread: Id, *, user: Id | None = None) -> Episode | None:
        """End the episode of a call whose client is gone; None if there is none."""
        return await self.end_session(thread, by=CLIENT_LOST, user=user)

    # Threads.

    def thread(self, thread: Id, *, user: Id | None = None) -> Thread:
        """The thread in its placement, for reading: an incognito one is in this process alone."""
        return self._placements.of(thread, user).db.thread(thread)

    async def state(self, thread: Id, *, at: int | None = None, user: Id | None = None) -> Shape:
        """The state of a thread as the schema declares it, now or at an earlier version."""
        db_thread = self.thread(thread, user=user)
        head = await db_thread.head(at=at)
        schema, upgrades = self._settings.schema, self._settings.config.state.upgrades
        state = current_state(thread, head.state, schema, upgrades)
        view = Draft(schema, state, head.counters.logs, {}, log_reader(db_thread)).view()
        return cast("Shape", view)  # the class that the schema was made from

    async def history(
        self, thread: Id, *, last: Count = 50, before: int | None = None, user: Id | None = None
    ) -> Window:
        """A page of the history, oldest first; ``before`` is the place of the first item of the next page."""
        return await self.thread(thread, user=user).items(last=last, before=before)

    async def threads(
        self, *, user: Id | None = None, limit: int = 50, after: str | None = None, system: bool = False
    ) -> SummaryPage:
        """The threads, newest first; those that hold what is remembered only if ``system`` is set."""
        return await self._placements.listing_database(user).threads(limit=limit, after=after, system=system)

    async def fork(
        self, thread: Id, new_id: FreeId, *, at: int | None = None, user: Id | None = None
    ) -> Thread:
        """A new thread that goes its own way from a version of another."""
        return await self._placements.fork(thread, new_id, user, at)

    async def rewind(
        self,
        thread: Id,
        run: str | None = None,
        *,
        to: int | None = None,
        compaction: int | None = None,
        user: Id | None = None,
        expect: ExpectedVersion = ANY_VERSION,
    ) -> RewindResult:
        """Take back what a run added to the history, everything after a version, or a compaction.

        ``run`` ends exactly that run's items, if they are the whole end of the thread. ``to`` makes history
        and state what they were. ``compaction`` is the version of one. Each is a new changeset, and the past
        stays readable. Effects on the world are not taken back; those are listed.

        Raises:
            RewindRefused: What should be taken back is not whole at the end any more.
            TurnBusy: A turn is at work.
            VersionConflict: The thread is not where ``expect`` says, or was written meanwhile; nothing was
                changed.
        """
        placement = self._placements.of(thread, user)
        return await rewind_thread(
            placement.db, thread, placement.settings, run=run, to=to, compaction=compaction, expect=expect
        )

    async def compact(
        self,
        thread: Id,
        *,
        keep: Count | None = None,
        summarize: Summarize | None = None,
        user: Id | None = None,
    ) -> CompactionResult:
        """Put a summary in place of all messages but the newest few, as one changeset.

        Raises:
            InvalidArgument: There is nothing to compact, or an adapter keeps this history.
            TurnBusy: A turn is at work.
            TurnSuspended: Tool calls wait for a decision; it has to wait until they are answered.
            TranscriptBroken: Tool calls were left open; the next turn closes them.
            VersionConflict: The thread was written meanwhile; nothing was changed.
            ModelFailed: There is no summary; nothing was changed.
        """
        default = self._settings.config.compaction or Compaction()
        compaction = dataclasses.replace(
            default,
            keep=default.keep if keep is None else keep,
            summarize=summarize or default.summarize,
        )
        placement = self._placements.of(thread, user)
        return await compact_idle_thread(placement.db, thread, compaction, placement.settings)


def _recall_of(config: RuntimeConfig) -> Recall | None:
    """The recall of a turn, if it is wanted; its rules about phrases are not loaded where it is not."""
    if config.memory is None:
        return None
    from clew.runtime.memory.recall.instructions import make_recall

    return make_recall(config.memory)
