"""The crisis gate: floor, then model, then what must follow. It always answers, whatever fails around it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import clew
from clew.companion.crisis.floor import Judged, language_of
from clew.companion.crisis.help import AGAIN, CLARIFY, located, reply, wording_for
from clew.companion.crisis.judgement import Judgement, Settled, checked, request, settle
from clew.companion.crisis.message import heard, heard_after, legible, said_by_person, turns_before
from clew.companion.state import Companion
from clew.companion.values import Level, assessment
from clew.runtime.execution.safe_reply import gate
from clew.runtime.model.boundary import is_unforeseen
from clew.runtime.model.messages import Message

log = logging.getLogger("clew")
MODEL_SECONDS = 4.0
"""How long a model may think before the floor decides."""
GRACE_SECONDS = 0.1
"""How long a model that was told to stop may take for it. One that does not stop is left behind."""


def crisis_gate_within(seconds: float) -> Callable[[Companion, clew.Context], Awaitable[clew.Delta]]:
    """A gate that waits so long for a model."""

    @gate
    async def crisis_gate(state: Companion, ctx: clew.Context) -> clew.Delta:
        """Judge the message, declare the safe reply, and log what was found."""
        began = time.perf_counter()
        alone = heard(state.message)
        _declare(ctx, alone, Said(state.message, ()))  # before anything that can fail
        said = Said(state.message, await turns_before(state, ctx))
        found = heard_after(alone, said.message, said.before)
        _declare(ctx, found, said)
        settled = await _settled(ctx, said, found, seconds)
        if settled.level > found.level:
            _declare(ctx, settled, said)
        _log(ctx, settled)
        return _delta(state, ctx, settled, found, said) | {
            "diagnostics": {
                "crisis_gate_ms": round((time.perf_counter() - began) * 1000, 3),
                "crisis_classifier_path": settled.audit.classifier_path,
            }
        }

    return crisis_gate


crisis_gate = crisis_gate_within(MODEL_SECONDS)


@dataclass(frozen=True)
class Said:
    """What somebody says, and what was said before it."""

    message: str
    before: Sequence[Message]

    @cached_property
    def region(self) -> str:
        """The country that they say they are in."""
        return located(said_by_person(self.message, self.before))[0]

    @cached_property
    def language(self) -> str:
        """The language that they write in."""
        return language_of(legible(self.message), self.before)


def _declare(ctx: clew.Context, found: Judged | Settled, said: Said) -> None:
    """Declare the reply that goes out whatever becomes of the turn."""
    if found.level:
        wording = wording_for(found.level, about=found.about, kind=found.kind)
        ctx.turn.safe_reply(_not_twice(wording, said))


def _not_twice(wording: str, said: Said) -> str:
    """The words of a wording; a question that was asked in them the last time, in others."""
    text = reply(wording, said.language, said.region)
    again = reply(AGAIN, said.language, said.region)
    replies = [turn.text for turn in said.before if turn.role == "assistant"]
    asked = [each for each in replies if each in (legible(text), legible(again))]
    return again if wording == CLARIFY and asked[-1:] == [legible(text)] else text


async def _settled(ctx: clew.Context, said: Said, found: Judged, seconds: float) -> Settled:
    """What floor and model make of it together. Nothing is above level 3, so then no model is waited for."""
    if ctx.control_llm is None or found.level == Level.IMMINENT:
        return settle(found, None)
    judged = await _judged(ctx, said, seconds)
    return settle(found, judged, failed=judged is None)


async def _judged(ctx: clew.Context, said: Said, seconds: float) -> Judgement | None:
    """What the model says of it; nothing if it is late, breaks, or says what is no judgement.

    It has a task of its own, so that one that does not stop when it is told to holds nobody up.
    """
    asking = asyncio.ensure_future(
        ctx.turn.fill(ctx.control_llm, request(said.message, said.before), Judgement)
    )
    asking.add_done_callback(_taken_note_of)
    try:
        await asyncio.wait({asking}, timeout=seconds)
    finally:
        asking.cancel()
    await asyncio.wait({asking}, timeout=GRACE_SECONDS)
    try:
        return checked(asking.result())
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # whatever it does, the floor decides
        if not is_unforeseen(error):  # else it was logged where the model was asked
            why = type(error).__name__
            log.warning("The floor of the crisis gate decides, since the model failed: %s", why)
        return None


def _taken_note_of(asked: "asyncio.Future[Judgement]") -> None:
    """Look at an error that comes when nobody waits any more. Otherwise it is printed, words and all."""
    if not asked.cancelled():
        asked.exception()


def _log(ctx: clew.Context, settled: Settled) -> None:
    ctx.turn.record_crisis(
        level=settled.level,
        confidence=settled.confidence,
        path=settled.audit.classifier_path,
        override=settled.audit.override_kind,
        llm_failed=settled.audit.llm_failure_occurred,
    )


def _delta(
    state: Companion, ctx: clew.Context, settled: Settled, found: Judged, said: Said
) -> dict[str, Any]:
    progress = _progress(state, ctx, settled, found)
    checks = bool(progress.pop("checks"))
    region = said.region if settled.level or checks else ""
    return {
        "crisis": assessment(settled.level, confidence=settled.confidence, reason=settled.reason),
        "crisis_audit": settled.audit,
        "session_progress": progress,
        **({"route": "crisis"} if settled.level or checks else {}),
        **({"inferred_location": region} if region else {}),
    }


def _progress(state: Companion, ctx: clew.Context, settled: Settled, found: Judged) -> dict[str, Any]:
    """The episode's level: it rises with a message's, and falls when who was asked says they are safe."""
    episode = ctx.turn.episode.id if ctx.turn.episode is not None else ""
    held = state.session_progress
    same = held.risk_episode == episode
    level, asked = (held.risk_level, held.risk_asked) if same else (Level.NONE, False)
    if settled.level >= Level.UNCLEAR:
        level, asked, checks = max(level, settled.level), settled.level == Level.UNCLEAR, False
    elif level and asked and found.says_safe:
        level, asked, checks = Level.NONE, False, False
    else:
        checks = level >= Level.RISK and not asked
        asked = asked or checks
    return {"risk_level": int(level), "risk_asked": asked, "risk_episode": episode, "checks": checks}
