"""The documentation site: its navigation has every page, and what is wrong with a built one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
import clew.runtime
from tests.architecture.source import ROOT
from tools.site_links import Site
from tools.site_pages import (
    API_PAGES,
    DOCS,
    FENCE,
    LINK,
    SOURCE_PAGE,
    SitePages,
    api_page,
    index_navigation,
    part_lists,
    place_of,
    public_names,
)

WHOLE = (
    '<a href="other.html#here">other</a><a href="https://example.org">away</a><script src="a.js"></script>'
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the site, as the generator gets them."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    SitePages(folder).write()
    return folder


def built_site(folder: Path, index: str = WHOLE, other: str = '<h2 id="here">Here</h2>') -> Site:
    """A built site of two pages."""
    (folder / "index.html").write_text(index, encoding="utf-8")
    (folder / "other.html").write_text(other, encoding="utf-8")
    (folder / "a.js").touch()
    return Site(folder)


def test_the_navigation_has_every_page() -> None:
    sections = index_navigation((DOCS / "index.md").read_text(encoding="utf-8"))
    places = [place for section in sections for place in section.pages()]

    assert {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - set(places) == {"index.md"}
    assert sorted(places) == sorted(set(places))


def test_a_heading_below_a_section_is_a_section_of_it() -> None:
    sections = index_navigation("## How-to\n\n### Threads\n\n- [Open: a store](how-to/open-a-store.md)\n")

    assert [section.toml() for section in sections] == [
        '{ "How-to" = [{ "Threads" = [{ "Open" = "how-to/open-a-store.md" }] }] }'
    ]


def test_every_link_of_a_laid_out_page_leads_to_a_file(pages: Path) -> None:
    dead = [
        (page.relative_to(pages).as_posix(), link[2])
        for page in pages.rglob("*.md")
        for link in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8")))
        if link[2] and ":" not in link[2] and not (page.parent / link[2]).is_file()
    ]

    assert dead == []


def test_every_laid_out_page_is_in_the_configuration(pages: Path) -> None:
    configuration = (pages.parent / "zensical.toml").read_text(encoding="utf-8")
    places = [page.relative_to(pages).as_posix() for page in pages.rglob("*.md")]

    assert [place for place in places if f'= "{place}"' not in configuration] == []


def test_a_list_begins_after_an_empty_line() -> None:
    prose = "**Do it.**\n- one\n  goes on\n- two\n\nText\n1. first\n2. second\n"

    assert part_lists(prose) == "**Do it.**\n\n- one\n  goes on\n- two\n\nText\n\n1. first\n2. second\n"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("docs/how-to/serve.md", "how-to/serve.md"),
        ("README.md", "project/readme.md"),
        ("examples/ai_sdk/README.md", "project/examples/ai_sdk.md"),
        ("examples/quickstart.py", "examples/quickstart.md"),
        ("src/clew/urls.py", "files/src/clew/urls.py.txt"),
        ("src/clew/core", f"{SOURCE_PAGE}#src-clew-core"),
    ],
)
def test_a_file_of_the_repository_has_a_place_on_the_site(name: str, place: str) -> None:
    assert place_of(ROOT / name) == place


def test_the_api_pages_name_every_public_name() -> None:
    text = "".join(api_page(module) for module in API_PAGES)
    names = {*clew.__all__, *clew.runtime.__all__}

    assert [name for name in names if f".{name}\n" not in text] == []
    assert public_names("clew.runtime") == clew.runtime.__all__


def test_a_whole_site_has_no_faults(tmp_path: Path) -> None:
    assert built_site(tmp_path).faults() == []


@pytest.mark.parametrize(
    ("tag", "fault"),
    [
        ('<a href="gone.html">x</a>', "index.html: links to gone.html, which is not there"),
        ('<a href="other.html#gone">x</a>', "index.html: links to other.html#gone, which is not there"),
        ('<img src="gone.png">', "index.html: loads gone.png, which is not there"),
        (
            '<script src="https://example.org/a.js"></script>',
            "index.html: loads https://example.org/a.js from elsewhere",
        ),
        (
            '<link rel="stylesheet" href="//example.org/a.css">',
            "index.html: loads //example.org/a.css from elsewhere",
        ),
    ],
)
def test_a_fault_of_a_page_is_found(tmp_path: Path, tag: str, fault: str) -> None:
    assert built_site(tmp_path, WHOLE + tag).faults() == [fault]


def test_a_page_in_no_navigation_is_found(tmp_path: Path) -> None:
    assert built_site(tmp_path, "").faults() == ["other.html: is in no navigation"]
