"""Memory that a person controls: learned by stated rules, seen, corrected, undone, forgotten."""

from clew.runtime.memory.embedders import LocalEmbedder, RemoteEmbedder, named_embedder
from clew.runtime.memory.embedding import HashingEmbedder
from clew.runtime.memory.embedding_jobs import embed_due
from clew.runtime.memory.extracting import Said, said_by_user
from clew.runtime.memory.finalizing import Finalizer
from clew.runtime.memory.keeping import Memory, memory_of
from clew.runtime.memory.merging import Learned
from clew.runtime.memory.noticing import noticing
from clew.runtime.memory.promoting import Decision
from clew.runtime.memory.remembering import Remembered, remember
from clew.runtime.memory.rendering import EpisodicEntry, SemanticEntry, prompt_part, rendered
from clew.runtime.memory.retrieving import Limits, Recalled, Retriever, WorkingMemory
from clew.runtime.memory.settling import settled
from clew.runtime.memory.stating import stated
from clew.runtime.memory.values import (
    Arc,
    Candidate,
    Fact,
    Forgotten,
    Listed,
    Pending,
    Profile,
    Rule,
    Source,
    Target,
)

__all__ = [
    "Arc",
    "Candidate",
    "Decision",
    "EpisodicEntry",
    "Fact",
    "Finalizer",
    "Forgotten",
    "HashingEmbedder",
    "Learned",
    "Limits",
    "Listed",
    "LocalEmbedder",
    "Memory",
    "Pending",
    "Profile",
    "Recalled",
    "Remembered",
    "RemoteEmbedder",
    "Retriever",
    "Rule",
    "Said",
    "SemanticEntry",
    "Source",
    "Target",
    "WorkingMemory",
    "embed_due",
    "memory_of",
    "named_embedder",
    "noticing",
    "prompt_part",
    "remember",
    "rendered",
    "said_by_user",
    "settled",
    "stated",
]
