"""Usage of runs: tokens by turn, written in one commit with the items they paid for."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from agents import RunContextWrapper, Usage

from clew.core.values import Put, Record

KIND: Final = "openai.usage"


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class ConversationTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A person's message, the version of the thread that begins with it, and the usage of its answer."""

    version: int
    text: str
    usage: TokenUsage = TokenUsage()


class UsageMeter:
    """Follows the runs of one session: in which turn each is, and what it had used before."""

    def __init__(self, session_id: str, owner: str | None) -> None:
        self._session_id = session_id
        self._owner = owner
        self._id_prefix = sha256(session_id.encode()).hexdigest()[
            :32
        ]  # an id is long enough for one session's
        self._usage_before: WeakKeyDictionary[RunContextWrapper[Any], TokenUsage] = WeakKeyDictionary()
        self._turn_versions: WeakKeyDictionary[RunContextWrapper[Any], int] = WeakKeyDictionary()

    def register_run(self, run: RunContextWrapper[Any]) -> bool:
        """Count the usage of a run from now on, and return whether it is a new one."""
        if run in self._usage_before:
            return False
        self._usage_before[run] = _usage_of(run.usage)
        return True

    def register_version(self, run: RunContextWrapper[Any], version: int) -> None:
        """Take note of a version that a run has written: its turn begins with the first."""
        self._turn_versions.setdefault(run, version)

    def usage_write(self, run: RunContextWrapper[Any]) -> Put | None:
        """The write of a run's usage in its turn; None if there is nothing to write yet."""
        self.register_run(run)
        usage = _usage_difference(_usage_of(run.usage), self._usage_before[run])
        turn = self._turn_versions.get(run)
        if turn is None or not usage.requests:
            return None
        return Put(
            record=Record(
                kind=KIND,
                id=f"{self._id_prefix} {turn}",
                body=msgspec.to_builtins(usage),
                owner=self._owner,
                tags=(self._session_id,),
                sort=turn,
            )
        )


def usage_of_record(record: Record) -> TokenUsage:
    """The usage in a turn's record."""
    return msgspec.convert(record.body, TokenUsage)


def total_usage(parts: Iterable[TokenUsage]) -> TokenUsage:
    """All of it together."""
    total = TokenUsage()
    for part in parts:
        total = TokenUsage(
            **{name: getattr(total, name) + getattr(part, name) for name in TokenUsage.__struct_fields__}
        )
    return total


def _usage_of(usage: Usage) -> TokenUsage:
    return TokenUsage(
        requests=usage.requests,
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached=usage.input_tokens_details.cached_tokens,
        reasoning=usage.output_tokens_details.reasoning_tokens,
    )


def _usage_difference(now: TokenUsage, before: TokenUsage) -> TokenUsage:
    return TokenUsage(
        **{name: max(getattr(now, name) - getattr(before, name), 0) for name in TokenUsage.__struct_fields__}
    )
