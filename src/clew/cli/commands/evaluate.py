"""The command that holds the companion against its scripted conversations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.command import Answer, Call
from clew.cli.render import values
from clew.core.errors import InvalidArgument
from clew.urls import open as opened

if TYPE_CHECKING:
    from clew.companion.evaluation.runner import Evaluated
    from clew.companion.evaluation.scripts import Script

SHOWN = 200


async def evaluate(
    call: Call,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which conversations; all without one.")
    ] = None,
) -> Answer:
    """Hold the companion against scripted conversations.

    Routes, words, exercises and memory are looked at. It runs offline, in memory: no key is needed, and your
    database is not touched. The exit code is 1 if an expectation is not met.

    Example: clew evaluate in_control
    """
    from clew.companion.evaluation.runner import evaluated

    chosen = chosen_of(names or [])
    found: list[Evaluated] = []
    with call.progress("Turns", sum(script.length for script in chosen)) as advance:
        for script in chosen:
            async with opened("memory://") as db:
                found.append(await evaluated(db, script, lambda: advance(1)))
    passed = all(result.passed for result in found)
    return Answer(value=msgspec.to_builtins(found), shown=report(found), ok=passed)


def chosen_of(names: Sequence[str]) -> "list[Script]":
    """The scripts of these names, or all.

    Raises:
        InvalidArgument: There is none of a name.
    """
    from clew.companion.evaluation.scripts import scripts

    for name in names:
        if name not in scripts():
            known = ", ".join(scripts())
            raise InvalidArgument(problem=f"There is no conversation {name!r}. There are {known}.")
    return [scripts()[name] for name in names or scripts()]


def report(found: "Sequence[Evaluated]") -> RenderableType:
    """A table of the conversations, then every expectation that was not met."""
    table = values.table("conversation", "turns", "checks", "failed", right=["turns", "checks", "failed"])
    for result in found:
        numbers = (result.turns, result.checks, len(result.failures))
        table.add_row(result.name, *(str(number) for number in numbers))
    lines = [line for result in found for line in _failures(result)]
    failed = sum(len(result.failures) for result in found)
    checks = sum(result.checks for result in found)
    last = f"All {checks} expectations are met." if not failed else f"{failed} of {checks} are not met."
    return Group(table, *lines, Text(last))


def _failures(result: "Evaluated") -> list[Text]:
    return [
        Text(
            f"{failure.session}, turn {failure.turn}: {values.clean(failure.said)}\n"
            f"  expected {failure.expected}\n  found {values.clean(failure.found[:SHOWN])}"
        )
        for failure in result.failures
    ]
