"""What runs have used: tokens by turn, written in one commit with the items they paid for."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from agents import RunContextWrapper, Usage

from clew.core.values import Put, Record

KIND: Final = "openai.usage"


class Spent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests and tokens."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Tokens in and out."""
        return self.input + self.output


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said, the version of the thread that begins with it, and what the answer used."""

    version: int
    text: str
    spent: Spent = Spent()


class Meter:
    """Follows the runs of one session: in which turn each is, and what it had used before."""

    def __init__(self, session_id: str, owner: str | None) -> None:
        self._session_id = session_id
        self._owner = owner
        self._name = sha256(session_id.encode()).hexdigest()[:32]  # an id is long enough for one session's
        self._before: WeakKeyDictionary[RunContextWrapper[Any], Spent] = WeakKeyDictionary()
        self._turns: WeakKeyDictionary[RunContextWrapper[Any], int] = WeakKeyDictionary()

    def meet(self, run: RunContextWrapper[Any]) -> None:
        """Take note of a run; what it used before was counted by whoever saw it then."""
        self._before.setdefault(run, _spent(run.usage))

    def wrote(self, run: RunContextWrapper[Any], version: int) -> None:
        """Take note of a version that a run has written: its turn begins with the first."""
        self._turns.setdefault(run, version)

    def due(self, run: RunContextWrapper[Any]) -> Put | None:
        """What a run has used in its turn, to be written; None if there is nothing to say yet."""
        self.meet(run)
        spent = _less(_spent(run.usage), self._before[run])
        turn = self._turns.get(run)
        if turn is None or not spent.requests:
            return None
        return Put(
            record=Record(
                kind=KIND,
                id=f"{self._name} {turn}",
                body=msgspec.to_builtins(spent),
                owner=self._owner,
                tags=(self._session_id,),
                sort=turn,
            )
        )


def spent_in(record: Record) -> Spent:
    """What a record of a turn says."""
    return msgspec.convert(record.body, Spent)


def added_up(parts: Iterable[Spent]) -> Spent:
    """All of it together."""
    total = Spent()
    for part in parts:
        total = Spent(
            **{name: getattr(total, name) + getattr(part, name) for name in Spent.__struct_fields__}
        )
    return total


def _spent(usage: Usage) -> Spent:
    return Spent(
        requests=usage.requests,
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached=usage.input_tokens_details.cached_tokens,
        reasoning=usage.output_tokens_details.reasoning_tokens,
    )


def _less(now: Spent, before: Spent) -> Spent:
    return Spent(
        **{name: max(getattr(now, name) - getattr(before, name), 0) for name in Spent.__struct_fields__}
    )
