"""One thread: writing and reading, tools and approvals, what it cost, whether it holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

import clew
from clew.api.threads import NewItem
from tests.server.studio.conftest import Visitor
from tests.support.http_relay import relay_to

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]


async def say(page: Page, message: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(message)
    await page.keyboard.press("Enter")


async def thread_with_messages(visitor: Visitor, *messages: str) -> tuple[Page, str]:
    """A thread in which something was said, and its page."""
    thread = f"talk-{visitor.user}"
    async with visitor.studio.client(visitor.user) as client:
        for message in messages:
            await client.run_turn(thread, message)
    return await visitor.open(f"/studio/threads/{thread}"), thread


async def test_an_answer_comes_word_by_word_and_stays(visitor: Visitor) -> None:
    page, _ = await thread_with_messages(visitor, "Hello")
    visitor.studio.go_on.clear()
    await say(page, "Hold on to this")
    await expect(page.locator(".message.live")).to_have_text("I heard: hold on ")
    visitor.studio.go_on.set()
    await expect(page.locator(".message.live")).to_have_count(0)
    await page.reload()

    await expect(page.get_by_text("I heard: hold on to this.")).to_have_count(1)
    await expect(page.get_by_text("Hold on to this", exact=True)).to_have_count(1)


MARKDOWN = """\
Two **bold** words, a *soft* one, `code`; 2 * 3 * 4 and snake_case_name are left alone.

## What to **pack**
1. Shoes:
   - for hills
   - for rain
2. A light jacket

Then:
  3. Rest
  3. Go

```
<b>as it is</b> **too**
```
<img src=x onerror="document.title='stolen'"> [here](javascript:document.title='stolen')"""


async def markers_in(page: Page) -> list[str]:
    """What is drawn before the items of lists in what was said, as a reader of screens has it."""
    session = await page.context.new_cdp_session(page)
    tree = await session.send("Accessibility.getFullAXTree")
    return [
        node["name"]["value"].strip()
        for node in tree["nodes"]
        if node.get("role", {}).get("value") == "ListMarker"
    ]


async def test_what_a_model_marks_is_shown_as_meant_and_nothing_of_it_is_run(visitor: Visitor) -> None:
    thread = await visitor.studio.db.create(f"talk-{visitor.user}", owner=visitor.user)
    await thread.append(items=[clew.user("**Help**"), clew.assistant(MARKDOWN)])
    page = await visitor.open(f"/studio/threads/talk-{visitor.user}")
    message = page.locator(".message.assistant .said")

    await expect(message.locator("strong")).to_have_text(["bold", "What to pack"])
    assert await markers_in(page) == ["1.", "◦", "◦", "2.", "3.", "4."]
    await expect(message.locator("em")).to_have_text("soft")
    await expect(message.locator("ol > li.deep")).to_have_text(["for hills", "for rain"])
    await expect(message.locator("code")).to_have_text(["code", "<b>as it is</b> **too**"])
    await expect(message).to_contain_text("2 * 3 * 4 and snake_case_name are left alone.")
    await expect(message).to_contain_text("[here](javascript:document.title='stolen')")
    await expect(message.locator("img, a, b, script")).to_have_count(0)
    await expect(page.locator(".message.user .said")).to_have_text("**Help**")
    assert await page.title() != "stolen"


async def test_marks_are_shown_while_an_answer_comes(visitor: Visitor) -> None:
    page, _ = await thread_with_messages(visitor, "Hello")
    visitor.studio.go_on.clear()
    await say(page, "**Hold on** to `this`")

    await expect(page.locator(".message.live strong")).to_have_text("hold on")


async def test_a_turn_can_be_stopped(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Hello")
    await say(page, "Count, please")
    await expect(page.locator(".message.live")).to_contain_text("1 2 3")
    await page.get_by_role("button", name="Stop").click()

    await expect(page.get_by_text("Stopped.")).to_be_visible()
    async with visitor.studio.client(visitor.user) as client:
        assert (await client.runs(thread=thread)).runs[0].termination == "cancelled"


@pytest.mark.promise("B-09")
async def test_a_cut_connection_is_taken_up_and_the_message_comes_whole_once(visitor: Visitor) -> None:
    visitor.expected.append("net::ERR")
    async with relay_to(visitor.studio.address) as relay, visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"talk-{visitor.user}", "Hello")
        page = await visitor.open(f"{relay.address}/studio/threads/talk-{visitor.user}")
        visitor.studio.go_on.clear()
        await say(page, "Hold on to the rope")
        await expect(page.locator(".message.live")).to_have_text("I heard: hold on ")
        cut = await relay.cut()
        await expect(page.locator(".message.live")).to_have_count(0)
        visitor.studio.go_on.set()
        await expect(page.get_by_text("I will keep it in this thread.")).to_have_count(2)
        texts = await page.locator(".message .said").all_text_contents()

    assert cut > 0
    assert [each.startswith("I heard: hold on to the rope.") for each in texts] == [False, False, False, True]
    assert len(texts) == len(set(texts))


async def test_what_is_said_elsewhere_appears(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Hello")
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(thread, "From another window")

    await expect(page.get_by_text("From another window", exact=True)).to_be_visible()
    await expect(page.get_by_text("version 6", exact=True)).to_be_visible()


async def test_a_tool_call_is_folded_with_its_result(visitor: Visitor) -> None:
    page, _ = await thread_with_messages(visitor, "How is the weather?")
    details = page.locator("details.tool")
    await expect(details.locator("summary")).to_contain_text("weather")
    await expect(details.locator("pre").last).to_be_hidden()
    await details.locator("summary").press("Enter")

    await expect(details.locator("pre").last).to_contain_text('"degrees": 24')


async def test_a_call_that_waits_is_approved_in_place(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Please pay Ann")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator("details.tool .chip")).to_have_text("done")

    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    items = await visitor.studio.db.thread(thread).items()
    assert [item.body["output"] for item in items if item.kind == "result"] == ["Paid 500 to Ann."]


async def test_a_call_that_waits_is_declined_in_place(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Please pay Ann")
    await page.get_by_role("button", name="Decline").click()
    await expect(page.get_by_role("button", name="Decline")).to_have_count(0)

    items = await visitor.studio.db.thread(thread).items()
    assert [item.body["output"] for item in items if item.kind == "result"] == [
        "A person declined this call."
    ]


async def test_an_error_is_a_sentence_with_its_code_and_the_words_are_not_lost(visitor: Visitor) -> None:
    visitor.expected.append("409 (Conflict)")
    page, _ = await thread_with_messages(visitor, "Please pay Ann")
    await say(page, "And now something else")

    await expect(page.get_by_role("alert").locator("code")).to_have_text("turn_suspended")
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("And now something else")


async def test_a_turn_that_fails_says_so_and_why(visitor: Visitor) -> None:
    visitor.expected.append("net::ERR_INCOMPLETE_CHUNKED_ENCODING")
    page, _ = await thread_with_messages(visitor, "Hello")
    async with page.expect_response("**/turns"), page.expect_response("**/turns"):
        await say(page, "Please break off")
    await expect(page.locator(".conversation")).to_have_attribute("aria-busy", "false")

    await expect(page.get_by_role("alert")).to_contain_text("Model 'guide' failed: it raised RuntimeError.")
    await expect(page.get_by_text("Please break off", exact=True)).to_be_visible()


async def test_a_result_goes_to_its_call_on_an_earlier_page(visitor: Visitor) -> None:
    thread = f"pages-{visitor.user}"
    call = NewItem(role="assistant", kind="call", call="c", body={"name": "weather", "arguments": {}})
    result = NewItem(role="tool", kind="result", call="c", body={"output": "clear"})
    later = [NewItem(role="user", body={"content": f"Number {number}"}) for number in range(59)]
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(thread)
        await client.append(thread, items=[call, result, *later])
    page = await visitor.open(f"/studio/threads/{thread}")
    await expect(page.locator("details.tool")).to_contain_text("Result of")
    await page.get_by_role("button", name="Show earlier messages").click()

    await expect(page.locator("details.tool .chip")).to_have_text("done")
    await expect(page.locator("details.tool")).to_have_count(1)


async def test_a_thread_that_is_not_there_says_so(visitor: Visitor) -> None:
    visitor.expected.append("404")
    page = await visitor.open("/studio/threads/nowhere")

    await expect(page.get_by_text("There is no thread of this id that you may see.")).to_be_visible()


async def test_a_thread_that_was_deleted_meanwhile_can_be_begun_anew(visitor: Visitor) -> None:
    visitor.expected.append("404")
    page, thread = await thread_with_messages(visitor, "Hello", "Goodbye")
    await visitor.studio.db.thread(thread).delete()
    await expect(page.get_by_role("alert").locator("code")).to_have_text("thread_not_found")
    await say(page, "Is anybody here?")

    await expect(page.get_by_text("I heard: is anybody here?")).to_be_visible()


async def test_long_names_stay_within_the_page(visitor: Visitor) -> None:
    thread = f"{visitor.user}-{'x' * 150}"
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(thread, title="A title that goes on " * 9, labels=["y" * 60, "short"])
    page = await visitor.open("/studio/threads", width=390)
    row = page.locator(".threads > li")
    ends = await row.locator("time, .chip").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().right)"
    )
    await row.get_by_role("link").click()
    await expect(page.get_by_text("Nothing was said yet.")).to_be_visible()

    assert max(ends) <= 390
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_runs_show_how_they_ended_and_what_they_cost(visitor: Visitor) -> None:
    page, _ = await thread_with_messages(visitor, "Hello", "How is the weather?")
    await page.get_by_role("tab", name="Runs").click()
    runs = page.get_by_role("tabpanel").get_by_role("listitem")

    await expect(runs).to_have_count(2)
    await expect(runs.first).to_contain_text("natural")
    await expect(runs.first).to_contain_text("2 model calls")
    await expect(runs.first).to_contain_text("tokens in")
    await expect(runs.first).to_contain_text("$0.000")


async def test_the_badge_of_the_chain_has_its_details(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Hello")
    await page.get_by_role("button", name="Chain holds").click()
    head = await visitor.studio.db.thread(thread).head()

    await expect(page.get_by_role("dialog")).to_contain_text(head.hash.hex())


async def test_an_export_is_an_archive_of_the_thread(visitor: Visitor, tmp_path: Path) -> None:
    page, thread = await thread_with_messages(visitor, "Hello")
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Export").first.click()
    file = tmp_path / "thread.jsonl"
    await (await download.value).save_as(file)
    lines = await asyncio.to_thread(file.read_text, encoding="utf-8")

    assert (await download.value).suggested_filename == f"{thread}.jsonl"
    assert '"clew":"end"' in lines
