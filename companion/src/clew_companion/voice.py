"""The companion in a call: the instructions and tools of a realtime model, and the gate for speech."""

from collections.abc import Sequence

import msgspec

from clew.api.voice import NewAssessment
from clew.core import patch
from clew.core.encoding import JSON
from clew.core.errors import NotFound
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.safe_reply import gate
from clew.runtime.memory import Candidate, Memory, Retriever, prompt_part, render_entry, statements_in
from clew.runtime.memory.recall.render import REQUEST_PREDICATE
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.sessions.utterances import GateSettings
from clew.runtime.tools.tool import Effect, Tool, ToolContext, tool
from clew.runtime.turn.draft import Delta
from clew_companion.crisis.gate import crisis_gate
from clew_companion.crisis.help import crisis_response
from clew_companion.crisis.log import Assessment, crisis_record
from clew_companion.exercises.catalogue import catalogue
from clew_companion.exercises.selection import exercise_in
from clew_companion.replies.prompt import prompt_source
from clew_companion.state import CompanionState
from clew_companion.values import CrisisLevel

PROGRESS_FIELD = "session_progress"
VOICE_RULES = """\
You are heard, not read. Speak in short plain sentences and leave room for silence. Use the tools for what you
do not know: recall for what is remembered of the person, remember for what they ask you to keep, exercise for
the steps of an exercise. Name no phone number and no address: whoever may be in danger is answered elsewhere,
in fixed words. If you are given words to say exactly, say these and nothing else."""


async def instructions(memory: Memory | None) -> str:
    """The instructions of a realtime model before a call, with memory if that may be brought up."""
    parts = [prompt_source("identity"), prompt_source("rules"), VOICE_RULES]
    if memory is not None:
        working_memory = await Retriever(memory).working_memory("", first_turn=True)
        rules, recall = working_memory.profile.rules, working_memory.profile.recall
        parts.append(prompt_part(working_memory.result.entries, rules, recall=recall))
    return "\n\n".join(part for part in parts if part)


def tools(memory: Memory | None) -> Sequence[Tool]:
    """The tools of a call; those about the memory only where there is one."""
    return [exercise] if memory is None else [exercise, *_memory_tools(memory)]


@tool(effect=Effect.NONE)
async def exercise(name: str = "") -> JSON:
    """The steps of an exercise by its name, to be said one by one; without a name, which there are."""
    choice = exercise_in(name) if name else None
    if choice is None:
        return {"exercises": [each.name for each in catalogue().values()]}
    return {"name": choice.name, "minutes": choice.minutes, "steps": [step.say for step in choice.steps]}


def _memory_tools(memory: Memory) -> Sequence[Tool]:
    @tool(effect=Effect.NONE)
    async def recall(about: str) -> JSON:
        """What is remembered of the person about something."""
        result = await Retriever(memory).recall(about)
        return {"remembered": [render_entry(entry) for entry in result.entries]}

    @tool(effect=Effect.IDEMPOTENT)
    async def remember(what: str, call: ToolContext) -> JSON:
        """Keep something that the person asks to be remembered, in their own words."""
        candidates = statements_in(what) or [
            Candidate(predicate=REQUEST_PREDICATE, object=what, quote=what, confidence=1.0, plain=True)
        ]
        await memory.learn(candidates, key=f"remember {call.key}")
        return {"remembered": what}

    return [recall, remember]


@gate
async def judge_speech(state: CompanionState, context: Context) -> Delta:
    """Judge what was said, as a turn would."""
    return {
        name: value
        for name, value in (await crisis_gate(state, context) or {}).items()
        if name != "diagnostics"
    }


async def fixed_words(state: CompanionState, context: Context) -> Delta:
    """The words that are said instead of an answer, if the gate asks for any."""
    return (await crisis_response(state, context) or {}) if state.route == "crisis" else {}


VOICE_GATES = GateSettings(stages=(judge_speech, fixed_words), fields=(PROGRESS_FIELD,))
"""How what is said in a call is judged."""


def assessed_record(assessment: NewAssessment) -> TurnRecord | None:
    """The row of the crisis log for what a client found in a turn; None if that is nothing.

    Raises:
        InvalidArgument: A number is out of range, or a name is more than one word.
    """
    return crisis_record(Assessment(**msgspec.structs.asdict(assessment)))


async def store_risk_level(db: Database, thread: str, level: int) -> None:
    """Let the episode of a call know how serious it has been, so that the next text turn asks about it.

    The first words of a thread are judged before there is one.
    """
    episode = await active_episode(db, thread)
    if level < CrisisLevel.UNCLEAR or episode is None:
        return
    try:
        session_progress = (await db.thread(thread).head()).state.get(PROGRESS_FIELD) or {}
        if session_progress.get("risk_episode") != episode.id:
            progress = {
                "risk_level": level,
                "risk_asked": level == CrisisLevel.UNCLEAR,
                "risk_episode": episode.id,
            }
            await db.thread(thread).append(patches=[patch.merge([PROGRESS_FIELD], progress)], reason="Heard")
    except NotFound:
        return
