"""The page *Architecture* is true: its modules and functions exist, and it draws the import contracts."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.architecture.source import ROOT, modules

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PACKAGES = ROOT / "src" / "clew"
CODE_LINK = re.compile(r"\[`([^`]+)`\]\(([^)#\s]+)\)")
DOTTED_NAME = re.compile(r"`(clew(?:_companion)?(?:\.\w+)+)`")
DRAWING = re.compile(r"^(clew(?:\.\w+)?)\n((?:    [\w |]+\n)+)", re.MULTILINE)
ROW = re.compile(r"^\| \[`(\w+)`\]", re.MULTILINE)


def text() -> str:
    """The text of the page."""
    return PAGE.read_text(encoding="utf-8")


def definitions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> set[str]:
    """The classes, functions and methods of a module, each by its qualified name."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            names |= definitions(node, f"{prefix}{node.name}.")
    return names


def module_path(name: str) -> Path:
    """The path of a module or package by its dotted name, without a suffix."""
    return ROOT.joinpath("src", *name.split("."))


def is_module(name: str) -> bool:
    """Return whether a dotted name is that of a module or package of the library."""
    path = module_path(name)
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def is_linked_well(name: str, target: Path) -> bool:
    """Return whether a link in code leads to what its text names: a module, a package or a definition."""
    if name.startswith("clew."):
        return target.with_suffix("") == module_path(name)
    if target.with_suffix("") == PACKAGES / name:
        return target.exists()
    sources = {ROOT / module.name: module for module in modules("src")}
    return target in sources and name in definitions(sources[target].tree)


def contracts() -> dict[str, list[str]]:
    """The layers of each package that has a contract, as pyproject.toml lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        contract["containers"][0]: contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if "containers" in contract
    }


def test_every_link_in_code_leads_to_what_it_names() -> None:
    links = CODE_LINK.findall(text())
    wrong = [name for name, target in links if not is_linked_well(name, (PAGE.parent / target).resolve())]

    assert len(links) > 50
    assert wrong == []


def test_every_module_that_is_named_exists() -> None:
    assert [name for name in DOTTED_NAME.findall(text()) if not is_module(name)] == []


def test_every_package_has_its_row() -> None:
    paths = [path for path in PACKAGES.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    packages = {path.stem for path in paths} - {"__init__", "__main__"}

    assert sorted(ROW.findall(text())) == sorted(packages)


def test_the_drawings_are_the_import_contracts() -> None:
    drawings = {name: [line.strip() for line in body.splitlines()] for name, body in DRAWING.findall(text())}

    assert drawings == contracts()


def test_a_definition_is_found_by_its_qualified_name() -> None:
    tree = ast.parse("class A:\n    async def b(self): ...\n\ndef c(): ...\n")

    assert definitions(tree) == {"A", "A.b", "c"}
