"""The page for those who come from the source systems: every name of ours on it exists."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from functools import cache
from typing import Any

import pytest
import typer

from clew.api.route import Route
from clew.cli.app import build_app
from tests.architecture.source import ROOT, SOURCES, modules

PAGE = ROOT / "docs" / "explanation" / "coming-from-the-source-systems.md"
SETTINGS = ROOT / "docs" / "reference" / "settings.md"
ROW = re.compile(r"^\| (?!there \||-)(.+) \| (.+) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
ROUTE = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/\S+)")
THEIRS = """
PersistentAgentRuntime run_turn_stream build_initial_state state_to_output record_session_feedback run_agent
summarize_session commit_session_memory opencouch_active_sessions session_buffer max_crisis_level
transcript_start_index WorkflowContext BaseLLMClient MemoryStore CrisisLogBackend EmbeddingProvider
SessionMemoryBuffer SessionFeedbackBackend record_voice_turn resolve_owner_id _merge_dicts AgentState
AgentGraphInputState AgentGraphOutputState AgentIdentityState SemanticWorkingMemoryEntry
EpisodicWorkingMemoryEntry format_working_memory_entries STAGE_LABELS CrisisLogRecord CrisisOverrideOutcome
ResponseStyleType MessageRole installed_skills resource_lookup_status ThreadChangeSet
VersionPrecondition::Exact RunContext::take_delta RunDelta StateCommitter prepare_run run_loop_stream
StateScopeRegistry::run_scoped_paths Op::delete __kernel.stop_policy_runtime StateSpec
AssistantTurnCommitted react-session-*.json core_memory document_paths interpreter_state force_new_session
agent.areset DATABASE_REQUIRED AUTH_MODE=entra models_optimization.py repository_*.py
integrations/local_store.py /api/v1/sessions/{id}/export get_items add_items pop_item clear_session
prepare_input_with_session session_input_callback _current_turn_persisted_item_count RunContextWrapper
"""
"""Names of the documents that nobody should look for in vain."""


def rows() -> list[tuple[str, str, str]]:
    """The rows of the page: a name there, a name here, the difference."""
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def our_names() -> list[str]:
    return sorted({name for _, here, _ in rows() for name in CODE.findall(here)})


@cache
def definitions() -> dict[str, list[str]]:
    """The modules that define a name at their top, by name; commands have words of their own."""
    names: dict[str, list[str]] = defaultdict(list)
    for module in [each for each in modules(*SOURCES) if "/cli/" not in each.name]:
        path = re.sub(r"^(companion/)?src/|\.py$", "", module.name).removesuffix("/__init__")
        for name in {name for node in module.tree.body for name in _names_of(node)}:
            names[name].append(path.replace("/", "."))
    return names


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else getattr(node, "target", None)
    nodes = targets if isinstance(targets, list) else [targets]
    return [each.id for node in nodes if node for each in ast.walk(node) if isinstance(each, ast.Name)]


def is_defined(name: str) -> bool:
    """Whether a name leads to something: from a module on, or from the only definition that has it."""
    first, *rest = name.split(".")
    if first.startswith("clew"):
        return _is_below_a_module(name.split("."))
    homes = definitions()[first]
    assert len(homes) == 1, f"{first} is defined in {homes}: name its module"
    return _has_attributes(getattr(importlib.import_module(homes[0]), first), rest)


def _is_below_a_module(parts: list[str]) -> bool:
    for count in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return _has_attributes(module, parts[count:])
    return False


def _has_attributes(value: Any, path: list[str]) -> bool:
    """Whether there is such an attribute; the field of a class may have no default, and so be none."""
    for name in path:
        if not hasattr(value, name):
            return any(
                name in vars(kind).get("__annotations__", {}) for kind in getattr(value, "__mro__", ())
            )
        value = getattr(value, name)
    return True


def routes() -> set[tuple[str, str]]:
    """Every route that the library describes."""
    homes = [path for name, paths in definitions().items() if name.isupper() for path in paths]
    api_modules = {path for path in homes if path.startswith("clew.api.")}
    values = [value for path in api_modules for value in vars(importlib.import_module(path)).values()]
    return {(value.method, value.path) for value in values if isinstance(value, Route)}


def check_command(line: str) -> None:
    """Refuse a command, or an option of it, that there is not."""
    command: Any = typer.main.get_command(build_app())
    words = line.split()[1:]
    for word in [word for word in words if not word.startswith("--")]:
        command = command.commands[word]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("name", our_names())
def test_every_name_of_ours_exists(name: str) -> None:
    if match := ROUTE.fullmatch(name):
        assert (match[1], match[2]) in routes()
    elif name.startswith("clew "):
        check_command(name)
    elif f"| `{name}` |" not in SETTINGS.read_text(encoding="utf-8"):
        assert is_defined(name)


@pytest.mark.parametrize("name", THEIRS.split())
def test_no_name_of_theirs_is_missing(name: str) -> None:
    assert any(name in CODE.findall(there) for there, _, _ in rows())


def test_every_row_leads_to_a_page_unless_nothing_differs() -> None:
    assert [there for there, _, difference in rows() if "](" not in difference and difference != "–"] == []
