"""The branch that words a reply: with the model, or by rules where it does not answer."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clew.core.errors import DeadlineExceeded, ModelFailed
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.respond.respond import Stage
from clew.runtime.turn.draft import Delta
from clew_companion.crisis.help import answer_unread
from clew_companion.crisis.unread import UNREAD
from clew_companion.exercises.catalogue import Exercise, catalogue
from clew_companion.exercises.guide import current_exercise
from clew_companion.exercises.selection import fitting_exercises
from clew_companion.offline.model import OfflineModel, aside_reply
from clew_companion.offline.reflection import OFFER
from clew_companion.offline.remarks import remark_in
from clew_companion.replies.filter import ReplyFilter
from clew_companion.replies.prompt import instructions
from clew_companion.state import HISTORY_WINDOW, CompanionState

MOST_CHOICES = 3
ONE_SUGGESTION_WISH = re.compile(
    r"\b(?:only|just|(?:no|not)\s+more\s+than|at\s+most)\s+(?:give\s+me\s+|suggest\s+|tell\s+me\s+)?(?:one|a\s+single|1)\s+"
    r"(?:\w+\s+)?(?:suggestions?|ideas?|tips?|things?|options?|steps?|exercises?|piece)\b"
    r"|\b(?:one|a\s+single|1)\s+(?:\w+\s+)?(?:suggestions?|ideas?|tips?|things?|options?|steps?|exercises?)\s+at\s+a\s+time\b"
    r"|\bone\s+at\s+a\s+time\b",
    re.IGNORECASE,
)
"""A wish for one suggestion, and no list."""
STANDARD_EXERCISES = ("box_breathing", "grounding_5_4_3_2_1", "thought_record")


def make_reply_stage(skills: Mapping[str, str]) -> Stage:
    """The branch that answers in words, with the skills that are installed."""

    async def therapeutic_reply(state: CompanionState, context: Context) -> Delta:
        if state.crisis_audit.classifier_path == UNREAD:
            return {**(await answer_unread(state, context) or {}), "diagnostics": {"reply_path": UNREAD}}
        messages = await recent_messages(state)
        request = ModelRequest(messages=messages, instructions=instructions(state, skills))
        text, path = await _word_reply(state, request, context)
        return {"response_text": text, "diagnostics": {"reply_path": path}}

    return therapeutic_reply


async def recent_messages(state: CompanionState) -> list[Message]:
    """The newest messages that a model is shown."""
    return [
        message
        for message in await state.history.tail(HISTORY_WINDOW)
        if message.role in ("user", "assistant") and message.kind == "message" and message.text
    ]


async def _word_reply(state: CompanionState, request: ModelRequest, context: Context) -> tuple[str, str]:
    """A reply and who worded it. If the model does not answer, rules word one."""
    current, model = current_exercise(state), context.response_llm
    ending = (
        "" if current is None else f"When you are ready, we go on: {current[0].steps[current[1].step].say}"
    )
    offline_model = _make_offline_model(state, request, current[0] if current else None)
    if isinstance(model, OfflineModel) or model is None:
        return await _ask_model(offline_model, ending, request, context), "offline"
    try:
        return await _ask_model(model, ending, request, context), "model"
    except (ModelFailed, DeadlineExceeded):
        return await _ask_model(offline_model, ending, request, context), "offline_after_model_failure"


async def _ask_model(model: Model, ending: str, request: ModelRequest, context: Context) -> str:
    return (await context.turn.ask(ReplyFilter(model, ending=ending), request)).text


def _make_offline_model(state: CompanionState, request: ModelRequest, exercise: Exercise | None) -> Model:
    """The model that answers without a language model."""
    if exercise is not None:
        replies = [message.text for message in request.messages if message.role == "assistant"]
        return FixedModel(
            aside_reply(state.message, replies) or exercise_remark(exercise, state.response_style)
        )
    is_offer = state.response_style == "technique" and remark_in(state.message) is None
    texts = [message.text for message in request.messages if message.role == "user"]
    rules = [*state.procedural_profile.procedural_rules, *texts]
    return FixedModel(exercise_offer(state, rules)) if is_offer else OfflineModel()


def exercise_offer(state: CompanionState, wishes: Sequence[str] = ()) -> str:
    """Some exercises to choose from; one, if the person wishes for one suggestion at a time."""
    exercises = fitting_exercises([state.message, *state.session_memory.active_concerns])[:MOST_CHOICES]
    choices = exercises or [catalogue()[id] for id in STANDARD_EXERCISES]
    if any(ONE_SUGGESTION_WISH.search(wish) for wish in wishes):
        return f"One thing that may help is {choices[0].name}. {OFFER} {choices[0].name}?"
    lines = "\n".join(f"- {exercise.name}, about {exercise.minutes} minutes" for exercise in choices)
    return f"Here are some things that we could do together:\n{lines}\nTell me the name of the one you like."


def exercise_remark(exercise: Exercise, style: str) -> str:
    """The remark beside an exercise without a model."""
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


class FixedModel:
    """A model that says what it was given, for words that need no model."""

    name = "fixed"

    def __init__(self, text: str) -> None:
        self._text = text

    async def stream(self, request: ModelRequest) -> Any:
        """The text, at once."""
        parts: list[ReplyPart] = [TextChunk(self._text), Reply(text=self._text, usage=Usage())]
        for part in parts:
            yield part

    async def fill(self, request: ModelRequest, kind: type[Any]) -> tuple[Any, Usage]:
        """Nothing.

        Raises:
            ModelFailed: Always.
        """
        raise ModelFailed(model=self.name, problem="it says what it was given")
