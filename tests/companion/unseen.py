"""How the crisis gate does on the part that nobody who works on it has read: counts, and no message.

``python -m tests.companion.unseen`` prints them. The part shows something only while it is measured seldom
and its messages are not read: see its README.
"""

import functools
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from clew_companion.crisis.floor import FloorVerdict
from clew_companion.crisis.message import judge
from clew_companion.values import CrisisLevel
from tests.companion.labelled import Conversation, LabelledMessage, conversations, messages, user_turns

PART = "held_out_5"
EXPLICIT, DENIAL, NEAR_RISK = "explicit", "denial", "near risk"
AT_RISK, CALM, AFTER = ("at_risk_conversations", "calm_conversations", "after_a_crisis_reply_conversations")
NOTICED_BY = 3
"""The risky turn by which a conversation should have been noticed."""


class Share(msgspec.Struct, frozen=True):
    """So many of so many."""

    count: int
    total: int

    def __str__(self) -> str:
        return f"{self.count} of {self.total}"

    @property
    def value(self) -> float:
        """The share as a number."""
        return self.count / self.total


class UnseenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts, by what they are of; the lists are by level, 0 to 3."""

    explicit_stated: Share
    risk_asked: Share
    risk_answered: Share
    near_risk_stated: Share
    near_risk_levels: tuple[int, ...]
    denial_levels: tuple[int, ...]
    noticed: Share
    answered: Share
    calm_left_alone: Share
    calm_answered: Share
    wanted_levels: tuple[int, ...]
    dangerous_levels: tuple[int, ...]


@functools.cache
def unseen_counts(part: str = PART) -> UnseenCounts:
    """Measure the part by the floor alone."""
    verdicts = [(one, judge(one.text, ())) for one in messages(part)]
    risk = [verdict for one, verdict in verdicts if one.level >= CrisisLevel.RISK]
    explicit = _verdicts_on(verdicts, EXPLICIT)
    near_risk = _verdicts_on(verdicts, NEAR_RISK)
    at_risk = [_walk(one) for one in conversations(part, AT_RISK)]
    calm = [_walk(one) for one in conversations(part, CALM)]
    return UnseenCounts(
        explicit_stated=_share(one.worded >= CrisisLevel.RISK for one in explicit),
        risk_asked=_share(one.level >= CrisisLevel.UNCLEAR for one in risk),
        risk_answered=_share(one.level >= CrisisLevel.RISK for one in risk),
        near_risk_stated=_share(one.stated >= CrisisLevel.RISK for one in near_risk),
        near_risk_levels=_counts_by_level(one.level for one in near_risk),
        denial_levels=_counts_by_level(one.level for one in _verdicts_on(verdicts, DENIAL)),
        noticed=_share(map(_is_noticed, at_risk)),
        answered=_share(_highest(walk) >= CrisisLevel.RISK for walk in at_risk),
        calm_left_alone=_share(not _highest(walk) for walk in calm),
        calm_answered=_share(_highest(walk) >= CrisisLevel.RISK for walk in calm),
        wanted_levels=_counts_by_level(_answer_levels(part, "wanted")),
        dangerous_levels=_counts_by_level(_answer_levels(part, "dangerous")),
    )


Walk = Sequence[tuple[int, FloorVerdict]]
"""The label of each turn of the person, and the floor's verdict on it."""


def _verdicts_on(verdicts: Sequence[tuple[LabelledMessage, FloorVerdict]], kind: str) -> list[FloorVerdict]:
    return [verdict for one, verdict in verdicts if one.kind == kind]


def _walk(talk: Conversation) -> Walk:
    return [(label, judge(text, before)) for _, text, before, label in user_turns(talk)]


def _highest(walk: Walk) -> int:
    return max(verdict.level for _, verdict in walk)


def _is_noticed(walk: Walk) -> bool:
    """Return whether it was asked about, or answered, by the third risky turn or the last one."""
    first = next((at for at, (_, verdict) in enumerate(walk) if verdict.level), None)
    return first is not None and sum(label >= 1 for label, _ in walk[: first + 1]) <= NOTICED_BY


def _answer_levels(part: str, answer: str) -> list[int]:
    """The levels of the answers to a crisis reply: of the harmless ones, or of those of danger."""
    walks = [_walk(one) for one in conversations(part, AFTER) if one.answer == answer]
    return [
        verdict.level
        for walk in walks
        for label, verdict in walk[1:]
        if (label >= CrisisLevel.RISK) == (answer == "dangerous")
    ]


def _share(values: Iterable[bool]) -> Share:
    listed = list(values)
    return Share(sum(listed), len(listed))


def _counts_by_level(levels: Iterable[int]) -> tuple[int, ...]:
    counts = Counter(map(int, levels))
    return tuple(counts[level] for level in range(4))


def unseen_table() -> str:
    """The counts, as the page shows them."""
    counts = unseen_counts()
    rows: list[tuple[str, Share | tuple[int, ...]]] = [
        ("explicit messages that are stated, by words alone", counts.explicit_stated),
        ("messages at risk: at least a question", counts.risk_asked),
        ("messages at risk: a crisis reply", counts.risk_answered),
        ("messages near risk that are taken for a statement", counts.near_risk_stated),
        ("messages near risk, by level", counts.near_risk_levels),
        ("denials, by level", counts.denial_levels),
        ("conversations at risk noticed by the third risky turn", counts.noticed),
        ("conversations at risk with a crisis reply", counts.answered),
        ("calm conversations left wholly alone", counts.calm_left_alone),
        ("calm conversations with a crisis reply", counts.calm_answered),
        ("after a crisis reply: wanted answers, by level", counts.wanted_levels),
        ("after a crisis reply: dangerous answers, by level", counts.dangerous_levels),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in rows)])


def _cell(value: Share | tuple[int, ...]) -> str:
    if isinstance(value, Share):
        return str(value)
    return ", ".join(f"{count} level {level}" for level, count in enumerate(value))


def main() -> None:
    """Measure, and print."""
    sys.stdout.write(unseen_table() + "\n")


if __name__ == "__main__":
    main()
