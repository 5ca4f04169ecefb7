"""Messages of the chat's commands, and the questions they ask back."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from rich.console import RenderableType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatQuestion:
    """A question of a command, and the function that takes the answer.

    It is put to a person alone, unless it is ``is_required``: then the next line answers it, also one of
    a program. No answer is an empty one.
    """

    prompt: str
    on_answer: "Callable[[str], Awaitable[ChatOutput]]"
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOutput:
    """An outcome: its kind and its facts for a program, the same for a person, and what comes next."""

    kind: str
    facts: Mapping[str, object]
    display: RenderableType = ""
    question: ChatQuestion | None = None
    ends_chat: bool = False
