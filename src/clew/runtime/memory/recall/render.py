"""Memory in words. Entries stay structured until a prompt or a panel is built, and only there."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.runtime.memory.phrases.tables import own_words_predicates
from clew.runtime.memory.values import Arc, Candidate, Fact, MemoryEntry, Rule


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
    """An earlier episode in working memory; ``is_catch_up`` if it is the last one before a new thread."""

    summary: str
    primary_themes: tuple[str, ...] = ()
    is_catch_up: bool = False
    approach_used: str = ""
    approach_context: str = ""
    id: str = ""


class PassageTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a passage: who said it, its words or the part of them that matters, and its place."""

    speaker: str
    text: str
    place: int = 0


class PassageEntry(msgspec.Struct, frozen=True, kw_only=True, tag="passage"):
    """An earlier stretch of a conversation in working memory: its thread, its day, and its turns."""

    thread: str
    date: str
    turns: tuple[PassageTurn, ...]
    id: str = ""


WorkingEntry: TypeAlias = SemanticEntry | EpisodicEntry | PassageEntry

MAY_MENTION = "You may bring these up where it helps."
ONLY_IF_ASKED = "Let these guide your tone. Do not bring them up unless the user asks about them."


def working_entry(entry: Fact | Arc, *, is_catch_up: bool = False) -> WorkingEntry:
    """A stored entry as an entry of working memory."""
    if isinstance(entry, Arc):
        return EpisodicEntry(
            summary=entry.summary,
            primary_themes=entry.themes,
            is_catch_up=is_catch_up,
            approach_used=entry.approach,
            approach_context=entry.approach_context,
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
    if isinstance(entry, PassageEntry):
        turns = " / ".join(f"{turn.speaker}: {turn.text}" for turn in entry.turns)
        return f"Said on {entry.date}, in {entry.thread}: {turns}"
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
    """The part of a prompt about the user: rules always; entries with leave to mention them, or without."""
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


# To the person whom it is about.

REQUEST_PREDICATE, BIRTHDAY_PREDICATE = "ASKED_TO_REMEMBER", "HAS_BIRTHDAY_ON"
SECOND_PERSON = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go"}
TIME_PREPOSITION = re.compile(r"(?:in|on|at)\b", re.IGNORECASE)
USER_MENTION = re.compile(r"\b[Tt]he user(?P<s>'s)?\b")
"""The person in the words of a rule, who reads it themselves."""


def sentence_of(entry: MemoryEntry) -> str:
    """One sentence about an entry, addressed to the person whom it is about."""
    if isinstance(entry, Rule):
        return USER_MENTION.sub(
            lambda match: f"{'Y' if match[0][0] == 'T' else 'y'}ou{'r' if match['s'] else ''}", entry.text
        )
    if isinstance(entry, Arc):
        return f"Earlier session: {entry.summary}"
    if entry.predicate in own_words_predicates() and entry.quote:
        return f"You said: “{entry.quote}”"
    if entry.predicate == BIRTHDAY_PREDICATE:
        sentence = f"Your birthday is {'' if TIME_PREPOSITION.match(entry.object) else 'on '}{entry.object}."
    elif entry.predicate == REQUEST_PREDICATE:
        sentence = f"You asked me to remember: {entry.object}."
    elif entry.subject.lower() == "user":
        sentence = f"You {_in_second_person(entry)} {entry.object}."
    else:
        sentence = f"Your {entry.subject} {entry.predicate_text} {entry.object}."
    return f"{sentence} You said: “{entry.quote}”" if entry.quote else sentence


def _in_second_person(fact: Fact) -> str:
    """The predicate of a fact as it is said to the person: ``lives in`` is ``live in``."""
    first, *rest = fact.predicate.replace("_", " ").lower().split()
    verb = SECOND_PERSON.get(first) or (
        f"{first[:-3]}y" if first.endswith("ies") else first.removesuffix("s")
    )
    negation = [verb, "not"] if verb in ("are", "were") else ["do not", verb]
    return " ".join([*(negation if fact.negated else [verb]), *rest])


def entry_of(candidate: Candidate) -> Fact | Rule:
    """A candidate in the shape that it will have once it is kept."""
    if candidate.kind == "rule":
        return Rule(id="", about=candidate.subject, text=candidate.object)
    return Fact(
        id="",
        category=candidate.category,
        subject=candidate.subject,
        predicate=candidate.predicate,
        object=candidate.object,
        quote=candidate.quote,
        negated=candidate.negated,
    )
