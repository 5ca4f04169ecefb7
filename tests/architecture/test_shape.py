"""The shape of the code: openings, sizes and names."""

from __future__ import annotations

import ast
import re

from tests.architecture.source import CODE, SOURCES, Module, modules

LONGEST_FUNCTION = 60
LONGEST_FILE = 700
LONGEST_LINE = 110
EMPTY_NAMES = {"Manager", "Handler", "Helper", "Helpers", "Util", "Utils", "Base", "Impl"}


def is_one_line_opening(docstring: str | None) -> bool:
    """Whether a docstring begins with one line that stands alone."""
    lines = (docstring or "").splitlines()
    if not lines or not lines[0].strip():
        return False
    return len(lines) == 1 or not lines[1].strip()


def words(name: str) -> set[str]:
    """The words of a name in CamelCase."""
    return set(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name))


def test_one_line_opens_every_module() -> None:
    silent = [module.name for module in modules(*CODE) if not is_one_line_opening(module.docstring)]

    assert silent == []


def test_functions_are_short() -> None:
    long = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in modules(*SOURCES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 >= LONGEST_FUNCTION
    ]

    assert long == []


ALL_ERRORS = "src/clew/core/errors.py"  # every error stands in one file, a few lines each


def test_files_are_short() -> None:
    long = [module.name for module in modules(*SOURCES) if len(module.text.splitlines()) >= LONGEST_FILE]

    assert [name for name in long if name != ALL_ERRORS] == []


def test_classes_are_named_for_what_they_are() -> None:
    empty = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in modules(*CODE)
        if module.mentions(EMPTY_NAMES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and words(node.name) & EMPTY_NAMES
    ]

    assert empty == []


def test_an_empty_name_is_found_only_as_a_whole_word() -> None:
    assert words("StoreManager") & EMPTY_NAMES
    assert words("SQLBase") & EMPTY_NAMES
    assert not words("PostgresDatabase") & EMPTY_NAMES


def test_an_opening_is_one_line_that_stands_alone() -> None:
    assert is_one_line_opening("What this is about.")
    assert is_one_line_opening("What this is about.\n\nMore of it.")
    assert not is_one_line_opening("What this\nis about.")
    assert not is_one_line_opening(None)


def test_the_docstring_of_a_module_is_what_python_takes_for_it() -> None:
    texts = [
        '"""One line."""\nx = 1',
        '"""Two\n\nparts."""',
        "# Why.\n'Short.'",
        "x = 1",
        '"""A""" + "b"',
        "",
    ]

    assert [Module(name="example.py", text=text).docstring for text in texts] == [
        "One line.",
        "Two\n\nparts.",
        "Short.",
        None,
        None,
        None,
    ]
