"""An agent as its author declares it: how its runtimes are made, and what comes with it."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from clew.agents.search_provider import SearchProvider
from clew.api.turns import ChannelName
from clew.api.voice import NewAssessment
from clew.core.errors import InvalidArgument
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.memory import Memory
from clew.runtime.model.protocol import Model
from clew.runtime.records.runs import DEFAULT_AGENT
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.utterances import GateSettings
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.inputs import TurnInput
from clew.runtime.tools.tool import Tool

if TYPE_CHECKING:
    import typer
    from litestar.types import ControllerRouterHandler

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The names that an agent may have: they are part of addresses and typed in shells."""


SettingName: TypeAlias = Literal["embedder", "search_provider", "skills"]
"""The settings that not every agent uses."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a server or a chat has for the runtimes of an agent.

    ``model``, ``embedder`` and ``search_provider`` are None where none is configured. ``skills`` are texts by
    name, of which a message may install some. An agent uses what it can. ``config`` is for
    ``Runtime(config=…)``: how often a server sweeps, what models cost, whether sessions end with the process.
    """

    model: Model | None = None
    embedder: EmbeddingProvider | None = None
    search_provider: SearchProvider | None = None
    skills: Mapping[str, str] = {}
    config: RuntimeConfig = RuntimeConfig()


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a person, the thread that it is for, and the channel that it came by.

    ``installed_skills`` are the names of the skills that it is to be answered with.
    """

    text: str
    thread: str
    user: str | None = None
    channel: ChannelName = "web"
    installed_skills: tuple[str, ...] = ()


class StudioPages(msgspec.Struct, frozen=True, kw_only=True):
    """Scripts that extend the Studio: served from ``folder`` below ``/studio/agents/NAME/``.

    ``script`` is a module that may export ``pages``, functions by their names, and ``decorate``, which
    changes how a message is shown. ``navigation`` has a title for each page that gets an entry.
    """

    folder: Traversable
    script: str = "main.js"
    navigation: Mapping[str, str] = {}


async def no_instructions(memory: Memory | None) -> str:
    """Give no instructions."""
    return ""


def ignore_assessment(assessment: NewAssessment) -> TurnRecord | None:
    """Record nothing of an assessment."""
    return None


async def ignore_level(db: Database, thread: str, level: int) -> None:
    """Do nothing about a level."""


class VoiceAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in a call: the instructions of a realtime model, its tools, and how speech is judged.

    ``assessed_record`` makes a record of a client's assessment of a turn. ``keep_level`` stores for later
    turns on the thread how serious a call was.
    """

    instructions: Callable[[Memory | None], Awaitable[str]] = no_instructions
    tools: Callable[[Memory | None], Sequence[Tool]] = lambda memory: ()
    gates: GateSettings | None = None
    assessed_record: Callable[[NewAssessment], TurnRecord | None] = ignore_assessment
    keep_level: Callable[[Database, str, int], Awaitable[None]] = ignore_level


def plain_input(message: UserMessage) -> TurnInput:
    """Return the text of a message, as the whole input of a turn.

    Raises:
        InvalidArgument: The message installs skills, which would be ignored.
    """
    if message.installed_skills:
        problem = "This agent takes no skills. Leave out installed_skills."
        raise InvalidArgument(problem=problem)
    return message.text


def always(state: Any) -> bool:
    """Return True for every state."""
    return True


MakeAgentRuntime: TypeAlias = Callable[[Database, AgentSettings], Runtime[Any, Any]]
"""Makes a runtime of an agent on the database of one tenant."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be served and talked with.

    ``name`` is its author's choice, the name of its runtimes, and what ``--agent`` takes once it is
    installed. ``brings_model`` says that its runtimes have a model of their own, ``uses`` which other
    settings they use, for people to read. ``notices`` are shown before
    a person begins, ``offline_notices`` besides where there is no model, and ``stage_labels`` while a stage
    works. ``describe_context`` tells of the state of a turn what its answer was made with: lines by a title,
    for the panel of a chat. ``warm_up`` reads what the first turn would wait for; it is called in a thread.
    ``rewinds_state`` tells whether taking back a turn takes back its state too. ``routes`` and ``commands``
    are called when a server or the command line is built, so that neither is imported before.
    """

    name: str
    make_runtime: MakeAgentRuntime
    description: str = ""
    make_input: Callable[[UserMessage], TurnInput] = plain_input
    brings_model: bool = False
    uses: tuple[SettingName, ...] = ()
    notices: tuple[str, ...] = ()
    offline_notices: tuple[str, ...] = ()
    stage_labels: Mapping[str, str] = {}
    describe_context: Callable[[Any], Mapping[str, Sequence[str]]] | None = None
    warm_up: Callable[[], object] | None = None
    rewinds_state: Callable[[Any], bool] = always
    voice: VoiceAgent = VoiceAgent()
    routes: "Callable[[], Sequence[ControllerRouterHandler]] | None" = None
    commands: "Callable[[], typer.Typer] | None" = None
    studio: StudioPages | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            problem = f"An agent cannot be called {self.name!r}. Use letters, digits, '-' and '_', up to 64."
            raise InvalidArgument(problem=problem)

    def runtime_name(self, db: Database, settings: AgentSettings) -> str:
        """Return the name that its runtimes have; an agent that is nothing but a function has theirs.

        Raises:
            InvalidArgument: They have another name than the agent.
        """
        return self.open_runtime(db, settings).agent

    def open_runtime(self, db: Database, settings: AgentSettings) -> Runtime[Any, Any]:
        """Make a runtime that writes threads under the agent's name.

        Raises:
            InvalidArgument: ``make_runtime`` gives it another name.
        """
        runtime = self.make_runtime(db, settings)
        # An agent that is nothing but a function has the name of its runtime.
        if self.name not in (DEFAULT_AGENT, runtime.agent):
            raise InvalidArgument(
                problem=f"The agent {self.name!r} makes a runtime of the agent {runtime.agent!r}. Threads "
                f"keep the runtime's name, so both must be the same: write Runtime(db, agent={self.name!r})."
            )
        return runtime

    def notices_for(self, model: Model | None) -> tuple[str, ...]:
        """The notices for people, with those for an agent without a model if it has none."""
        is_offline = model is None and not self.brings_model
        return (*self.notices, *(self.offline_notices if is_offline else ()))
