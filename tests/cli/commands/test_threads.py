"""Threads of any framework are shown, and exported as plain messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import clew
from clew.cli.app import run

ITEMS = [
    clew.Item(body={"role": "user", "content": "How is Lisbon?"}, format="openai.responses", role="user"),
    clew.Item(
        body={"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Lisbon"}'},
        format="openai.responses",
        role="assistant",
    ),
    clew.Item(
        body={
            "kind": "request",
            "parts": [
                {"part_kind": "tool-return", "tool_name": "weather", "content": "blue", "tool_call_id": "c1"}
            ],
        },
        format="pydantic-ai",
        role="tool",
    ),
    clew.Item(
        body={"author": "agent", "content": {"parts": [{"text": "It is \x1b[31mblue."}]}},
        format="adk",
        role="assistant",
    ),
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill(url))
    return url


async def fill(url: str) -> None:
    async with clew.open(url) as db:
        await (await db.create("trip")).append(items=ITEMS)


@pytest.mark.promise("B-10")
def test_items_of_every_format_are_shown_by_what_they_say(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["show", "trip", "--db", url])
    output = capsys.readouterr().out

    assert code == 0
    assert [words in output for words in ("How is Lisbon?", 'weather({"city": "Lisbon"})', "blue")] == [
        True
    ] * 3
    assert "It is ␛[31mblue." in output


@pytest.mark.promise("B-10")
def test_a_thread_is_exported_as_plain_messages(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["show", "trip", "--messages", "--all", "--json", "--db", url])
    thread_document = json.loads(capsys.readouterr().out)

    assert code == 0
    assert thread_document == {
        "thread": "trip",
        "version": 1,
        "messages": [
            {"role": "user", "text": "How is Lisbon?"},
            {
                "role": "assistant",
                "calls": [{"id": "c1", "name": "weather", "arguments": {"city": "Lisbon"}}],
            },
            {"role": "tool", "results": [{"id": "c1", "name": "weather", "output": "blue"}]},
            {"role": "assistant", "text": "It is \x1b[31mblue."},
        ],
    }


def test_messages_are_shown_to_people_without_control_characters(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["show", "trip", "--messages", "--last", "2", "--db", url])
    lines = [line.rstrip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]

    assert lines == [["tool", "blue"], ["assistant", "It is ␛[31mblue."]]


def test_no_messages_are_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(empty(url))

    assert run(["show", "none", "--messages", "--db", url]) == 0
    assert capsys.readouterr().out.strip() == "(nothing)"


async def empty(url: str) -> None:
    async with clew.open(url) as db:
        await db.create("none")
