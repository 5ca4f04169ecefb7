"""The companion's state: every field with its type, how long it lives, and how it is folded."""

from collections.abc import Collection
from typing import Annotated, Any

import clew
from clew.runtime.state.schema import State, input, loaded, per_turn, whole_of
from clew_companion.values import (
    Approach,
    Channel,
    CrisisAssessment,
    CrisisAudit,
    LookupStatus,
    Resource,
    ResourceStatus,
    ResponseStyle,
    ResponseStyleSource,
    ResponseStyleType,
    ResponseType,
    Route,
)

HISTORY_WINDOW = 30
"""How many of the newest messages a turn looks at: once read, they serve all of its stages."""


class SessionMemory(State):
    """The memory of a session: its topics, its goal, and its open loops.

    The first turn of an episode begins it anew.
    """

    summary: str = ""
    """The session in a line."""
    active_concerns: list[str]
    """The topics that were spoken about, the newest last."""
    open_loops: list[str]
    """Plans and worries that are still to come."""
    current_goal: str = ""
    """What the person said that they want."""


class ProceduralProfile(State):
    """The person's rules for replies, and whether memory may be brought up."""

    procedural_rules: list[str]
    """Rules of style that shape every reply, whether memory may be brought up or not."""
    proactive_recall_enabled: bool = True
    """Whether what is remembered may be brought up unasked."""


class SessionProgress(State):
    """The progress of a thread, and the level of its episode.

    ``risk_level`` is the episode's: it falls only when a person who was asked says that they are safe.
    """

    turn_count: int = 0
    """The turns of the thread; of a turn that stores nothing, those of the history that it is given."""
    risk_level: int = 0
    """The highest level of danger in the episode. What is said in a call counts too."""
    risk_asked: bool = False
    """Whether the person was asked about the danger, and has not answered."""
    risk_episode: str = ""
    """The id of the episode that the level belongs to."""


class ExerciseState(State):
    """The exercise under way, if there is one. It belongs to an episode, and does not outlive it."""

    exercise_type: str | None = None
    """The id of the exercise, such as `grounding_5_4_3_2_1`."""
    exercise_step: int | None = None
    """The number of the step that waits for an answer, from 0 on."""
    exercise_therapeutic_approach: Approach | None = None
    """The approach that was pinned when the exercise began."""
    exercise_repeated: bool = False
    """Whether the step was asked for a second time."""
    exercise_episode: str = ""
    """The id of the episode that the exercise belongs to."""


class MemoryControl(State):
    """A command about the memory: what this turn asks for, and what waits for a yes."""

    action: Annotated[dict[str, Any], per_turn]
    """The command that the message gives: its kind, and what it is about."""
    pending_action: dict[str, Any] | None = None
    """What would be forgotten or undone, until the next message of the episode confirms it or not."""
    last_change: int = 0
    """The version of the memory that the last command made which changed it; 0 if none did."""


class GroundedLookup(State):
    """A question of fact, and whether it was answered from what was found."""

    query: Annotated[str, per_turn] = ""
    """The question, as it is looked up."""
    status: Annotated[LookupStatus, per_turn] = "not_attempted"
    """Whether what was found answers it."""


class CompanionState(State):
    """All that a stage reads and writes. The texts on fields are those of docs/companion/state.md."""

    message: Annotated[str, input]
    """The message of the turn."""
    channel: Annotated[Channel, input] = Channel.TEST
    """The way by which the message came."""
    user_id: Annotated[str | None, input] = None
    """The user on whose behalf the turn runs, and whose memory it has."""
    session_id: Annotated[str | None, input] = None
    """The id of the thread. Without a user, its memory is the thread's."""
    installed_skills: Annotated[tuple[str, ...], input] = ()
    """The names of skills whose texts go into the prompt. One that the companion does not have is refused."""
    caller_memory: Annotated[tuple[Any, ...], input] = ()
    """Entries of working memory that the caller gives, as `working_memory` of an `AgentInput`."""

    history: Annotated[clew.StateLog[clew.Message], clew.append]
    """The conversation: the user's message at the start of a turn, the reply with its style at the end."""
    transcript: Annotated[clew.StateLog[clew.Message], whole_of("history")]
    """All of the history, also what a compaction has hidden from it."""
    session_memory: Annotated[SessionMemory, clew.merge]
    session_progress: Annotated[SessionProgress, clew.merge]
    exercise_state: Annotated[ExerciseState, clew.merge]
    memory_control: Annotated[MemoryControl, clew.merge]
    diagnostics: Annotated[dict[str, Any], clew.merge]
    """Times, paths, statuses and write counts of the last turn, by their names."""

    working_memory: Annotated[list[Any], loaded]
    """What bears on the message: semantic and episodic entries, or plain lines from old checkpoints."""
    procedural_profile: Annotated[ProceduralProfile, clew.merge, loaded]

    crisis: CrisisAssessment = CrisisAssessment()
    """How serious the message is, and what must follow."""
    crisis_audit: CrisisAudit = CrisisAudit()
    """How that was found."""
    route: Route = ""
    """The branch that answers. It decides too whether the message is looked through for facts."""
    response_text: str = ""
    """The reply. A safe reply that goes out after a failure is put here by the runtime."""
    response_type: ResponseType = ""
    """The kind of the reply."""
    response_style: ResponseStyle = ""
    """The style of the reply."""
    response_style_type: ResponseStyleType = ""
    """The group that the style belongs to."""
    response_style_source: ResponseStyleSource = ""
    """What chose the style."""
    therapeutic_approach: Approach | None = None
    """The approach that the reply takes."""
    should_persist_memory: bool = False
    """Whether the turn is worth remembering: it finished an exercise."""
    grounded_lookup: Annotated[GroundedLookup, per_turn, clew.merge]
    inferred_location: str = ""
    """The country that the person says they are in, as a code of ISO 3166."""
    found_resources: list[Resource]
    """Lines to call in that country; none without one."""
    resource_lookup_status: ResourceStatus = "not_attempted"
    """Whether there are such lines."""


def state_with_skills(skills: Collection[str]) -> type[CompanionState]:
    """The state of a companion that has these skills: a caller that installs another is refused."""

    def check_skills(names: tuple[str, ...]) -> None:
        if unknown := [name for name in names if name not in skills]:
            remedy = f"Use some of: {', '.join(sorted(skills))}" if skills else "Leave it out: there is none"
            raise ValueError(f"there is no skill {unknown[0]!r} here. {remedy}")

    class SkilledState(CompanionState):
        """The state, with a check of what is installed."""

        installed_skills: Annotated[tuple[str, ...], input, check_skills] = ()

    return SkilledState
