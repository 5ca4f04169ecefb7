"""Candidates from what the user said: by a model where there is one, by plain statements in any case."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.errors import DeadlineExceeded, ModelFailed
from clew.core.messages.projection import plain_messages
from clew.core.values import Item
from clew.runtime.memory.learn.promotion import Decision, decided, is_verbatim, promoted
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.merge import Learned, slot
from clew.runtime.memory.phrases.statements import is_fleeting, stated
from clew.runtime.memory.phrases.tables import SINGLE
from clew.runtime.memory.values import QUOTE, Candidate, Source
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Request

INSTRUCTIONS = """\
List what these messages of one person tell about them that is worth knowing in a later conversation:
people, places, health, likes, worries, goals, and how they want to be answered. Take nothing from your
own knowledge and guess nothing. For each give the number of the message and a quote that stands in it
word for word, at most 280 letters. Leave out what is meant for the moment only, and whatever the person
asked not to remember. A fact has a category, a subject ("User" for the person), a predicate in capitals
such as IS_CALLED, LIVES_IN, LIKES, WORRIES_ABOUT, WANTS, USES, EXPERIENCED, and an object. A rule is
one short sentence that tells how to answer, and what it is about."""

MOST = 200
"""So many facts, and so many rules, are taken from a model. Each is compared with every other."""


class NoticedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as a model gives it."""

    message: int
    quote: str
    category: str
    subject: str
    predicate: str
    object: str
    negated: bool = False
    only_one: bool = False
    confidence: float = 0.5


class NoticedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of style as a model gives it."""

    message: int
    quote: str
    about: str
    rule: str
    confidence: float = 0.5


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """What a model noticed in some messages."""

    facts: list[NoticedFact] = []
    rules: list[NoticedRule] = []


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of the user, and where it stands."""

    text: str
    source: Source


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, who found them, and what went wrong if a model was asked in vain."""

    candidates: tuple[Candidate, ...]
    by: Literal["model", "statements"]
    unquoted: int = 0
    problem: str | None = None


Fill: TypeAlias = Callable[[Request, type[Noticed]], Awaitable[Noticed]]
"""Asks a model for a typed answer, as ``ctx.turn.fill`` does with the model given."""


@check_arguments
def said_by_user(items: Iterable[Item], thread: str) -> list[Said]:
    """What the user said, in order, with where each stands. Items may be of any format."""
    found = []
    for item in items:
        text = "\n".join(message.text for message in plain_messages([item]) if message.role == "user")
        if text:
            source = Source(
                thread=thread,
                run=item.run,
                item=item.id,
                version=item.version,
                place=item.place,
                time=item.time,
            )
            found.append(Said(text=text, source=source))
    return found


async def extracted(turns: Sequence[Said], fill: Fill | None = None) -> Extracted:
    """What some turns of the user tell. Without a model, or if it fails, what they state plainly."""
    plainly = [
        candidate
        for number, said in enumerate(turns)
        for candidate in stated(said.text, turn=number, source=said.source)
    ]
    if fill is None or not turns:
        return Extracted(candidates=tuple(plainly), by="statements")
    try:
        noticed = await fill(_request(turns), Noticed)
    except (ModelFailed, DeadlineExceeded) as failure:
        return Extracted(candidates=tuple(plainly), by="statements", problem=str(failure))
    made = [*map(_of_fact, noticed.facts[:MOST]), *map(_of_rule, noticed.rules[:MOST])]
    quoted = [
        msgspec.structs.replace(
            candidate,
            source=turns[candidate.turn].source,
            fleeting=is_fleeting(candidate.quote) or is_fleeting(turns[candidate.turn].text),
        )
        for candidate in made
        if _is_quoted(candidate, turns)
    ]
    return Extracted(candidates=_joined(plainly, quoted), by="model", unquoted=len(made) - len(quoted))


def _request(turns: Sequence[Said]) -> Request:
    lines = [f"[{number}] {said.text}" for number, said in enumerate(turns, start=1)]
    return Request(messages=[Message(role="user", content="\n\n".join(lines))], instructions=INSTRUCTIONS)


def _of_fact(noticed: NoticedFact) -> Candidate:
    predicate = noticed.predicate.upper().replace(" ", "_")
    return Candidate(
        category=noticed.category,
        subject=noticed.subject,
        predicate=predicate,
        object=noticed.object,
        negated=noticed.negated,
        single=noticed.only_one or predicate in SINGLE,
        quote=noticed.quote[: QUOTE + 1],
        confidence=min(max(noticed.confidence, 0.0), 1.0),
        how="model",
        turn=noticed.message - 1,
    )


def _of_rule(noticed: NoticedRule) -> Candidate:
    return Candidate(
        kind="rule",
        category="preference",
        subject=noticed.about,
        predicate="WANTS_REPLIES",
        object=noticed.rule,
        quote=noticed.quote[: QUOTE + 1],
        confidence=min(max(noticed.confidence, 0.0), 1.0),
        how="model",
        turn=noticed.message - 1,
    )


def _is_quoted(candidate: Candidate, turns: Sequence[Said]) -> bool:
    is_turn = 0 <= candidate.turn < len(turns)
    return is_turn and bool(candidate.object) and is_verbatim(candidate.quote, turns[candidate.turn].text)


def _joined(plainly: Sequence[Candidate], noticed: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Both together; what was stated plainly is not taken a second time from the same turn."""
    known = {(entry.kind, entry.turn, slot(entry)) for entry in plainly}
    rules = {(entry.turn, entry.subject.lower()) for entry in plainly if entry.kind == "rule"}
    fresh = [
        entry
        for entry in noticed
        if (entry.kind, entry.turn, slot(entry)) not in known
        and not (entry.kind == "rule" and (entry.turn, entry.subject.lower()) in rules)
    ]
    return (*plainly, *fresh)


EARLIER = 100
"""How many arcs are read to see whether something was said in an earlier episode."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about each candidate, what became of those kept, and who noticed them."""

    decisions: tuple[Decision, ...]
    learned: Learned
    by: Literal["model", "statements"]
    problem: str | None = None


@check_arguments
async def remember(
    memory: Memory,
    turns: Sequence[Said],
    *,
    fill: Fill | None = None,
    held: Iterable[Candidate] = (),
    run: str | None = None,
    key: str | None = None,
) -> Remembered:
    """Keep what some turns of the user tell, by the rules of promotion, in one change of the memory.

    ``held`` is what was noticed in them before. With a ``key``, as the episode's id, it happens once.
    """
    noticed: Extracted = await extracted(turns, fill)
    decisions = await weighed(memory, turns, [*held, *noticed.candidates])
    learned = await memory.learn(promoted(decisions), run=run, key=key)
    return Remembered(decisions=tuple(decisions), learned=learned, by=noticed.by, problem=noticed.problem)


async def weighed(memory: Memory, turns: Sequence[Said], candidates: Iterable[Candidate]) -> list[Decision]:
    """What becomes of candidates, given what the user said in these turns and in earlier episodes."""
    earlier = [f"{arc.text} {arc.summary}" for arc in (await memory.page("arcs", limit=EARLIER)).arcs]
    return decided(_once(candidates), [said.text for said in turns], earlier)


def _once(candidates: Iterable[Candidate]) -> list[Candidate]:
    """What was noticed twice in one turn counts once."""
    named = {
        (each.kind, each.turn, each.subject, each.predicate, each.object, each.negated): each
        for each in candidates
    }
    return list(named.values())
