"""Memory that a person controls: learned by stated rules, seen, corrected, undone, forgotten."""

from clew.runtime.memory.audit import MemoryAudit, MemoryCounts, MemoryFinding, audit_memory
from clew.runtime.memory.learn.extraction import RememberResult, UserTurn, remember, user_turns
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.learn.notice import notice
from clew.runtime.memory.learn.promotion import PromotionDecision, PromotionRules, RuleMatch
from clew.runtime.memory.memory import Memory, answer_pending, memory_of
from clew.runtime.memory.merge import LearnResult
from clew.runtime.memory.past import FactLineage
from clew.runtime.memory.phrases.statements import statements_in
from clew.runtime.memory.recall.passages import CurrentWindow
from clew.runtime.memory.recall.render import (
    EpisodicEntry,
    PassageEntry,
    PassageTurn,
    SemanticEntry,
    prompt_part,
    render_entry,
)
from clew.runtime.memory.recall.retrieval import RecallLimits, RecallResult, Retriever, WorkingMemory
from clew.runtime.memory.undo import UndoPreview
from clew.runtime.memory.values import (
    Arc,
    Candidate,
    Fact,
    FactPattern,
    ForgetResult,
    ForgetTarget,
    MemoryListing,
    MemoryProfile,
    MemorySource,
    PendingForget,
    Rule,
)
from clew.runtime.memory.vectors.embedders import LocalEmbedder, RemoteEmbedder, open_embedder
from clew.runtime.memory.vectors.jobs import run_embedding_jobs

__all__ = [
    "Arc",
    "Candidate",
    "CurrentWindow",
    "EpisodicEntry",
    "Fact",
    "FactLineage",
    "FactPattern",
    "Finalizer",
    "ForgetResult",
    "ForgetTarget",
    "LearnResult",
    "LocalEmbedder",
    "Memory",
    "MemoryAudit",
    "MemoryCounts",
    "MemoryFinding",
    "MemoryListing",
    "MemoryProfile",
    "MemorySource",
    "PassageEntry",
    "PassageTurn",
    "PendingForget",
    "PromotionDecision",
    "PromotionRules",
    "RecallLimits",
    "RecallResult",
    "RememberResult",
    "RemoteEmbedder",
    "Retriever",
    "Rule",
    "RuleMatch",
    "SemanticEntry",
    "UndoPreview",
    "UserTurn",
    "WorkingMemory",
    "answer_pending",
    "audit_memory",
    "memory_of",
    "notice",
    "open_embedder",
    "prompt_part",
    "remember",
    "render_entry",
    "run_embedding_jobs",
    "statements_in",
    "user_turns",
]
