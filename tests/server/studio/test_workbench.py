"""The workbench of a thread: core memory written, documents read, pictures drawn; by keys and on a phone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.server.studio.conftest import Visitor, ready
from tests.server.studio.test_accessibility import wrong
from tests.server.studio.workbench import equip

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-05")]


async def furnish(visitor: Visitor) -> str:
    """A thread with something on its workbench."""
    thread = f"river-{visitor.user}"
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(thread, title="By the river")
    await equip(visitor.studio, visitor.user, thread)
    return thread


async def open_part(visitor: Visitor, thread: str, part: str = "documents") -> Page:
    """The workbench of a thread."""
    return await visitor.open(f"/studio/workbench/{thread}?part={part}")


async def test_the_thread_leads_to_its_workbench_and_back(visitor: Visitor) -> None:
    thread = await furnish(visitor)
    page = await visitor.open(f"/studio/threads/{thread}")
    await page.get_by_role("link", name="Workbench").click()
    await expect(page.get_by_role("heading", name="Workbench", level=1)).to_be_visible()
    await page.get_by_role("link", name="To the thread").click()

    await expect(page.get_by_role("heading", name="By the river")).to_be_visible()


# Core memory.


async def test_a_block_is_written_within_its_limit(visitor: Visitor) -> None:
    thread = await furnish(visitor)
    page = await open_part(visitor, thread, "memory")
    block = page.get_by_role("region", name="scratchpad")
    save = block.get_by_role("button", name="Save")
    await expect(save).to_be_disabled()
    await block.get_by_role("textbox").fill("x" * 1001)
    await expect(block).to_contain_text("1,001 of 1,000 characters")
    await expect(save).to_be_disabled()
    await block.get_by_role("textbox").fill("Look up the ferries.")
    await save.click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await expect(save).to_be_disabled()
    async with visitor.studio.client(visitor.user) as client:
        blocks = (await client.workbench.core_memory(thread)).blocks

    assert {block.name: block.text for block in blocks}["scratchpad"] == "Look up the ferries."


async def test_a_block_that_somebody_else_changed_is_not_overwritten(visitor: Visitor) -> None:
    visitor.expected.append("409")
    thread = await furnish(visitor)
    page = await open_part(visitor, thread, "memory")
    async with visitor.studio.client(visitor.user) as client:
        await client.workbench.put_block(thread, "persona", "Kind.")
        await page.get_by_role("textbox", name="persona").fill("Brisk.")
        await page.get_by_role("region", name="persona").get_by_role("button", name="Save").click()
        await expect(page.get_by_text("version_conflict")).to_be_visible()
        blocks = (await client.workbench.core_memory(thread)).blocks

    assert {block.name: block.text for block in blocks}["persona"] == "Kind."


# Documents.


async def test_a_document_is_given_to_the_thread_and_read(visitor: Visitor) -> None:
    thread = await furnish(visitor)
    page = await open_part(visitor, thread)
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Add a document").press("Enter")
    await (await choosing.value).set_files(
        FilePayload(name="castle.txt", mimeType="text/plain", buffer=b"The castle opens at nine.")
    )
    await page.get_by_role("button", name="Read castle.txt").click()

    await expect(page.get_by_role("region", name="Text of castle.txt")).to_have_text(
        "The castle opens at nine."
    )


async def test_a_file_that_cannot_be_read_is_said_in_a_sentence(visitor: Visitor) -> None:
    visitor.expected.append("422")
    page = await open_part(visitor, await furnish(visitor))
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Add a document").click()
    await (await choosing.value).set_files(
        FilePayload(name="map.pdf", mimeType="application/pdf", buffer=b"no pdf")
    )

    await expect(page.get_by_text("it is called a PDF and is none")).to_be_visible()
    await expect(page.get_by_text("document_broken")).to_be_visible()


async def test_a_reader_goes_to_a_section_and_to_where_words_stand(visitor: Visitor) -> None:
    page = await open_part(visitor, await furnish(visitor))
    await page.get_by_role("button", name="Read tides.md").click()
    text = page.get_by_role("region", name="Text of tides.md")
    await expect(text).to_contain_text("Twice a day")
    await page.get_by_label("Section").select_option("Bridges")
    await expect(text).not_to_contain_text("Twice a day")
    await page.get_by_label("Find words").fill("boats midnight")
    await page.keyboard.press("Enter")
    await expect(page.locator("mark").first).to_have_text("boat")
    await page.get_by_role("button", name="The boat to Cacilhas").press("Enter")

    await expect(text).to_be_focused()
    await expect(text).to_contain_text("every ten minutes")
    await expect(page.get_by_role("status").filter(has_text="Ferries ·")).to_be_visible()


async def test_a_changed_file_is_said_and_loaded_again(visitor: Visitor) -> None:
    thread = await furnish(visitor)
    volume = visitor.studio.volume(visitor.user)
    volume.write("memory/notes.txt", b"Tea at four.")
    page = await open_part(visitor, thread, "files")
    async with page.expect_response("**/documents/sections?*"):  # the last that is asked of the file
        await page.get_by_role("button", name="Load memory/notes.txt as a document").click()
    await expect(page.get_by_role("region", name="Text of notes.txt")).to_have_text("Tea at four.")
    volume.write("memory/notes.txt", b"Tea at five.")
    await page.reload()
    await ready(page)
    await expect(page.get_by_text("changed since it was loaded")).to_be_visible()
    await page.get_by_role("button", name="Load notes.txt again").click()
    await page.get_by_role("button", name="Read notes.txt").click()

    await expect(page.get_by_role("region", name="Text of notes.txt")).to_have_text("Tea at five.")


async def test_a_document_is_made_active_and_another_unloaded(visitor: Visitor) -> None:
    thread = await furnish(visitor)
    page = await open_part(visitor, thread)
    await page.get_by_role("button", name="Make lisbon.txt active").click()
    await expect(page.get_by_role("button", name="Make tides.md active")).to_be_visible()
    await page.get_by_role("button", name="Unload tides.md").click()
    await page.get_by_role("dialog").get_by_role("button", name="Unload").click()
    await expect(page.get_by_role("heading", name="tides.md")).to_have_count(0)
    async with visitor.studio.client(visitor.user) as client:
        shelf = await client.workbench.documents(thread)

    assert [each.name for each in shelf.documents] == ["lisbon.txt"]


# Artifacts.


async def test_a_picture_is_drawn_and_nothing_of_a_drawing_runs(visitor: Visitor) -> None:
    page = await open_part(visitor, await furnish(visitor), "artifacts")
    picture = page.get_by_role("img", name="tide-chart.png")
    await expect(picture).to_have_js_property("width", 320)
    colour = await picture.evaluate("(c) => [...c.getContext('2d').getImageData(310, 190, 1, 1).data]")

    assert colour == [0x0B, 0x5C, 0x69, 255]
    await expect(page.get_by_role("img", name="drawing.svg")).to_have_count(0)
    assert "stolen" not in await page.title()


async def test_an_artifact_is_saved_to_its_bytes(visitor: Visitor) -> None:
    page = await open_part(visitor, await furnish(visitor), "artifacts")
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save ferries.csv").press("Enter")
    download = await saving.value
    content = await asyncio.to_thread(Path(await download.path()).read_bytes)

    assert (download.suggested_filename, content) == ("ferries.csv", b"hour,boats\n8,6\n9,6\n")


async def test_an_artifact_is_deleted_after_a_question(visitor: Visitor) -> None:
    thread = await furnish(visitor)
    page = await open_part(visitor, thread, "artifacts")
    await page.get_by_role("button", name="Delete ferries.csv").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="ferries.csv")).to_have_count(0)
    artifacts = await visitor.studio.artifacts(visitor.user, thread).list()

    assert {each.name for each in artifacts.artifacts} == {"drawing.svg", "tide-chart.png"}


async def test_a_damaged_picture_is_said_where_it_would_be(visitor: Visitor) -> None:
    visitor.expected.append("500")
    thread = await furnish(visitor)
    page_of = await visitor.studio.artifacts(visitor.user, thread).list()
    chart_of = next(each for each in page_of.artifacts if each.name == "tide-chart.png")
    visitor.studio.volume(visitor.user).write(chart_of.path, b"other")
    page = await open_part(visitor, thread, "artifacts")

    await expect(page.get_by_text("artifact_damaged")).to_be_visible()


# For everybody.


@pytest.mark.promise("F-11")
async def test_every_part_is_accessible_and_fits_on_a_phone(visitor: Visitor) -> None:
    page = await open_part(visitor, await furnish(visitor))
    problems: list[str] = []
    for part in ("Documents", "Core memory", "Artifacts", "Files"):
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.get_by_role("tab", name=part).click()
        await page.wait_for_selector("[role=tabpanel] h2, [role=tabpanel] .path")
        if part == "Documents":
            await page.get_by_role("button", name="Read tides.md").click()
            await expect(page.get_by_label("Section")).to_be_visible()
        problems += [f"{part}: {problem}" for problem in await wrong(page)]
        await page.set_viewport_size({"width": 320, "height": 640})
        problems += [f"{part} on a phone: {problem}" for problem in await wrong(page)]
        if await page.evaluate("document.documentElement.scrollWidth") > 320:
            problems.append(f"{part} is wider than a phone")

    assert problems == []


async def test_a_thread_with_nothing_says_what_to_do(visitor: Visitor) -> None:
    thread = f"bare-{visitor.user}"
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(thread)
    page = await open_part(visitor, thread)
    await expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    await page.get_by_role("tab", name="Documents").press("ArrowRight")
    await expect(page.get_by_role("textbox", name="human")).to_be_visible()
    await page.get_by_role("tab", name="Core memory").press("ArrowRight")
    await expect(page.get_by_role("heading", name="Nothing was made yet")).to_be_visible()
    await page.get_by_role("tab", name="Artifacts").press("ArrowRight")

    await expect(page.get_by_role("heading", name="The volume is empty")).to_be_visible()
