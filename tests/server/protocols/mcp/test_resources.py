"""Threads as resources: listed by cursor, read as JSON and as Markdown."""

from __future__ import annotations

import mcp_types as types
import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from clew.api.threads import MessagePage
from tests.server.protocols.mcp.clients import McpPeer

pytestmark = pytest.mark.promise("B-17")


async def read(peer: McpPeer, uri: str) -> types.TextResourceContents:
    (contents,) = (await peer.client.read_resource(uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents


async def test_threads_are_listed_page_by_page(alice: McpPeer) -> None:
    names = [f"thread {number}" for number in range(103)]
    for name in names:
        await alice.call("create_thread", id=name)
    first = await alice.client.list_resources()
    second = await alice.client.list_resources(cursor=first.next_cursor)

    assert [len(first.resources), len(second.resources)] == [100, 3]
    assert {each.name for each in (*first.resources, *second.resources)} == set(names)
    assert second.next_cursor is None


async def test_a_listed_thread_is_read_as_json(alice: McpPeer) -> None:
    await alice.call("run_turn", thread="über/alles ?#%", message="Hello")
    (resource,) = (await alice.client.list_resources()).resources
    contents = await read(alice, str(resource.uri))
    page = msgspec.json.decode(contents.text, type=MessagePage)

    assert contents.mime_type == resource.mime_type == "application/json"
    assert [message.text for message in page.messages] == ["Hello", "You said: Hello"]


async def test_a_thread_is_read_as_markdown(alice: McpPeer) -> None:
    await alice.call("run_turn", thread="talk", message="weather Oslo")
    contents = await read(alice, "clew://transcripts/talk")

    assert contents.mime_type == "text/markdown"
    assert contents.text.startswith("# talk\n\n## user\n\nweather Oslo\n\n## assistant\n")
    assert 'Calls `weather` with `{"city":"Oslo"}`.' in contents.text


async def test_older_messages_are_behind_the_link_of_a_transcript(alice: McpPeer) -> None:
    await alice.call("create_thread", id="long")
    messages = [{"role": "user", "text": f"number {number}"} for number in range(60)]
    await alice.call("append", thread="long", messages=messages)
    newest = (await read(alice, "clew://transcripts/long")).text
    link = newest.partition("Older messages: ")[2].partition("\n")[0]
    older = (await read(alice, link)).text

    assert ("number 9\n" in newest, "number 10\n" in newest) == (False, True)
    assert ("number 9\n" in older, "number 10\n" in older) == (True, False)


async def test_the_forms_of_a_thread_are_templates(alice: McpPeer) -> None:
    templates = (await alice.client.list_resource_templates()).resource_templates

    assert [each.uri_template for each in templates] == [
        "clew://threads/{id}{?cursor}",
        "clew://transcripts/{id}{?cursor}",
    ]


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("clew://threads/nowhere", "thread_not_found"),
        ("clew://threads/clew%2Faudit", "thread_not_found"),
        ("clew://threads/", "invalid_id"),
        ("clew://threads/a%00b", "invalid_id"),
        ("clew://threads/%FF", "thread_not_found"),
        ("clew://threads/a/../b", "invalid_argument"),
        ("clew://people/alice", "invalid_argument"),
        ("file:///etc/passwd", "invalid_argument"),
        ("clew://threads/x?cursor=abc", "invalid_argument"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_its_code(alice: McpPeer, uri: str, code: str) -> None:
    with pytest.raises(MCPError) as caught:
        await alice.client.read_resource(uri)

    assert (caught.value.error.code, caught.value.error.data["code"]) == (-32602, code)
