"""What the documentation shows is what happens: every Python block is run, and its output compared.

The blocks of a page are run in order, in one namespace and an empty directory, as ``python -m asyncio``
would run them. A ``text`` block right behind a Python block is what it prints. ``<!-- not run: reason -->``
before a block leaves it out.
"""

from __future__ import annotations

import ast
import asyncio
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from inspect import CO_COROUTINE
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = {
    "docs/how-to/high-availability.md": 1,
    "docs/how-to/observe.md": 1,
    "docs/how-to/open-a-store.md": 1,
    "docs/how-to/write-a-store.md": 1,
}
"""How many blocks of which pages are not run; a new one has to be entered here."""

BLOCK = re.compile(
    r"(?P<mark><!-- not run: [^\n]+ -->\n+)?"
    r"^```python\n(?P<code>.*?)^```\n(?:\n*^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One Python block of a page: where it begins, what it says, and what it is said to print."""

    line: int
    code: str
    output: str
    runs: bool


def blocks_of(text: str) -> list[Block]:
    """The Python blocks of a page, in order."""
    return [
        Block(
            line=text.count("\n", 0, match.start("code")) + 1,
            code=match["code"],
            output=match["output"] or "",
            runs=match["mark"] is None,
        )
        for match in BLOCK.finditer(text)
    ]


def name_of(page: Path) -> str:
    """A page by its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def run(block: Block, page: str, runner: asyncio.Runner, names: dict[str, object]) -> str:
    """What a block prints. Its lines are those of the page, for whoever reads the traceback."""
    code = compile(
        "\n" * (block.line - 1) + block.code,
        page,
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    with redirect_stdout(io.StringIO()) as output:
        waiting = eval(code, names)
        if code.co_flags & CO_COROUTINE:
            runner.run(waiting)
    return output.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = [block for block in blocks_of(page.read_text(encoding="utf-8")) if block.runs]

    with asyncio.Runner() as runner:
        outputs = [(block.line, run(block, name_of(page), runner, names)) for block in blocks]

    assert outputs == [(block.line, block.output) for block in blocks]


@pytest.mark.parametrize("tutorial", ["first-thread", "first-agent"])
def test_a_tutorial_can_be_pasted_at_the_prompt(tutorial: str, tmp_path: Path) -> None:
    """In one go, as a browser's clipboard gives it; the last part of one asks for another prompt."""
    blocks = blocks_of((ROOT / f"docs/tutorial/{tutorial}.md").read_text(encoding="utf-8"))
    text = "\n".join(block.code for block in blocks if "clew.sync" not in block.code)

    process = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=text,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "Error" not in process.stderr
    assert process.stderr.rstrip().endswith("exiting asyncio REPL...")


def test_what_is_not_run_is_known() -> None:
    omissions = {
        name_of(page): sum(not block.runs for block in blocks_of(page.read_text(encoding="utf-8")))
        for page in PAGES
    }

    assert {page: count for page, count in omissions.items() if count} == NOT_RUN


def test_every_python_block_is_found() -> None:
    counts = {name_of(page): len(blocks_of(page.read_text(encoding="utf-8"))) for page in PAGES}
    fences = {name_of(page): page.read_text(encoding="utf-8").count("```py") for page in PAGES}

    assert counts == fences


@pytest.mark.slow
def test_the_store_of_the_guide_keeps_the_contract(tmp_path: Path) -> None:
    """The guide's store and its test, as files of their own; a part of the contract is enough here."""
    store, test = blocks_of((ROOT / "docs/how-to/write-a-store.md").read_text(encoding="utf-8"))[-2:]
    (tmp_path / "counting.py").write_text(store.code, encoding="utf-8")
    (tmp_path / "test_counting.py").write_text(test.code, encoding="utf-8")

    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "append or fork or window"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.returncode == 0, process.stdout
    assert "failed" not in process.stdout
    assert " passed" in process.stdout
