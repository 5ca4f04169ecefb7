"""Text from files: in sections, with what was guessed said, and files that cannot be read named by a code."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import (
    DocumentBroken,
    DocumentTooLarge,
    DocumentTooSlow,
    DocumentUnreadable,
    InvalidArgument,
    MissingExtra,
)
from clew.workbench.documents.extraction import ReadingLimits, extract_text
from clew.workbench.documents.text import DocumentText, Section, find_matches, passage_at
from clew.workbench.volume.media_types import UNKNOWN, browser_safe_type, media_type
from tests.workbench.documents.sample_files import (
    MARKDOWN,
    PAGE,
    PNG,
    endless_pdf,
    locked_pdf,
    looped_pdf,
    pdf,
    pdf_of,
    scanned_pdf,
)

TEXT = DocumentText(
    type="text/plain",
    text="The tide rises.\n\nThe moon pulls the tides, and the sun too.\n\nA boat.",
    sections=(Section(name="one", start=0), Section(name="two", start=17)),
)


# What is read.


async def test_a_pdf_is_read_page_by_page() -> None:
    text = await extract_text(pdf("Twice a day", "the water comes"), "sea.pdf")

    assert text.text == "Twice a day\n\nthe water comes\n\n"
    assert [(section.name, section.start) for section in text.sections] == [("page 1", 0), ("page 2", 13)]


async def test_a_pdf_with_an_empty_password_is_read() -> None:
    assert (await extract_text(locked_pdf(""), "sea.pdf")).text.strip() == "A secret"


async def test_of_a_page_of_html_all_is_read_that_a_person_would_see() -> None:
    text = await extract_text(PAGE.encode(), "sea.html")

    assert text.text.split("\n\n") == [
        "The sea",
        "Tides and moons",
        "Twice a day the water comes.",
        "- spring tide\n- neap tide",
        "Oslo | 1 m",
        "Waves",
        "high\n  low",
        "[a map]",
        "",
    ]
    assert [section.name for section in text.sections] == ["Tides and moons", "Waves"]


async def test_headings_of_markdown_are_sections_and_those_in_code_are_none() -> None:
    text = await extract_text(MARKDOWN.encode(), "sea.md")

    assert text.text == MARKDOWN
    assert [section.name for section in text.sections] == ["The sea", "Waves"]
    assert MARKDOWN[text.sections[1].start :].startswith("## Waves")


async def test_form_feeds_part_the_pages_of_a_plain_text() -> None:
    text = await extract_text(b"one\ftwo", "sea.txt")

    assert [(section.name, section.start) for section in text.sections] == [("page 1", 0), ("page 2", 4)]


@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
async def test_a_byte_order_mark_says_the_charset(charset: str) -> None:
    text = await extract_text("Æbeltoft\r\nby the sea".encode(charset), "sea.txt")

    assert (text.text, text.notes) == ("Æbeltoft\nby the sea", ())
    assert text.charset == charset.removesuffix("-sig")


async def test_a_guessed_charset_is_said() -> None:
    text = await extract_text("Æbeltoft €".encode("cp1252"), "sea.txt")

    assert (text.text, text.charset) == ("Æbeltoft €", "cp1252")
    assert text.notes == ("It is not UTF-8 and says no other charset, so it was read as cp1252.",)


async def test_bytes_that_mean_nothing_are_said() -> None:
    text = await extract_text(b"sea \x81 \xe6", "sea.txt")

    assert text.text == "sea \ufffd æ"
    assert len(text.notes) == 2


@pytest.mark.parametrize(
    ("charset", "text"),
    [("iso-8859-7", "Θάλασσα"), ("nonsense", "ÈÜëáóóá"), ("rot13", "ÈÜëáóóá"), ("idna", "ÈÜëáóóá")],
)
async def test_a_page_may_say_its_charset(charset: str, text: str) -> None:
    page = f'<html><meta charset="{charset}"><p>'.encode() + "Θάλασσα".encode("iso-8859-7")

    assert (await extract_text(page, "sea.html")).text.strip() == text


# What is not.


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (b"", "a.txt", "document_empty"),
        (b" \n\t", "a.md", "document_empty"),
        ("\ufeff \n".encode(), "a.txt", "document_empty"),
        (b"<html><script>x</script></html>", "a.html", "document_empty"),
        (pdf(), "a.pdf", "document_empty"),
        (pdf_of([b"", b" "]), "a.pdf", "document_empty"),
        (scanned_pdf(), "a.pdf", "document_without_text"),
        (locked_pdf("open sesame"), "a.pdf", "document_encrypted"),
        (pdf("one")[:200], "a.pdf", "document_broken"),
        (looped_pdf(), "a.pdf", "document_broken"),
        (b"no pdf at all", "a.pdf", "document_broken"),
        ("sea".encode("utf-16")[:-1], "a.txt", "document_broken"),
        (PNG, "a.png", "document_unsupported"),
        (PNG, "a.txt", "document_unsupported"),
        (b"PK\x03\x04rest", "a.docx", "document_unsupported"),
        (b"a\x00b", "a.bin", "document_unsupported"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named_by_a_code(content: bytes, name: str, code: str) -> None:
    with pytest.raises(DocumentUnreadable) as error:
        await extract_text(content, name)

    assert (error.value.code, error.value.facts()["document"]) == (code, name)


@pytest.mark.parametrize(
    ("content", "name", "limits", "what"),
    [
        (b"x" * 11, "a.txt", ReadingLimits(bytes=10), "bytes"),
        (b"x" * 11, "a.txt", ReadingLimits(characters=10), "characters"),
        (PAGE.encode(), "a.html", ReadingLimits(characters=10), "characters"),
        (pdf("Twice a day"), "a.pdf", ReadingLimits(characters=10), "characters"),
        (pdf("a", "b", "c"), "a.pdf", ReadingLimits(pages=2), "pages"),
    ],
)
async def test_what_is_over_a_limit_is_refused(
    content: bytes, name: str, limits: ReadingLimits, what: str
) -> None:
    with pytest.raises(DocumentTooLarge) as error:
        await extract_text(content, name, limits)

    assert error.value.what == what
    assert error.value.size > error.value.limit


def workers() -> list[str]:
    """The processes that read files now."""
    names = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if b"reading/worker.py" in line and int(parent) == os.getpid():
                names.append(entry.name)
    return names


async def test_a_hostile_pdf_is_given_up_in_time_and_its_process_is_gone() -> None:
    began = time.monotonic()
    with pytest.raises(DocumentTooSlow):
        await extract_text(endless_pdf(), "a.pdf", ReadingLimits(seconds=2))

    assert time.monotonic() - began < 10
    assert workers() == []


async def test_a_pdf_that_takes_too_much_memory_is_given_up_long_before_its_time() -> None:
    began = time.monotonic()
    with pytest.raises((DocumentTooSlow, DocumentBroken)):
        await extract_text(endless_pdf(), "a.pdf", ReadingLimits(seconds=90, memory=100 * 1024 * 1024))

    assert time.monotonic() - began < 40
    assert workers() == []


async def test_one_page_that_cannot_be_read_hides_no_other() -> None:
    text = await extract_text(pdf_of([b"BT (a) Tj ET [", b"BT /F1 9 Tf (here) Tj ET"]), "a.pdf")

    assert text.text.strip().endswith("here")


async def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtra) as error:
        await extract_text(pdf("one"), "a.pdf")

    assert (error.value.extra, error.value.package) == ("workbench", "pypdf")


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "CLEW_DB"])
async def test_the_reading_process_is_given_no_secret(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, object] = {}
    begin = asyncio.create_subprocess_exec

    async def looking(*arguments: str, **how: object) -> object:
        options.update(how)
        return await begin(*arguments, **how)  # type: ignore[arg-type]  # handed through as it came

    monkeypatch.setenv(variable, "secret")
    monkeypatch.setattr("asyncio.create_subprocess_exec", looking)
    await extract_text(pdf("one"), "a.pdf")

    assert "secret" not in str(options["env"])


# Looking at a part, and finding words.


def test_a_part_is_given_with_its_section_and_where_to_go_on() -> None:
    part = passage_at(TEXT, 17, 8)

    assert (part.text, part.section, part.next, part.characters) == ("The moon", "two", 25, len(TEXT.text))


def test_the_last_part_leads_no_further() -> None:
    part = passage_at(TEXT, len(TEXT.text) - 3, 100)

    assert (part.text, part.next) == ("at.", None)


@pytest.mark.parametrize(("start", "length"), [(-1, 5), (1000, 5), (0, 0), (0, -3), (0, 1_000_000)])
def test_a_part_that_is_none_is_refused(start: int, length: int) -> None:
    with pytest.raises(InvalidArgument):
        passage_at(TEXT, start, length)


def test_words_are_found_in_any_form_the_fullest_place_first() -> None:
    places = find_matches(TEXT, "Tide pulling")

    assert [(place.start, place.section) for place in places] == [(17, "two"), (0, "one")]
    assert [places[0].excerpt[a:b] for a, b in places[0].marks] == ["pulls", "tides"]


def test_nothing_is_found_where_nothing_is() -> None:
    assert find_matches(TEXT, "desert") == []


@pytest.mark.parametrize("words", ["", " ", "?!"])
def test_no_words_are_nothing_to_look_for(words: str) -> None:
    with pytest.raises(InvalidArgument):
        find_matches(TEXT, words)


@given(st.text(max_size=5000), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_parts_put_together_are_the_whole(text: str, length: int) -> None:
    whole = DocumentText(type="text/plain", text=text)
    parts: list[str] = []
    start: int | None = 0
    while start is not None:
        part = passage_at(whole, start, length)
        parts.append(part.text)
        start = part.next

    assert "".join(parts) == text


@given(st.lists(st.sampled_from(["sea ", "x" * 700, "\n\n", "\f", "# ", "moon ", "\n"]), max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_word_that_is_there_is_found_where_it_stands(parts: list[str]) -> None:
    text = "".join(parts)
    places = find_matches(DocumentText(type="text/plain", text=text), "moon", limit=1000)

    assert all("moon" in text[place.start : place.start + 1000] for place in places)
    assert bool(places) == (re.search(r"(?<![^\W_])moon\b", text) is not None)


# What a file is.


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        (PNG, "a.txt", "image/png"),
        (b"\xff\xd8\xff\xe0", "a", "image/jpeg"),
        (b"GIF89a", "a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a", "image/webp"),
        (b"\n%PDF-1.4", "a.html", "application/pdf"),
        (b"a,b\n1,2", "a.csv", "text/csv"),
        (b"# Hi", "a.MD", "text/markdown"),
        (b"<!-- a --><!-- b --> <!DOCTYPE html><p>", "a.txt", "text/html"),
        (b"<html>", "a.png", "text/html"),
        (b"<html> in prose", "a.md", "text/markdown"),
        (b'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "x"><svg onload="x">', "a.png", "image/svg+xml"),
        (b"\xef\xbb\xbf <svg>", "a.txt", "image/svg+xml"),
        (b"plain", "a.png", "text/plain"),
        (b"", "a", "text/plain"),
        (b"a\x00b", "a.txt", UNKNOWN),
        ("sea".encode("utf-16"), "a.txt", "text/plain"),
        (b"print()", "a.py", "text/plain"),
    ],
)
def test_bytes_say_what_a_file_is_and_names_only_where_they_leave_it_open(
    content: bytes, name: str, kind: str
) -> None:
    assert media_type(content, name) == kind


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.xml", "a.xhtml", "a.js", "a.mjs"])
def test_what_a_browser_would_run_is_sent_as_bytes(name: str) -> None:
    assert browser_safe_type(media_type(b"<x>", name)) == UNKNOWN


@given(st.binary(max_size=9000), st.text(max_size=12))
@settings(max_examples=100, deadline=None)
def test_every_file_is_something(content: bytes, name: str) -> None:
    assert "/" in media_type(content, name)
