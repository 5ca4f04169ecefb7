"""What ``clew`` offers, to the name, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import clew

NAMES = """
    Absent Agent AnyVersion Changeset ClewError Context Database Delta Exact Item Job Limits Message
    MessageAdded ModelRequest Record RunFinished Runtime RuntimeConfig Scope ScriptedModel State StateLog
    Suspend TextDelta Thread ToolContext VersionConflict append assistant call delete guardrail increment
    input insert loaded max merge min open persistent remove respond result run_agent set system tool
    union user
"""
DRIVERS = {"apsw", "click", "hypothesis", "psycopg", "psycopg_pool", "pytest", "rich", "sqlite3", "typer"}


def imports_of(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after a statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(process.stdout.split())


def test_the_public_names_are_these() -> None:
    assert clew.__all__ == NAMES.split()


def test_every_public_name_is_listed_before_it_is_imported() -> None:
    code = "import clew; print(set(clew.__all__) - set(dir(clew)), 'Runtime' in vars(clew))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert process.stdout == "set() False\n"


def test_the_package_runs_as_the_command() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "clew", "--version"], capture_output=True, text=True, check=True
    )

    assert clew.__version__ in process.stdout


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert [name for name in clew.__all__ if not getattr(clew, name).__doc__] == []


def test_importing_it_imports_no_driver() -> None:
    assert imports_of("import clew") & DRIVERS == set()


def test_importing_the_blocking_facade_imports_no_driver() -> None:
    assert imports_of("import clew.sync") & DRIVERS == set()


def test_a_driver_is_imported_when_its_store_is_opened() -> None:
    assert "apsw" in imports_of("import clew.stores.sqlite.store")
