"""The companion's state: every field with its type, how long it lives, and how it is folded."""

from typing import Annotated, Any

import clew
from clew.runtime.state.schema import State, input, loaded, per_turn, whole_of
from clew_companion.values import (
    Approach,
    CrisisAssessment,
    CrisisAudit,
    LookupStatus,
    Resource,
    ResourceStatus,
    ResponseStyle,
    Route,
)

HISTORY_WINDOW = 30
"""How many of the newest messages a turn looks at: once read, they serve all of its stages."""


class SessionMemory(State):
    """The memory of a session: its topics, its goal, and its open loops."""

    summary: str = ""
    active_concerns: list[str]
    open_loops: list[str]
    current_goal: str = ""


class ProceduralProfile(State):
    """The person's rules for replies, and whether memory may be brought up."""

    procedural_rules: list[str]
    proactive_recall_enabled: bool = True


class SessionProgress(State):
    """The progress of a thread, and the level of its episode.

    ``risk_level`` is the episode's: it falls only when a person who was asked says that they are safe.
    """

    turn_count: int = 0
    risk_level: int = 0
    risk_asked: bool = False
    risk_episode: str = ""


class ExerciseState(State):
    """The exercise under way, if there is one."""

    exercise_type: str | None = None
    exercise_step: int | None = None
    exercise_therapeutic_approach: str | None = None
    exercise_repeated: bool = False


class MemoryControl(State):
    """A command about the memory: what this turn asks for, and what waits for a yes."""

    action: Annotated[dict[str, Any], per_turn]
    pending_action: dict[str, Any] | None = None


class GroundedLookup(State):
    """A question of fact, and whether it was answered from what was found."""

    query: Annotated[str, per_turn] = ""
    status: Annotated[LookupStatus, per_turn] = "not_attempted"


class CompanionState(State):
    """All that a stage reads and writes."""

    message: Annotated[str, input]
    channel: Annotated[str, input] = "test"
    user_id: Annotated[str | None, input] = None
    session_id: Annotated[str | None, input] = None
    installed_skills: Annotated[tuple[str, ...], input] = ()

    history: Annotated[clew.StateLog[clew.Message], clew.append]
    transcript: Annotated[clew.StateLog[clew.Message], whole_of("history")]
    session_memory: Annotated[SessionMemory, clew.merge]
    session_progress: Annotated[SessionProgress, clew.merge]
    exercise_state: Annotated[ExerciseState, clew.merge]
    memory_control: Annotated[MemoryControl, clew.merge]
    diagnostics: Annotated[dict[str, Any], clew.merge]

    working_memory: Annotated[list[Any], loaded]
    procedural_profile: Annotated[ProceduralProfile, clew.merge, loaded]

    crisis: CrisisAssessment = CrisisAssessment()
    crisis_audit: CrisisAudit = CrisisAudit()
    route: Route = ""
    response_text: str = ""
    response_type: str = ""
    response_style: ResponseStyle = ""
    response_style_type: str = ""
    response_style_source: str = ""
    therapeutic_approach: Approach | None = None
    should_persist_memory: bool = False
    grounded_lookup: Annotated[GroundedLookup, per_turn, clew.merge]
    inferred_location: str = ""
    found_resources: list[Resource]
    resource_lookup_status: ResourceStatus = "not_attempted"
