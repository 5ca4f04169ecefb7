"""Paths of manifests on a volume, and manifests of the older layout."""

import re
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

import msgspec

from clew.core.encoding import JSON, check_id
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import (
    FORMAT,
    InterpreterState,
    Manifest,
    ManifestItem,
    ManifestState,
    manifest_from,
)

NO_USER = "~"
"""The folder of sessions that belong to no user; no name is written like this."""
PLAIN_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
MOST_LETTERS, PREFIX_LETTERS = 160, 80
"""A name that takes more letters than the first is cut to the second, and made unique by its hash."""
OLD_NAME = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?\Z")
"""A name that the older layout left as it was; it made others out of all that it could not write."""


class ManifestAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A session by tenant, owner and id."""

    workspace: str
    user: str | None
    session: str

    def __post_init__(self) -> None:
        check_id(self.workspace, "workspace")
        check_id(self.session, "session")
        if self.user is not None:
            check_id(self.user, "user")


def file_name(name: str) -> str:
    """A name as a part of a path: two names that differ differ on every file system.

    Small letters, digits, ``-`` and ``_`` stay as they are. Any other byte is ``=`` and its number, so
    that neither case nor dots, slashes or forms of one character matter.
    """
    letters = "".join(chr(byte) if byte in PLAIN_BYTES else f"={byte:02x}" for byte in name.encode())
    return (
        letters
        if len(letters) <= MOST_LETTERS
        else f"{letters[:PREFIX_LETTERS]}~{sha256(name.encode()).hexdigest()}"
    )


def manifest_path(address: ManifestAddress) -> PurePosixPath:
    """The path of a manifest below the root of its volume."""
    user = NO_USER if address.user is None else file_name(address.user)
    folder = PurePosixPath("meta", "workspaces", file_name(address.workspace), "users", user)
    return folder / manifest_name(address.session)


def manifest_name(session: str) -> str:
    """The file name of a session's manifest."""
    return f"react-session-{file_name(session)}.json"


def older_paths(address: ManifestAddress) -> list[PurePosixPath]:
    """The paths that the older layout may have. Names that it would have changed are not looked for."""
    names = (address.workspace, address.user or "", address.session)
    if not all(OLD_NAME.match(name) and ".." not in name for name in names):
        return []
    folder = PurePosixPath("workspaces", address.workspace, "users", names[1])
    name = f"react-session-{address.session}.json"
    return [folder / name, folder / "memory" / name]


# The older documents.


class _OldTurn(msgspec.Struct, frozen=True):
    user_request: str = ""
    assistant_response: str = ""


class _OldSandbox(msgspec.Struct, frozen=True):
    sandbox_id: str | None = None
    workspace_path: str | None = None
    repo_url: str | None = None
    repo_ref: str | None = None
    context_paths: list[str] | None = None
    volume_name: str | None = None
    volume_subpath: str | None = None
    loaded_document_paths: list[str] | None = None


class _OldState(msgspec.Struct, frozen=True):
    history: list[_OldTurn] | None = None
    core_memory: dict[str, Any] | None = None
    document_paths: list[str] | None = None
    interpreter_state: _OldSandbox | None = None
    daytona: _OldSandbox | None = None


class _OldManifest(msgspec.Struct, frozen=True):
    state: _OldState | None = None


def older_manifest(session: str, document: JSON) -> Manifest:
    """The manifest in a document of the older layout; one of ours is taken as it is.

    Raises:
        InvalidArgument: It cannot be read.
    """
    if isinstance(document, dict) and document.get("format") == FORMAT:
        return manifest_from(document)
    try:
        state = msgspec.convert(document, _OldManifest).state or _OldState()
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"The older manifest cannot be read: {error}.") from error
    sandbox = state.interpreter_state or state.daytona or _OldSandbox()
    contents = ManifestState(
        history=[entry for turn in state.history or [] for entry in _items_of_turn(turn)],
        core_memory=state.core_memory or {},
        document_paths=state.document_paths or sandbox.loaded_document_paths or [],
        interpreter_state=_interpreter_state(sandbox),
    )
    document = {"format": FORMAT, "version": 1, "session": session, "state": contents}
    return manifest_from(msgspec.to_builtins(document))


def _items_of_turn(turn: _OldTurn) -> list[ManifestItem]:
    pairs = (("user", turn.user_request), ("assistant", turn.assistant_response))
    return [ManifestItem(role=role, body={"content": text}) for role, text in pairs if text]


def _interpreter_state(sandbox: _OldSandbox) -> dict[str, Any]:
    state = InterpreterState(
        sandbox_id=sandbox.sandbox_id,
        workspace_path=sandbox.workspace_path,
        repository_url=sandbox.repo_url,
        repository_ref=sandbox.repo_ref,
        context_paths=sandbox.context_paths or [],
        volume_name=sandbox.volume_name,
        volume_subpath=sandbox.volume_subpath,
    )
    document: dict[str, Any] = msgspec.to_builtins(state)
    return document
