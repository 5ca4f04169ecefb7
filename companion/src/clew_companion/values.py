"""The input and output of a turn, and the names that the companion uses for itself."""

import enum
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from clew.core.arguments import check_fields

Route: TypeAlias = Literal["", "crisis", "therapeutic", "memory_control", "grounded_lookup"]
ResponseStyle: TypeAlias = Literal[
    "",
    "supportive",
    "reflective",
    "clarifying",
    "psychoeducation",
    "technique",
    "guided_exercise",
    "closing",
    "safety_check",
    "crisis_response",
    "memory_control",
    "grounded_lookup",
]
Approach: TypeAlias = Literal[
    "motivational_interviewing",
    "cbt",
    "act",
    "dbt_skills",
    "grief_support",
    "interpersonal_therapy",
    "pfa",
    "none",
]
ResponseType: TypeAlias = Literal["", "crisis", "therapeutic"]
ResponseStyleType: TypeAlias = Literal["", "conversation", "exercise", "safety", "service"]
ResponseStyleSource: TypeAlias = Literal["", "rules", "model", "exercise", "crisis_gate", "command", "lookup"]
ClassifierPath: TypeAlias = Literal[
    "", "floor_only", "llm_primary", "floor_after_llm_failure", "floor_override", "unread"
]
OverrideKind: TypeAlias = Literal[
    "explicit",
    "passive",
    "veiled",
    "means",
    "preparation",
    "self-harm",
    "harm_to_others",
    "worry_for_another",
    "displaced",
    "unread",
    "floor",
]
LookupStatus: TypeAlias = Literal["answered", "no_verified_answer", "not_attempted"]
ResourceStatus: TypeAlias = Literal[
    "found", "no_location", "location_refused", "no_verified_results", "not_attempted"
]


class Channel(enum.Enum):
    """The origin of a message."""

    TEST = "test"
    WEB = "web"
    VOICE = "voice"
    TERMINAL = "terminal"


class MessageRole(enum.Enum):
    """The author of a message in a history that a caller gives."""

    USER = "user"
    ASSISTANT = "assistant"


class CrisisLevel(enum.IntEnum):
    """The level of a message."""

    NONE = 0
    UNCLEAR = 1
    RISK = 2
    IMMINENT = 3


class CrisisAssessment(msgspec.Struct, frozen=True, kw_only=True):
    """The level of a message, its confidence, and what must follow.

    What must follow is decided by the level alone: see ``assessment``.
    """

    level: Annotated[int, msgspec.Meta(ge=0, le=3)] = 0
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    reason: str = ""
    needs_crisis_response: bool = False
    needs_clarification: bool = False


def assessment(level: int, *, confidence: float = 1.0, reason: str = "") -> CrisisAssessment:
    """An assessment whose consequences follow from its level, also where a model judged it."""
    bounded_level = min(max(level, CrisisLevel.NONE), CrisisLevel.IMMINENT)
    return CrisisAssessment(
        level=bounded_level,
        confidence=min(max(confidence, 0.0), 1.0),
        reason=reason,
        needs_crisis_response=bounded_level >= CrisisLevel.RISK,
        needs_clarification=bounded_level == CrisisLevel.UNCLEAR,
    )


class CrisisAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The provenance of an assessment."""

    override_kind: OverrideKind | None = None
    classifier_path: ClassifierPath = ""
    llm_failure_occurred: bool = False


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A place where people answer."""

    name: str
    phone: str = ""
    website: str = ""
    region: str = ""


class HistoryMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of a history that a caller gives; a reply may say the style that it had."""

    role: MessageRole
    content: str
    response_style: ResponseStyle = ""


class AgentInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a turn. ``history`` has dicts in the shape of a ``HistoryMessage``."""

    message: str
    channel: Channel = Channel.TEST
    user_id: str | None = None
    session_id: str | None = None
    history: tuple[dict[str, Any], ...] = ()
    working_memory: tuple[Any, ...] = ()
    installed_skills: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


class AgentOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a turn."""

    response_text: str = ""
    response_type: ResponseType = ""
    crisis: CrisisAssessment = CrisisAssessment()
    response_style: ResponseStyle = ""
    response_style_type: ResponseStyleType = ""
    response_style_source: ResponseStyleSource = ""
    therapeutic_approach: Approach | None = None
    should_persist_memory: bool = False
    diagnostics: dict[str, Any] = {}


LIMITS_NOTICE = (
    "This program can miss that somebody is in danger. In an emergency, call your emergency number."
)
"""The notices that people see before they begin."""

OFFLINE_NOTICE = (
    "No language model is connected. A small program answers: it listens, gives back what it hears and knows "
    "some exercises."
)
"""The further notice where there is no model."""

STAGE_LABELS: dict[str, str] = {
    "load_memory": "Remembering",
    "crisis_gate": "Listening closely",
    "triage": "Understanding",
    "crisis_response": "Answering with care",
    "memory_control": "Looking at what is remembered",
    "grounded_lookup": "Looking it up",
    "guided_exercise": "Guiding the exercise",
    "therapeutic_reply": "Thinking of an answer",
    "finalize_turn": "Finishing",
}
"""What people read while a stage is at work."""
