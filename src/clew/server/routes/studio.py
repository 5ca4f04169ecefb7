"""The Studio's pages: files beside this package, sent as they are. What they show they ask the API for."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.response import Redirect

from clew.agents.agent import Agent
from clew.server.http.endpoint import OPEN_TO_ALL
from clew.server.tenants.realtime import RealtimeProvider

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX_FILE = "index.html"
ROOT = b'"/studio/'
"""How the page names what it needs."""
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src {origins}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing of another site is loaded, and no script or style but those in files of our own."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class StudioFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as it is sent."""

    content: bytes
    media_type: str
    etag: str


@cache
def studio_files() -> dict[str, StudioFile]:
    """The files of the Studio by their paths below ``/studio``."""
    return dict(_files_below(files("clew.server").joinpath("studio"), ""))


def _files_below(folder: Traversable, prefix: str) -> list[tuple[str, StudioFile]]:
    files_by_path: list[tuple[str, StudioFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            files_by_path += _files_below(entry, f"{prefix}{entry.name}/")
        elif (media_type := MEDIA_TYPES.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            tag = hashlib.sha256(content).hexdigest()[:20]
            files_by_path.append(
                (prefix + entry.name, StudioFile(content=content, media_type=media_type, etag=f'"{tag}"'))
            )
    return files_by_path


def agent_files(agents: Iterable[Agent]) -> dict[str, StudioFile]:
    """The files that agents add to the Studio, by their paths below ``/studio``."""
    return dict(
        entry
        for agent in agents
        if agent.studio is not None
        for entry in _files_below(agent.studio.folder, f"agents/{agent.name}/")
    )


@get("/", include_in_schema=False, opt={OPEN_TO_ALL: True})
async def redirect_to_studio() -> Redirect:
    """The way to the Studio, from wherever this is reached at."""
    return Redirect("studio")


@get("/studio", include_in_schema=False, opt={OPEN_TO_ALL: True})
async def studio(request: Request[object, object, State]) -> Response[bytes]:
    """The Studio."""
    return _file_response(_index_page(request), request)


@get("/studio/{path:path}", include_in_schema=False, opt={OPEN_TO_ALL: True})
async def studio_file(path: FromPath[str], request: Request[object, object, State]) -> Response[bytes]:
    """A file of the Studio; any other address is one of its pages, which are all one."""
    name = path.lstrip("/")
    file = studio_files().get(name) or request.app.state.agent_files.get(name)
    return _file_response(
        _index_page(request) if file is None or file.media_type == MEDIA_TYPES["html"] else file, request
    )


def _index_page(request: Request[object, object, State]) -> StudioFile:
    """The page for an address. There may be a proxy's prefix before it, so it names all by the way up."""
    address = bytes(request.scope.get("raw_path") or request.scope["path"].encode())
    way_up = b"../" * (address.partition(b"?")[0].count(b"/") - 1)
    file = studio_files()[INDEX_FILE]
    tag = f'"{len(way_up)}-{file.etag.strip(chr(34))}"'
    return StudioFile(
        content=file.content.replace(ROOT, b'"' + way_up + b"studio/"), media_type=file.media_type, etag=tag
    )


def _policies(realtime: RealtimeProvider | None) -> dict[str, str]:
    """The policies of a page. Where calls can be made, it may use a microphone and reach their provider."""
    origins = "'self'" if realtime is None else f"'self' {realtime.origin}"
    microphone = "()" if realtime is None else "(self)"
    return {
        "Content-Security-Policy": CONTENT_POLICY.format(origins=origins),
        "Permissions-Policy": f"camera=(), microphone={microphone}, geolocation=()",
    }


def _file_response(file: StudioFile, request: Request[object, object, State]) -> Response[bytes]:
    headers = {**HEADERS, **_policies(request.app.state.resources.realtime), "ETag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(b"", status_code=304, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


STUDIO_ROUTES = [redirect_to_studio, studio, studio_file]
