"""A model that does anything at all, wherever it is asked: the turn answers, and it is logged once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest

from clew.agents.search_provider import Finding
from clew.core.errors import ModelFailed, StoreUnavailable
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.records.episodes import ENDED
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.testing.embedder import SpellingEmbedder
from clew_companion.agent import companion
from clew_companion.lookup import NOT_FOUND
from clew_companion.replies import filter as replies_filter
from clew_companion.values import AgentOutput

QUICK = RetryPolicy(pause=0.001, longest_pause=0.002)
CALM = "It is all a bit much with the two of them"
QUESTION = "How many people live in Norway?"
NORWAY = Finding(title="Norway", url="https://example.org/norway", text="5 million people live in Norway.")
GOOD: dict[str, Any] = {
    "Judgement": {"level": 0},
    "TriageResult": {"route": "therapeutic", "style": "supportive"},
    "LookupAnswer": {"answered": True, "answer": "5 million people live in Norway.", "rests_on": [1]},
    "ModelFindings": {},
    "ConversationSummary": {"summary": "talked about two people"},
}
Does = Callable[[], Any]


def failure_of(error: BaseException) -> Does:
    def does() -> Any:
        raise error

    return does


FAULTS = pytest.mark.parametrize(
    "does",
    [
        failure_of(ValueError("zanzibar")),
        failure_of(KeyError("zanzibar")),
        failure_of(TimeoutError("zanzibar")),
        failure_of(asyncio.CancelledError("zanzibar")),
        lambda: None,
        lambda: "zanzibar",
        lambda: (7, "zanzibar"),
    ],
    ids=["value", "key", "timeout", "cancelled", "nothing", "text", "pair"],
)


class Faulty:
    """A model that is good for everything but one kind of request."""

    name = "faulty"

    def __init__(self, kind: str = "", does: Does = lambda: None) -> None:
        self._kind = kind
        self._does = does

    async def fill(self, request: ModelRequest, kind: type[Any]) -> Any:
        if kind.__name__ == self._kind:
            return self._does()
        return msgspec.convert(GOOD[kind.__name__], kind), Usage(calls=1)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        yield TextChunk("That sounds hard. ")
        if self._kind == "reply":
            yield self._does()
        yield Reply(text="That sounds hard.")


class FaultyEmbedder(SpellingEmbedder):
    """An embedder that gives no vectors."""

    def __init__(self, does: Does) -> None:
        super().__init__()
        self._does = does

    async def embed(self, texts: Sequence[str]) -> Any:
        return self._does()


class FaultySearch:
    """A search that finds one thing, or does something else."""

    name = "search"

    def __init__(self, does: Does = lambda: [NORWAY]) -> None:
        self._does = does

    async def search(self, query: str, limit: int) -> Any:
        return self._does()


async def output_of(db: Database, message: str, model: Faulty, **options: Any) -> AgentOutput:
    """The answer to one message. The session is left open, so that its end adds nothing to the log."""
    runtime = companion(
        db,
        model,
        config=RuntimeConfig(
            sessions=SessionConfig(finalize_active_sessions_on_close=False), retry_policy=QUICK
        ),
        **options,
    )
    result = await runtime.run_turn("s1", message, user="alice")
    assert result.termination == "natural"
    return result.output


def log_count(caplog: pytest.LogCaptureFixture) -> int:
    """How many warnings there were; none of them has the words of whatever failed."""
    assert "zanzibar" not in caplog.text
    return sum(record.levelno >= logging.WARNING for record in caplog.records)


@pytest.mark.promise("A-08")
@FAULTS
async def test_the_gate_judges_without_the_model(
    in_memory: Database, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    output = await output_of(in_memory, CALM, Faulty("Judgement", does))

    assert output.response_text == "That sounds hard."
    assert output.diagnostics["crisis_classifier_path"] == "floor_after_llm_failure"
    assert log_count(caplog) == 1


@pytest.mark.promise("A-09")
@FAULTS
async def test_triage_goes_by_the_rules(
    in_memory: Database, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    output = await output_of(in_memory, CALM, Faulty("TriageResult", does))

    assert output.response_text == "That sounds hard."
    assert output.diagnostics["triage_path"] == "rules_after_model_failure"
    assert log_count(caplog) == 1


@FAULTS
async def test_a_reply_is_worded_without_the_model(
    in_memory: Database, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    output = await output_of(in_memory, CALM, Faulty("reply", does))

    assert output.response_text not in ("", "That sounds hard.")
    assert output.diagnostics["reply_path"] == "offline_after_model_failure"
    assert log_count(caplog) == 1


async def test_a_reply_that_breaks_off_is_no_reply(in_memory: Database) -> None:
    class Short(Faulty):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
            yield TextChunk("That sounds hard. But")

    output = await output_of(in_memory, CALM, Short())

    assert output.diagnostics["reply_path"] == "offline_after_model_failure"


@pytest.mark.promise("A-09")
@FAULTS
async def test_a_question_is_answered_in_the_words_of_what_was_found(
    in_memory: Database, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    output = await output_of(in_memory, QUESTION, Faulty("LookupAnswer", does), search=FaultySearch())

    assert output.response_text.startswith("“5 million people live in Norway.”")
    assert output.diagnostics["lookup_problem"] == "model_failed"
    assert log_count(caplog) == 1


@pytest.mark.promise("A-09")
@FAULTS
async def test_a_search_that_does_anything_finds_nothing(
    in_memory: Database, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    output = await output_of(in_memory, QUESTION, Faulty(), search=FaultySearch(does))

    assert (output.response_text, output.diagnostics["lookup_problem"]) == (NOT_FOUND, "model_failed")
    assert log_count(caplog) == 1


async def test_a_search_that_takes_too_long_finds_nothing(in_memory: Database) -> None:
    class Slow(FaultySearch):
        async def search(self, query: str, limit: int) -> Any:
            await asyncio.Event().wait()

    runtime = companion(
        in_memory,
        Faulty(),
        search=Slow(),
        config=RuntimeConfig(retry_policy=RetryPolicy(call_seconds=0.02, attempts=1)),
    )
    async with runtime:
        result = await runtime.run_turn("s1", QUESTION, user="alice")

    assert (result.text, result.output.diagnostics["lookup_problem"]) == (NOT_FOUND, "deadline_exceeded")


@pytest.mark.promise("B-12")
@FAULTS
async def test_what_is_known_is_found_by_words(
    in_memory: Database, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    output = await output_of(in_memory, CALM, Faulty(), embedder=FaultyEmbedder(does))

    assert output.response_text == "That sounds hard."
    assert output.diagnostics["retrieval_path"] == "token_recall_after_embed_error"
    assert log_count(caplog) == 1


@pytest.mark.promise("R-08", "R-12")
@FAULTS
@pytest.mark.parametrize("kind", ["ModelFindings", "ConversationSummary"])
async def test_a_session_ends_with_what_was_stated_plainly(
    in_memory: Database, kind: str, does: Does, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = companion(in_memory, Faulty(kind, does), config=RuntimeConfig(retry_policy=QUICK))
    await runtime.run_turn("s1", "My sister is called Ann", user="alice")
    episode = await runtime.end_session("s1", user="alice")
    facts = (await Memory(in_memory, "alice").page()).facts

    assert episode is not None
    assert (episode.status, [fact.object for fact in facts]) == (ENDED, ["Ann"])
    assert episode.arc["summary"]
    assert log_count(caplog) == 1


@pytest.mark.promise("R-08")
@pytest.mark.parametrize("attempts", [1, 2])
async def test_the_end_of_a_session_asks_the_model_as_often_as_the_retry_policy_says(
    in_memory: Database, attempts: int
) -> None:
    requests: list[str] = []

    def refuse() -> Any:
        requests.append("summary")
        raise ModelFailed(model="faulty", problem="it is busy", retry=True)

    config = RuntimeConfig(retry_policy=RetryPolicy(attempts=attempts, pause=0.001))
    runtime = companion(in_memory, Faulty("ConversationSummary", refuse), config=config)
    await runtime.run_turn("s1", CALM, user="alice")
    await runtime.end_session("s1", user="alice")

    assert len(requests) == attempts


# What is no fault of the model.


@pytest.mark.parametrize("kind", ["TriageResult", "LookupAnswer", "reply"])
async def test_an_error_of_the_store_is_not_taken_for_one_of_the_model(
    in_memory: Database, kind: str
) -> None:
    down = StoreUnavailable(problem="it is locked")

    with pytest.raises(StoreUnavailable):
        await output_of(
            in_memory,
            QUESTION if kind == "LookupAnswer" else CALM,
            Faulty(kind, failure_of(down)),
            search=FaultySearch(),
        )


async def test_a_mistake_of_ours_around_a_reply_is_not_taken_for_one_of_the_model(
    in_memory: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_fit(sentence: str, before: str = "") -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(replies_filter, "is_fit", is_fit)

    with pytest.raises(ZeroDivisionError):
        await output_of(in_memory, CALM, Faulty())


async def test_a_turn_that_is_cancelled_ends_whatever_the_model_makes_of_it(in_memory: Database) -> None:
    start = asyncio.Event()

    class Stubborn(Faulty):
        async def fill(self, request: ModelRequest, kind: type[Any]) -> Any:
            if kind.__name__ != "TriageResult":
                return await super().fill(request, kind)
            start.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("zanzibar") from None

    async with companion(in_memory, Stubborn(), config=RuntimeConfig(retry_policy=QUICK)) as runtime:
        turn = asyncio.create_task(runtime.run_turn("s1", CALM, user="alice"))
        await start.wait()
        is_ended = await runtime.cancel("s1", user="alice")
        result = await turn

    assert (is_ended, result.termination) == (True, "cancelled")
