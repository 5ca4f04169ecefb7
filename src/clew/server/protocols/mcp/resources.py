"""Threads as resources: their URIs, and their messages as JSON or as Markdown."""

from typing import Literal, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlencode

import msgspec

from clew.api.threads import MessagePage, MessageView
from clew.core.encoding import check_id
from clew.core.errors import InvalidArgument

ResourceForm: TypeAlias = Literal["threads", "transcripts"]
SCHEME = "clew://"
JSON_FORM: ResourceForm = "threads"
MARKDOWN_FORM: ResourceForm = "transcripts"
TEMPLATES: dict[ResourceForm, str] = {
    JSON_FORM: "clew://threads/{id}{?cursor}",
    MARKDOWN_FORM: "clew://transcripts/{id}{?cursor}",
}
MEDIA_TYPES: dict[ResourceForm, str] = {JSON_FORM: "application/json", MARKDOWN_FORM: "text/markdown"}


class ThreadUri(msgspec.Struct, frozen=True, kw_only=True):
    """The URI of some messages of a thread: the newest, or those behind a cursor."""

    thread: str
    form: ResourceForm = JSON_FORM
    cursor: str | None = None

    def __str__(self) -> str:
        query = "" if self.cursor is None else f"?{urlencode({'cursor': self.cursor})}"
        return f"{SCHEME}{self.form}/{quote(self.thread, safe='')}{query}"


def parse_uri(text: str) -> ThreadUri:
    """Return the URI that a text is.

    Raises:
        InvalidArgument: It is none of a thread.
        InvalidId: What it names cannot be the id of a thread.
    """
    path, _, query = text.partition("?")
    form, _, part = path.removeprefix(SCHEME).partition("/")
    for known_form in TEMPLATES:
        if path.startswith(SCHEME) and form == known_form and "/" not in part:
            cursors = parse_qs(query, errors="replace").get("cursor", [None])
            thread = check_id(unquote(part, errors="replace"), "thread")
            return ThreadUri(thread=thread, form=known_form, cursor=cursors[-1])
    raise InvalidArgument(problem=f"A resource is one of {', '.join(TEMPLATES.values())}.")


def render_page(page: MessagePage, form: ResourceForm) -> str:
    """Return some messages as the text of a resource."""
    if form == JSON_FORM:
        return msgspec.json.encode(page).decode()
    older = [] if page.next is None else [_older_link(page.thread, page.next)]
    return "\n\n".join([f"# {page.thread}", *older, *map(_render_message, page.messages)]) + "\n"


def _older_link(thread: str, cursor: str) -> str:
    return f"Older messages: {ThreadUri(thread=thread, form=MARKDOWN_FORM, cursor=cursor)}"


def _render_message(message: MessageView) -> str:
    calls = [f"Calls `{call.name}` with `{_inline_json(call.arguments)}`." for call in message.calls]
    results = [f"`{result.name}` gave `{_inline_json(result.output)}`." for result in message.results]
    text = [message.text] if message.text else []
    return "\n\n".join([f"## {message.role}", *text, *calls, *results])


def _inline_json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace("`", "'")
