"""What no file may do: run pickled code, put values into SQL text, or name this or that machine."""

from __future__ import annotations

import ast
import re

from tests.architecture.source import CODE, SOURCES, Module, modules, texts

UNSAFE_MODULES = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
RUNS_SQL = {"SQL", "copy", "execute", "executemany", "executescript", "stream"}
REGISTRY = re.compile(r"(?:pypi|pythonhosted|npmjs|debian|crates)\.(?:org|com|io)")
HOME = re.compile(r"(?<![\w.>*/-])/(?:root|home|Users|work)/[\w.]")


def imports(module: Module) -> set[str]:
    """The top-level names of everything a module imports."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def is_composed(node: ast.expr) -> bool:
    """Whether an expression builds text from parts: an f-string, `%`, `+` or `.format`."""
    match node:
        case ast.JoinedStr():
            return any(isinstance(part, ast.FormattedValue) for part in node.values)
        case ast.BinOp(op=ast.Mod() | ast.Add()):
            return any(_is_text(side) or is_composed(side) for side in (node.left, node.right))
        case ast.Call(func=ast.Attribute(attr="format", value=value)):
            return _is_text(value)
        case _:
            return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr)


def composed_sql(module: Module) -> list[str]:
    """Where a module runs SQL whose text it has put together."""
    return [
        f"{module.name}:{node.lineno}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and _callee(node) in RUNS_SQL
        and node.args
        and is_composed(node.args[0])
    ]


def _callee(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def module_of(text: str) -> Module:
    """A module made of text, to try the checks on."""
    return Module(name="example.py", text=text)


def test_nothing_is_pickled() -> None:
    suspects = [module for module in modules(*CODE) if module.mentions(UNSAFE_MODULES)]
    unsafe = {module.name: imports(module) & UNSAFE_MODULES for module in suspects}

    assert {name: names for name, names in unsafe.items() if names} == {}


def test_what_would_be_pickled_is_found() -> None:
    text = '"The module."\nfrom pickle import loads'

    assert module_of(text).mentions(UNSAFE_MODULES)
    assert imports(module_of(text)) & UNSAFE_MODULES == {"pickle"}


def test_sql_is_never_put_together_from_values() -> None:
    places = [place for module in modules(*SOURCES) for place in composed_sql(module)]

    assert places == []


def test_sql_put_together_is_found() -> None:
    assert composed_sql(module_of('db.execute(f"DELETE FROM {table}")'))
    assert composed_sql(module_of('db.execute("DELETE FROM %s" % table)'))
    assert composed_sql(module_of('db.execute("DELETE FROM {}".format(table))'))
    assert composed_sql(module_of('db.execute("DELETE FROM " + table)'))
    assert not composed_sql(module_of('db.execute("DELETE FROM items WHERE id = %s", [id])'))
    assert not composed_sql(module_of("db.execute(queries.delete_items, [id])"))


def test_no_file_names_a_registry() -> None:
    assert [name for name, text in texts().items() if REGISTRY.search(text)] == []


def test_no_file_names_a_home_directory() -> None:
    assert [name for name, text in texts().items() if HOME.search(text)] == []


def test_the_lock_holds_no_addresses() -> None:
    assert "://" not in texts()["requirements.lock"]


def test_a_home_directory_is_found_only_at_the_start_of_a_path() -> None:
    assert HOME.search('open("' + "/home" + '/someone/agent.db")')
    assert not HOME.search("meta" + "/work" + "/spaces")
