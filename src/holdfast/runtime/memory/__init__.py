"""Memory that a person controls: learned by stated rules, seen, corrected, undone, forgotten."""

from holdfast.runtime.memory.embedders import LocalEmbedder, RemoteEmbedder, named_embedder
from holdfast.runtime.memory.embedding import HashingEmbedder
from holdfast.runtime.memory.embedding_jobs import embed_due
from holdfast.runtime.memory.extracting import Said, said_by_user
from holdfast.runtime.memory.finalizing import Finalizer
from holdfast.runtime.memory.keeping import Memory, memory_of
from holdfast.runtime.memory.merging import Learned
from holdfast.runtime.memory.noticing import noticing
from holdfast.runtime.memory.promoting import Decision
from holdfast.runtime.memory.remembering import Remembered, remember
from holdfast.runtime.memory.rendering import EpisodicEntry, SemanticEntry, prompt_part, rendered
from holdfast.runtime.memory.retrieving import Limits, Recalled, Retriever, WorkingMemory
from holdfast.runtime.memory.settling import settled
from holdfast.runtime.memory.stating import stated
from holdfast.runtime.memory.values import (
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
