"""The documentation is whole: every code, name, op, setting and table is there, and every link leads on."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import clew
import clew.testing
from clew.core import errors, ops
from clew.core.errors import ClewError
from clew.database.database import Database
from clew.database.jobs import Jobs
from clew.database.log import Log
from clew.database.records import Records
from clew.database.thread import Thread
from tests.architecture.source import ROOT

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SECTION = re.compile(r"^## `(\w+)`$", re.MULTILINE)
TABLE = re.compile(r"^CREATE TABLE (\w+) \((.*?)^\)", re.MULTILINE | re.DOTALL)
COLUMN = re.compile(r"^    ([a-z_]+) [A-Z]", re.MULTILINE)
LONGEST_DECISION = 45


def read(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return FENCE.sub("", read(page))


def all_errors() -> list[type[ClewError]]:
    """Every error, in the order in which they are defined."""
    return [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, ClewError)]


def sections() -> dict[str, str]:
    """What the page of errors says of each code, in its order."""
    parts = SECTION.split(read(REFERENCE / "errors.md"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchors(page: Path) -> set[str]:
    """What a link can lead to within a page."""
    names = HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", name.lower()).strip().replace(" ", "-") for name in names}


def public_methods(kind: type) -> list[str]:
    """What one can do with an object of this kind."""
    return [name for name in vars(kind) if not name.startswith("_")]


def test_every_error_code_has_its_heading() -> None:
    assert list(sections()) == [kind.code for kind in all_errors()]


def test_no_heading_of_the_errors_is_without_a_code() -> None:
    headings = HEADING.findall(prose(REFERENCE / "errors.md"))

    assert headings == ["Errors", *(f"`{code}`" for code in sections())]


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: str(kind.code))
def test_what_an_error_carries_is_said(kind: type[ClewError]) -> None:
    section = sections()[kind.code]

    assert [
        name for name in (kind.__name__, *(f.name for f in fields(kind))) if f"`{name}`" not in section
    ] == []


def test_every_public_name_is_in_the_reference() -> None:
    page = prose(REFERENCE / "api.md")
    names = [*clew.__all__, *clew.testing.__all__]

    assert [name for name in names if not re.search(rf"^\| `{name}\b", page, re.MULTILINE)] == []


@pytest.mark.parametrize("kind", [Database, Thread, Log, Records, Jobs], ids=lambda kind: str(kind.__name__))
def test_every_method_is_in_the_reference(kind: type) -> None:
    section = prose(REFERENCE / "api.md").partition(f"\n## `{kind.__name__}`\n")[2].partition("\n## ")[0]

    assert sorted(re.findall(r"^\| `(\w+)", section, re.MULTILINE)) == sorted(public_methods(kind))


def test_every_op_is_in_the_reference() -> None:
    rows = re.findall(r"^\| `(\w+)\(path", prose(REFERENCE / "ops.md"), re.MULTILINE)

    assert rows == [kind.__name__.lower() for kind in ops.Op.__args__]


def fields_of(config: object, path: str = "config") -> list[str]:
    """The fields of a configuration, each by its path: those of a group in place of the group."""
    paths = []
    for field in fields(config):  # type: ignore[arg-type]  # a dataclass, or this fails
        value, name = getattr(config, field.name), f"{path}.{field.name}"
        paths += fields_of(value, name) if is_dataclass(value) else [name]
    return paths


def test_every_field_of_a_runtime_configuration_is_in_the_reference() -> None:
    rows = re.findall(r"^\| `(config\.[\w.]+)` \|", prose(REFERENCE / "runtime.md"), re.MULTILINE)

    assert rows == fields_of(clew.RuntimeConfig())


def test_every_keyword_of_a_runtime_is_in_the_reference() -> None:
    table = prose(REFERENCE / "runtime.md").partition("\n## `Runtime`\n")[2].partition("| method |")[0]
    keywords = list(inspect.signature(clew.Runtime).parameters)[1:]

    assert re.findall(r"`(\w+)=`", table) == keywords


def test_every_table_of_sqlite_is_in_the_reference() -> None:
    page = prose(REFERENCE / "format.md")
    folder = ROOT / "src/clew/stores/sqlite/migrations"
    tables = {
        name: COLUMN.findall(body)
        for path in sorted(folder.glob("*.sql"))
        for name, body in TABLE.findall(read(path))
    }
    rows = {name: ", ".join(f"`{column}`" for column in columns) for name, columns in tables.items()}

    assert [name for name, columns in rows.items() if f"\n| `{name}` | {columns} |" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(prose(page)) if "://" not in link]
    dead = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)

    assert dead == []


def test_every_page_can_be_reached_from_the_index() -> None:
    targets = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(prose(DOCS / "index.md"))}
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {(DOCS / "index.md").resolve()}

    assert sorted(str(page.relative_to(ROOT)) for page in pages - targets) == []


def test_a_decision_fits_on_a_page() -> None:
    long = [
        page.name
        for page in (DOCS / "decisions").glob("*.md")
        if len(read(page).splitlines()) > LONGEST_DECISION
    ]

    assert long == []


def test_a_link_and_an_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`: three\n\n[here](other.md#x)\n\n```\n[not](this.md)\n```\n", encoding="utf-8"
    )

    assert LINK.findall(prose(page)) == ["other.md#x"]
    assert anchors(page) == {"one-two-three"}
