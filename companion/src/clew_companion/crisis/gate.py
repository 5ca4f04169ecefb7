"""The crisis gate: floor, then model, then what must follow. It always answers, whatever fails around it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import clew
from clew.runtime.execution.safe_reply import gate
from clew.runtime.model.boundary import is_unforeseen
from clew.runtime.model.messages import Message
from clew_companion.crisis.floor import FloorVerdict
from clew_companion.crisis.help import find_region, next_crisis_reply, reply_language, wording_for
from clew_companion.crisis.judgement import (
    GateDecision,
    Judgement,
    decide_level,
    judgement_request,
    validate_judgement,
)
from clew_companion.crisis.log import KEEP_DAYS, Assessment, record_crisis
from clew_companion.crisis.message import (
    earlier_turns,
    judge,
    judge_quickly,
    stated_part,
    texts_of_person,
)
from clew_companion.crisis.unread import find_unread, heed_unread, settle_unread
from clew_companion.memory.load import episode_id
from clew_companion.state import CompanionState
from clew_companion.values import CrisisLevel, assessment

log = logging.getLogger("clew")
MODEL_SECONDS = 4.0
"""How long a model may think before the floor decides."""
GRACE_SECONDS = 0.1
"""The time that a cancelled model call may take to stop. One that does not stop is left behind."""


def make_crisis_gate(
    seconds: float = MODEL_SECONDS, *, keep_days: float = KEEP_DAYS
) -> Callable[[CompanionState, clew.Context], Awaitable[clew.Delta]]:
    """Make a gate that waits so long for a model, and whose rows in the log are kept for so many days."""

    @gate
    async def crisis_gate(state: CompanionState, context: clew.Context) -> clew.Delta:
        """Judge the message, declare the safe reply, and log what was found."""
        start = time.perf_counter()
        quick_verdict, unread = judge_quickly(state.message), find_unread(state.message)
        # Before anything that can fail or be cut off, and so without the network.
        _declare_safe_reply(context, heed_unread(quick_verdict, unread), GateInput(state.message, ()))
        gate_input = GateInput(state.message, await earlier_turns(state, context))
        verdict = await _judge_in_thread(gate_input, quick_verdict)
        if unread is not None:
            verdict = stated_part(verdict)  # what another language reads like means nothing
        cautious_verdict = heed_unread(verdict, unread)
        _declare_safe_reply(context, cautious_verdict, gate_input)
        decision = settle_unread(await _decide(context, gate_input, verdict, seconds), unread)
        if decision.level != cautious_verdict.level:
            _declare_safe_reply(context, decision, gate_input)
        record_crisis(context.turn, _assessment_of(decision), days=keep_days)
        return _gate_delta(state, context, decision, verdict, gate_input) | {
            "diagnostics": {
                "crisis_gate_ms": round((time.perf_counter() - start) * 1000, 3),
                "crisis_classifier_path": decision.audit.classifier_path,
            }
        }

    return crisis_gate


crisis_gate = make_crisis_gate()


@dataclass(frozen=True)
class GateInput:
    """The message of a turn, and those before it."""

    message: str
    before: Sequence[Message]

    @cached_property
    def region(self) -> str:
        """The country that they say they are in."""
        return find_region(texts_of_person(self.message, self.before))[0]

    @cached_property
    def language(self) -> str:
        """The language that they are answered in."""
        return reply_language(self.message, self.before, self.region)


def _declare_safe_reply(
    context: clew.Context, verdict: FloorVerdict | GateDecision, gate_input: GateInput
) -> None:
    """Declare the reply that goes out whatever becomes of the turn, or withdraw it if there is no danger."""
    if verdict.level:
        wording = wording_for(verdict.level, about=verdict.about, kind=verdict.kind)
        context.turn.set_safe_reply(_safe_reply_text(wording, gate_input))
    else:
        context.turn.withdraw_safe_reply()


async def _judge_in_thread(gate_input: "GateInput", quick_verdict: FloorVerdict) -> FloorVerdict:
    """The floor's verdict, made beside the event loop, since the network takes some milliseconds."""
    try:
        return await asyncio.to_thread(judge, gate_input.message, gate_input.before)
    except RuntimeError as error:  # no thread can be started
        log.warning("A message is judged without the network: %s", type(error).__name__)
        return quick_verdict


def _safe_reply_text(wording: str, gate_input: GateInput) -> str:
    """The words of a wording, after what was said."""
    texts = texts_of_person(gate_input.message, gate_input.before)
    replies = [turn.text for turn in gate_input.before if turn.role == "assistant"]
    return next_crisis_reply(wording, gate_input.language, gate_input.region, texts, replies)


async def _decide(
    context: clew.Context, gate_input: GateInput, verdict: FloorVerdict, seconds: float
) -> GateDecision:
    """Combine floor and model. For a stated danger of level 3 no model is waited for: nothing is above it."""
    if context.control_llm is None or verdict.stated == CrisisLevel.IMMINENT:
        return decide_level(verdict, None)
    judgement = await _ask_model(context, gate_input, seconds)
    return decide_level(verdict, judgement, has_failed=judgement is None)


async def _ask_model(context: clew.Context, gate_input: GateInput, seconds: float) -> Judgement | None:
    """The model's judgement; None if it is late, fails, or gives no valid judgement.

    It has a task of its own, so that a call that does not stop when it is cancelled delays nothing.
    """
    task = asyncio.ensure_future(
        context.turn.fill(
            context.control_llm, judgement_request(gate_input.message, gate_input.before), Judgement
        )
    )
    task.add_done_callback(_retrieve_error)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    await asyncio.wait({task}, timeout=GRACE_SECONDS)
    try:
        return validate_judgement(task.result())
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # whatever it does, the floor decides
        if not is_unforeseen(error):  # else it was logged where the model was asked
            why = type(error).__name__
            log.warning("The floor of the crisis gate decides, since the model failed: %s", why)
        return None


def _retrieve_error(task: "asyncio.Future[Judgement]") -> None:
    """Look at an error that comes when nobody waits any more. Otherwise it is printed, words and all."""
    if not task.cancelled():
        task.exception()


def _assessment_of(decision: GateDecision) -> Assessment:
    return Assessment(
        level=decision.level,
        confidence=decision.confidence,
        path=decision.audit.classifier_path,
        override=decision.audit.override_kind,
        llm_failed=decision.audit.llm_failure_occurred,
    )


def _gate_delta(
    state: CompanionState,
    context: clew.Context,
    decision: GateDecision,
    verdict: FloorVerdict,
    gate_input: GateInput,
) -> dict[str, Any]:
    progress = _progress_delta(state, context, decision, verdict)
    checks = bool(progress.pop("checks"))
    region = gate_input.region if decision.level or checks else ""
    return {
        "crisis": assessment(decision.level, confidence=decision.confidence, reason=decision.reason),
        "crisis_audit": decision.audit,
        "session_progress": progress,
        **({"route": "crisis"} if decision.level or checks else {}),
        **({"inferred_location": region} if region else {}),
    }


def _progress_delta(
    state: CompanionState, context: clew.Context, decision: GateDecision, verdict: FloorVerdict
) -> dict[str, Any]:
    """The episode's level: it rises with a message's, and falls when who was asked says they are safe."""
    episode = episode_id(context)
    progress = state.session_progress
    same = progress.risk_episode == episode
    level, is_asked = (progress.risk_level, progress.risk_asked) if same else (CrisisLevel.NONE, False)
    if decision.level >= CrisisLevel.UNCLEAR:
        level, is_asked, checks = max(level, decision.level), decision.level == CrisisLevel.UNCLEAR, False
    elif level and is_asked and verdict.says_safe:
        level, is_asked, checks = CrisisLevel.NONE, False, False
    else:
        checks = level >= CrisisLevel.RISK and not is_asked
        is_asked = is_asked or checks
    return {"risk_level": int(level), "risk_asked": is_asked, "risk_episode": episode, "checks": checks}
