"""The tree of tests: it mirrors the source, so that what tests a package is found by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules

WITHOUT_PACKAGE = {"acceptance", "architecture", "support"}
COMPANION = "companion"


def folders_of_tests() -> set[Path]:
    """The folders below tests that hold Python files, but for those that mirror nothing."""
    folders = {Path(module.name).parent.relative_to("tests") for module in modules("tests")}
    return {folder for folder in folders if folder.parts and folder.parts[0] not in WITHOUT_PACKAGE}


def source_of(folder: Path) -> Path:
    """The folder of the source that a folder of tests mirrors."""
    if folder.parts[0] == COMPANION:
        return ROOT / "companion/src/clew_companion" / Path(*folder.parts[1:])
    return ROOT / "src/clew" / folder


def test_every_folder_of_tests_mirrors_a_folder_of_the_source() -> None:
    strangers = [str(folder) for folder in folders_of_tests() if not source_of(folder).is_dir()]

    assert strangers == []


@pytest.mark.parametrize(
    ("folder", "is_there"),
    [
        ("stores/sqlite", True),
        ("companion/crisis", True),
        ("companion", True),
        ("crash", False),
        ("unit", False),
    ],
)
def test_a_folder_of_the_source_is_found_from_its_tests(folder: str, is_there: bool) -> None:  # noqa: FBT001
    assert source_of(Path(folder)).is_dir() is is_there
