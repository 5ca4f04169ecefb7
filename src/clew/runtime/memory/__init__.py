"""Memory that a person controls: learned by stated rules, seen, corrected, undone, forgotten."""

from clew.runtime.memory.learn.extraction import Remembered, Said, remember, said_by_user
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.learn.notice import noticing
from clew.runtime.memory.learn.promotion import Decision
from clew.runtime.memory.memory import Memory, memory_of, settled
from clew.runtime.memory.merge import Learned
from clew.runtime.memory.phrases.statements import stated
from clew.runtime.memory.recall.render import EpisodicEntry, SemanticEntry, prompt_part, rendered
from clew.runtime.memory.recall.retrieval import Limits, Recalled, Retriever, WorkingMemory
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
from clew.runtime.memory.vectors.embedders import LocalEmbedder, RemoteEmbedder, named_embedder
from clew.runtime.memory.vectors.embedding import HashingEmbedder
from clew.runtime.memory.vectors.jobs import embed_due

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
