"""The project's own files, as the architecture tests read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "companion/src")
CODE = (*SOURCES, "tests", "bench", "examples")
QUOTES = '"""'
NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__"}


@dataclass(frozen=True, kw_only=True)
class Module:
    """One Python file, parsed when that is asked for: all of them take ten seconds."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file, parsed."""
        return ast.parse(self.text)

    @property
    def docstring(self) -> str | None:
        """What the file opens with; no more of it is parsed than need be."""
        if not self.text.startswith(QUOTES):
            return ast.get_docstring(self.tree)
        opening, quotes, rest = self.text[len(QUOTES) :].partition(QUOTES)
        return ast.get_docstring(ast.parse(QUOTES + opening + quotes + rest.partition("\n")[0]))

    def mentions(self, names: Collection[str]) -> bool:
        """Whether one of these names is anywhere in its text: if not, nothing in it can have that name."""
        return any(name in self.text for name in names)


@cache
def modules(*folders: str) -> list[Module]:
    """Every Python file below some of the project's folders."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [_read(path) for path in paths]


@cache
def _read(path: Path) -> Module:
    return Module(name=str(path.relative_to(ROOT)), text=path.read_text(encoding="utf-8"))


@cache
def texts() -> dict[str, str]:
    """Every text file that is, or would be, in the repository."""
    contents: dict[str, str] = {}
    for name in _git_files() or _walk_files():
        try:
            contents[name] = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # not text, or just deleted
    return contents


def _git_files() -> list[str]:
    """What git knows or would add; nothing where this is a copy without its history."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return []
    return [name for name in process.stdout.split("\0") if name]


def _walk_files() -> list[str]:
    paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [str(path) for path in paths if not _is_made(path)]


def _is_made(path: Path) -> bool:
    return any(part in NOT_OURS or part.endswith("_cache") for part in path.parts)
