"""The pages of the documentation site, laid out for its generator: ``python -m tools.site_pages DIRECTORY``.

The navigation is docs/index.md itself. What a page links to outside docs becomes a page too, or a copy.
"""

import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]*)(#[^)\s]*)?(\))")
HEADING = re.compile(r"^(#{2,3}) (.+)$")
ENTRY = re.compile(r"^- \[(.+?)\]\(([^)\s#]+)\)")
FIRST_ITEM = re.compile(r"^(?!\s|[|>]|[-*] |\d+\. )(.+)\n(?=(?:-|\d+\.) )", re.MULTILINE)
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
PROJECT_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
API_PAGES = {"clew": "reference/generated/clew.md", "clew.runtime": "reference/generated/runtime.md"}
SOURCE_PAGE = "project/source.md"
THEME_FILES = (
    ROOT / "site/site.css",
    ROOT / "site/iframe-worker.js",
    ROOT / "src/clew/server/studio/mark.svg",
)

Navigation = list["NavigationEntry"]


@dataclass(frozen=True, kw_only=True)
class NavigationEntry:
    """A line of the navigation: a page, or a section with entries of its own."""

    title: str
    page: str = ""
    entries: Navigation = field(default_factory=list)

    def pages(self) -> Iterator[str]:
        """The pages at this entry and below it."""
        if self.page:
            yield self.page
        for entry in self.entries:
            yield from entry.pages()

    def toml(self) -> str:
        """The entry as the generator's configuration has it."""
        value = (
            json.dumps(self.page) if self.page else f"[{', '.join(entry.toml() for entry in self.entries)}]"
        )
        return f"{{ {json.dumps(self.title, ensure_ascii=False)} = {value} }}"


def read(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


def place_of(path: Path) -> str:
    """The place that a file of the repository has on the site; folders are sections of one page."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"{SOURCE_PAGE}#{anchor_of(name)}"
    if name.startswith("examples/") and path.suffix == ".py":
        return name.removesuffix(".py") + ".md"
    if path.suffix == ".md":
        return f"project/{name.lower().removesuffix('/readme.md').removesuffix('.md')}.md"
    return f"files/{name}.txt"


def anchor_of(folder: str) -> str:
    """The anchor of a folder on the page of the sources."""
    return folder.replace("/", "-").replace("_", "-")


def short_title(title: str) -> str:
    """A title as it fits into a navigation: without marks, and without what explains it."""
    return title.replace("`", "").partition(": ")[0]


def index_navigation(index: str) -> Navigation:
    """The sections of the index with their pages, in its order."""
    sections: Navigation = []
    group: Navigation = []
    for line in index.splitlines():
        if heading := HEADING.match(line):
            group = []
            entry = NavigationEntry(title=heading[2], entries=group)
            (sections if heading[1] == "##" else sections[-1].entries).append(entry)
        elif link := ENTRY.match(line):
            page = place_of((DOCS / link[2]).resolve())
            group.append(NavigationEntry(title=short_title(link[1]), page=page))
    return [section for section in sections if section.entries]


def navigation(index: str, project_pages: list[Path]) -> Navigation:
    """The whole navigation: the index, the reference made from docstrings, and the pages of the project."""
    sections = [NavigationEntry(title="Clew", page="index.md"), *index_navigation(index)]
    reference = next(section for section in sections if section.title == "Reference")
    generated = [NavigationEntry(title=name, page=page) for name, page in API_PAGES.items()]
    reference.entries.append(NavigationEntry(title="From the docstrings", entries=generated))
    listed = {page for section in sections for page in section.pages()}
    project = [
        NavigationEntry(title=page_title(path), page=place_of(path))
        for path in project_pages
        if place_of(path) not in listed
    ]
    project.append(NavigationEntry(title="Source files", page=SOURCE_PAGE))
    return [*sections, NavigationEntry(title="Project", entries=project)]


def page_title(path: Path) -> str:
    """The title of a page: its first heading; that of the README is the project's name already."""
    title = TITLE.search(FENCE.sub("", read(path)))
    return "README" if path == ROOT / "README.md" or title is None else short_title(title[1])


def prose_parts(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a page in order, each with whether it is prose; the others are blocks of code."""
    end = 0
    for fence in FENCE.finditer(text):
        yield text[end : fence.start()], True
        yield fence[0], False
        end = fence.end()
    yield text[end:], True


def part_lists(prose: str) -> str:
    """Put an empty line before the first item of each list: the generator takes it for text without one."""
    return FIRST_ITEM.sub(r"\1\n\n", prose)


class SitePages:
    """The pages of the site below a folder, with every file that one of them leads to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queue: list[Path] = []
        self._seen: set[Path] = set()
        self._folders: set[Path] = {ROOT / "src/clew"}

    def write(self) -> None:
        """Write every page, copy and image, and the generator's configuration."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for path in sorted(DOCS.rglob("*")):
            if path.is_file():
                self._add(path)
        for name in PROJECT_PAGES:
            self._add(ROOT / name)
        while self._queue:
            self._write_file(self._queue.pop(0))
        for name, page in API_PAGES.items():
            self._write_text(page, api_page(name))
        self._write_text(SOURCE_PAGE, self._source_page())
        while self._queue:
            self._write_file(self._queue.pop(0))
        self._write_configuration()

    def _add(self, path: Path) -> None:
        """Note that a file is to be on the site."""
        if path.is_dir():
            self._folders.add(path)
        elif path not in self._seen:
            self._seen.add(path)
            self._queue.append(path)

    def _write_file(self, path: Path) -> None:
        """Write one file to its place: as a page, as a page that shows its code, or as a copy."""
        place = place_of(path)
        if path.suffix == ".md":
            self._write_text(place, self._page(path))
        elif place.endswith(".md"):
            self._write_text(place, f"# {path.name}\n\n```python\n{read(path)}```\n")
        else:
            target = self._folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def _write_text(self, place: str, text: str) -> None:
        """Write a page to its place."""
        target = self._folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _page(self, path: Path) -> str:
        """A page for the generator: its links lead to places, and a list begins after an empty line."""
        parts = []
        for part, is_prose in prose_parts(read(path)):
            parts.append(
                LINK.sub(lambda link: self._link(path, link), part_lists(part)) if is_prose else part
            )
        return "".join(parts)

    def _link(self, page: Path, link: re.Match[str]) -> str:
        """A link of a page, leading to the place that its target has on the site."""
        start, path, anchor, end = link[1], link[2], link[3] or "", link[4]
        if not path or ":" in path:
            return link[0]
        target = (page.parent / path).resolve()
        if not target.exists():
            return link[0]  # the generator reports it, with the line
        self._add(target)
        place = os.path.relpath(place_of(target), Path(place_of(page)).parent)
        return f"{start}{place}{anchor}{end}"

    def _source_page(self) -> str:
        """The page of the folders that pages link to: their files, each with what it is about."""
        lines = [
            "# Source files",
            "",
            "The folders that these pages name, and what each of their files is about.",
        ]
        for folder in sorted(self._folders):
            name = folder.relative_to(ROOT).as_posix()
            lines += ["", f"## `{name}` {{ #{anchor_of(name)} }}", ""]
            for path in sorted(folder.glob("*.py")):
                self._add(path)
                place = os.path.relpath(place_of(path), Path(SOURCE_PAGE).parent)
                lines.append(f"- [{path.name}]({place}): {first_line(path)}")
        return "\n".join(lines) + "\n"

    def _write_configuration(self) -> None:
        """Write the configuration, with the navigation, beside the pages; and what the theme needs."""
        project = sorted(
            (path for path in self._seen if path.suffix == ".md" and not path.is_relative_to(DOCS)),
            key=lambda path: (len(path.relative_to(ROOT).parts), path != ROOT / "README.md", path),
        )
        entries = navigation(read(DOCS / "index.md"), project)
        lines = "".join(f"  {entry.toml()},\n" for entry in entries)
        text = read(ROOT / "site/zensical.toml").replace("nav = []\n", f"nav = [\n{lines}]\n")
        (self._folder.parent / "zensical.toml").write_text(text, encoding="utf-8")
        for path in THEME_FILES:
            shutil.copyfile(path, self._folder / path.name)


def first_line(path: Path) -> str:
    """The first line of what a module says about itself."""
    return (ast.get_docstring(ast.parse(read(path))) or path.stem).partition("\n")[0].replace("``", "`")


def public_names(module: str) -> list[str]:
    """The names that a package offers, read from its source: nothing of it is imported."""
    tree = ast.parse(read(ROOT / "src" / module.replace(".", "/") / "__init__.py"))
    return next(
        list(ast.literal_eval(node.value))
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    )


def api_page(module: str) -> str:
    """The page from which the generator makes the reference of a package."""
    names = [name for name in public_names(module) if module == "clew" or name not in public_names("clew")]
    others = "" if module == "clew" else " What `clew` offers too is [on its page](clew.md)."
    lines = [f"# `{module}`, from its docstrings", "", f"Every public name of `{module}`.{others}"]
    return "\n".join(lines + [f"\n::: {module}.{name}" for name in names]) + "\n"


if __name__ == "__main__":
    SitePages(Path(sys.argv[1])).write()
