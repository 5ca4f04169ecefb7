"""The Studio's pages: files beside this package, sent as they are. What they show they ask the API for."""

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.response import Redirect

from clew.server.http.callers import OPEN

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE = "index.html"
ROOT = b'"/studio/'
"""How the page names what it needs."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-cache",
}
"""Nothing of another site is loaded, and no script or style but those in files of our own."""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as it is sent."""

    content: bytes
    kind: str
    tag: str


@cache
def every_file() -> dict[str, File]:
    """The files of the Studio by their paths below ``/studio``."""
    return dict(_below(files("clew.server").joinpath("studio"), ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    found: list[tuple[str, File]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif (kind := TYPES.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            tag = hashlib.sha256(content).hexdigest()[:20]
            found.append((prefix + entry.name, File(content=content, kind=kind, tag=f'"{tag}"')))
    return found


@get("/", include_in_schema=False, opt={OPEN: True})
async def front() -> Redirect:
    """The way to the Studio, from wherever this is reached at."""
    return Redirect("studio")


@get("/studio", include_in_schema=False, opt={OPEN: True})
async def studio(request: Request[object, object, State]) -> Response[bytes]:
    """The Studio."""
    return _sent(_page(request), request)


@get("/studio/{path:path}", include_in_schema=False, opt={OPEN: True})
async def studio_file(path: FromPath[str], request: Request[object, object, State]) -> Response[bytes]:
    """A file of the Studio; any other address is one of its pages, which are all one."""
    found = every_file().get(path.lstrip("/"))
    return _sent(_page(request) if found is None or found.kind == TYPES["html"] else found, request)


def _page(request: Request[object, object, State]) -> File:
    """The page for an address. There may be a proxy's prefix before it, so it names all by the way up."""
    said = bytes(request.scope.get("raw_path") or request.scope["path"].encode())
    up = b"../" * (said.partition(b"?")[0].count(b"/") - 1)
    file = every_file()[PAGE]
    tag = f'"{len(up)}-{file.tag.strip(chr(34))}"'
    return File(content=file.content.replace(ROOT, b'"' + up + b"studio/"), kind=file.kind, tag=tag)


def _sent(file: File, request: Request[object, object, State]) -> Response[bytes]:
    headers = {**HEADERS, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(b"", status_code=304, headers=headers, media_type=file.kind)
    return Response(file.content, headers=headers, media_type=file.kind)


STUDIO = [front, studio, studio_file]
