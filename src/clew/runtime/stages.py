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


def stage_name(stage: Stage) -> str:
    """The name of a stage."""
    return getattr(stage, "__name__", type(stage).__name__)


def label_stage(stage: S, label: str) -> S:
    """Set the label that people read while a stage is at work."""
    setattr(stage, LABEL, label)
    return stage


def stage_label(stage: Stage) -> str:
    """The label that people read while a stage is at work; empty if it has none."""
    return getattr(stage, LABEL, "")


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse what cannot be called as a stage, and stages of one name: a run could not say where it stopped.

    Raises:
        InvalidArgument: One is not async, or does not take a state and a context.
        SchemaInvalid: Two have the same name.
    """
    stages_by_name: dict[str, Stage] = {}
    for stage in stages:
        name = stage_name(stage)
        check_async(stage, f"Stage {name!r}")
        _check_parameters(stage, name)
        if name in stages_by_name:
            both = f"two stages have this name, {_origin(stages_by_name[name])} and {_origin(stage)}"
            raise SchemaInvalid(schema="stages", field=name, problem=f"{both}; give one of them another")
        stages_by_name[name] = stage


def _check_parameters(stage: Stage, name: str) -> None:
    try:
        inspect.signature(stage).bind(None, None)
    except TypeError as error:
        problem = f"Stage {name!r} must take a state and a context: async def {name}(state, ctx). {error}."
        raise InvalidArgument(problem=problem.replace("..", ".")) from None
    except ValueError:
        return  # it has no signature that could be read


def first_stage_name(stages: Sequence[Stage]) -> str | None:
    """The name of the first stage, if there is any."""
    return stage_name(stages[0]) if stages else None


def remaining_stages(stages: Sequence[Stage], position: JSON, *, thread: str, run: str) -> Sequence[Stage]:
    """The stages that a run has before it: all, or those from the one on that the state says it is at.

    A number, as earlier versions kept it, says how many are done.

    Raises:
        StageGone: The stage is not among these.
    """
    if position is None:
        return stages
    if isinstance(position, int) and position <= len(stages):
        return stages[position:]
    names = [stage_name(stage) for stage in stages]
    if position not in names:
        missing = f"number {position + 1}" if isinstance(position, int) else str(position)
        raise StageGone(thread=thread, run=run, stage=missing)
    return stages[names.index(position) :]


def _origin(stage: Stage) -> str:
    definition = stage if hasattr(stage, "__qualname__") else type(stage)
    return f"{definition.__module__}.{definition.__qualname__}"
