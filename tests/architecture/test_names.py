"""Names that a stranger can guess: modules are nouns, classes exist once, few names are participles.

And docstrings that open with what a thing does or is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import PurePath

from tests.architecture.source import SOURCES, Module, modules

MOST_PARTICIPLES = 0.015
MOST_LOCAL_PARTICIPLES = 0.03
MOST_MODULES = 30
IRREGULAR = """
    told said kept made found held taken given begun heard seen known meant shut shown drawn written broken
    chosen spoken spent sent lost brought thought caught built bound stood lent paid felt hid hidden grown
    gone torn worn born laid lit met sold sought taught won understood done
"""
NO_PARTICIPLES = {"need", "feed", "speed", "embed", "seed", "exceed", "proceed", "shed", "bed", "red", "id"}
NOUNS_IN_ING = {"string", "thing", "setting", "meaning", "encoding", "embedding", "testing", "sibling"}
PROTOCOL_NAMES = {"Database", "Jobs", "Log", "Records", "Retention", "SearchIndex", "Store", "Thread"}
"""Names that a guest's protocol or the blocking façade prescribes, so that two classes may have them."""
QUESTION = re.compile(r"(What|Whether|Which|How|Where|Who|Whose|When|Why|Somebody|Whoever)\b")
"""Openings of a docstring that ask instead of saying what a thing does or is."""


def is_participle(name: str) -> bool:
    """Return whether a name is nothing but how something came to be."""
    word = name.strip("_").lower()
    return word in IRREGULAR.split() or (
        re.fullmatch("[a-z]+ed", word) is not None and word not in NO_PARTICIPLES
    )


def definitions(module: Module) -> list[str]:
    """The functions and classes of a module, however deep, but for those that Python names."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names = [node.name for node in ast.walk(module.tree) if isinstance(node, kinds)]
    return [name for name in names if not name.startswith("__")]


def local_names(module: Module) -> list[str]:
    """Every name that is bound in a module, as often as it is."""
    return [
        node.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def participles(names: list[str]) -> Counter[str]:
    """Those of some names that are participles, and how often."""
    return Counter(filter(is_participle, names))


def is_tool(node: ast.AST) -> bool:
    """True if a node is a tool, whose docstring is what its model reads: behaviour, not documentation."""
    decorators = getattr(node, "decorator_list", [])
    functions = [each.func if isinstance(each, ast.Call) else each for each in decorators]
    return any(isinstance(function, ast.Name) and function.id == "tool" for function in functions)


def docstrings(module: Module) -> list[tuple[int, str]]:
    """The docstrings of a module, of its classes and of its functions, each with the line of its owner."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(module.tree) if isinstance(node, kinds) and not is_tool(node)]
    return [(getattr(node, "lineno", 1), ast.get_docstring(node) or "") for node in nodes]


def test_few_definitions_are_participles() -> None:
    names = [name for module in modules(*SOURCES) for name in definitions(module)]
    most = MOST_PARTICIPLES * len(names)

    assert participles(names).total() <= most, participles(names).most_common(20)


def test_few_variables_are_participles() -> None:
    names = [name for module in modules(*SOURCES) for name in local_names(module)]
    most = MOST_LOCAL_PARTICIPLES * len(names)

    assert participles(names).total() <= most, participles(names).most_common(20)


def test_modules_are_nouns() -> None:
    stems = {module.name: PurePath(module.name).stem for module in modules(*SOURCES)}
    wrong = [
        name
        for name, stem in stems.items()
        if (stem.endswith("ing") and stem not in NOUNS_IN_ING) or is_participle(stem)
    ]

    assert wrong == []


def test_a_class_name_stands_for_one_thing() -> None:
    names = Counter(
        node.name
        for module in modules(*SOURCES)
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in names.items() if count > 1} <= PROTOCOL_NAMES


def test_a_docstring_opens_with_what_a_thing_does_or_is() -> None:
    wrong = [
        f"{module.name}:{line}: {text.splitlines()[0]}"
        for module in modules(*SOURCES)
        for line, text in docstrings(module)
        if QUESTION.match(text)
    ]

    assert wrong == []


def test_no_folder_is_crowded() -> None:
    folders = Counter(
        str(PurePath(module.name).parent)
        for module in modules(*SOURCES)
        if not module.name.endswith("__init__.py")
    )

    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_a_participle_is_known_as_one() -> None:
    assert is_participle("_told")
    assert is_participle("worked")
    assert not is_participle("feed")
    assert not is_participle("run_pipeline")


def test_the_docstring_of_a_tool_is_its_models() -> None:
    text = '"""Module."""\n\n@tool(effect=1)\ndef one():\n    """What."""\n\ndef two():\n    """How."""\n'

    assert docstrings(Module(name="module.py", text=text)) == [(1, "Module."), (7, "How.")]
