"""Every command and every option has help, an example, and its place in the reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from clew.cli.app import COMMANDS, DEFAULTS, GROUPS, build_app
from clew.cli.command import typer_command
from clew_companion.cli import crises
from clew_companion.cli.evaluate import evaluate

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
LONGEST = 25
WORKS = [
    # One that its group's name alone does too is there once.
    *dict.fromkeys(
        (*COMMANDS, *DEFAULTS.values(), *(work for _, works in GROUPS.values() for work in works))
    ),
    *(evaluate, crises.list_, crises.export, crises.extend, crises.purge),
]


def commands() -> dict[str, list[str]]:
    """The options of every command, by its name."""
    return dict(options_of(typer.main.get_command(build_app())))


def options_of(command: object, name: str = "") -> Iterator[tuple[str, list[str]]]:
    """The options of a command, or of those in a group, by name."""
    if name and getattr(command, "invoke_without_command", not hasattr(command, "commands")):
        params = getattr(command, "params")  # noqa: B009 - a command, which typer does not say
        yield name, [option for param in params for option in param.opts if option.startswith("-")]
    for word, below in getattr(command, "commands", {}).items():
        yield from options_of(below, f"{name} {word}".strip())


def sections() -> dict[str, str]:
    """The reference, by heading; what stands before the first is under the empty one."""
    parts = re.split(r"^## ([\w -]+)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_the_reference_has_a_section_for_every_command_and_no_other() -> None:
    assert list(sections())[1:] == list(commands())


@pytest.mark.parametrize("name", list(commands()))
def test_the_reference_names_every_option(name: str) -> None:
    page = sections()[name] + sections()[""]

    assert [option for option in commands()[name] if f"`{option}" not in page] == []


@pytest.mark.parametrize("work", WORKS, ids=lambda work: f"{work.__module__}.{work.__name__}")
def test_every_command_says_what_it_does_and_gives_an_example(work: object) -> None:
    assert callable(work)
    _, words, example = typer_command(work)

    assert words.split("\n")[0].endswith(".")
    assert len(words.split("\n")[0]) < 65
    assert example.startswith("Example: clew ")


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_answers_in_json(name: str) -> None:
    assert "--json" in commands()[name]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: f"{work.__module__}.{work.__name__}")
def test_a_command_is_a_short_function(work: object) -> None:
    assert callable(work)
    lines = inspect.getsource(work).split('"""')[2].strip().splitlines()

    assert len(lines) <= LONGEST
