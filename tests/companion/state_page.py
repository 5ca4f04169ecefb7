"""The page on the companion's state, written from its schema: python -m tests.companion.state_page.

Types and meanings are read from ``state.py``. Setters and readers are found in the source: who returns a
field in a delta, and who reads it from the state.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from clew.runtime.state.declaration import schema_of
from clew.runtime.state.schema import Field, Fold, Lifecycle
from clew_companion import values
from clew_companion.state import CompanionState
from clew_companion.values import AgentOutput, CrisisAssessment, CrisisAudit, Resource

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "companion" / "state.md"
SOURCE = ROOT / "companion" / "src" / "clew_companion"
COMMAND = "python -m tests.companion.state_page"
STAGES = {
    "load_memory": ("memory/load.py", "make_load_stage"),
    "crisis_gate": ("crisis/gate.py", "make_crisis_gate"),
    "triage": ("triage.py", "triage"),
    "crisis_response": ("crisis/help.py", "crisis_response"),
    "memory_control": ("memory/control.py", "memory_control"),
    "grounded_lookup": ("lookup.py", "make_lookup_stage"),
    "guided_exercise": ("exercises/guide.py", "guided_exercise"),
    "therapeutic_reply": ("replies/stage.py", "make_reply_stage"),
    "finalize_turn": ("turn_end.py", "finalize_turn"),
    "listen": ("pipeline.py", "_new_episode_delta"),
    "answer": ("pipeline.py", "branch_name"),
    "panel": ("context_panel.py", "describe_context"),
    "rewinds": ("entry_point.py", "rewinds_state"),
}
"""Each part of the companion that takes the state, and the function that makes it or is it."""

CALLER, RUNTIME, OUTPUT = "the caller", "the runtime", "the output"
SET_BY_RUNTIME = ("session_id", "user_id", "history", "transcript", "response_text", "diagnostics")
FOLDS = {Fold.APPEND: "append", Fold.MERGE: "merge by key", Fold.REPLACE: "last write wins"}
CLOSED_SETS = (
    "Channel",
    "MessageRole",
    "Route",
    "ResponseType",
    "ResponseStyle",
    "ResponseStyleType",
    "ResponseStyleSource",
    "Approach",
    "ClassifierPath",
    "OverrideKind",
    "LookupStatus",
    "ResourceStatus",
)
DIAGNOSTICS = {
    "turn_total_ms": "how long the turn took, stamped outside the stages",
    "stage_ms": "how long each stage took, by its name",
    "crisis_gate_ms": "how long the gate took",
    "crisis_classifier_path": "a `ClassifierPath`",
    "load_memory_ms": "how long the memory took",
    "retrieval_path": "`hybrid_rrf`, `token_recall` or `token_recall_after_embed_error`",
    "retrieval_problem": "the code of the error, if the embedder failed; of the last time that it did",
    "triage_path": "`rules`, `model` or `rules_after_model_failure`",
    "reply_path": "`model`, `offline` or `offline_after_model_failure`; of the last reply that was worded",
    "lookup_status": "a `LookupStatus`",
    "resource_lookup_status": "a `ResourceStatus`",
    "write_counts": "the `candidates` that the turn held, and the `facts`, `rules` and `arcs` that it wrote",
    "lookup_problem": "the code of the error, if a search or its model failed",
    "load_memory_problem": "the code of the error, if the memory could not be read and danger was answered",
    "turn_problem": "the code of the error, if a safe reply went out after a failure",
    "pending_records": "the number of records that wait for the store after it",
}
"""The entries of the diagnostics, and what they are."""

SCHEMA = schema_of(CompanionState)
INTRODUCTION = f"""\
# The companion's state

<!-- Written by {COMMAND}: edit companion/src/clew_companion/state.py and run it again. -->

What the stages of [the companion](index.md) read and write, field by field. It is a
[state](../how-to/declare-state.md) like any other, inside the runtime: callers see
[`AgentInput` and `AgentOutput`](#what-callers-see).

| lifecycle | means |
|---|---|
| input | set when the turn begins, written by no stage |
| reducer | kept from turn to turn; a change is folded in |
| loaded | found anew in each turn |
| turn | fresh in each turn; the last write wins |

What has the scope of a turn is gone with it, and what has that of the thread lives as long as the thread.
*Set by* and *read by* name stages; `panel` is the context that a chat shows, `rewinds` the check before a
turn is taken back. In a call the stages `crisis_gate` and `crisis_response` run alone.

## Fields
"""


class StateUse(ast.NodeVisitor):
    """The fields that a stage sets in its deltas and reads from the state, wherever its functions are."""

    def __init__(self, module: str, function: str) -> None:
        self.set_names: set[str] = set()
        self.read_names: set[str] = set()
        self._literals: set[str] = set()
        self._unknown: list[Field] = []
        self._seen: set[tuple[str, str]] = set()
        self._module = module
        self._visit_function(module, function)
        for field in self._unknown:
            # What a variable holds is told by the dicts that the stage makes, or else may be anything.
            parts = {leaf.name for leaf in _leaves(field)}
            self.set_names |= {name for name in parts if name.split(".")[1] in self._literals} or parts

    def _visit_function(self, module: str, name: str) -> None:
        """Visit a function of the companion once, and with it those that it calls."""
        node = MODULES[module].functions.get(name) if module in MODULES else None
        if node is None or (module, name) in self._seen:
            return
        self._seen.add((module, name))
        caller, self._module = self._module, module
        self.generic_visit(node)
        self._module = caller

    def visit_Name(self, node: ast.Name) -> None:
        """Follow a name that is a function of the companion, here or in a module that it is imported from."""
        module = MODULES[self._module]
        if node.id in module.functions:
            self._visit_function(self._module, node.id)
        elif node.id in module.imports:
            self._visit_function(module.imports[node.id], node.id)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave out what is stamped on a message: it is no delta."""
        if not (isinstance(node.target, ast.Name) and node.target.id == "meta"):
            self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Note the fields of a delta: a dict whose keys are fields and nothing else."""
        parts = dict(_named_values(node))
        self._literals |= parts.keys()
        if parts.keys() <= SCHEMA.fields.keys():
            for name, value in parts.items():
                self._note_change(SCHEMA.fields[name], value)
        self.generic_visit(node)

    def _note_change(self, field: Field, value: ast.expr) -> None:
        if field.parts is None:
            self.set_names.add(field.name)
        elif isinstance(value, ast.Dict):
            self.set_names |= {f"{field.name}.{name}" for name, _ in _named_values(value)}
        elif isinstance(value, ast.Name) and value.id.isupper():
            self.set_names |= {leaf.name for leaf in _leaves(field)}
        else:
            self._unknown.append(field)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note a field that is read: ``state.crisis`` and ``state.memory_control.action``."""
        match node:
            case ast.Attribute(attr=part, value=ast.Attribute(attr=name, value=ast.Name(id="state"))):
                field = SCHEMA.fields.get(name)
                if field is not None:
                    is_part = field.parts is not None and part in field.parts.fields
                    self.read_names.add(f"{name}.{part}" if is_part else name)
            case ast.Attribute(attr=name, value=ast.Name(id="state")) if name in SCHEMA.fields:
                self.read_names |= {leaf.name for leaf in _leaves(SCHEMA.fields[name])}
            case _:
                self.generic_visit(node)


def _named_values(node: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def _leaves(field: Field) -> list[Field]:
    return [field] if field.parts is None else list(field.parts.leaves)


class SourceModule:
    """A module of the companion: its functions, and where it imports others from."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text("utf-8"))
        self.functions = {
            node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self.imports = {
            alias.name: "/".join(node.module.split(".")[1:]) + ".py"
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("clew_companion.")
            for alias in node.names
        }


MODULES = {str(path.relative_to(SOURCE)): SourceModule(path) for path in sorted(SOURCE.rglob("*.py"))}


def uses() -> dict[str, StateUse]:
    """What each stage sets and reads, by its name."""
    return {stage: StateUse(*place) for stage, place in STAGES.items()}


class FieldText:
    """The types and the meanings that ``state.py`` gives its fields, by class and name."""

    def __init__(self) -> None:
        self.types: dict[tuple[str, str], str] = {}
        self.meanings: dict[tuple[str, str], str] = {}
        tree = ast.parse((SOURCE / "state.py").read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._read(node)

    def _read(self, node: ast.ClassDef) -> None:
        name = ""
        for line in node.body:
            match line:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    self.types[node.name, name] = _plain_type(annotation)
                case ast.Expr(value=ast.Constant(value=str(text))) if name:
                    self.meanings[node.name, name] = text


def _plain_type(annotation: ast.expr) -> str:
    """The type of an annotation without its marks."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return ast.unparse(kind)
    return ast.unparse(annotation)


def page() -> str:
    """The whole page."""
    text, stages = FieldText(), uses()
    tables = []
    for field in SCHEMA.fields.values():
        if field.parts is not None:
            continue
        tables.append(_row(field, CompanionState.__name__, text, stages))
    parts = ["\n".join([INTRODUCTION, HEADER, *tables, ""])]
    for field in SCHEMA.fields.values():
        if field.parts is not None:
            cls = field.parts.cls
            rows = [_row(leaf, cls.__name__, text, stages) for leaf in field.parts.leaves]
            doc = " ".join((cls.__doc__ or "").replace("``", "`").split())
            parts.append("\n".join([f"### `{field.name}`\n", f"{doc}\n", HEADER, *rows, ""]))
    return "\n".join([*parts, _diagnostics_part(), _values_part(), _callers_part()])


COLUMNS = ("field", "type", "lifecycle", "scope", "reducer", "set by", "read by", "what it is")
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def _row(field: Field, cls: str, text: FieldText, stages: dict[str, StateUse]) -> str:
    key = cls, field.path[-1]
    cells = [
        f"`{field.name}`",
        f"`{text.types[key]}`".replace("|", "\\|"),
        field.lifecycle.value,
        "turn"
        if field.lifecycle in (Lifecycle.INPUT, Lifecycle.TURN, Lifecycle.LOADED)
        else field.lifetime.value,
        "" if field.lifecycle is Lifecycle.INPUT else FOLDS[field.fold],
        ", ".join(setters(field, stages)),
        ", ".join(readers(field, stages)),
        text.meanings[key],
    ]
    return f"| {' | '.join(cells)} |"


def setters(field: Field, stages: dict[str, StateUse]) -> list[str]:
    """The parts of the program that set a field."""
    runtime = [RUNTIME] if field.name in SET_BY_RUNTIME else []
    if field.lifecycle is Lifecycle.INPUT:
        return runtime or [CALLER]
    log = "history" if field.whole_of else field.name
    return [*runtime, *(f"`{stage}`" for stage, use in stages.items() if log in use.set_names)]


def readers(field: Field, stages: dict[str, StateUse]) -> list[str]:
    """The parts of the program that read a field."""
    output = [OUTPUT] if field.name in AgentOutput.__struct_fields__ else []
    return [*(f"`{stage}`" for stage, use in stages.items() if field.name in use.read_names), *output]


def _diagnostics_part() -> str:
    rows = [f"| `{name}` | {text} |" for name, text in DIAGNOSTICS.items()]
    return "\n".join(
        [
            "## Diagnostics\n",
            "Entries are merged by key. An episode has `write_counts` of its own, of its end.\n",
            "| entry | what it is |\n|---|---|",
            *rows,
            "",
        ]
    )


def _values_part() -> str:
    rows = [f"| `{name}` | {_choices(getattr(values, name))} |" for name in CLOSED_SETS]
    structs = [
        f"| `{kind.__name__}` | {', '.join(f'`{name}`' for name in kind.__struct_fields__)} |"
        for kind in (CrisisAssessment, CrisisAudit, Resource)
    ]
    return "\n".join(
        [
            "## Values\n",
            "A value that is not listed is refused when it is written. The error names field and values.\n",
            "| type | values |\n|---|---|",
            *rows,
            "\n| type | parts |\n|---|---|",
            *structs,
            "",
        ]
    )


def _choices(kind: Any) -> str:
    is_enum = isinstance(kind, type) and issubclass(kind, enum.Enum)
    choices = [member.value for member in kind] if is_enum else get_args(kind)
    return ", ".join(f"`{choice}`" if choice else "empty until it is set" for choice in choices)


def _callers_part() -> str:
    return "\n".join(
        [
            "## What callers see\n",
            "| type | fields |\n|---|---|",
            *(
                f"| `{kind.__name__}` | {', '.join(f'`{name}`' for name in kind.__struct_fields__)} |"
                for kind in (values.AgentInput, AgentOutput)
            ),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
