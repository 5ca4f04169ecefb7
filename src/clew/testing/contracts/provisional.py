"""Provisional texts: kept apart from the log, one a thread, until they are dropped. A store may keep none."""

# ruff: noqa: D102 - tests are named by sentences.

import msgspec
import pytest

from clew.core.ports import KeepsProvisionalTexts, ProvisionalTexts, Store
from clew.core.values import ProvisionalText, Scope
from clew.testing.clock import Clock
from clew.testing.fixtures import StoreFixtures, StoreOpener

SCOPE = Scope()
MANY = 100


def provisional_text(*parts: bytes, thread: str = "thread", attempt: int = 1) -> ProvisionalText:
    """A text of a thread of Alice's."""
    return ProvisionalText(
        thread=thread, owner="alice", run="run", version=3, step=1, attempt=attempt, parts=parts
    )


class ProvisionalContract(StoreFixtures):
    """Tests of the texts of running answers, for stores that keep them."""

    @pytest.fixture
    def texts(self, store: Store) -> ProvisionalTexts:
        """The texts of the store."""
        return _texts_of(store)

    @pytest.mark.promise("B-17")
    async def test_a_text_is_read_as_it_was_written(self, texts: ProvisionalTexts) -> None:
        text = provisional_text("Hé".encode(), b"")
        assert await texts.begin(SCOPE, text, MANY)
        assert await texts.extend(SCOPE, text, b"\x00\xff")

        parts = ("Hé".encode(), b"", b"\x00\xff")
        assert await texts.read(SCOPE, "thread") == msgspec.structs.replace(text, parts=parts)

    @pytest.mark.promise("B-17")
    async def test_another_attempt_takes_the_place_of_a_text(self, texts: ProvisionalTexts) -> None:
        first, second = provisional_text(b"Hel"), provisional_text(b"Good", attempt=2)
        await texts.begin(SCOPE, first, MANY)
        await texts.begin(SCOPE, second, MANY)

        assert not await texts.extend(SCOPE, first, b"lo")
        assert await texts.read(SCOPE, "thread") == second

    async def test_what_was_dropped_cannot_be_extended(self, texts: ProvisionalTexts) -> None:
        text = provisional_text(b"Hel")
        await texts.begin(SCOPE, text, MANY)
        assert await texts.drop(SCOPE, "thread")

        assert not await texts.extend(SCOPE, text, b"lo")
        assert not await texts.drop(SCOPE, "thread")
        assert await texts.read(SCOPE, "thread") is None
        assert await texts.headers(SCOPE) == []

    async def test_only_the_text_that_is_meant_is_dropped(self, texts: ProvisionalTexts) -> None:
        first, second = provisional_text(b"Hel"), provisional_text(b"Good", attempt=2)
        await texts.begin(SCOPE, second, MANY)

        assert not await texts.drop(SCOPE, "thread", first)
        assert await texts.drop(SCOPE, "thread", second)

    async def test_headers_name_every_text_without_its_parts(self, texts: ProvisionalTexts) -> None:
        for thread in ("one", "two"):
            await texts.begin(SCOPE, provisional_text(b"secret", thread=thread), MANY)

        headers = sorted(await texts.headers(SCOPE), key=lambda text: text.thread)
        assert headers == [provisional_text(thread=thread) for thread in ("one", "two")]

    async def test_there_are_no_more_than_there_may_be(self, texts: ProvisionalTexts) -> None:
        for thread in ("one", "two"):
            assert await texts.begin(SCOPE, provisional_text(thread=thread), 2)
        bob = msgspec.structs.replace(provisional_text(thread="three"), owner="bob")

        assert not await texts.begin(Scope(user="bob"), bob, 2)
        assert await texts.begin(SCOPE, provisional_text(b"again", thread="two"), 2)

    @pytest.mark.promise("F-10")
    @pytest.mark.parametrize("scope", [Scope(tenant="acme"), Scope(user="bob")], ids=["tenant", "user"])
    async def test_others_neither_see_nor_change_it(self, texts: ProvisionalTexts, scope: Scope) -> None:
        text = provisional_text(b"secret")
        await texts.begin(SCOPE, text, MANY)

        assert await texts.read(scope, "thread") is None
        assert await texts.headers(scope) == []
        assert not await texts.extend(scope, text, b"more")
        assert not await texts.drop(scope, "thread")
        assert await texts.read(Scope(user="alice"), "thread") == text

    @pytest.mark.promise("F-10")
    async def test_a_text_of_another_user_is_not_replaced(self, texts: ProvisionalTexts) -> None:
        text = provisional_text(b"secret")
        await texts.begin(SCOPE, text, MANY)
        bob = msgspec.structs.replace(provisional_text(b"mine"), owner="bob")

        assert not await texts.begin(Scope(user="bob"), bob, MANY)
        assert await texts.read(SCOPE, "thread") == text

    @pytest.mark.promise("B-17")
    async def test_another_process_reads_what_one_has_written(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        text = provisional_text(b"Hel")
        async with self.open_twice(opening, clock) as (one, other):
            await _texts_of(one.store).begin(SCOPE, text, MANY)

            assert await _texts_of(other.store).read(SCOPE, "thread") == text


def _texts_of(store: Store) -> ProvisionalTexts:
    if not isinstance(store, KeepsProvisionalTexts):
        pytest.skip("this store keeps no texts of running answers")
    return store.provisional
