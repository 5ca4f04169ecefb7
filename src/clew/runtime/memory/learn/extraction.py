"""Candidates from what the user said: by a model where there is one, by plain statements in any case."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.errors import DeadlineExceeded, ModelFailed
from clew.core.messages.projection import plain_messages
from clew.core.values import Item
from clew.runtime.memory.learn.promotion import (
    PLAIN_RULES,
    PromotionDecision,
    PromotionRules,
    candidates_to_keep,
    is_verbatim,
    promotion_decisions,
)
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.merge import LearnResult, slot
from clew.runtime.memory.phrases.statements import is_fleeting, statements_in
from clew.runtime.memory.phrases.tables import single_predicates
from clew.runtime.memory.values import LONGEST_QUOTE, Candidate, MemorySource
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest

INSTRUCTIONS = """\
List what these messages of one person tell about them that is worth knowing in a later conversation. Take
nothing from your own knowledge and guess nothing. Leave out what is meant for the moment only, what others
are said to say, what is supposed, wished, joked or long past, and whatever the person asked not to remember.

For each fact give:
- kind: one of name, age, partner, child, family, pet, home, work, medication, health, diet, care, hobby,
  language, belief, schedule, like, worry, goal, experience, other
- message: the number of the message
- quote: the sentence it stands in, copied word for word from that message, at most 280 letters
- category, subject ("User" for the person, or who of theirs it is about: sister, dog), predicate in
  capitals such as IS_CALLED, IS_AGED, LIVES_IN, WORKS_AS, TAKES, IS_ALLERGIC_TO, EATS, SEES, SPEAKS,
  BELIEVES, LIKES, WORRIES_ABOUT, WANTS, USES, EXPERIENCED, and object: the thing alone, in few words
- negated: true if it is denied; ends: true if it held and holds no longer ("I stopped taking it")
- only_one: true if there can be only one such object at a time

A rule is one short sentence that tells how to answer, and what it is about, with its message and quote."""

CATEGORIES = {
    **dict.fromkeys(("partner", "child", "family", "pet"), "relationship"),
    **dict.fromkeys(("medication", "health", "diet", "care"), "health"),
    **dict.fromkeys(("hobby", "like"), "preference"),
    "belief": "belief",
    "schedule": "routine",
    "worry": "concern",
    "goal": "goal",
}
"""The categories of the kinds of facts that a model is asked for; of others it is ``context``."""

MOST_FINDINGS = 200
"""The facts, and the rules, that are taken from a model at most: each is compared with every other."""


class NoticedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as a model gives it."""

    message: int
    quote: str
    category: str = ""
    subject: str
    predicate: str
    object: str
    kind: str = "other"
    negated: bool = False
    ends: bool = False
    only_one: bool = False
    confidence: float = 0.5


class NoticedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of style as a model gives it."""

    message: int
    quote: str
    about: str
    rule: str
    confidence: float = 0.5


class ModelFindings(msgspec.Struct, frozen=True, kw_only=True):
    """Facts and rules that a model noticed in some messages."""

    facts: list[NoticedFact] = []
    rules: list[NoticedRule] = []


class UserTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of the user, and its source."""

    text: str
    source: MemorySource


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, who found them, and what went wrong if a model was asked in vain."""

    candidates: tuple[Candidate, ...]
    by: Literal["model", "statements"]
    rejected_count: int = 0
    problem: str | None = None


FillFindings: TypeAlias = Callable[[ModelRequest, type[ModelFindings]], Awaitable[ModelFindings]]
"""Asks a model for a typed answer, as ``ctx.turn.fill`` does with the model given."""


@check_arguments
def user_turns(items: Iterable[Item], thread: str) -> list[UserTurn]:
    """The turns of the user among some items, in order, each with its source. Items may be of any format."""
    turns = []
    for item in items:
        text = "\n".join(message.text for message in plain_messages([item]) if message.role == "user")
        if text:
            source = MemorySource(
                thread=thread,
                run=item.run,
                item=item.id,
                version=item.version,
                place=item.place,
                time=item.time,
            )
            turns.append(UserTurn(text=text, source=source))
    return turns


async def extract_candidates(turns: Sequence[UserTurn], fill: FillFindings | None = None) -> Extraction:
    """Extract candidates from turns of the user by a model; if there is none, or it fails, by patterns."""
    statements = [
        candidate
        for number, turn in enumerate(turns)
        for candidate in statements_in(turn.text, turn=number, source=turn.source)
    ]
    if fill is None or not turns:
        return Extraction(candidates=tuple(statements), by="statements")
    try:
        findings = await fill(_model_request(turns), ModelFindings)
    except (ModelFailed, DeadlineExceeded) as failure:
        return Extraction(candidates=tuple(statements), by="statements", problem=str(failure))
    candidates = [
        *map(_candidate_of_fact, findings.facts[:MOST_FINDINGS]),
        *map(_candidate_of_rule, findings.rules[:MOST_FINDINGS]),
    ]
    verbatim = [
        msgspec.structs.replace(
            candidate,
            source=turns[candidate.turn].source,
            fleeting=is_fleeting(candidate.quote) or is_fleeting(turns[candidate.turn].text),
        )
        for candidate in candidates
        if _has_verbatim_quote(candidate, turns)
    ]
    return Extraction(
        candidates=_join_candidates(statements, verbatim),
        by="model",
        rejected_count=len(candidates) - len(verbatim),
    )


def _model_request(turns: Sequence[UserTurn]) -> ModelRequest:
    lines = [f"[{number}] {turn.text}" for number, turn in enumerate(turns, start=1)]
    return ModelRequest(
        messages=[Message(role="user", content="\n\n".join(lines))], instructions=INSTRUCTIONS
    )


def _candidate_of_fact(finding: NoticedFact) -> Candidate:
    predicate = finding.predicate.upper().replace(" ", "_")
    return Candidate(
        category=finding.category or CATEGORIES.get(finding.kind, "context"),
        subject=finding.subject,
        predicate=predicate,
        object=finding.object,
        negated=finding.negated and not finding.ends,
        ends=finding.ends,
        single=finding.only_one or predicate in single_predicates(),
        quote=finding.quote[: LONGEST_QUOTE + 1],
        confidence=min(max(finding.confidence, 0.0), 1.0),
        how="model",
        turn=finding.message - 1,
    )


def _candidate_of_rule(finding: NoticedRule) -> Candidate:
    return Candidate(
        kind="rule",
        category="preference",
        subject=finding.about,
        predicate="WANTS_REPLIES",
        object=finding.rule,
        quote=finding.quote[: LONGEST_QUOTE + 1],
        confidence=min(max(finding.confidence, 0.0), 1.0),
        how="model",
        turn=finding.message - 1,
    )


def _has_verbatim_quote(candidate: Candidate, turns: Sequence[UserTurn]) -> bool:
    is_turn = 0 <= candidate.turn < len(turns)
    return is_turn and bool(candidate.object) and is_verbatim(candidate.quote, turns[candidate.turn].text)


def _join_candidates(statements: Sequence[Candidate], findings: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Both together; what was stated plainly is not taken a second time from the same turn."""
    statement_keys = {(entry.kind, entry.turn, slot(entry)) for entry in statements}
    rule_keys = {(entry.turn, entry.subject.lower()) for entry in statements if entry.kind == "rule"}
    fresh = [
        entry
        for entry in findings
        if (entry.kind, entry.turn, slot(entry)) not in statement_keys
        and not (entry.kind == "rule" and (entry.turn, entry.subject.lower()) in rule_keys)
    ]
    return (*statements, *fresh)


EARLIER_ARCS = 100
"""How many arcs are read to see whether something was said in an earlier episode."""


class RememberResult(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on each candidate, the outcome of those that were stored, and who noticed them.

    ``rejected_count`` is the number of findings of the model whose quote is not in the message they name.
    """

    decisions: tuple[PromotionDecision, ...]
    result: LearnResult
    by: Literal["model", "statements"]
    rejected_count: int = 0
    problem: str | None = None


@check_arguments
async def remember(
    memory: Memory,
    turns: Sequence[UserTurn],
    *,
    fill: FillFindings | None = None,
    earlier: Iterable[Candidate] = (),
    run: str | None = None,
    key: str | None = None,
    rules: PromotionRules = PLAIN_RULES,
) -> RememberResult:
    """Keep what some turns of the user tell, by the rules of promotion, in one change of the memory.

    ``earlier`` is what was noticed in them before. With a ``key``, as the episode's id, it happens once.
    ``rules`` are those that an application adds.
    """
    extraction: Extraction = await extract_candidates(turns, fill)
    decisions = await decide_promotions(memory, turns, [*earlier, *extraction.candidates], rules)
    result = await memory.learn(candidates_to_keep(decisions), run=run, key=key)
    return RememberResult(
        decisions=tuple(decisions),
        result=result,
        by=extraction.by,
        rejected_count=extraction.rejected_count,
        problem=extraction.problem,
    )


async def decide_promotions(
    memory: Memory,
    turns: Sequence[UserTurn],
    candidates: Iterable[Candidate],
    rules: PromotionRules = PLAIN_RULES,
) -> list[PromotionDecision]:
    """Decide what becomes of candidates, given what the user said in these turns and in earlier episodes."""
    earlier = [f"{arc.text} {arc.summary}" for arc in (await memory.page("arcs", limit=EARLIER_ARCS)).arcs]
    texts = [turn.text for turn in turns]
    return promotion_decisions(_distinct_candidates(candidates), texts, earlier, rules)


def _distinct_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates without repetitions: one noticed twice in a turn counts once."""
    candidates_by_key = {
        (each.kind, each.turn, each.subject, each.predicate, each.object, each.negated, each.ends): each
        for each in candidates
    }
    return list(candidates_by_key.values())
