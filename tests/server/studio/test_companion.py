"""The companion in the Studio: a whole session by clicks, danger, incognito, exercises, commands."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

import clew
from clew.core.values import RecordQuery
from clew.runtime.memory.memory import Memory
from clew.runtime.records.feedback import FEEDBACK
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew_companion.crisis.log import crises
from clew_companion.values import LIMITS_NOTICE, OFFLINE_NOTICE
from tests.architecture.source import ROOT
from tests.server.local_server import listening
from tests.server.studio.conftest import Visitor, Windows
from tests.server.studio.studio_server import Studio
from tests.server.studio.test_accessibility import wrong

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
DATA = ROOT / "companion/src/clew_companion"
DANGER = "I want to kill myself tonight"
FRAMES = (
    "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
)
"""Wait until what changed has been drawn, and whoever looks at sizes has been told."""
BEGINS = "(part) => part.getBoundingClientRect().top - part.closest('.scroll').getBoundingClientRect().top"
"""How far below the upper edge of what is seen of a conversation a part of it begins."""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def companion_studio(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Studio]:
    """A server as it is started without any settings, on a file."""
    url = f"sqlite:///{tmp_path_factory.mktemp('companion') / 'companion.db'}"
    async with clew.open(url) as db:
        app = create_app(ServerSettings(url=url, sweep_seconds=3600), db=db)
        async with listening(app) as address:
            yield Studio(address, url, db, asyncio.Event())


@pytest_asyncio.fixture(loop_scope="session")
async def guest(windows: Windows, companion_studio: Studio, user: str) -> AsyncIterator[Visitor]:
    """Somebody who talks to the companion; at the end the console must be silent."""
    visitor = Visitor(windows, companion_studio, user)
    yield visitor
    await visitor.close()
    assert visitor.errors == []


async def begin(page: Page, *, incognito: bool = False) -> str:
    """Begin a chat by clicks, with every field left blank; the id that it got."""
    await page.get_by_role("button", name="New chat").click()
    if incognito:
        await page.get_by_role("checkbox", name="Incognito").check()
    await page.get_by_role("button", name="Begin", exact=True).click()
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    return page.url.rpartition("/")[2]


async def say(page: Page, message: str) -> Locator:
    """Say something and wait for the answer."""
    answers = page.locator(".message.assistant:not(.live)")
    before = await answers.count()
    await page.get_by_role("textbox", name="Message").fill(message)
    await page.keyboard.press("Enter")
    await expect(answers).to_have_count(before + 1)
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    return answers.nth(before)


def memory_of(visitor: Visitor) -> Memory:
    return Memory(visitor.studio.db.scope(tenant="default", user=visitor.user), visitor.user)


@pytest.mark.promise("R-08", "R-18", "R-23")
async def test_a_session_is_held_ended_and_taken_up_on_the_next_thread(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    first = await begin(page)
    await expect(page.get_by_text(OFFLINE_NOTICE)).to_be_visible()
    for message in ("My sister is called Ann.", "I worry about my exam.", "I cannot sleep because of it."):
        await say(page, message)
    await page.get_by_role("button", name="End session").click()
    card = page.get_by_role("group", name="End of the session")
    await card.get_by_role("button", name="Yes").click()
    await expect(card).to_contain_text("The session has ended after 3 turns")
    await expect(card).to_be_focused()
    await expect(card).to_contain_text("Your sister is called Ann.")
    await card.get_by_role("link", name="Begin another").click()
    await page.get_by_role("button", name="Begin", exact=True).click()

    await expect(page.locator(".catch-up")).to_have_text(re.compile(r"^Last session \(.*anxiety.*\): "))
    assert page.url.rpartition("/")[2] != first
    [record] = await guest.studio.db.records.find(RecordQuery(kind=FEEDBACK, owner=guest.user))
    assert (record.body["label"], record.body["turns"]) == ("positive", 3)


@pytest.mark.promise("R-17")
async def test_blank_fields_become_a_web_id_and_the_user_who_asks(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    thread = await begin(page)
    await say(page, "Hello")
    head = await guest.studio.db.thread(thread).head()

    assert re.fullmatch(r"web-[0-9a-z]{8}", thread)
    assert head.owner == guest.user


async def test_what_is_at_work_is_said_in_words_and_styles_are_not_shown(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    await page.evaluate(
        """() => {
          window.said = [];
          const status = document.querySelector(".foot [role=status]");
          const heard = new MutationObserver(() => window.said.push(status.textContent));
          heard.observe(status, { childList: true });
        }"""
    )
    answer = await say(page, "My manager shouts at me")
    words = await page.evaluate("window.said.filter(Boolean)")

    assert words[0] in ("Remembering…", "Listening closely…")
    await expect(page.locator(".foot [role=status]")).to_have_text("")
    for raw in ("supportive", "reflective", "cbt", "response_style"):
        await expect(answer).not_to_contain_text(raw)


@pytest.mark.promise("R-22", "A-09")
async def test_somebody_in_danger_gets_the_whole_reply_with_numbers_to_touch(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    thread = await begin(page)
    answer = await say(page, DANGER)
    rows = [row async for row in crises(guest.studio.db, thread=thread)]

    await expect(answer).to_have_class(re.compile("careful"))
    await expect(answer.get_by_role("link", name="988").first).to_have_attribute("href", "tel:988")
    await expect(answer).to_contain_text("I am a computer program.")
    await expect(answer.get_by_role("link", name="112")).to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollTop") == 0
    assert [row.level >= 2 for row in rows] == [True]
    await page.reload()
    await expect(page.locator(".message.careful").get_by_role("link", name="988").first).to_be_visible()


async def test_what_is_said_to_somebody_in_danger_stays_in_sight_from_its_beginning(guest: Visitor) -> None:
    page = await guest.open("/studio/threads", height=640)
    await begin(page)
    await say(page, "Hello")
    await page.evaluate(
        """() => {
          const scroller = document.querySelector(".scroll");
          const scrolled = () => scroller.dispatchEvent(new Event("scroll")); // for the words before it
          const messages = scroller.querySelector(".message").parentElement;
          new MutationObserver(scrolled).observe(messages, { childList: true });
        }"""
    )
    answer = await say(page, DANGER)
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    await page.evaluate(FRAMES)

    assert await answer.evaluate(BEGINS) >= 0
    await page.reload()
    await answer.wait_for()
    await page.evaluate(FRAMES)
    assert await answer.evaluate(BEGINS) >= 0


async def test_who_is_at_the_end_stays_there_while_more_is_said(guest: Visitor) -> None:
    page = await guest.open("/studio/threads", height=480)
    await begin(page)
    await say(page, "Hello")
    await page.evaluate(
        """() => {
          const scroller = document.querySelector(".scroll");
          const more = document.createElement("p");
          more.style.height = "900px";
          scroller.querySelector(".message").parentElement.append(more);
          scroller.dispatchEvent(new Event("scroll")); // of our own doing, and told late
        }"""
    )
    await page.evaluate(FRAMES)
    end = "(part) => part.scrollHeight - part.scrollTop - part.clientHeight"

    assert await page.locator(".scroll").evaluate(end) < 2


async def test_a_card_without_room_is_shown_from_its_beginning(guest: Visitor) -> None:
    page = await guest.open("/studio/threads", width=360, height=560)
    await begin(page)
    await page.get_by_role("textbox", name="Message").fill("/help")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("heading", name="What you can ask for")).to_be_in_viewport(ratio=1)


async def test_every_bundled_number_and_address_can_be_touched(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    lines = json.loads((DATA / "resources.json").read_text(encoding="utf-8"))
    phones = [line["phone"] for line in lines["resources"]] + [each["number"] for each in lines["emergency"]]
    sites = [line["website"] for line in lines["resources"] if line["website"]]
    links = await page.evaluate(
        """async (texts) => {
          const { linked } = await import("/studio/agents/companion/contacts.js");
          const links = (text) => linked(text).filter((part) => part.href);
          const told = (part) => [part.textContent, part.href];
          return texts.map((text) => links(`Call ${text} (a line) or ${text}.`).map(told));
        }""",
        [*phones, *sites],
    )
    numbers, addresses = links[: len(phones)], links[len(phones) :]

    assert [[text for text, _ in each] for each in numbers] == [[each, each] for each in phones]
    assert all(where == f"tel:{re.sub('[ -]', '', text)}" for each in numbers for text, where in each)
    assert [[where.rstrip("/") for _, where in each[:1]] for each in addresses] == [
        [each.rstrip("/")] for each in sites
    ]


async def test_the_limits_are_always_in_sight(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    await say(page, "Hello")
    await page.reload()

    await expect(page.get_by_text(LIMITS_NOTICE)).to_be_visible()


@pytest.mark.promise("R-14", "R-15")
async def test_incognito_is_seen_as_such_and_leaves_nothing(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    thread = await begin(page, incognito=True)
    await say(page, "My sister is called Ann.")
    await expect(page.get_by_text("Incognito: nothing is written down")).to_be_visible()
    await page.get_by_role("textbox", name="Message").fill("/memory")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("nothing is kept when it ends")).to_be_visible()
    await page.get_by_role("button", name="End session").click()
    await page.get_by_role("group", name="End of the session").get_by_role("button", name="Skip").click()

    await expect(page.get_by_text("Nothing of it was kept.", exact=True)).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
    assert (await memory_of(guest).page()).facts == ()
    file = Path(guest.studio.url.removeprefix("sqlite:///"))
    files = [part for part in file.parent.rglob("*") if part.is_file()]  # also the text of running answers
    assert files
    for part in files:
        assert thread.encode() not in part.read_bytes()


@pytest.mark.promise("A-07")
async def test_an_exercise_shows_its_step(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    first = await say(page, "Can we do box breathing?")
    second = await say(page, "yes, ready")

    await expect(first.locator(".exercise")).to_contain_text("Box breathing · step 1 of")
    await expect(second.locator(".exercise")).to_contain_text("Box breathing · step 2 of")


@pytest.mark.promise("A-06")
async def test_forgetting_by_talk_waits_for_a_yes(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    await say(page, "Remember that my sister is called Ann.")
    await expect(await say(page, "Forget everything about my sister")).to_contain_text("Shall I forget this?")
    await say(page, "no")
    count = len((await memory_of(guest).page()).facts)
    await say(page, "Forget everything about my sister")
    await expect(await say(page, "yes")).to_contain_text("Forgotten: one thing.")

    assert count == 1
    assert (await memory_of(guest).page()).facts == ()


async def test_what_was_kept_can_be_let_go_in_the_card(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    await say(page, "My sister is called Ann.")
    await page.get_by_role("textbox", name="Message").fill("/end y")
    await page.keyboard.press("Enter")
    card = page.get_by_role("group", name="End of the session")
    await card.get_by_role("button", name="Do not keep").click()
    await page.get_by_role("button", name="Forget it").click()

    await expect(card).to_contain_text("Nothing new is remembered.")
    assert (await memory_of(guest).page()).facts == ()


async def test_the_memory_page_says_where_a_fact_comes_from(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    thread = await begin(page)
    await say(page, "My sister is called Ann.")
    async with guest.studio.client(guest.user) as client:
        await client.end_session(thread)
    await page.goto(f"/studio/memory?user={guest.user}")
    row = page.get_by_role("listitem").filter(has_text="Ann")
    await expect(row).to_contain_text("“My sister is called Ann.”")
    await row.get_by_role("link", name="where it was said").click()

    await expect(page).to_have_url(re.compile(f"/studio/threads/{thread}"))


@pytest.mark.promise("R-16")
async def test_a_thread_that_is_nobodys_goes_on_as_nobodys(guest: Visitor) -> None:
    thread = f"open-{guest.user}"
    async with guest.studio.client("*") as nobody:
        await nobody.run_turn(thread, "My sister is called Ann.")
        page = await guest.open(f"/studio/threads/{thread}", everybody=True)
        await say(page, "I like green tea.")
        await page.get_by_role("textbox", name="Message").fill("/end y")
        await page.keyboard.press("Enter")
        card = page.get_by_role("group", name="End of the session")
        await expect(card).to_contain_text("The session has ended after 2 turns")
        await card.get_by_role("link", name="All that is remembered").click()
        await expect(page.get_by_text("which is nobody’s")).to_be_visible()
        await expect(page.get_by_role("listitem").filter(has_text="Ann").first).to_be_visible()
        head = await nobody.thread(thread)

    assert head.owner is None
    assert (await memory_of(guest).page()).facts == ()


COMMANDS = {
    "/help": "What you can ask for",
    "/status": "Next",
    "/hlep": "Did you mean /help?",
    "/frobnicate": "There is no /frobnicate.",
    "/memory recall off": "Recall is off",
    "/forget": "Say what to forget",
    "/forget zebra": "Nothing known matches “zebra”",
    "/undo turn": "The last turn is taken back.",
    "/feedback": "Say /feedback y",
    "/feedback y": "Only that answer is recorded",
    "/end perhaps": "Say /end, or /end with y, n or s",
}


async def test_commands_behave_as_in_the_terminal(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    await say(page, "Hello")
    for line, answer in COMMANDS.items():
        await page.get_by_role("textbox", name="Message").fill(line)
        await page.keyboard.press("Enter")
        await expect(page.locator(".messages > .card")).to_contain_text(answer)
    await expect(page.locator(".message")).to_have_count(0)
    await page.get_by_role("textbox", name="Message").fill("/search long walks")
    await page.keyboard.press("Enter")

    await expect(page).to_have_url(re.compile(r"/studio/search\?q=long%20walks"))


async def test_a_path_is_a_message_and_no_command(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    await say(page, "/etc/hosts is what I worry about")

    await expect(page.locator(".message.user .said")).to_have_text("/etc/hosts is what I worry about")


@pytest.mark.parametrize("width", [1280, 360])
async def test_a_chat_with_everything_in_it_is_accessible_in_both_themes(guest: Visitor, width: int) -> None:
    page = await guest.open("/studio/threads", width=width)
    await begin(page)
    await say(page, "Can we do box breathing?")
    await say(page, DANGER)
    await page.get_by_role("textbox", name="Message").fill("/end n")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The session has ended after")).to_be_visible()

    assert await wrong(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
