"""The entries of a memory: facts, arcs of episodes, rules of style; and candidates, not stored yet."""

from typing import Literal, TypeAlias

import msgspec

from clew.core.encoding import JSON, as_json
from clew.core.values import Item

FACTS, PAST, ARCS, ARCHIVED = "facts", "past", "arcs", "archived"
"""The logs of a memory thread: one item for each fact, past fact, ended episode and archived rule."""

LONGEST_QUOTE = 280
MOST_THEMES = 3

EntryKind: TypeAlias = Literal["fact", "arc", "rule"]
LearningMethod: TypeAlias = Literal["stated", "model", "user", "exercise"]
"""The way something was learned: said plainly, found by a model, by a correction, or by an action."""

EndKind: TypeAlias = Literal["superseded", "corrected", "ended"]
"""The way a fact ended: another took its place, it was put right, or it just holds no longer."""


class MemorySource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The turn that something was learned from."""

    thread: str
    run: str | None = None
    item: str | None = None
    version: int = 0
    place: int = 0
    time: int = 0


class FactPattern(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of a subject and a predicate: those with one object, or without it, all of them.

    ``words`` are others by which to tell them, as "the cello" tells a fact of playing it in an orchestra. An
    empty subject or predicate is any.
    """

    subject: str = "User"
    predicate: str = ""
    object: str = ""
    negated: bool = False
    words: str = ""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something noticed in one turn: a fact, or a rule of style (then ``object`` is its wording).

    ``single`` says that a subject can have one such object only, so that another replaces it. ``plain`` says
    that it was stated outright, and ``fleeting`` that it was meant for the moment.

    ``ends`` says that what it names holds no longer ("I'm not allergic to nuts any more"): the fact ends, and
    none takes its place. ``supersedes`` names other facts that end since this one holds ("I eat meat again").
    ``began`` is the time since when it holds, if it was said; else that is the time of the statement.
    """

    kind: Literal["fact", "rule"] = "fact"
    category: str = "context"
    subject: str = "User"
    predicate: str = "MENTIONED"
    object: str = ""
    negated: bool = False
    single: bool = False
    quote: str = ""
    confidence: float = 0.5
    how: LearningMethod = "stated"
    plain: bool = False
    fleeting: bool = False
    ends: bool = False
    supersedes: tuple[FactPattern, ...] = ()
    began: int = 0
    turn: int = 0
    source: MemorySource | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fact, with the words it comes from and their turn. Times are milliseconds.

    It holds from ``began``, as far as is known, until ``ended``, which is 0 while it holds. ``end`` says how
    a past fact ended, and ``replaced_by`` which fact took its place. ``replaces`` has the ids of past facts.
    """

    id: str
    category: str
    subject: str
    predicate: str
    object: str
    quote: str = ""
    confidence: float = 0.5
    negated: bool = False
    single: bool = False
    how: LearningMethod = "stated"
    source: MemorySource | None = None
    learned: int = 0
    last_referenced: int = 0
    times: int = 1
    began: int = 0
    ended: int = 0
    end: EndKind | None = None
    replaces: tuple[str, ...] = ()
    replaced_by: str = ""

    @property
    def predicate_text(self) -> str:
        """Its predicate in words: ``is called``, ``not likes``."""
        return f"{'not ' if self.negated else ''}{self.predicate.replace('_', ' ').lower()}"

    @property
    def text(self) -> str:
        """The text that a search finds it by."""
        return f"{self.category}: {self.subject} {self.predicate_text} {self.object}. {self.quote}".strip()


class Arc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One ended episode: what it was about, how it opened and closed, and what was left open.

    ``approach`` is the approach that was taken, and ``approach_context`` what it was taken for.
    """

    id: str
    episode: str
    summary: str
    themes: tuple[str, ...] = ()
    mood_opened: str = ""
    mood_closed: str = ""
    open_loops: tuple[str, ...] = ()
    approach: str = ""
    approach_context: str = ""
    source: MemorySource | None = None
    began: int = 0
    ended: int = 0

    @property
    def text(self) -> str:
        """The text that a search finds it by, beside its summary."""
        return " ".join([*self.themes, *self.open_loops])


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A directive about style that shapes every reply, and what was said for it."""

    id: str
    about: str
    text: str
    evidence: tuple[str, ...] = ()
    how: LearningMethod = "stated"
    source: MemorySource | None = None
    learned: int = 0
    last_referenced: int = 0
    times: int = 1


MemoryEntry: TypeAlias = Fact | Arc | Rule


class ForgetTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of a pending action: an id, and the state of it that the user was shown."""

    kind: EntryKind
    id: str
    seen: int
    text: str = ""


class PendingForget(msgspec.Struct, frozen=True, kw_only=True):
    """A destructive action that waits for the user's next word."""

    action: Literal["forget"]
    targets: tuple[ForgetTarget, ...]
    time: int = 0


class MemoryProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a memory: the rules, oldest first, the recall toggle, and what waits for a word."""

    version: int = 0
    rules: tuple[Rule, ...] = ()
    recall: bool = True
    pending: PendingForget | None = None


class MemoryListing(msgspec.Struct, frozen=True, kw_only=True):
    """Some facts or arcs, newest first, and where the next page begins if there is one."""

    facts: tuple[Fact, ...] = ()
    arcs: tuple[Arc, ...] = ()
    next: int | None = None


class ForgetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The ids that were forgotten, and those that were not since they changed after they were shown."""

    version: int
    ids: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def item_of(entry: MemoryEntry) -> Item:
    """The item that an entry is kept as. ``text`` is what a search reads of it.

    A past fact has none, since a search finds what holds. Its item has the id of the fact that it was, so
    that the fact cannot be erased by its id without its past.
    """
    if isinstance(entry, Fact) and entry.ended:
        return Item(body=as_json(entry), kind=PAST, id=slot_id(entry.id), log=PAST)
    log = {Fact: FACTS, Arc: ARCS, Rule: ARCHIVED}[type(entry)]
    body: JSON = {**as_json(entry), "text": entry.text}
    return Item(body=body, kind=log.rstrip("s"), id=entry.id, log=log)


def slot_id(id: str) -> str:
    """The id that a fact has while it holds; that of a past one is this with a suffix."""
    return id.partition(".")[0]


def fact_of(item: Item) -> Fact:
    """The fact behind an item. One that was stored before facts had times holds since it was said."""
    fact = msgspec.convert(item.body, Fact)
    if fact.began:
        return fact
    time = fact.source.time if fact.source is not None else 0
    return msgspec.structs.replace(fact, began=time or fact.learned)


def arc_of(item: Item) -> Arc:
    """The arc behind an item."""
    return msgspec.convert(item.body, Arc)


def rule_of(item: Item) -> Rule:
    """The archived rule behind an item."""
    return msgspec.convert(item.body, Rule)
