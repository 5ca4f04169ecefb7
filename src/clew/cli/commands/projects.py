"""The command that writes a small project to begin with: an agent, its tools and a test."""

import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from clew.agents.agent import NAME
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.core.errors import InvalidArgument

TEMPLATES = {
    "agent.py": "agent.py.txt",
    "test_agent.py": "agent_test.py.txt",
    "Makefile": "Makefile.txt",
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a project, and where their texts are."""

ProjectName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the agent, and of the folder that is made for it.")
]


async def new(call: CommandCall, name: ProjectName) -> CommandResult:
    """Write a small project: an agent, a test that needs no key.

    It is written into a new folder of that name; what is there is never overwritten.

    Example: clew new my-agent
    """
    folder = write_project(name, Path.cwd())
    paths = [str(Path(name) / file) for file in TEMPLATES]
    steps = f"cd {name}\nmake test\nmake serve"
    display = Text(f"Wrote {values.clean(str(folder))}. Try it:\n\n{steps}")
    return CommandResult(value={"agent": name, "folder": str(folder), "files": paths}, display=display)


def write_project(name: str, parent: Path) -> Path:
    """Write the project of an agent into a new folder, and return the folder.

    Raises:
        InvalidArgument: It is no name of an agent, there is something of that name, or it cannot be written.
    """
    if not NAME.fullmatch(name):
        problem = f"An agent cannot be called {name!r}. Use letters, digits, '-' and '_', up to 64."
        raise InvalidArgument(problem=problem)
    folder = parent / name
    try:
        folder.mkdir()
        for file, text in project_files(name, sys.executable).items():
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        problem = f"There is a file or folder {name!r} here already. Choose another name, or move it away."
        raise InvalidArgument(problem=problem) from None
    except OSError as error:
        problem = f"The project cannot be written to {str(folder)!r}: {error.strerror}."
        raise InvalidArgument(problem=problem) from error
    return folder


def project_files(name: str, python: str) -> Mapping[str, str]:
    """Return the texts of a project's files, by the names of the files."""
    folder = files("clew.cli.project")
    return {
        file: (folder / template)
        .read_text(encoding="utf-8")
        .replace("{{name}}", name)
        .replace("{{python}}", python)
        for file, template in TEMPLATES.items()
    }
