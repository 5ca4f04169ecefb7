"""The built documentation site, held to what it promises: ``python -m tools.site_links DIRECTORY``.

Every link leads to a page, and to an anchor that is there; every page is in the navigation; nothing is loaded
from elsewhere, so that the site works from a folder without a network.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED_RELATIONS = {
    "stylesheet",
    "icon",
    "preload",
    "modulepreload",
    "preconnect",
    "dns-prefetch",
    "prefetch",
    "manifest",
}
SOURCE_TAGS = {"audio", "embed", "iframe", "img", "input", "script", "source", "track", "video"}
NOT_FOUND = "404.html"
"""What a server shows in place of a page: it is in no navigation, and its addresses begin at the root."""


@dataclass
class SitePage:
    """A page: its anchors, the links that a reader can follow, and what a browser loads for it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


class PageReader(HTMLParser):
    """Reads one page of the site."""

    def __init__(self) -> None:
        super().__init__()
        self.page = SitePage()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag is, leads to or loads."""
        values = {name: value for name, value in attrs if value is not None}
        self.page.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.page.links.append(values["href"])
        elif tag == "link" and LOADED_RELATIONS & set(values.get("rel", "").split()):
            self.page.resources.append(values["href"])
        elif tag in SOURCE_TAGS and "src" in values:
            self.page.resources.append(values["src"])


def read_page(path: Path) -> SitePage:
    """Read a page of the site."""
    reader = PageReader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def is_elsewhere(address: str) -> bool:
    """Whether an address leads away from the site."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def target_of(page: Path, address: str) -> Path:
    """The file that an address on a page leads to."""
    path = unquote(urlsplit(address).path)
    if page.name == NOT_FOUND:
        path = path.removeprefix("/")
    target = (page.parent / path).resolve() if path else page
    return target / "index.html" if target.is_dir() else target


class Site:
    """A built site, and what is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._pages = {path: read_page(path) for path in sorted(self._folder.rglob("*.html"))}

    def faults(self) -> list[str]:
        """Everything that is wrong, page by page."""
        faults = [fault for path in self._pages for fault in self._page_faults(path)]
        return faults + [f"{page}: is in no navigation" for page in sorted(self._orphans())]

    def _page_faults(self, path: Path) -> Iterator[str]:
        """What is wrong with the links and resources of one page."""
        page, name = self._pages[path], path.relative_to(self._folder).as_posix()
        for resource in page.resources:
            if resource.startswith("data:"):
                continue
            if is_elsewhere(resource):
                yield f"{name}: loads {resource} from elsewhere"
            elif not target_of(path, resource).is_file():
                yield f"{name}: loads {resource}, which is not there"
        for link in page.links:
            if not is_elsewhere(link) and not self._leads_somewhere(path, link):
                yield f"{name}: links to {link}, which is not there"

    def _leads_somewhere(self, page: Path, link: str) -> bool:
        """Whether the target of a link is there, with its anchor."""
        target, anchor = target_of(page, link), unquote(urlsplit(link).fragment)
        if target not in self._pages:
            return target.is_file()
        return not anchor or anchor in self._pages[target].anchors

    def _orphans(self) -> set[str]:
        """The pages to which the first page does not lead: it has the whole navigation."""
        first = self._folder / "index.html"
        reached = {target_of(first, link) for link in self._pages[first].links if not is_elsewhere(link)}
        names = {path.relative_to(self._folder).as_posix() for path in self._pages.keys() - reached - {first}}
        return names - {NOT_FOUND}


def main(folder: str) -> int:
    """Report what is wrong with the site and return 1, or 0 if nothing is."""
    faults = Site(Path(folder)).faults()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(faults)} faults" if faults else f"The site is whole: open {folder}/index.html")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
