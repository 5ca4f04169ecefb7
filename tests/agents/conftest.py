"""Agents that are installed for one test: a distribution with entry points, as an installer writes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

Install: TypeAlias = Callable[[str, str], None]
SOURCE = """
import clew
from clew.agents import Agent

def make_runtime(db):
    return clew.Runtime(db)

def make(name):
    def make_named_runtime(db, settings):
        return clew.Runtime(db, agent=name, model=settings.model)

    return Agent(name=name, make_runtime=make_named_runtime)

{more}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a module and a distribution whose entry point leads to its attribute ``agent``."""
    before = set(sys.modules)

    def install_agent(name: str, more: str) -> None:
        module = f"installed_{name}"
        (tmp_path / f"{module}.py").write_text(SOURCE.format(more=more), encoding="utf-8")
        information = tmp_path / f"{module}-1.2.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Name: {module}\nVersion: 1.2\n", encoding="utf-8")
        (information / "entry_points.txt").write_text(
            f"[clew.agents]\n{name} = {module}:agent\n", encoding="utf-8"
        )
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install_agent
    for module in set(sys.modules) - before:
        if module.startswith("installed_"):
            del sys.modules[module]


@pytest.fixture
def none_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No distribution declares an agent, and the companion cannot be imported."""
    monkeypatch.setattr("clew.agents.discovery.entry_points", lambda group: ())
    for module in [name for name in sys.modules if name.partition(".")[0] == "clew_companion"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "clew_companion", None)
