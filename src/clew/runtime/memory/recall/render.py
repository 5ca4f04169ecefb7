"""Working memory in words. Entries stay structured until a prompt or a panel is built, and only there."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.runtime.memory.values import Arc, Fact, Rule


class SemanticEntry(msgspec.Struct, frozen=True, kw_only=True, tag="semantic"):
    """A fact in working memory."""

    category: str
    subject: str
    predicate: str
    object: str
    evidence_quote: str = ""
    negated: bool = False
    id: str = ""


class EpisodicEntry(msgspec.Struct, frozen=True, kw_only=True, tag="episodic"):
    """An earlier episode in working memory; ``is_catch_up`` if it is the last one, told as a new begins."""

    summary: str
    primary_themes: tuple[str, ...] = ()
    is_catch_up: bool = False
    approach_used: str = ""
    approach_context: str = ""
    id: str = ""


WorkingEntry: TypeAlias = SemanticEntry | EpisodicEntry

MAY_MENTION = "You may bring these up where it helps."
ONLY_IF_ASKED = "Let these guide your tone. Do not bring them up unless the user asks about them."


def working_entry(entry: Fact | Arc, *, is_catch_up: bool = False) -> WorkingEntry:
    """What is known, as an entry of working memory."""
    if isinstance(entry, Arc):
        return EpisodicEntry(
            summary=entry.summary,
            primary_themes=entry.themes,
            is_catch_up=is_catch_up,
            approach_used=entry.approach,
            id=entry.id,
        )
    return SemanticEntry(
        category=entry.category,
        subject=entry.subject,
        predicate=entry.predicate,
        object=entry.object,
        evidence_quote=entry.quote,
        negated=entry.negated,
        id=entry.id,
    )


@check_arguments
def render_entry(entry: WorkingEntry | str) -> str:
    """One line for a prompt or a panel. A plain string, as old checkpoints hold it, is that line."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, EpisodicEntry):
        themes = f" ({', '.join(entry.primary_themes)})" if entry.primary_themes else ""
        which = "Last session" if entry.is_catch_up else "Earlier session"
        return f"{which}{themes}: {_sentence(entry.summary)}"
    predicate = f"NOT {entry.predicate}" if entry.negated else entry.predicate
    quote = f' — "{entry.evidence_quote}"' if entry.evidence_quote else ""
    return f"[{entry.category}] {entry.subject} {predicate} {entry.object}{quote}"


def render_entries(entries: Iterable[WorkingEntry | str]) -> list[str]:
    """A line for each entry, in order."""
    return [render_entry(entry) for entry in entries]


@check_arguments
def prompt_part(entries: Sequence[WorkingEntry | str], rules: Sequence[Rule], *, recall: bool) -> str:
    """What a prompt says of the user: rules always; what is recalled with leave to mention it, or without."""
    parts = []
    if rules:
        parts.append(
            "\n".join(["How this user wants to be answered:", *(f"- {rule.text}" for rule in rules)])
        )
    if entries:
        permission = MAY_MENTION if recall else ONLY_IF_ASKED
        parts.append(
            "\n".join([f"What is known. {permission}", *(f"- {line}" for line in render_entries(entries))])
        )
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."
