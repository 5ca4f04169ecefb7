"""What a change of a memory consists of: learning, correcting, and what is shown before it is forgotten."""

from hashlib import sha256

import msgspec

from clew.core import making
from clew.core.encoding import encode, plain
from clew.core.errors import InvalidArgument
from clew.core.values import Item
from clew.runtime.memory.merging import Known, Merged
from clew.runtime.memory.shelf import RULES, Change
from clew.runtime.memory.values import Arc, Fact, Rule, Source, Target, item_of


def learning(found: Merged, known: dict[str, Known], run: str | None, key: str | None) -> Change:
    """The change that keeps what some candidates came to."""
    ends = [known[id].item for id in found.facts if id in known]
    archived = {rule.id for rule in found.archived}
    return Change(
        reason="Learn",
        ends=ends,
        items=[
            *(item_of(fact) for fact in found.facts.values()),
            *(item_of(rule) for rule in found.archived),
        ],
        patches=[
            *(making.set([RULES, id], plain(rule)) for id, rule in found.rules.items()),
            *(making.delete([RULES, id]) for id in archived),
        ],
        actions=[{"learn": plain(found.outcomes)}],
        run=run,
        key=key,
    )


def corrected(
    before: Fact | Arc | Rule, object: str, quote: str, source: Source | None, *, negated: bool, now: int
) -> Fact | Rule:
    """What is known, put right by the user.

    Raises:
        InvalidArgument: It is an arc.
    """
    if isinstance(before, Arc):
        raise InvalidArgument(problem="An arc tells what was; forget it, or leave it as it is.")
    if isinstance(before, Rule):
        return msgspec.structs.replace(before, text=object, how="user", last_referenced=now)
    return msgspec.structs.replace(
        before,
        object=object,
        quote=quote,
        source=source,
        negated=negated,
        how="user",
        confidence=1.0,
        last_referenced=now,
    )


def seal(rule: Rule) -> int:
    """A number that changes with the rule; rules stand in no place of a log."""
    return int.from_bytes(sha256(encode(plain(rule))).digest()[:6])


def target_of(entry: Fact | Arc | Rule, item: Item | None) -> Target:
    """What the user is shown before it is forgotten, and by what it is known again."""
    if isinstance(entry, Rule):
        return Target(kind="rule", id=entry.id, seen=seal(entry), text=entry.text)
    assert item is not None
    if isinstance(entry, Arc):
        return Target(kind="arc", id=entry.id, seen=item.place, text=entry.summary)
    return Target(kind="fact", id=entry.id, seen=item.place, text=entry.text)
