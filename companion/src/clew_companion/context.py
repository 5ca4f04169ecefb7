"""The context of the companion's stages: that of every stage, and where the crisis log goes."""

import dataclasses
from dataclasses import dataclass
from typing import TypeAlias

from clew.runtime.context import Context, MemoryBackend, RecordBackend
from clew.runtime.model.protocol import Model

CrisisLogBackend: TypeAlias = RecordBackend
"""Takes the rows of the crisis log, in every mode."""


@dataclass(frozen=True, kw_only=True)
class _LeadingFields:
    """The first fields of the context, in the order of its specification.

    A dataclass takes the fields of its last base first, so this is what puts the third one in its place.
    """

    __slots__ = ()
    llm_client: Model | None
    memory_store: MemoryBackend
    crisis_log_backend: CrisisLogBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContext(Context, _LeadingFields):
    """The dependencies of the companion's stages, which no stage can change, and the turn that runs."""

    @classmethod
    def extend(cls, context: Context, records: RecordBackend) -> "WorkflowContext":
        """Make the companion's context of a plain one: its crisis log goes where a turn's records go."""
        names = [field.name for field in dataclasses.fields(Context)]
        return cls(**{name: getattr(context, name) for name in names}, crisis_log_backend=records)
