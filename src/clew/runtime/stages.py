"""Stages by their names: no two share one, and a run that stopped goes on at the one it stopped at."""

import inspect
from collections.abc import Sequence
from typing import TypeVar

from clew.core.arguments import check_async
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, SchemaInvalid, StageGone
from clew.runtime.respond.respond import Stage

LABEL = "label"
S = TypeVar("S", bound=Stage)


def name_of(stage: Stage) -> str:
    """What a stage is called."""
    return getattr(stage, "__name__", type(stage).__name__)


def labelled(stage: S, label: str) -> S:
    """Say what people read while a stage is at work."""
    setattr(stage, LABEL, label)
    return stage


def label_of(stage: Stage) -> str:
    """What people read while a stage is at work; nothing if nobody has said it."""
    return getattr(stage, LABEL, "")


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse what cannot be called as a stage, and stages of one name: a run could not say where it stopped.

    Raises:
        InvalidArgument: One is not async, or does not take a state and a context.
        SchemaInvalid: Two have the same name.
    """
    first: dict[str, Stage] = {}
    for stage in stages:
        name = name_of(stage)
        check_async(stage, f"Stage {name!r}")
        _check_parameters(stage, name)
        if name in first:
            both = f"two stages have this name, {_origin(first[name])} and {_origin(stage)}"
            raise SchemaInvalid(schema="stages", field=name, problem=f"{both}; give one of them another")
        first[name] = stage


def _check_parameters(stage: Stage, name: str) -> None:
    try:
        inspect.signature(stage).bind(None, None)
    except TypeError as error:
        problem = f"Stage {name!r} must take a state and a context: async def {name}(state, ctx). {error}."
        raise InvalidArgument(problem=problem.replace("..", ".")) from None
    except ValueError:
        return  # it has no signature that could be read


def first_name(stages: Sequence[Stage]) -> str | None:
    """The name of the first stage, if there is any."""
    return name_of(stages[0]) if stages else None


def remaining(stages: Sequence[Stage], mark: JSON, *, thread: str, run: str) -> Sequence[Stage]:
    """The stages that a run has before it: all, or those from the one on that the state says it is at.

    A number, as earlier versions kept it, says how many are done.

    Raises:
        StageGone: The stage is not among these.
    """
    if mark is None:
        return stages
    if isinstance(mark, int) and mark <= len(stages):
        return stages[mark:]
    names = [name_of(stage) for stage in stages]
    if mark not in names:
        gone = f"number {mark + 1}" if isinstance(mark, int) else str(mark)
        raise StageGone(thread=thread, run=run, stage=gone)
    return stages[names.index(mark) :]


def _origin(stage: Stage) -> str:
    made = stage if hasattr(stage, "__qualname__") else type(stage)
    return f"{made.__module__}.{made.__qualname__}"
