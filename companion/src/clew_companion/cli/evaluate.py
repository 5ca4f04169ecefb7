"""The command that holds the companion against its scripted conversations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.core.errors import InvalidArgument
from clew.urls import open as open_database

if TYPE_CHECKING:  # every command starts with this module, and only this one needs the scripts
    from clew_companion.evaluation.runner import EvaluationResult
    from clew_companion.evaluation.scripts import Script

MOST_LETTERS = 200


async def evaluate(
    call: CommandCall,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which conversations; all without one.")
    ] = None,
) -> CommandResult:
    """Hold the companion against scripted conversations.

    Routes, words, exercises and memory are looked at. It runs offline, in memory: no key is needed, and your
    database is not touched. The exit code is 1 if an expectation is not met.

    Example: clew evaluate in_control
    """
    from clew_companion.evaluation.runner import evaluate_script

    scripts = scripts_named(names or [])
    results: list[EvaluationResult] = []
    with call.progress("Turns", sum(script.length for script in scripts)) as advance:
        for script in scripts:
            async with open_database("memory://") as db:
                results.append(await evaluate_script(db, script, lambda: advance(1)))
    is_success = all(result.is_passed for result in results)
    return CommandResult(
        value=msgspec.to_builtins(results), display=evaluation_report(results), ok=is_success
    )


def scripts_named(names: Sequence[str]) -> "list[Script]":
    """The scripts of these names, or all.

    Raises:
        InvalidArgument: There is none of a name.
    """
    from clew_companion.evaluation.scripts import scripts

    for name in names:
        if name not in scripts():
            available = ", ".join(scripts())
            raise InvalidArgument(problem=f"There is no conversation {name!r}. There are {available}.")
    return [scripts()[name] for name in names or scripts()]


def evaluation_report(results: "Sequence[EvaluationResult]") -> RenderableType:
    """A table of the conversations, then every expectation that was not met."""
    table = values.empty_table(
        "conversation", "turns", "checks", "failed", right=["turns", "checks", "failed"]
    )
    for result in results:
        numbers = (result.turns, result.checks, len(result.failures))
        table.add_row(result.name, *(str(number) for number in numbers))
    lines = [line for result in results for line in _failure_lines(result)]
    failure_count = sum(len(result.failures) for result in results)
    check_count = sum(result.checks for result in results)
    summary = (
        f"All {check_count} expectations are met."
        if not failure_count
        else f"{failure_count} of {check_count} are not met."
    )
    return Group(table, *lines, Text(summary))


def _failure_lines(result: "EvaluationResult") -> list[Text]:
    return [
        Text(
            f"{failure.session}, turn {failure.turn}: {values.clean(failure.said)}\n"
            f"  expected {failure.expected}\n  found {values.clean(failure.found[:MOST_LETTERS])}"
        )
        for failure in result.failures
    ]
