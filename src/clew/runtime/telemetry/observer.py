"""Observers of a runtime: told when a turn, a step, a commit or a job has ended, without content or ids."""

import logging
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

log = logging.getLogger("clew")

StepOutcome: TypeAlias = Literal["ok", "failed", "waiting"]
CommitOutcome: TypeAlias = Literal["ok", "conflict", "failed"]
JobOutcome: TypeAlias = Literal["ok", "failed", "lost"]


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a turn: how its run ended, or ``refused`` if the turn was never begun."""

    agent: str
    termination: str
    seconds: float


class StepEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a step; see ``Step``. ``is_call`` is true of what a model called as a tool."""

    agent: str
    kind: str
    name: str
    outcome: StepOutcome
    seconds: float
    is_call: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None


class CommitEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a commit, with the number of changesets that it was about."""

    agent: str
    outcome: CommitOutcome
    changesets: int


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an attempt at a job; ``lost`` if another worker has it."""

    agent: str
    kind: str
    outcome: JobOutcome
    seconds: float


class RuntimeObserver(Protocol):
    """Is told what ends in a runtime, in the middle of its work: it must be quick."""

    def observe_turn(self, end: TurnEnd) -> None:
        """Take note of the end of a turn."""
        ...

    def observe_step(self, end: StepEnd) -> None:
        """Take note of the end of a step."""
        ...

    def observe_commit(self, end: CommitEnd) -> None:
        """Take note of the end of a commit."""
        ...

    def observe_job(self, end: JobEnd) -> None:
        """Take note of the end of an attempt at a job."""
        ...


class Observers:
    """The observers of a runtime. What one of them raises is logged, and changes nothing else."""

    def __init__(self) -> None:
        self._observers: list[RuntimeObserver] = []

    def __bool__(self) -> bool:
        return bool(self._observers)

    def add(self, observer: RuntimeObserver) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def observe_turn(self, end: TurnEnd) -> None:
        """Tell of the end of a turn."""
        self._notify(lambda observer: observer.observe_turn(end))

    def observe_step(self, end: StepEnd) -> None:
        """Tell of the end of a step."""
        self._notify(lambda observer: observer.observe_step(end))

    def observe_commit(self, end: CommitEnd) -> None:
        """Tell of the end of a commit."""
        self._notify(lambda observer: observer.observe_commit(end))

    def observe_job(self, end: JobEnd) -> None:
        """Tell of the end of an attempt at a job."""
        self._notify(lambda observer: observer.observe_job(end))

    def _notify(self, notify: Callable[[RuntimeObserver], None]) -> None:
        for observer in self._observers:
            try:
                notify(observer)
            except Exception:  # an observer is not ours: no turn may fail by it
                log.exception("An observer of the runtime failed.")
