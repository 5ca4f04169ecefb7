"""The companion in a call: what a realtime model is told, which tools it has, and how speech is judged."""

from collections.abc import Sequence

from clew.companion.crisis.gate import crisis_gate
from clew.companion.crisis.help import crisis_response
from clew.companion.exercises.catalogue import catalogue
from clew.companion.exercises.selection import named_in
from clew.companion.memory.control import ASKED
from clew.companion.replies.prompt import source
from clew.companion.state import Companion
from clew.companion.values import Level
from clew.core import patch
from clew.core.encoding import JSON
from clew.core.errors import NotThere
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.safe_reply import gate
from clew.runtime.memory import Candidate, Memory, Retriever, prompt_part, rendered, stated
from clew.runtime.records.episodes import active_episode
from clew.runtime.sessions.utterances import Hearing
from clew.runtime.tools.tool import Effect, Tool, ToolContext, tool
from clew.runtime.turn.draft import Delta

PROGRESS = "session_progress"
SPOKEN = """\
You are heard, not read. Speak in short plain sentences and leave room for silence. Use the tools for what you
do not know: recall for what is remembered of the person, remember for what they ask you to keep, exercise for
the steps of an exercise. Name no phone number and no address: whoever may be in danger is answered elsewhere,
in fixed words. If you are given words to say exactly, say these and nothing else."""


async def instructions(memory: Memory | None) -> str:
    """What a realtime model is told before a call, with what is known of the person if anything may be."""
    parts = [source("identity"), source("rules"), SPOKEN]
    if memory is not None:
        found = await Retriever(memory).working_memory("", first_turn=True)
        rules, recall = found.profile.rules, found.profile.recall
        parts.append(prompt_part(found.recalled.entries, rules, recall=recall))
    return "\n\n".join(part for part in parts if part)


def tools(memory: Memory | None) -> Sequence[Tool]:
    """The tools of a call; those about the memory only where there is one."""
    return [exercise] if memory is None else [exercise, *_of(memory)]


@tool(effect=Effect.NONE)
async def exercise(name: str = "") -> JSON:
    """The steps of an exercise by its name, to be said one by one; without a name, which there are."""
    found = named_in(name) if name else None
    if found is None:
        return {"exercises": [each.name for each in catalogue().values()]}
    return {"name": found.name, "minutes": found.minutes, "steps": [step.say for step in found.steps]}


def _of(memory: Memory) -> Sequence[Tool]:
    @tool(effect=Effect.NONE)
    async def recall(about: str) -> JSON:
        """What is remembered of the person about something."""
        found = await Retriever(memory).recall(about)
        return {"remembered": [rendered(entry) for entry in found.entries]}

    @tool(effect=Effect.IDEMPOTENT)
    async def remember(what: str, call: ToolContext) -> JSON:
        """Keep something that the person asks to be remembered, in their own words."""
        known = stated(what) or [
            Candidate(predicate=ASKED, object=what, quote=what, confidence=1.0, plain=True)
        ]
        await memory.learn(known, key=f"remember {call.key}")
        return {"remembered": what}

    return [recall, remember]


@gate
async def heard(state: Companion, ctx: Context) -> Delta:
    """Judge what was said, as a turn would."""
    return {
        name: value for name, value in (await crisis_gate(state, ctx) or {}).items() if name != "diagnostics"
    }


async def fixed_words(state: Companion, ctx: Context) -> Delta:
    """The words that are said instead of an answer, if the gate asks for any."""
    return (await crisis_response(state, ctx) or {}) if state.route == "crisis" else {}


HEARING = Hearing(stages=(heard, fixed_words), keeps=(PROGRESS,))
"""How what is said in a call is judged."""


async def keep_level(db: Database, thread: str, level: int) -> None:
    """Let the episode of a call know how serious it has been, so that the next text turn asks about it.

    The first words of a thread are judged before there is one.
    """
    episode = await active_episode(db, thread)
    if level < Level.UNCLEAR or episode is None:
        return
    try:
        held = (await db.thread(thread).head()).state.get(PROGRESS) or {}
        if held.get("risk_episode") != episode.id:
            progress = {"risk_level": level, "risk_asked": level == Level.UNCLEAR, "risk_episode": episode.id}
            await db.thread(thread).append(patches=[patch.merge([PROGRESS], progress)], reason="Heard")
    except NotThere:
        return
