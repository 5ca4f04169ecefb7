"""A session as one JSON document, and the change that makes a thread hold exactly what such a document says.

Nothing in a manifest names a store, a version or the moment of writing, so a session that was imported gives
the same manifest again. An import replaces: a part that is missing, null or empty is reset, and what no
manifest holds, like the buffers of a sandbox, is gone after it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from clew.core.encoding import JSON, as_json, check_id, encode, encode_checked
from clew.core.errors import InvalidArgument
from clew.core.log import places
from clew.core.ops import Document
from clew.core.values import ABOUT_KEY, AGENT_KEY, HISTORY, Changeset, Cut, Head, Item, Window

FORMAT: Final = "clew.session"
VERSION: Final = 1
REASON: Final = "Import"
MEMORY_KEY, DOCUMENTS_KEY, INTERPRETER_KEY = "core_memory", "document_paths", "interpreter_state"
BUFFERS_KEY: Final = "sandbox_buffers"
"""The fields that a sandbox works with. No manifest holds them, and no import leaves them."""
STAMP_KEY: Final = "checkpoint"
"""The field of a file on a volume beside its manifest: see ``manifest.stamps``. No manifest has it."""
OWN_KEYS = frozenset((MEMORY_KEY, DOCUMENTS_KEY, INTERPRETER_KEY, BUFFERS_KEY))
CORE_MEMORY: Final[Mapping[str, JSON]] = {"human": "", "persona": "", "scratchpad": ""}
"""The core memory of a session that has none of its own."""


class _ManifestPart(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A part of a manifest; a name that is not known is refused, since a slip would reset what was meant."""


class ManifestItem(_ManifestPart, frozen=True, kw_only=True):
    """One item of a log, with its body as JSON, or as base64 if it is bytes."""

    role: str = ""
    kind: str = "message"
    id: str | None = None
    format: str = "clew"
    codec: str = "json"
    run: str | None = None
    step: int | None = None
    visibility: str = "all"
    call: str | None = None
    body: Any = UNSET
    base64: bytes | UnsetType = UNSET


class InterpreterState(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox of a session, and what it works on."""

    sandbox_id: str | None = None
    workspace_path: str | None = None
    repository_url: str | None = None
    repository_ref: str | None = None
    context_paths: list[str] = []
    volume_name: str | None = None
    volume_subpath: str | None = None


class SessionAbout(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a session, the agent that it belongs to, and the version of the schema that wrote it."""

    title: str | None = None
    labels: list[str] = []
    agent: str | None = None
    schema: int | None = None


class ManifestState(_ManifestPart, frozen=True, kw_only=True, omit_defaults=False):
    """The content of a session. ``fields`` is the rest of its state, ``logs`` all logs but its history."""

    history: list[ManifestItem] = []
    core_memory: dict[str, Any] = {}
    document_paths: list[str] = []
    interpreter_state: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    logs: dict[str, list[ManifestItem]] = {}


class Manifest(_ManifestPart, frozen=True, kw_only=True, omit_defaults=False):
    """A session, and what is said about it."""

    session: str
    state: ManifestState
    about: dict[str, Any] = {}
    format: str = FORMAT
    version: int = VERSION


# Writing.


def logs_of(head: Head) -> list[str]:
    """The logs of a thread that have visible items."""
    return [name for name, size in sorted(head.counters.logs.items()) if size.length]


def manifest_of(head: Head, windows: Mapping[str, Window], defaults: Mapping[str, JSON]) -> Manifest:
    """The manifest of a thread, from its head and the visible items of its logs.

    Raises:
        InvalidArgument: An item of it cannot be read, or a part of its state is no such part.
    """
    state = head.state
    entries = {name: _manifest_items(head.id, name, window) for name, window in windows.items()}
    history = entries.pop(HISTORY, [])
    contents = {
        "history": history,
        MEMORY_KEY: {**defaults, **_object_at(state, MEMORY_KEY)},
        DOCUMENTS_KEY: state.get(DOCUMENTS_KEY, []),
        INTERPRETER_KEY: {**as_json(InterpreterState()), **_object_at(state, INTERPRETER_KEY)},
        "fields": {key: value for key, value in state.items() if key[:1] != "$" and key not in OWN_KEYS},
        "logs": entries,
    }
    about = _object_at(state, ABOUT_KEY)
    return _validate(msgspec.to_builtins({"session": head.id, "about": about, "state": contents}))


def encode_manifest(manifest: Manifest) -> bytes:
    """A manifest as a file holds it: the same bytes for the same session."""
    return msgspec.json.format(encode(manifest), indent=1) + b"\n"


def _manifest_items(thread: str, log: str, window: Window) -> list[ManifestItem]:
    if any(not entry.erased for entry in window.broken):
        problem = f"An item of log {log!r} of session {thread!r} cannot be read, so no manifest can hold it."
        raise InvalidArgument(problem=problem)
    return [_manifest_item(item) for item in window]


def _manifest_item(item: Item) -> ManifestItem:
    is_bytes = isinstance(item.body, bytes)
    return ManifestItem(
        role=item.role,
        kind=item.kind,
        id=item.id,
        format=item.format,
        codec=item.codec,
        run=item.run,
        step=item.step,
        visibility=item.visibility,
        call=item.call,
        body=UNSET if is_bytes else item.body,
        base64=item.body if is_bytes else UNSET,
    )


def _object_at(state: Document, name: str) -> dict[str, JSON]:
    value = state.get(name, {})
    if not isinstance(value, dict):
        raise InvalidArgument(problem=f"The session's {name} is not an object, so no manifest can hold it.")
    return value


# Reading.


def read_manifest(data: bytes) -> Manifest:
    """The manifest that some bytes are.

    Raises:
        InvalidArgument: They are none, or one of a newer release.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(problem=f"The manifest cannot be read: {error}.") from error
    return manifest_from(document)


def manifest_from(document: JSON) -> Manifest:
    """The manifest that a document is. A part that is null is missing.

    Raises:
        InvalidArgument: It is none, or one of a newer release.
    """
    document = check_format(document)
    fields = {key: value for key, value in document.items() if value is not None and key != STAMP_KEY}
    state = fields.get("state", {})
    if isinstance(state, dict):
        fields["state"] = {key: value for key, value in state.items() if value is not None}
    return _validate(fields)


def check_format(document: JSON) -> dict[str, JSON]:
    """A document that says of itself that it is a manifest, and one that this release reads.

    Raises:
        InvalidArgument: It does not, or is one of a newer release, or of none.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidArgument(problem=f"This is no manifest of a session: its format is not {FORMAT!r}.")
    version = document.get("version")
    if isinstance(version, int) and not 1 <= version <= VERSION:
        advice = " Upgrade first." if version > VERSION else ""
        problem = f"The manifest has version {version}, and this release reads up to {VERSION}.{advice}"
        raise InvalidArgument(problem=problem)
    return document


def _validate(document: dict[str, Any]) -> Manifest:
    encode_checked(document, "manifest")
    try:
        manifest = msgspec.convert(document, Manifest)
        msgspec.convert(manifest.state.interpreter_state, InterpreterState)
        msgspec.convert(manifest.about, SessionAbout)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"The manifest cannot be used: {error}.") from error
    check_id(manifest.session, "session")
    _check_names(manifest.state)
    return manifest


def _check_names(state: ManifestState) -> None:
    wrong = [name for name in state.fields if name.startswith("$") or name in OWN_KEYS]
    wrong += [name for name in state.logs if name == HISTORY]
    if wrong:
        raise InvalidArgument(problem=f"The manifest cannot be used: {wrong[0]!r} has a place of its own.")
    for name, entries in {**state.logs, HISTORY: state.history}.items():
        check_id(name, "log name")
        for index, entry in enumerate(entries):
            if (entry.body is UNSET) == (entry.base64 is UNSET):
                problem = f"entry {index} of {name!r} has not exactly one of body and base64"
                raise InvalidArgument(problem=f"The manifest cannot be used: {problem}.")


# Replacing.


def replacement_changeset(
    head: Head | None, manifest: Manifest, defaults: Mapping[str, JSON], run_state: Document | None = None
) -> Changeset:
    """Return the change after which a thread holds what a manifest says, and nothing else.

    ``run_state`` are the keys of the state that describe the last run, if there was one.
    """
    contents = manifest.state
    state: dict[str, JSON] = dict(contents.fields)
    memory = {**defaults, **contents.core_memory}
    if memory != dict(defaults):
        state[MEMORY_KEY] = memory
    if contents.document_paths:
        state[DOCUMENTS_KEY] = contents.document_paths
    if interpreter := _without_defaults(contents.interpreter_state):
        state[INTERPRETER_KEY] = interpreter
    # Who writes a thread is not for a document to say, once an agent does.
    agent = {AGENT_KEY: head.agent} if head is not None and head.agent is not None else {}
    if about := {**manifest.about, **agent}:
        state[ABOUT_KEY] = about
    state |= run_state or {}
    items = [
        item
        for log, entries in {HISTORY: contents.history, **contents.logs}.items()
        for item in _items(log, entries)
    ]
    cuts = tuple(_cuts(head)) if head is not None else ()
    return Changeset(items=tuple(items), cuts=cuts, snapshot=state, reason=REASON)


def _without_defaults(interpreter: Mapping[str, JSON]) -> dict[str, JSON]:
    """The fields of an interpreter that differ from those of a new one."""
    new = as_json(InterpreterState())
    return {name: value for name, value in interpreter.items() if name not in new or value != new[name]}


def _items(log: str, entries: Sequence[ManifestItem]) -> list[Item]:
    items = []
    for entry in entries:
        about = {
            name: getattr(entry, name)
            for name in ManifestItem.__struct_fields__
            if name not in ("body", "base64")
        }
        body = entry.body if entry.base64 is UNSET else entry.base64
        items.append(Item(**about, log=log, body=body))
    return items


def _cuts(head: Head) -> list[Cut]:
    """The end of all that a thread shows."""
    sizes = ((name, head.counters.logs[name]) for name in logs_of(head))
    return [
        Cut(log=name, first=1, last=places.end_of(size.end), count=size.length, open={})
        for name, size in sizes
    ]
