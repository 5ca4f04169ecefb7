"""The branch that words a reply: with the model, or by rules where it does not answer."""

from collections.abc import Mapping
from typing import Any

from clew.companion.exercises.catalogue import Exercise, catalogue
from clew.companion.exercises.guide import under_way
from clew.companion.exercises.selection import fitting
from clew.companion.offline.model import OfflineModel, aside
from clew.companion.offline.remarks import remark_in
from clew.companion.replies.filter import Careful
from clew.companion.replies.prompt import instructions, unknown_skills
from clew.companion.state import WINDOW, Companion
from clew.core.errors import DeadlineExceeded, ModelFailed
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, Part, Reply, Request, Text, Usage
from clew.runtime.respond.respond import Stage
from clew.runtime.turn.draft import Delta

CHOICES = 3
STANDARD = ("box_breathing", "grounding_5_4_3_2_1", "thought_record")


def reply_with(skills: Mapping[str, str]) -> Stage:
    """The branch that answers in words, with the skills that are installed."""

    async def therapeutic_reply(state: Companion, ctx: Context) -> Delta:
        messages = await shown(state)
        request = Request(messages=messages, instructions=instructions(state, skills))
        text, path = await _worded(state, request, ctx)
        missing = unknown_skills(state, skills)
        noted: dict[str, Any] = {"reply_path": path, **({"unknown_skills": missing} if missing else {})}
        return {"response_text": text, "diagnostics": noted}

    return therapeutic_reply


async def shown(state: Companion) -> list[Message]:
    """The newest messages that a model is shown."""
    return [
        message
        for message in await state.history.tail(WINDOW)
        if message.role in ("user", "assistant") and message.kind == "message" and message.text
    ]


async def _worded(state: Companion, request: Request, ctx: Context) -> tuple[str, str]:
    """A reply and who worded it. If the model does not answer, somebody still gets one."""
    beside, model = under_way(state), ctx.response_llm
    ending = "" if beside is None else f"When you are ready, we go on: {beside[0].steps[beside[1].step].say}"
    simple = _simple(state, request, beside[0] if beside else None)
    if isinstance(model, OfflineModel) or model is None:
        return await _asked(simple, ending, request, ctx), "offline"
    try:
        return await _asked(model, ending, request, ctx), "model"
    except (ModelFailed, DeadlineExceeded):
        return await _asked(simple, ending, request, ctx), "offline_after_model_failure"


async def _asked(model: Model, ending: str, request: Request, ctx: Context) -> str:
    return (await ctx.turn.ask(Careful(model, ending=ending), request)).text


def _simple(state: Companion, request: Request, beside: Exercise | None) -> Model:
    """What answers without a language model."""
    if beside is not None:
        replied = [message.text for message in request.messages if message.role == "assistant"]
        return Fixed(aside(state.message, replied) or explained(beside, state.response_style))
    offers = state.response_style == "technique" and remark_in(state.message) is None
    return Fixed(offered(state)) if offers else OfflineModel()


def offered(state: Companion) -> str:
    """Some exercises to choose from."""
    found = fitting([state.message, *state.session_memory.active_concerns])[:CHOICES]
    choices = found or [catalogue()[id] for id in STANDARD]
    lines = "\n".join(f"- {exercise.name}, about {exercise.minutes} minutes" for exercise in choices)
    return f"Here are some things that we could do together:\n{lines}\nTell me the name of the one you like."


def explained(exercise: Exercise, style: str) -> str:
    """What can be said beside an exercise without a model."""
    if style == "supportive":
        return (
            "Thank you for telling me. We do not have to go on with this; say stop if you would rather talk."
        )
    if style == "psychoeducation":
        return f"What it is for: {exercise.purpose} It is no treatment, and nothing has to come of it."
    return (
        "If that is about the exercise: there is no right or wrong in it. Do it in your own way, at your own "
        "pace. For anything else, say stop, and we talk about that."
    )


class Fixed:
    """A model that says what it was given, for words that need no model."""

    name = "fixed"

    def __init__(self, text: str) -> None:
        self._text = text

    async def stream(self, request: Request) -> Any:
        """The text, at once."""
        parts: list[Part] = [Text(self._text), Reply(text=self._text, usage=Usage())]
        for part in parts:
            yield part

    async def fill(self, request: Request, kind: type[Any]) -> tuple[Any, Usage]:
        """Nothing.

        Raises:
            ModelFailed: Always.
        """
        raise ModelFailed(model=self.name, problem="it says what it was given")
