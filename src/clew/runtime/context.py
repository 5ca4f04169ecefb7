"""The context of a stage: the dependencies of the runtime, and the turn it is part of."""

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from clew.core.encoding import JSON
from clew.core.values import Record, RecordQuery
from clew.runtime.model.protocol import Model

if TYPE_CHECKING:
    from clew.runtime.turn.turn import Turn


class MemoryMode(enum.Enum):
    """The place where a runtime keeps what it learns."""

    INCOGNITO = "incognito"
    LOCAL = "local"
    SYNCED = "synced"


class RecordBackend(Protocol):
    """Takes the records of turns, in every mode."""

    def put(self, record: Record, *, expect: int | None = None) -> Awaitable[Record]:
        """Write a record."""
        ...


class MemoryBackend(RecordBackend, Protocol):
    """Keeps facts, arcs and rules."""

    def get(self, kind: str, id: str) -> Awaitable[Record]:
        """A record."""
        ...

    def find(self, query: RecordQuery) -> Awaitable[Sequence[Record]]:
        """The records that a query finds."""
        ...


class EmbeddingProvider(Protocol):
    """A model that turns texts into vectors. Vectors of different names are never compared."""

    @property
    def name(self) -> str:
        """The name of the model and its version."""
        ...

    def embed(self, texts: Sequence[str]) -> Awaitable[Sequence[Sequence[float]]]:
        """One vector for each text.

        Raises:
            ModelFailed: There are none.
        """
        ...


class SessionMemoryBuffer(Protocol):
    """The candidates noticed in a session, held until it ends."""

    def add(self, candidate: JSON) -> None:
        """Keep a candidate for the end of the session."""
        ...

    def candidates(self) -> Sequence[JSON]:
        """The candidates so far."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The dependencies of every stage, which no stage can change, and the turn that runs.

    ``llm_client`` classifies and decides; ``response_llm`` words replies, and is the same model unless
    another is given for it.
    """

    llm_client: Model | None
    memory_store: MemoryBackend
    memory_mode: MemoryMode
    response_llm: Model | None = None
    embedding_provider: EmbeddingProvider | None = None
    session_memory_buffer: SessionMemoryBuffer | None = None
    turn: "Turn"

    def __post_init__(self) -> None:
        if self.response_llm is None:
            object.__setattr__(self, "response_llm", self.llm_client)

    @property
    def control_llm(self) -> Model | None:
        """The model that classifies and decides."""
        return self.llm_client


MakeContext: TypeAlias = Callable[[Context, RecordBackend], Context]
"""Makes the context of an application's stages of the plain one, and of what takes the records of turns."""


def plain_context(context: Context, records: RecordBackend) -> Context:
    """Return the context as it is."""
    return context
